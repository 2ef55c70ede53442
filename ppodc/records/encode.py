"""Real-valued columns to integers 0..ub, and centres back to real units.

A value x of a column with public bounds low and high becomes round((x - low) / (high - low) * ub),
halves to even. Values and bounds are doubles and the rounding is that of the exact quotient, so
every owner gets the same integers on every machine. Whatever does not fit the schema is refused as
a whole: nothing is clipped, filled in or left out. Only records that are never uploaded, because
their owner asks for their clusters, may lie outside the bounds.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.records.read_table import Table, read, some
from ppodc.records.schema import Column, Schema
from ppodc.records.toml_document import quoted

if TYPE_CHECKING:
    import pandas as pd

# The double quotient is off by less than 4 * 2^-53 * ub <= 2^-31: only values this near to a half
# can round to the wrong side, and they are rounded exactly.
_NEAR_HALF = 2.0**-28
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


def encode_some(
    data: "pd.DataFrame | NDArray[Any] | str | Path",
    schema: Schema,
    every: Sequence[str],
    *,
    header: bool = True,
) -> NDArray[np.int64]:
    """The same for a table that has other columns too; without names they are `every`."""
    table = read(data, header=header).some_columns(schema.names, every)
    _check_values(table, schema)
    return scaled(table, schema)


def on_grid(data: "pd.DataFrame | NDArray[Any] | str | Path", schema: Schema) -> NDArray[np.int64]:
    """The same for records that stay with their owner: the grid goes on beyond the bounds."""
    table = read(data)
    _check_columns(table, schema)
    _check_values(table, schema, beyond=_BEYOND)
    return scaled(table, schema)


def fitting(
    data: "pd.DataFrame | NDArray[Any] | str | Path",
    schema: Schema,
    *,
    header: bool = True,
    aside: str = "",
    empty: bool = False,
) -> Table:
    """The table, if every value of it fits the schema; `aside`: a column of names taken out."""
    table = read(data, header=header, words=schema.words, aside=aside, empty=empty)
    _check_columns(table, schema)
    _check_values(table, schema)
    return table


def scaled(table: Table, schema: Schema) -> NDArray[np.int64]:
    """The values of a fitting table as integers 0..ub."""
    encoded = np.empty(table.values.shape, np.int64)
    for s, column in enumerate(schema.columns):
        encoded[:, s] = _scaled(table.values[:, s], column, schema.ub)
    return encoded


def _check_columns(table: Table, schema: Schema) -> None:
    expected = schema.names
    if table.names is None:
        found = table.values.shape[1]
        if found != len(expected):
            hint = ""
            if table.source.endswith((".csv", ".gz")) and found == 1:
                hint = "; are the fields separated by commas?"
            raise InputError(f"{table.source} has {found} columns, not {len(expected)}{hint}")
        return
    if table.names == expected:
        return
    missing = [name for name in expected if name not in table.names]
    unknown = [name for name in table.names if name not in expected]
    parts = []
    if missing:
        parts.append(f"missing columns {quoted(missing)}")
    if unknown:
        parts.append(f"unknown columns {quoted(unknown)}")
    if len(set(table.names)) < len(table.names):
        parts.append("a column name occurs more than once")
    if not parts:
        parts.append(f"the columns must stand in this order: {quoted(expected)}")
    if len(missing) == len(expected) and any(map(_looks_numeric, table.names)):
        raise InputError(
            f"{table.source}: the first line holds numbers instead of column names; "
            "if the file has no header, say so (--no-header, header=False)"
        )
    if len(table.names) == 1 < len(expected):
        parts.append("are the fields separated by commas?")
    raise InputError(f"{table.source}: {'; '.join(parts)}")


def _looks_numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_values(table: Table, schema: Schema, beyond: int = 0) -> None:
    low = np.array([column.low for column in schema.columns])
    high = np.array([column.high for column in schema.columns])
    low, high = low - beyond * (high - low), high + beyond * (high - low)
    bad = ~((table.values >= low) & (table.values <= high))  # NaN is bad too
    bad |= np.isinf(table.values)
    total = int(bad.sum())
    if not total:
        return
    first = np.argwhere(bad)[:5].tolist()
    places = [
        f"{table.row_name(row)}, column {schema.columns[s].name!r}: "
        + _fault(table, row, s, schema.columns[s])
        for row, s in first
    ]
    raise InputError(
        f"{table.source}: {total} value{'s' * (total > 1)} cannot be used, so nothing was encoded: "
        + some(places, total)
    )


def _fault(table: Table, row: int, s: int, column: Column) -> str:
    value = table.values[row, s]
    if (row, s) in table.not_numbers:
        return "not one of the values in the spec" if column.values else "not a number"
    if np.isnan(value):
        return "missing"
    if np.isinf(value):
        return "infinite"
    return f"below {column.low!r}" if value < column.low else f"above {column.high!r}"


def _scaled(values: NDArray[np.float64], column: Column, ub: int) -> NDArray[np.int64]:
    quotient = (values - column.low) / (column.high - column.low) * ub
    rounded = np.rint(quotient).astype(np.int64)
    near = np.abs(quotient - np.floor(quotient) - 0.5) < _NEAR_HALF
    if near.any():
        low, width = Fraction(column.low), Fraction(column.high) - Fraction(column.low)
        distinct, back = np.unique(values[near], return_inverse=True)
        exact = [round((Fraction(x) - low) / width * ub) for x in distinct.tolist()]
        rounded[near] = np.array(exact, np.int64)[back]
    return rounded


def decode_centres(sums: NDArray[Any], sizes: NDArray[Any], schema: Schema) -> NDArray[np.float64]:
    """The centres sums / size in real units, (k, l); rounded once, at the very end.

    A cluster of size 0 has a centre of NaN.
    """
    if sums.shape != (len(sizes), len(schema.columns)):
        raise InputError(f"the sums have shape {sums.shape}, which does not fit the schema")
    out = np.full(sums.shape, np.nan, np.float64)
    for h, size in enumerate(sizes.tolist()):
        if size == 0:
            continue
        for s, column in enumerate(schema.columns):
            low, high = Fraction(column.low), Fraction(column.high)
            out[h, s] = float(low + Fraction(int(sums[h, s]), size * schema.ub) * (high - low))
    return out
