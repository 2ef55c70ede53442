"""The owner's side of a job: its table becomes the parts of an upload, and a result is opened.

Everything here handles plaintext and runs at an owner. A kind's `owner.py` says what differs from
the defaults: records of numbers 0..ub, split in two shares, of which an upload reveals nothing.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import OptionError
from ppodc.records.encode import encode
from ppodc.records.result_shares import OpenedResult
from ppodc.records.schema import Schema
from ppodc.records.sharing import SEED_BYTES, split
from ppodc.records.upload_form import Cloud, Outline

if TYPE_CHECKING:
    from ppodc.spec import Spec

Ints = NDArray[np.int64]
MaySend = Callable[[int], None]  # InputError if the clouds would not take this many rows


def anything(rows: int) -> None:
    """No limit on the rows that may be sent."""


class OwnerSide(ABC):
    """An owner's side of the job of one spec."""

    names_people = False  # whether an id column names people, who are charged one by one

    def __init__(self, spec: "Spec") -> None:
        self.spec = spec

    def of(self, owner: str) -> "OwnerSide":
        """The side of the owner of this name; the same for all by default.

        Where owners hold different columns, it refuses a table of other columns than this owner's.
        """
        return self

    def encode(self, data: Any, *, header: bool = True) -> Ints:
        """The records as checked whole numbers (m, l), before anything is sent."""
        return encode(data, self.spec.schema, header=header)

    def encode_people(self, data: Any, column: str, folder: Path, *, header: bool = True) -> Ints:
        """Encode with two more columns that tell people apart; names do not leave."""
        raise OptionError("an id column is for jobs that spend privacy; leave it out here.")

    def doubt(self, rows: int) -> str:
        """Say of a guarantee that it is weak for this many rows; empty if it is not."""
        return ""

    def arrange(
        self,
        values: Ints,
        extents: Outline | None,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
    ) -> tuple[Ints, Outline | None]:
        """(rows to send, outline), the same for the same data; the rows as they are by default.

        With blocks an owner sends other rows than it has: sorted into cells, with dummies. Both
        clouds get the cells and how many rows are in each, the *outline*. Its cost is charged, on
        disk, when this returns; BudgetError if refused. `extents` are the cells of the owner that
        this one follows. `may_send` is asked with the number of rows before a new charge: rows that
        are not taken must cost nothing.
        """
        return values, None

    def charge(
        self,
        values: Ints,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
        *,
        besides: bool = False,
    ) -> bytes:
        """The 32 secret bytes of a new upload; fresh ones, and nothing charged, by default.

        Where the parts, or the job's result, reveal something of every record, that is charged to
        the owner's folder, on disk, when this returns; BudgetError if refused. The same data then
        have the same secret. `besides`: an earlier upload of the same data may count as well.
        """
        return secrets.token_bytes(SEED_BYTES)

    def chunk(self, values: Ints, secret: bytes, first_row: int, cloud: Cloud) -> NDArray[Any]:
        """Rows from `first_row` on, for a cloud whose part is rows.

        `secret` is that of the upload, and the seed for a cloud that takes one. An upload that goes
        on asks for the same rows again, and must get the same.
        """
        return split(values, secret, first_row=first_row)[0]

    def counted(self, values: Ints) -> tuple[Schema, Ints]:
        """The columns that an exact result is about, and their values in the encoded records.

        Without what records are linked by, so that a table has the same in jobs of several kinds.
        """
        schema = self.spec.schema
        return schema, values[:, : len(schema.columns)]

    @abstractmethod
    def open_result(self, opened: OpenedResult) -> Any:
        """The result in real units; InputError for values that cannot be one."""
