"""What an owner's upload becomes for each cloud, and how a gateway checks what arrives.

A part of an upload is rows of numbers, which arrive in chunks, or a seed from which the cloud works
its rows out itself. A kind of job names its form; the store keeps parts and knows no kind.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ppodc.errors import InputError
from ppodc.records.encode import encode
from ppodc.records.privacy_report import PrivacyReport
from ppodc.records.schema import Schema
from ppodc.records.sharing import SEED_BYTES, mask, split

Cloud = Literal[1, 2]
LARGEST_SHARE = (1 << 64) - 1  # every word is some record's share
MaySend = Callable[[int], None]  # InputError if so many rows would not be taken


@dataclass(frozen=True, slots=True)
class RowsPart:
    """Rows of `columns` numbers 0..`largest` of the type `dtype`."""

    dtype: DTypeLike
    columns: int
    largest: int

    def check(self, chunk: NDArray[Any], first_row: int, rows: int) -> None:
        """Refuse what cannot be these rows of an upload of `rows` rows."""
        wanted = np.dtype(self.dtype)
        if chunk.dtype != wanted or chunk.ndim != 2 or chunk.shape[1] != self.columns:
            raise InputError(f"a chunk must hold rows of {self.columns} numbers of type {wanted}.")
        if not len(chunk):
            raise InputError("a chunk must hold at least one row.")
        if first_row < 0 or first_row + len(chunk) > rows:
            raise InputError(f"a chunk reaches beyond the {rows} rows that were announced.")
        if int(chunk.max()) > self.largest:
            raise InputError("a chunk holds numbers that no upload can have.")


@dataclass(frozen=True, slots=True)
class SeedPart:
    """32 bytes, the same for all rows."""

    columns: int
    dtype: ClassVar[DTypeLike] = np.uint64

    def check(self, seed: bytes) -> None:
        """Refuse what cannot be a seed."""
        if len(seed) != SEED_BYTES:
            raise InputError(f"the seed of an upload must have {SEED_BYTES} bytes.")

    def rows(self, seed: bytes, first_row: int, count: int) -> NDArray[np.uint64]:
        """This cloud's rows, worked out."""
        return mask(seed, first_row, count, self.columns)


Part = RowsPart | SeedPart


def anything(rows: int) -> None:
    """Where nobody limits what is sent."""


class UploadForm(Protocol):
    """How the records of an owner reach the clouds, for one dataset."""

    def encode(self, data: Any, *, header: bool = True) -> NDArray[np.int64]:
        """At the owner, before anything is sent: the records as checked whole numbers (m, l)."""

    def part(self, cloud: Cloud) -> Part | None:
        """What this cloud takes of an upload; None: nothing."""

    def chunk(
        self, values: NDArray[np.int64], secret: bytes, first_row: int, cloud: Cloud
    ) -> NDArray[Any]:
        """At the owner: rows from `first_row` on, for a cloud whose part is rows.

        `secret` is the 32 random bytes of this upload, and the seed for a cloud that takes one. An
        upload that goes on asks for the same rows again, and must get the same.
        """


@runtime_checkable
class MayBeEmpty(Protocol):
    """A form that says whether an owner may upload a table without rows."""

    may_be_empty: bool


def least_rows(form: UploadForm) -> int:
    """The fewest rows of an upload."""
    return 0 if isinstance(form, MayBeEmpty) and form.may_be_empty else 1


@runtime_checkable
class TellsOfRecords(Protocol):
    """A form under which an upload tells something of every record."""

    def privacy(self) -> PrivacyReport:
        """What it tells of one record."""


@runtime_checkable
class SpendsPrivacy(TellsOfRecords, Protocol):
    """A form whose parts tell something of every record, and are charged to the owner first."""

    def charge(
        self, values: NDArray[np.int64], folder: Path, limit: Fraction, *, besides: bool = False
    ) -> bytes:
        """The 32 secret bytes of this upload, the same for the same data; BudgetError if refused.

        The charge is in the owner's folder, on disk, when this returns: nothing was sent before.
        `besides`: an earlier upload of the same data may count, or have counted, as well.
        """


@runtime_checkable
class Arranges(TellsOfRecords, Protocol):
    """A form under which an owner sends other rows than it has: sorted into cells, with dummies.

    The cells and how many rows are in each, the *outline* of an upload, are told to both clouds.
    """

    @property
    def follows(self) -> str:
        """The owner whose cells all others use; empty if there is none."""

    def arrange(
        self,
        values: NDArray[np.int64],
        extents: NDArray[np.uint32] | None,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = ...,
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """At the owner: (rows to send, outline), the same for the same data.

        What the outline tells is charged, on disk, when this returns; BudgetError if refused.
        `extents` are the cells of the owner that this one follows. `may_send` is asked with the
        number of rows before a new charge: what is not taken must cost nothing.
        """

    def check_outline(self, outline: NDArray[Any], rows: int) -> None:
        """At a gateway: refuse what cannot be the outline of so many rows."""

    def extents(self, outline: NDArray[Any]) -> NDArray[np.uint32]:
        """What the owners that follow may learn of an outline."""


@runtime_checkable
class NamesPeople(Protocol):
    """A form that can account for every person by itself, if a column names them."""

    def encode_people(
        self, data: Any, column: str, folder: Path, *, header: bool = True
    ) -> NDArray[np.int64]:
        """As `encode`, with two columns more that tell people apart; names do not leave."""


class TwoShares:
    """t + r to C1 in rows, the seed of r to C2; neither learns t (`ppodc.records.sharing`)."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def encode(self, data: Any, *, header: bool = True) -> NDArray[np.int64]:
        return encode(data, self._schema, header=header)

    def part(self, cloud: Cloud) -> Part:
        columns = len(self._schema.columns)
        if cloud == 1:
            return RowsPart(np.uint64, columns, LARGEST_SHARE)
        return SeedPart(columns)

    def chunk(
        self, values: NDArray[np.int64], secret: bytes, first_row: int, cloud: Cloud
    ) -> NDArray[np.uint64]:
        return split(values, secret, first_row=first_row)[0]
