"""The schema of a dataset: real-valued columns to integers 0..ub, and centres back to real units.

A value x of a column with public bounds low and high becomes round((x - low) / (high - low) * ub),
halves to even. Values and bounds are doubles and the rounding is that of the exact quotient, so
every owner gets the same integers on every machine. Whatever does not fit the schema is refused as
a whole: nothing is clipped, filled in or left out.
"""

import math
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.records.read_table import Table, read, some
from ppodc.records.sharing import MAX_VALUE

if TYPE_CHECKING:
    import pandas as pd

MAX_COLUMNS = 4096
_MAX_NAME = 128
# The double quotient is off by less than 4 * 2^-53 * ub <= 2^-31: only values this near to a half
# can round to the wrong side, and they are rounded exactly.
_NEAR_HALF = 2.0**-28


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute: its name and the public bounds that no value may leave."""

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_name(self.name)
        where = f"column {self.name!r}"
        # + 0.0 makes -0.0 and 0.0 the same column
        object.__setattr__(self, "low", double(self.low, f"low of {where}") + 0.0)
        object.__setattr__(self, "high", double(self.high, f"high of {where}") + 0.0)
        if not self.low < self.high:
            raise InputError(f"{where}: low must be less than high")
        if math.isinf(self.high - self.low):
            raise InputError(f"{where}: low and high are too far apart")


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns in their order, and the largest encoded value."""

    columns: tuple[Column, ...]
    ub: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not 1 <= len(self.columns) <= MAX_COLUMNS:
            raise InputError(f"a schema needs 1 to {MAX_COLUMNS} columns")
        if not is_whole(self.ub) or not 1 <= self.ub <= MAX_VALUE:
            raise InputError(f"ub must be a whole number from 1 to {MAX_VALUE}")
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise InputError(f"columns named more than once: {_quoted(twice)}")

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @classmethod
    def from_dict(cls, table: Any, where: str = "schema") -> "Schema":
        """From {"ub": ..., "columns": [{"name", "low", "high"}, ...]}; ub may be left out."""
        check_keys(table, where, required=("columns",), optional=("ub",))
        if not isinstance(table["columns"], list):
            raise InputError(f"{where}.columns must be a list of tables with name, low and high")
        columns = []
        for number, entry in enumerate(table["columns"], 1):
            check_keys(entry, f"{where}.columns, entry {number}", required=("name", "low", "high"))
            columns.append(Column(**entry))
        return cls(tuple(columns), table.get("ub", 1000))

    @classmethod
    def from_toml(cls, text: str) -> "Schema":
        """From TOML text, at its top level or in its [schema] table."""
        document = parse_toml(text)
        return cls.from_dict(document.get("schema", document))

    def to_dict(self) -> dict[str, Any]:
        columns = [{"name": c.name, "low": c.low, "high": c.high} for c in self.columns]
        return {"ub": self.ub, "columns": columns}


def parse_toml(text: str) -> dict[str, Any]:
    """The document in TOML text; the error of what does not parse names line and column."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers of too many digits
        raise InputError(f"not valid TOML: {error}") from error


def check_keys(
    table: Any, where: str, *, required: Collection[str], optional: Collection[str] = ()
) -> None:
    """Refuse what is not a table, lacks a required key or has an unknown one."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where} must be a table with the keys {', '.join(required)}")
    missing = [key for key in required if key not in table]
    if missing:
        raise InputError(f"{where}: missing {', '.join(missing)}")
    unknown = [str(key) for key in table if key not in required and key not in optional]
    if unknown:
        known = ", ".join([*required, *optional])
        raise InputError(f"{where}: unknown key {_quoted(unknown)}; known are {known}")


def is_whole(value: Any) -> bool:
    """Whether a value from a file is an integer (True and False are not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError("a column needs a name that is not empty")
    if name != name.strip() or not name.isprintable() or len(name) > _MAX_NAME:
        raise InputError(
            f"column name {name[:_MAX_NAME]!r}: use at most {_MAX_NAME} printable characters "
            "without blanks at the ends"
        )


def double(value: Any, what: str) -> float:
    """A finite double that equals the given number."""
    if not is_whole(value) and not isinstance(value, float):
        raise InputError(f"{what} must be a number")
    if isinstance(value, int) and abs(value) > 1 << 53:
        raise InputError(f"{what} is too large for a whole number: write it as a decimal")
    if not math.isfinite(value):
        raise InputError(f"{what} must be finite")
    return float(value)


def encode(
    data: "pd.DataFrame | NDArray[Any] | str | Path", schema: Schema, *, header: bool = True
) -> NDArray[np.int64]:
    """Records as integers 0..ub, shape (m, l); InputError names the rows that do not fit.

    `header=False` reads a CSV file whose first line is already a record.
    """
    table = read(data, header=header)
    _check_columns(table, schema)
    _check_values(table, schema)
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
        parts.append(f"missing columns {_quoted(missing)}")
    if unknown:
        parts.append(f"unknown columns {_quoted(unknown)}")
    if len(set(table.names)) < len(table.names):
        parts.append("a column name occurs more than once")
    if not parts:
        parts.append(f"the columns must stand in this order: {_quoted(expected)}")
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


def _quoted(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _check_values(table: Table, schema: Schema) -> None:
    low = np.array([column.low for column in schema.columns])
    high = np.array([column.high for column in schema.columns])
    bad = ~((table.values >= low) & (table.values <= high))  # NaN is bad too
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
        return "not a number"
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
    """The centres sums / size in real units, (k, l); rounded once, at the very end."""
    if sums.shape != (len(sizes), len(schema.columns)):
        raise InputError(f"the sums have shape {sums.shape}, which does not fit the schema")
    if min(sizes.tolist(), default=0) < 1:
        raise InputError("a cluster without records has no centre")
    out = np.empty(sums.shape, np.float64)
    for h, size in enumerate(sizes.tolist()):
        for s, column in enumerate(schema.columns):
            low, high = Fraction(column.low), Fraction(column.high)
            out[h, s] = float(low + Fraction(int(sums[h, s]), size * schema.ub) * (high - low))
    return out
