"""An owner's rows in a join: those of the linkage, with its own joined columns behind them.

A dummy has the values of one of its owner's records, taken in turn: it is joined to nobody, but
clusters may start from any row of the anchor, and rows that are not joined carry values of some row
of the partner. Neither must be garbage.
"""

from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np

from ppodc.errors import InputError, TableError
from ppodc.linkage import owner as linkage
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.owner_table import OwnerTable, encode_rows
from ppodc.linkage.row_layout import row_numbers
from ppodc.records.owner_side import Ints, MaySend, OwnerSide, anything
from ppodc.records.read_table import Only
from ppodc.records.schema import Schema
from ppodc.records.upload_form import Outline
from ppodc.spec import Spec
from ppodc.toml_document import quoted


class JoinedOwner(OwnerSide):
    """An owner's side of a job over joined columns.

    Without the owner's name, a table is of the side that it fits.
    """

    def __init__(self, spec: Spec, columns: JoinedColumns, owner: str = "") -> None:
        super().__init__(spec)
        self._columns, self._linkage = columns, linkage.owner_side(columns.spec)
        self._side = columns.side_of(owner) if owner else None

    def of(self, owner: str) -> Self:
        return type(self)(self.spec, self._columns, owner)

    @property
    def of_partner(self) -> bool:
        """Whether the owner is known, and on another side than the anchor's."""
        return bool(self._side)

    def encode(self, data: Any, *, header: bool = True) -> Ints:
        """The numbers that are compared, then all joined columns, zeros where a side has none."""
        columns = self._columns
        side, table = self._read(data, header)
        if not table.rows:
            raise TableError("the table holds no records, and nothing can be joined to it.")
        link = encode_rows(table, columns.job, columns.spec.schema)
        values = np.zeros((table.rows, len(columns.joined.columns)), np.int64)
        values[:, list(columns.sides[side].places)] = table.grid(columns.own(side))
        return np.column_stack([link, values])

    def _read(self, data: Any, header: bool) -> tuple[int, OwnerTable]:
        """The table under the columns of its side; InputError if it has other columns."""
        if self._side is not None:
            return self._side, self._under(self._side, data, header)
        faults = []
        for number, side in enumerate(self._columns.sides):
            try:
                return number, self._under(number, data, header)
            except InputError as error:
                faults.append(f"as {side.name}: {error}")
        raise TableError("; ".join(faults))

    def _under(self, side: int, data: Any, header: bool) -> OwnerTable:
        columns, own = self._columns, self._columns.own(side)
        linking = columns.spec.schema
        known = linking.names
        further = tuple(column for column in own.columns if column.name not in known)
        schema = Schema((*linking.columns, *further), linking.ub, linking.texts)
        self._refuse_others(side, data)
        return OwnerTable(data, schema, in_order=False, header=header)

    def _refuse_others(self, side: int, data: Any) -> None:
        """Refuse a DataFrame with columns that other sides hold, whoever else sees it."""
        if isinstance(data, Only):
            return
        own = [*self._columns.spec.schema.names, *self._columns.own(side).names]
        others = [name for name in self._columns.joined.names if name not in own]
        wrong = [name for name in getattr(data, "columns", ()) if name in others]
        if wrong:
            raise TableError(
                f"the table has columns {quoted(wrong)}, which {self._columns.sides[side].name} "
                "does not hold: leave them out"
            )

    def counted(self, values: Ints) -> tuple[Schema, Ints]:
        """Of an owner whose side is known: the joined columns that it holds."""
        side, count = self._side or 0, len(self._columns.joined.columns)
        places = list(self._columns.sides[side].places)
        return self._columns.own(side), values[:, -count:][:, places]

    def arrange(
        self,
        values: Ints,
        extents: Outline | None,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
    ) -> tuple[Ints, Outline | None]:
        """The rows of the linkage, arranged by it, each with its joined columns."""
        count = len(self._columns.joined.columns)
        sent, outline = self._linkage.arrange(values[:, :-count], extents, folder, limit, may_send)
        if outline is None:
            return values, None
        row = row_numbers(sent[:, self._columns.layout.number]) - 1
        dummy = row < 0
        row[dummy] = np.arange(dummy.sum()) % len(values)
        return np.column_stack([sent, values[row, -count:]]), outline
