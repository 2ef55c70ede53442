"""Rule `fields` (mixed): the weights of the fields that agree add up to at least a threshold.

"exact" and "numeric" in a spec are short for fields of which all must agree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ppodc.errors import SpecError
from ppodc.linkage.rules.field import Edit, Exact, Field, Numeric
from ppodc.linkage.rules.grams import Grams
from ppodc.linkage.rules.levels import LEVEL_KINDS
from ppodc.linkage.rules.rule import MAX_LIMIT, Ints, Record, Rule, Thresholds
from ppodc.records.schema import Schema
from ppodc.toml_document import check_keys, check_whole

if TYPE_CHECKING:
    from ppodc.linkage.compare.field_match import FieldMatcher
    from ppodc.linkage.owner_table import OwnerTable


_KINDS: tuple[type[Field], ...] = (Exact, Edit, Numeric, *LEVEL_KINDS, Grams)
KINDS = {kind.how: kind for kind in _KINDS}


def field_from_dict(entry: Any) -> Field:
    """Parse an entry of `fields` in a spec."""
    if not isinstance(entry, dict) or not isinstance(entry.get("column"), str):
        raise SpecError("rule fields: column must be the name of a column")
    if entry.get("compare") not in list(KINDS):
        raise SpecError(f"field {entry['column']!r}: compare must be one of {', '.join(KINDS)}")
    return KINDS[entry["compare"]].from_dict(entry)


@dataclass(frozen=True, slots=True)
class Fields(Rule):
    """Agreeing fields outweigh a threshold."""

    name: ClassVar[str] = "fields"
    portion_pairs: ClassVar[int] = 1 << 18

    fields: tuple[Field, ...]
    threshold: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        if not self.fields:
            raise SpecError("a rule of fields needs at least one field.")
        check_whole(self.threshold, "threshold", 1, MAX_LIMIT)
        if self.threshold > self.total:
            raise SpecError(
                f"threshold {self.threshold} is above the sum of all weights, {self.total}: no "
                "pair could match."
            )

    @property
    def total(self) -> int:
        """The most that a pair can reach."""
        return sum(field.largest for field in self.fields)

    @property
    def batch_pairs(self) -> int:
        return min(field.batch_pairs for field in self.fields)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Self:
        check_keys(table, "rule fields", required=("rule", "fields", "threshold"))
        if not isinstance(table["fields"], list):
            raise SpecError("rule fields: fields must be a list of tables")
        return cls(tuple(map(field_from_dict, table["fields"])), table["threshold"])

    def to_dict(self) -> dict[str, Any]:
        fields = [field.to_dict() for field in self.fields]
        return {"rule": self.name, "fields": fields, "threshold": self.threshold}

    def check(self, schema: Schema) -> None:
        for field in self.fields:
            field.check(schema)

    def describe(self) -> str:
        return f"the weights of these fields that agree reach {self.threshold}: " + "; ".join(
            f"{' and '.join(field.named)} ({field.describe()})" for field in self.fields
        )

    @property
    def named_columns(self) -> list[str]:
        return list(dict.fromkeys(name for field in self.fields for name in field.named))

    def columns(self, schema: Schema) -> int:
        return sum(self._widths(schema))

    def _widths(self, schema: Schema) -> list[int]:
        return [field.width(field.size(schema)) for field in self.fields]

    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        return np.concatenate([field.encode(table, schema) for field in self.fields], axis=1)

    def decode(self, values: Ints, schema: Schema) -> list[Record]:
        ends = np.cumsum(self._widths(schema))
        parts = np.split(values[:, : ends[-1]], ends[:-1], axis=1)
        columns = [
            [field.decode(entry) for entry in part.tolist()]
            for field, part in zip(self.fields, parts, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def matches(self, x: Record, y: Record) -> bool:
        return self.score(x, y) >= self.threshold

    def score(self, x: Record, y: Record) -> int:
        parts = zip(self.fields, x, y, strict=True)
        return sum(field.score(a, b) for field, a, b in parts)

    def thresholds(self) -> Thresholds:
        return Thresholds(self.threshold, list(range(1, self.total + 1)), at_least=True)

    def matcher(self, schema: Schema) -> "FieldMatcher":
        from ppodc.linkage.compare.field_match import FieldMatcher

        return FieldMatcher(self, tuple(field.size(schema) for field in self.fields))


def fields(parts: Sequence[Field], *, threshold: int) -> Fields:
    """Rows match if the weights of the fields that agree reach the threshold."""
    return Fields(tuple(parts), threshold)


def all_of(parts: Sequence[Field]) -> Fields:
    """Rows match if every field agrees."""
    return Fields(tuple(parts), sum(part.largest for part in parts))


def all_equal(table: dict[str, Any]) -> Fields:
    """Parse {"rule": "exact", "columns": [...]}."""
    check_keys(table, "rule exact", required=("rule", "columns"))
    return _all(table, Exact)


def all_near(table: dict[str, Any]) -> Fields:
    """Parse {"rule": "numeric", "columns": [...], "max": ...}."""
    check_keys(table, "rule numeric", required=("rule", "columns", "max"))
    return _all(table, lambda column: Numeric(column, table["max"]))


def _all(table: dict[str, Any], field: Callable[[str], Field]) -> Fields:
    columns = table["columns"]
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise SpecError(f"rule {table['rule']}: columns must be a list of names")
    return all_of([field(column) for column in columns])
