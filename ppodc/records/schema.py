"""The schema of a dataset: its columns with their public bounds, and the largest encoded value."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ppodc.errors import InputError
from ppodc.records.sharing import MAX_VALUE
from ppodc.records.toml_document import check_keys, double, is_whole, quoted

MAX_COLUMNS = 4096
_MAX_NAME = 128


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
            raise InputError(f"columns named more than once: {quoted(twice)}")

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

    def to_dict(self) -> dict[str, Any]:
        columns = [{"name": c.name, "low": c.low, "high": c.high} for c in self.columns]
        return {"ub": self.ub, "columns": columns}


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InputError("a column needs a name that is not empty")
    if name != name.strip() or not name.isprintable() or len(name) > _MAX_NAME:
        raise InputError(
            f"column name {name[:_MAX_NAME]!r}: use at most {_MAX_NAME} printable characters "
            "without blanks at the ends"
        )
