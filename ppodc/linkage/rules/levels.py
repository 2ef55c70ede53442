"""Fields with several weights: a comparison says how much two values agree, not only whether.

`EditLevels`: a weight for equal texts, another for one edit, for two edits. `Dates`: weights for
the year, the month and the day, and for day and month exchanged. `Swapped`: first and last name
exchanged. `FrequencyClasses`: equal texts, of which a rare one counts more than a common one.

Values that are there and differ get 0 points. A missing value says less against a match than a
different one: `missing` are the points of a pair of which at least one value is missing.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ppodc.errors import SpecError, TableError
from ppodc.linkage.exact_codes import CODE_BITS
from ppodc.linkage.rules.field import Edit, Exact, Field, whole
from ppodc.linkage.rules.rule import MAX_WEIGHT, Ints
from ppodc.linkage.symbols import levenshtein, normalise
from ppodc.records.schema import Column, Schema, TextColumn
from ppodc.toml_document import check_keys, check_whole

if TYPE_CHECKING:
    from ppodc.linkage.compare.field_parts import FieldPart
    from ppodc.linkage.owner_table import OwnerTable

YEAR_BITS, PART_BITS = 14, 7  # of a year below 10,000, and of a month or a day below 100
_DATE = 8  # digits: year, month, day
_MAX_CLASSES = 8
_CODE = Exact("code")  # how a text is encoded by 40 bits of its digest


def check_weights(field: Field, weights: Any, most: int) -> tuple[int, ...]:
    if not isinstance(weights, list | tuple) or not 1 <= len(weights) <= most:
        raise SpecError(f"field {field.column!r}: weights must be a list of 1 to {most} numbers")
    for weight in weights:
        check_whole(weight, f"a weight of field {field.column!r}", 0, MAX_WEIGHT)
    if not any(weights):
        raise SpecError(f"field {field.column!r}: at least one weight must be more than 0.")
    return tuple(weights)


def steps(weights: Sequence[int]) -> list[int]:
    """Points of bits of which each is set where the one before is: their sums are the weights."""
    return [own - after for own, after in zip(weights, [*weights[1:], 0], strict=True)]


@dataclass(frozen=True, slots=True)
class EditLevels(Edit):
    """Texts at edit distance 0, 1, 2, ... have the weights of this list; beyond it none."""

    how: ClassVar[str] = "levels"

    weights: tuple[int, ...] = (1,)
    missing: int = 0

    def __post_init__(self) -> None:
        weights = check_weights(self, self.weights, 5)
        if list(weights) != sorted(weights, reverse=True):
            raise SpecError(f"field {self.column!r}: weights must not grow with the distance.")
        check_whole(self.missing, f"missing of field {self.column!r}", 0, MAX_WEIGHT)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "most", len(weights) - 1)
        object.__setattr__(self, "weight", weights[0])

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "EditLevels":
        keys = ("column", "compare", "weights")
        check_keys(entry, "rule fields", required=keys, optional=("missing",))
        return cls(entry["column"], weights=entry["weights"], missing=entry.get("missing", 0))

    def to_dict(self) -> dict[str, Any]:
        entry = {"column": self.column, "compare": self.how, "weights": list(self.weights)}
        return entry | ({"missing": self.missing} if self.missing else {})

    def describe_points(self) -> str:
        levels = [f"edit distance {d} counts {w}" for d, w in enumerate(self.weights)]
        return ", ".join([*levels, *missing_points(self.missing)])

    @property
    def points(self) -> tuple[int, ...]:
        return (*steps(self.weights), self.missing)

    @property
    def largest(self) -> int:
        return max(*self.weights, self.missing)

    def bits(self, a: Any, b: Any) -> tuple[bool, ...]:
        if a is None or b is None:
            return (*[False] * len(self.weights), True)
        distance = levenshtein(a, b)
        return (*(distance <= d for d in range(len(self.weights))), False)

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.level_parts import EditLevelsPart

        return EditLevelsPart(self, size)


@dataclass(frozen=True, slots=True)
class Dates(Field):
    """Dates of 8 digits, year, month and day, each with a weight where it is equal.

    `exchanged` counts where month and day of one are day and month of the other, and differ. As
    uploaded: year and "missing", then month and day.
    """

    how: ClassVar[str] = "date"

    year: int = 1
    month: int = 1
    day: int = 1
    exchanged: int = 0
    missing: int = 0

    def __post_init__(self) -> None:
        weights = check_weights(self, (self.year, self.month, self.day, self.exchanged), 4)
        check_whole(self.missing, f"missing of field {self.column!r}", 0, MAX_WEIGHT)
        object.__setattr__(self, "weight", sum(weights[:3]))

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "Dates":
        names = ("year", "month", "day", "exchanged", "missing")
        check_keys(entry, "rule fields", required=("column", "compare"), optional=names)
        return cls(entry["column"], **{name: entry[name] for name in names if name in entry})

    def to_dict(self) -> dict[str, Any]:
        parts = {"year": self.year, "month": self.month, "day": self.day}
        parts |= {"exchanged": self.exchanged, "missing": self.missing}
        return {"column": self.column, "compare": self.how, **parts}

    def _check_type(self, column: Column | TextColumn) -> None:
        digits = isinstance(column, TextColumn) and column.signs == "digits"
        if not digits or column.longest < _DATE:  # type: ignore[union-attr]
            raise SpecError(f"field {self.column!r}: date compares columns of 8 digits, 19840131.")

    def _check_tolerance(self, largest: int) -> None:
        """There is none."""

    def describe(self) -> str:
        return "dates"

    def describe_points(self) -> str:
        parts = {"year": self.year, "month": self.month, "day": self.day}
        told = [f"the same {name} counts {weight}" for name, weight in parts.items() if weight]
        told += [f"day and month exchanged {self.exchanged}"] if self.exchanged else []
        return ", ".join([*told, *missing_points(self.missing)])

    @property
    def points(self) -> tuple[int, ...]:
        return (self.year, self.month, self.day, self.exchanged, self.missing)

    @property
    def largest(self) -> int:
        return max(self.year + max(self.month + self.day, self.exchanged), self.missing)

    def size(self, schema: Schema) -> int:
        return YEAR_BITS + 2 * PART_BITS

    def width(self, size: int) -> int:
        return 2

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        if not value:
            return [1, 0]
        if len(value) != _DATE or not value.isascii() or not value.isdecimal():
            raise TableError("a date must have 8 digits, such as 19840131; empty: not known.")
        year, month, day = int(value[:4]), int(value[4:6]), int(value[6:])
        return [year << 1, month | day << PART_BITS]

    def decode(self, entry: Sequence[int]) -> Any:
        first, second = entry
        if first & 1:
            return None
        return first >> 1, second & ((1 << PART_BITS) - 1), second >> PART_BITS

    def _agrees(self, a: Any, b: Any) -> bool:
        return bool(a == b)

    def bits(self, a: Any, b: Any) -> tuple[bool, ...]:
        if a is None or b is None:
            return False, False, False, False, True
        same = tuple(x == y for x, y in zip(a, b, strict=True))
        crossed = a[1] == b[2] and a[2] == b[1] and a[1] != b[1]
        return (*same, crossed, False)

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.level_parts import DatesPart

        return DatesPart(self)


@dataclass(frozen=True, slots=True)
class Swapped(Field):
    """Two columns of texts are exchanged: the first of x is the second of y, and the reverse.

    As uploaded: 40 bits of the digests of both, each with "missing", as exact fields have it. Texts
    that differ are taken as equal with probability 2^-40.
    """

    how: ClassVar[str] = "swapped"

    other: str = ""

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "Swapped":
        keys = ("column", "compare", "other")
        check_keys(entry, "rule fields", required=keys, optional=("weight",))
        if not isinstance(entry["other"], str):
            raise SpecError(f"field {entry['column']!r}: other must be the name of a column")
        return cls(entry["column"], weight=entry.get("weight", 1), other=entry["other"])

    def to_dict(self) -> dict[str, Any]:
        names = {"column": self.column, "compare": self.how, "other": self.other}
        return {**names, "weight": self.weight}

    @property
    def named(self) -> list[str]:
        return [self.column, self.other]

    def check(self, schema: Schema) -> None:
        if self.column == self.other:
            raise SpecError(f"field {self.column!r}: swapped needs two columns.")
        for column in self._both(schema):
            self._check_type(column)

    def _both(self, schema: Schema) -> list[Column | TextColumn]:
        return [self.of(schema), Exact(self.other).of(schema)]

    def _check_type(self, column: Column | TextColumn) -> None:
        if not isinstance(column, TextColumn) or column.signs == "filter":
            raise SpecError(f"field {self.column!r}: swapped compares columns of words or digits.")

    def describe(self) -> str:
        return "exchanged"

    def size(self, schema: Schema) -> int:
        return CODE_BITS

    def width(self, size: int) -> int:
        return 2 * _CODE.width(size)

    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        columns = [table.column(column) for column in self._both(schema)]
        return self.encode_values(list(zip(*columns, strict=True)), self.size(schema))

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        texts = (None, None) if value is None else value
        codes = (None if text is None else _digest(text) for text in texts)
        return [part for code in codes for part in _CODE._encode(code, size, digits)]

    def decode(self, entry: Sequence[int]) -> Any:
        half = len(entry) // 2
        return _CODE.decode(entry[:half]), _CODE.decode(entry[half:])

    def _agrees(self, a: Any, b: Any) -> bool:
        return None not in (*a, *b) and a[0] == b[1] and a[1] == b[0]

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.level_parts import SwappedPart

        return SwappedPart(self)


@dataclass(frozen=True, slots=True)
class FrequencyClasses(Field):
    """Equal texts; the class of the text, from a public table, says what that counts.

    `common` lists the texts of each class, the most frequent first; all others are one class more.
    As uploaded: an exact field of 40 bits of the digest, and the class of the text.
    """

    how: ClassVar[str] = "frequency"

    common: tuple[tuple[str, ...], ...] = ()
    weights: tuple[int, ...] = (1,)
    missing: int = 0

    def __post_init__(self) -> None:
        weights = check_weights(self, self.weights, _MAX_CLASSES + 1)
        check_whole(self.missing, f"missing of field {self.column!r}", 0, MAX_WEIGHT)
        common = tuple(tuple(normalise(text) for text in texts) for texts in self.common)
        known = [text for texts in common for text in texts]
        if len(weights) != len(common) + 1 or len(known) != len(set(known)):
            raise SpecError(
                f"field {self.column!r}: give a weight for each list of common texts and one for "
                "all others; a text stands in one list."
            )
        if list(weights) != sorted(weights):
            raise SpecError(f"field {self.column!r}: weights must grow with rarity.")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "common", common)
        object.__setattr__(self, "weight", weights[-1])

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> "FrequencyClasses":
        keys = ("column", "compare", "common", "weights")
        check_keys(entry, "rule fields", required=keys, optional=("missing",))
        common = entry["common"]
        lists = isinstance(common, list) and all(isinstance(texts, list) for texts in common)
        if not lists or not all(isinstance(text, str) for texts in common for text in texts):
            raise SpecError(f"field {entry['column']!r}: common must be lists of texts")
        classes = tuple(map(tuple, common))
        rest = {"weights": entry["weights"], "missing": entry.get("missing", 0)}
        return cls(entry["column"], common=classes, **rest)

    def to_dict(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"column": self.column, "compare": self.how}
        entry |= {"weights": list(self.weights)}
        entry |= {"missing": self.missing} if self.missing else {}
        return entry | {"common": [list(texts) for texts in self.common]}

    def _check_type(self, column: Column | TextColumn) -> None:
        if not isinstance(column, TextColumn) or column.signs == "filter":
            raise SpecError(f"field {self.column!r}: frequency compares columns of words.")

    def _check_tolerance(self, largest: int) -> None:
        """There is none."""

    def describe(self) -> str:
        return "equal, by how common it is"

    def describe_points(self) -> str:
        told = [
            f"the same of {len(texts)} common ones counts {weight}"
            for texts, weight in zip(self.common, self.weights, strict=False)
        ]
        told.append(f"any other that is the same {self.weights[-1]}")
        return ", ".join([*told, *missing_points(self.missing)])

    @property
    def points(self) -> tuple[int, ...]:
        rises = np.diff(self.weights).tolist()
        return (self.weights[0], *rises, self.missing)

    @property
    def largest(self) -> int:
        return max(*self.weights, self.missing)

    def size(self, schema: Schema) -> int:
        return CODE_BITS

    def width(self, size: int) -> int:
        return _CODE.width(size) + 1

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        code = None if value is None else _digest(value)
        return [*_CODE._encode(code, size, digits), 0 if value is None else self.rarity(value)]

    def rarity(self, text: str) -> int:
        """Bits of the classes that a text is rarer than, the most common first."""
        known = {each: place for place, texts in enumerate(self.common) for each in texts}
        return (1 << known.get(text, len(self.common))) - 1

    def decode(self, entry: Sequence[int]) -> Any:
        code = _CODE.decode(entry[:-1])
        return None if code is None else (code, entry[-1])

    def _agrees(self, a: Any, b: Any) -> bool:
        return bool(a[0] == b[0])

    def bits(self, a: Any, b: Any) -> tuple[bool, ...]:
        classes = len(self.common)
        if a is None or b is None:
            return (*[False] * (classes + 1), True)
        equal = self._agrees(a, b)
        return (equal, *(equal and bool(a[1] >> c & 1) for c in range(classes)), False)

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.level_parts import FrequencyPart

        return FrequencyPart(self)


def _digest(text: str) -> int:
    return whole(
        int.from_bytes(hashlib.sha256(text.encode()).digest()[: CODE_BITS // 8], "little"),
        CODE_BITS,
    )


def missing_points(missing: int) -> list[str]:
    return [f"a missing value {missing}"] if missing else []


LEVEL_KINDS: tuple[type[Field], ...] = (EditLevels, Dates, Swapped, FrequencyClasses)


def levels(column: str, weights: Sequence[int], *, missing: int = 0) -> EditLevels:
    """Texts at edit distance 0, 1, 2, ... count `weights[0]`, `weights[1]`, ..."""
    return EditLevels(column, weights=tuple(weights), missing=missing)


def date(
    column: str,
    *,
    year: int = 1,
    month: int = 1,
    day: int = 1,
    exchanged: int = 0,
    missing: int = 0,
) -> Dates:
    """Dates of 8 digits: weights of the same year, month, day, and of day and month exchanged."""
    return Dates(column, year=year, month=month, day=day, exchanged=exchanged, missing=missing)


def swapped(column: str, other: str, *, weight: int = 1) -> Swapped:
    """Two columns of texts that are exchanged, such as first and last name."""
    return Swapped(column, weight=weight, other=other)


def frequency(
    column: str, common: Sequence[Sequence[str]], weights: Sequence[int], *, missing: int = 0
) -> FrequencyClasses:
    """Equal texts: `weights[0]` for those in `common[0]`, ..., the last weight for all others."""
    classes = tuple(map(tuple, common))
    return FrequencyClasses(column, common=classes, weights=tuple(weights), missing=missing)


def from_frequencies(
    column: str, counts: Mapping[str, int], shares: Sequence[float], weights: Sequence[int]
) -> FrequencyClasses:
    """Classes of a public table of counts: texts with at least these shares of all, descending."""
    total, classes, left = sum(counts.values()), [], dict(counts)
    for share in shares:
        taken = sorted(text for text, count in left.items() if count >= share * total)
        classes.append(taken)
        left = {text: count for text, count in left.items() if text not in set(taken)}
    return frequency(column, classes, weights)
