"""Owners' tables as integers 0..ub (`grid`).

A table that does not fit the schema is refused as a whole: nothing is clipped, filled in or left
out. Only records that are never uploaded, because their owner asks for their clusters, may lie
outside the bounds.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import TableError
from ppodc.records.grid import fault, on_steps, outside
from ppodc.records.read_table import Table, read, some, word
from ppodc.records.schema import Column, Schema
from ppodc.toml_document import quoted

if TYPE_CHECKING:
    import pandas as pd

_GAPS = (
    ". Rows that lack a value can be left out: --leave-out, in Python leave_out=True or "
    'missing="leave out"'
)
_BEYOND = 1 << 20  # widths of a column that a value may lie outside, where that is allowed


def encode(
    data: "pd.DataFrame | NDArray[Any] | str | Path",
    schema: Schema,
    *,
    header: bool = True,
    empty: bool = False,
) -> NDArray[np.int64]:
    """Records as integers 0..ub, shape (m, l); InputError names the rows that do not fit.

    `header=False` reads a CSV file whose first line is already a record. `empty`: m may be 0.
    """
    return scaled(fitting(data, schema, header=header, empty=empty), schema)


def on_grid(data: "pd.DataFrame | NDArray[Any] | str | Path", schema: Schema) -> NDArray[np.int64]:
    """Encode records that stay with their owner: the grid goes on beyond the bounds."""
    table = matched(read(data), schema)
    check_values(table, schema, beyond=_BEYOND)
    return scaled(table, schema)


def fitting(
    data: "pd.DataFrame | NDArray[Any] | str | Path",
    schema: Schema,
    *,
    header: bool = True,
    aside: str = "",
    empty: bool = False,
) -> Table:
    """Read a table whose values all fit the schema; `texts` of it has the names in column `aside`.

    InputError names the rows that do not fit.
    """
    texts = (aside,) if aside else ()
    words, order = schema.categories, schema.names
    table = read(data, header=header, categories=words, texts=texts, empty=empty, order=order)
    if aside:
        table = _with_names(table, aside)
    table = matched(table, schema).without_gaps()
    if not len(table.values) and not empty:
        raise TableError(f"{table.source}: every row has a missing value, so none is left")
    check_values(table, schema)
    return table


def _with_names(table: Table, column: str) -> Table:
    """The table with the column of names as texts, none of them empty."""
    if column not in table.texts:
        raise TableError(f"{table.source} has no one column named {column!r}")
    names = [word(cell) for cell in table.texts[column]]
    nameless = [table.row_name(row) for row, name in enumerate(names) if not name]
    if nameless:
        places = some(nameless, len(nameless))
        raise TableError(f"{table.source}: column {column!r} is empty in {places}")
    return replace(table, texts={column: names})


def scaled(table: Table, schema: Schema) -> NDArray[np.int64]:
    """The values of a fitting table as integers 0..ub."""
    return on_steps(table.values, schema)


def matched(table: Table, schema: Schema) -> Table:
    """The columns of the schema in its order; others are refused, unless they may be left out."""
    expected = schema.names
    if table.names is None:
        found = table.values.shape[1]
        if found != len(expected):
            hint = ""
            if table.source.endswith((".csv", ".gz")) and found == 1:
                hint = "; are the fields separated by commas, semicolons or tabs?"
            raise TableError(f"{table.source} has {found} columns, not {len(expected)}{hint}")
        return table
    missing = [name for name in expected if name not in table.names]
    unknown = [name for name in table.names if name not in expected and not table.further]
    twice = [name for name in expected if table.names.count(name) > 1]
    parts = []
    if missing:
        parts.append(f"missing columns {quoted(missing)}")
    if unknown:
        parts.append(f"unknown columns {quoted(unknown)}, which --only (only=True) leaves out")
    if twice:
        parts.append(f"a column name occurs more than once: {quoted(twice)}")
    if told := capitals(missing, table.names):
        parts.append(told)
    if not parts:
        return table if table.names == expected else table.some_columns(expected)
    if len(missing) == len(expected) and any(map(_looks_numeric, table.names)):
        raise TableError(
            f"{table.source}: the first line holds numbers instead of column names; "
            "if the file has no header, say so (--no-header, header=False)"
        )
    if len(table.names) == 1 < len(expected):
        parts.append("are the fields separated by commas, semicolons or tabs?")
    raise TableError(f"{table.source}: {'; '.join(parts)}")


def capitals(missing: Sequence[str], found: Sequence[str]) -> str:
    """Say which columns are there but for capitals or blanks; empty if none is."""
    plain = {name.strip().casefold(): name for name in found}
    both = [(plain[name.casefold()], name) for name in missing if name.casefold() in plain]
    return "; ".join(f"capitals count: {there!r} is not {name!r}" for there, name in both[:3])


def _looks_numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_values(table: Table, schema: Schema, beyond: int = 0) -> None:
    """Refuse values outside the bounds, missing ones, and what is no number."""
    bad = outside(table.values, schema, beyond)
    total = int(bad.sum())
    if not total:
        return
    first = np.argwhere(bad)[:5].tolist()
    places = [
        f"{table.row_name(row)}, column {schema.columns[s].name!r}: "
        + _fault(table, row, s, schema.columns[s], beyond)
        for row, s in first
    ]
    gaps = not beyond and any(
        np.isnan(table.values[row, s]) and (row, s) not in table.not_numbers for row, s in first
    )
    raise TableError(
        f"{table.source}: {total} value{'s' * (total > 1)} cannot be used, so nothing was encoded: "
        + some(places, total)
        + (_GAPS if gaps else "")
    )


def _fault(table: Table, row: int, s: int, column: Column, beyond: int) -> str:
    if (row, s) in table.not_numbers:
        return "not one of the values in the spec" if column.values else "not a number"
    return fault(table.values[row, s], column, beyond)
