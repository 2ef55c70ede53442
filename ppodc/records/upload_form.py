"""The parts of an upload, as a cloud takes them, and how a gateway checks what arrives.

A part is rows of numbers, which arrive in chunks, or a seed from which the cloud works its rows out
itself. A kind of job names its form; the store keeps parts and knows no kind. How an owner makes
the parts from its table is in `owner_side`, which no cloud loads.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ppodc.errors import InputError
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.records.sharing import SEED_BYTES, mask

Cloud = Literal[1, 2]
LARGEST_SHARE = (1 << 64) - 1  # every word is some record's share
Outline = NDArray[np.uint32]  # a row for each cell: its number of rows, and where it lies


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


class UploadForm(ABC):
    """The parts of an upload to one dataset. A form without cells reveals nothing of a record."""

    least_rows: int = 1  # the fewest rows of an upload
    has_cells: bool = False  # both clouds get the cells of an upload and how many rows are in each
    follows: str = ""  # the owner whose cells all others use; empty: each has its own

    @abstractmethod
    def part(self, cloud: Cloud) -> Part | None:
        """The part that this cloud takes; None: nothing."""

    def privacy(self) -> PrivacyReport | None:
        """The guarantee for one record of an upload; None: it reveals nothing."""
        return None

    def check_outline(self, outline: NDArray[Any], rows: int) -> None:
        """Refuse cells that cannot be those of an upload of this many rows."""
        raise InputError("uploads to this dataset have no cells.")

    def extents(self, outline: NDArray[Any]) -> Outline:
        """The part of an outline that later owners may learn."""
        raise InputError("uploads to this dataset have no cells.")


class TwoShares(UploadForm):
    """t + r to C1 in rows, the seed of r to C2; neither learns t (`ppodc.records.sharing`)."""

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def part(self, cloud: Cloud) -> Part:
        if cloud == 1:
            return RowsPart(np.uint64, self.columns, LARGEST_SHARE)
        return SeedPart(self.columns)
