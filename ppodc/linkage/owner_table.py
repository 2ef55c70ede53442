"""An owner's table under the columns of a linkage: read once, checked value by value.

A table may have no rows. It is taken as a whole or refused as a whole, with the row and the column
of what does not fit and never its value.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import TableError
from ppodc.linkage.job import Job
from ppodc.linkage.rules.rule import CellError
from ppodc.linkage.symbols import MAPPED, mapped, normalise
from ppodc.records.encode import check_values, matched, scaled
from ppodc.records.read_table import read, some
from ppodc.records.schema import Column, Schema, TextColumn
from ppodc.toml_document import quoted

_ALPHABETS = {"words": "a-z, 0-9, blank, - and '", "digits": "0-9"}
Ints = NDArray[np.int64]


class OwnerTable:
    """The columns of a table by name, and what is wrong with their values."""

    def __init__(self, data: Any, schema: Schema, *, in_order: bool, header: bool = True) -> None:
        """`in_order`: all columns are numbers, in the order of the schema."""
        self._order = schema.names
        self._faults: set[tuple[int, str]] = set()  # a column may be read twice
        texts = [text.name for text in schema.texts]
        if texts and isinstance(data, np.ndarray):
            raise TableError("records with texts must come as a DataFrame or the path of a file")
        names = () if in_order else [*schema.names, *texts]
        self._table = read(
            data, header=header, texts=texts, names=names, text_numbers=not in_order, empty=True
        )
        if in_order:
            self._table = matched(self._table, schema).without_gaps()
        else:
            self._check_names(names)

    def _check_names(self, wanted: Iterable[str]) -> None:
        """Refuse other columns than these, in any order."""
        table = self._table
        names = [*(table.names or ()), *table.texts]
        missing = [name for name in wanted if name not in names]
        unknown = [name for name in names if name not in wanted and not table.further]
        twice = any(names.count(name) > 1 for name in wanted)
        columns = table.values.shape[1] + len(table.texts)
        if missing or unknown or len(names) != columns or twice:
            raise TableError(
                f"{table.source}: the columns must be {quoted(list(wanted))}"
                + (f"; missing {quoted(missing)}" if missing else "")
                + (f"; unknown {quoted(unknown)}, which --only leaves out" if unknown else "")
            )

    @property
    def rows(self) -> int:
        return len(self._table.values)

    def grid(self, schema: Schema) -> Ints:
        """The columns of a schema of numbers as steps 0..ub of their ranges."""
        table = self._table
        if table.names is not None and table.names != schema.names:
            table = table.some_columns(schema.names)
        check_values(table, schema)
        return scaled(table, schema)

    def column(self, column: Column | TextColumn) -> list[Any]:
        """Whole numbers counted from the lower bound, or normalised texts; None if missing."""
        if isinstance(column, TextColumn):
            return self.texts(column)
        place = self._place(column)
        values, found = self._table.values[:, place], []
        for row, value in enumerate(values.tolist()):
            fault = _whole_fault(value, column)
            if (row, place) in self._table.not_numbers:
                fault = "not a number"
            if fault:
                self._note(row, column.name, fault)
            found.append(None if fault or math.isnan(value) else int(value - column.low))
        return found

    def _place(self, column: Column) -> int:
        names = self._table.names
        return (self._order if names is None else names).index(column.name)

    def texts(self, text: TextColumn, *, shortest: int = 0, needed: bool = False) -> list[Any]:
        """Normalised texts that fit their column; None where one is missing."""

        def change(value: Any) -> str:
            plain = normalise(_as_text(value))
            if len(plain) > text.longest:
                raise CellError(f"{len(plain)} characters, at most {text.longest} are allowed")
            if len(plain) < shortest:
                raise CellError(f"{len(plain)} characters, at least {shortest} are needed")
            known = mapped(plain, digits=text.signs == "digits")
            if not text.other and MAPPED in known:
                raise CellError(f"signs other than {_ALPHABETS[text.signs]}")
            return known

        return self.cells(text.name, change, None, needed=needed)

    def cells(
        self, name: str, change: Callable[[Any], Any], missing: Any, *, needed: bool
    ) -> list[Any]:
        """A column of texts, changed value by value; faults are noted and stand for `missing`."""
        found = []
        for row, value in enumerate(self._table.texts[name]):
            new = missing
            if value is not None:
                try:
                    new = change(value)
                except CellError as fault:
                    self._note(row, name, str(fault))
            elif needed:
                self._note(row, name, "missing")
            found.append(new)
        return found

    def _note(self, row: int, name: str, fault: str) -> None:
        self._faults.add((row, f"{self._table.row_name(row)}, column {name!r}: {fault}"))

    def check(self) -> None:
        """Refuse the table if a value did not fit, with the first few places."""
        if self._faults:
            total = len(self._faults)
            raise TableError(
                f"{self._table.source}: {total} value{'s' * (total > 1)} cannot be used, so "
                "nothing was encoded: "
                + some((place for _, place in sorted(self._faults)), total)
                + self._advice()
            )

    def _advice(self) -> str:
        if not any("signs other" in place for _, place in self._faults):
            return ""
        return '. A spec whose column has other = "map" takes all such signs as one.'


def _as_text(value: Any) -> str:
    """Texts as they are; codes that a table holds as whole numbers by their digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise CellError("not a text")
    if value % 1:
        raise CellError("not a text, nor a whole number")
    return str(int(value))


def _whole_fault(value: float, column: Column) -> str:
    """Why a number cannot be used; empty if it can, or is missing."""
    if math.isnan(value):
        return ""
    if value % 1:
        return "not a whole number"
    if not column.low <= value <= column.high:
        return f"below {column.low:g}" if value < column.low else "above the bound"
    return ""


def encode_rows(table: OwnerTable, job: Job, schema: Schema) -> Ints:
    """Encode an owner's rows by the rule, and behind them the columns that blocks are made by.

    InputError names the rows that do not fit.
    """
    values = job.rule_in_cells.encode(table, schema)
    keys = job.blocking.keys(table, schema)
    table.check()
    return np.column_stack([values, *keys])
