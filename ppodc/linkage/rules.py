"""When two records match: the rules that owners agree on, in whole numbers, exact.

`SquaredDistance` (numbers): sum_i w_i (x_i - y_i)^2 <= limit.
`EditDistance` (strings): the Levenshtein distances of the attributes add up to at most limit.
`Fields` (mixed): the weights of the fields that agree add up to at least threshold. A field agrees
exactly, within an edit distance, or within a difference; a missing value agrees with nothing.
`Dice` (bit filters): 2 |a and b| / (|a| + |b|) >= p / q, that is 2 q |a and b| >= p (|a| + |b|).
A filter without any bit is no filter: owners refuse it.

The plaintext meaning of each is `ppodc.linkage.reference`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from ppodc.errors import InputError
from ppodc.linkage.strings import MAX_LENGTH
from ppodc.records.toml_document import check_keys, check_whole, is_whole

MAX_WEIGHT = 1 << 16
_MAX_LIMIT = 1 << 48
_MAX_FILTER = 1 << 14


@dataclass(frozen=True, slots=True)
class SquaredDistance:
    """Numbers: a weighted sum of squared differences."""

    name: ClassVar[str] = "sse"

    weights: tuple[int, ...]
    limit: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _weights(self.weights))
        check_whole(self.limit, "the limit of a squared distance", 0, _MAX_LIMIT)

    @classmethod
    def scaled(cls, weights: tuple[int, ...], theta: Fraction, ub: int) -> "SquaredDistance":
        """From the threshold over values scaled to 0..1: limit = floor(ub^2 theta)."""
        if theta < 0:
            raise InputError("theta must not be negative.")
        return cls(weights, int(ub * ub * theta // 1))

    def largest(self, ub: int) -> int:
        """The largest distance of values 0..ub."""
        return sum(self.weights) * ub * ub

    def check_columns(self, columns: int, ub: int) -> None:
        """Refuse weights of other columns, and a limit that every pair meets."""
        if len(self.weights) != columns:
            raise InputError(
                f"there are {len(self.weights)} weights for {columns} columns; give one for each."
            )
        if self.limit >= self.largest(ub):
            raise InputError(
                f"with limit {self.limit} every pair of records would match: the largest distance "
                f"is {self.largest(ub)}."
            )


@dataclass(frozen=True, slots=True)
class EditDistance:
    """Strings: insertions, deletions and substitutions over all attributes."""

    name: ClassVar[str] = "edit"

    attributes: int
    limit: int

    def __post_init__(self) -> None:
        check_whole(self.attributes, "the number of string attributes", 1, 16)
        check_whole(self.limit, "the limit of an edit distance", 0, MAX_LENGTH)


@dataclass(frozen=True, slots=True)
class Field:
    """One comparison of a `Fields` rule: `how` is exact, edit or numeric; `most` its tolerance."""

    column: str
    how: str
    most: int = 0
    weight: int = 1

    def __post_init__(self) -> None:
        where = f"field {self.column!r}"
        if self.how not in ("exact", "edit", "numeric"):
            raise InputError(f"{where}: compare must be exact, edit or numeric")
        highest = {"exact": 0, "edit": MAX_LENGTH, "numeric": 1 << 20}[self.how]
        check_whole(self.most, f"max of {where}", 0, highest)
        check_whole(self.weight, f"weight of {where}", 1, MAX_WEIGHT)


@dataclass(frozen=True, slots=True)
class Fields:
    """Agreeing fields outweigh a threshold."""

    name: ClassVar[str] = "fields"

    fields: tuple[Field, ...]
    threshold: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        if not self.fields:
            raise InputError("a rule of fields needs at least one field.")
        total = sum(field.weight for field in self.fields)
        check_whole(self.threshold, "threshold", 1, _MAX_LIMIT)
        if self.threshold > total:
            raise InputError(
                f"threshold {self.threshold} is above the sum of all weights, {total}: no pair "
                "could match."
            )


@dataclass(frozen=True, slots=True)
class Dice:
    """Bit filters of `bits` bits: twice the common ones over all ones, at least `threshold`."""

    name: ClassVar[str] = "dice"

    bits: int
    threshold: Fraction

    def __post_init__(self) -> None:
        check_whole(self.bits, "bits of a filter", 1, _MAX_FILTER)
        object.__setattr__(self, "threshold", fraction(self.threshold, "threshold of dice"))
        if not 0 < self.threshold <= 1:
            raise InputError("the threshold of dice must be above 0 and at most 1.")
        if self.threshold.denominator > MAX_WEIGHT:
            raise InputError("write the threshold of dice with fewer digits.")


Rule = SquaredDistance | EditDistance | Fields | Dice


def exact(column: str, *, weight: int = 1) -> Field:
    """A field that must be equal."""
    return Field(column, "exact", 0, weight)


def edit(column: str, *, max: int, weight: int = 1) -> Field:  # noqa: A002 - as in the spec file
    """A field within an edit distance."""
    return Field(column, "edit", max, weight)


def numeric(column: str, *, max: int, weight: int = 1) -> Field:  # noqa: A002 - as above
    """A field within a difference of encoded values."""
    return Field(column, "numeric", max, weight)


def fields(parts: Sequence[Field], *, threshold: int) -> Fields:
    """Rows match if the weights of the fields that agree reach the threshold."""
    return Fields(tuple(parts), threshold)


def all_of(parts: Sequence[Field]) -> Fields:
    """Rows match if every field agrees."""
    return Fields(tuple(parts), sum(part.weight for part in parts))


def sse(weights: Sequence[int], *, limit: int) -> SquaredDistance:
    """Rows of numbers match if their squared differences, in steps of the grid, are within a limit.

    One weight for each column. `RecordLinkage(theta=...)` says it of values scaled to 0..1 instead.
    """
    return SquaredDistance(tuple(weights), limit)


def edit_distance(attributes: int, *, limit: int) -> EditDistance:
    """Rows of so many texts match if their edit distances add up to at most a limit."""
    return EditDistance(attributes, limit)


def dice(bits: int, *, threshold: float | str | Fraction) -> Dice:
    """Bit filters match if their Dice coefficient is at least the threshold; 0.7 means 7/10."""
    return Dice(bits, fraction(threshold, "threshold of dice"))


def from_dict(table: Any) -> Rule:
    """A rule from the table of a spec; `to_dict` gives it back.

    "exact" and "numeric" are short for fields of which all must agree.
    """
    name = table.get("rule") if isinstance(table, dict) else None
    if name == "sse":
        check_keys(table, "rule sse", required=("rule", "weights", "limit"))
        if not isinstance(table["weights"], list):
            raise InputError("rule sse: weights must be a list of whole numbers")
        return SquaredDistance(tuple(table["weights"]), table["limit"])
    if name == "edit":
        check_keys(table, "rule edit", required=("rule", "attributes", "limit"))
        return EditDistance(table["attributes"], table["limit"])
    if name == "fields":
        return _fields(table)
    if name == "dice":
        check_keys(table, "rule dice", required=("rule", "bits", "threshold"))
        return Dice(table["bits"], table["threshold"])
    if name == "exact":
        check_keys(table, "rule exact", required=("rule", "columns"))
        return all_of([exact(column) for column in _columns(table)])
    if name == "numeric":
        check_keys(table, "rule numeric", required=("rule", "columns", "max"))
        return all_of([numeric(column, max=table["max"]) for column in _columns(table)])
    raise InputError("rule must be one of sse, edit, fields, exact, numeric, dice")


def to_dict(rule: Rule) -> dict[str, Any]:
    """The table of a spec that reads as this rule."""
    if isinstance(rule, SquaredDistance):
        return {"rule": "sse", "weights": list(rule.weights), "limit": rule.limit}
    if isinstance(rule, EditDistance):
        return {"rule": "edit", "attributes": rule.attributes, "limit": rule.limit}
    if isinstance(rule, Dice):
        return {"rule": "dice", "bits": rule.bits, "threshold": str(rule.threshold)}
    fields = [
        {"column": f.column, "compare": f.how, "max": f.most, "weight": f.weight}
        for f in rule.fields
    ]
    return {"rule": "fields", "fields": fields, "threshold": rule.threshold}


def fraction(value: Any, what: str) -> Fraction:
    """An exact number as written: 0.7 means 7/10, not the nearest double; "7/10" is accepted."""
    if isinstance(value, Fraction):
        return value
    if not is_whole(value) and not isinstance(value, (float, str)):
        raise InputError(f"{what} must be a number")
    try:
        return Fraction(repr(float(value)) if isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InputError(f"{what} must be a finite number such as 0.5 or '1/2'") from None


def _columns(table: dict[str, Any]) -> list[str]:
    columns = table["columns"]
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise InputError(f"rule {table['rule']}: columns must be a list of names")
    return columns


def _fields(table: dict[str, Any]) -> Fields:
    check_keys(table, "rule fields", required=("rule", "fields", "threshold"))
    if not isinstance(table["fields"], list):
        raise InputError("rule fields: fields must be a list of tables")
    fields = []
    for entry in table["fields"]:
        check_keys(entry, "rule fields", required=("column", "compare"), optional=("max", "weight"))
        if not isinstance(entry["column"], str):
            raise InputError("rule fields: column must be the name of a column")
        fields.append(
            Field(entry["column"], entry["compare"], entry.get("max", 0), entry.get("weight", 1))
        )
    return Fields(tuple(fields), table["threshold"])


def _weights(weights: Any) -> tuple[int, ...]:
    checked = tuple(weights)
    for weight in checked:
        check_whole(weight, "a weight", 0, MAX_WEIGHT)
    if not any(checked):
        raise InputError("at least one weight must be more than 0.")
    return checked
