"""Fields with several weights: a comparison says how much two values agree, not only whether.

`EditLevels`: a weight for equal texts, another for one edit, for two edits. `Dates`: weights for
the year, the month and the day, and for day and month exchanged. `Swapped`: first and last name
exchanged. `FrequencyClasses`: equal texts, of which a rare one counts more than a common one.

Values that are there and differ get 0 points. A missing value says less against a match than a
different one: `missing` are the points of a pair of which at least one value is missing.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ppodc.errors import SpecError, TableError
from ppodc.linkage.exact_codes import CODE_BITS, digest_code
from ppodc.linkage.rules.field import Edit, Exact, Field
from ppodc.linkage.rules.outcomes import Bits, Outcomes
from ppodc.linkage.rules.rule import MAX_WEIGHT, Ints
from ppodc.linkage.symbols import levenshtein, normalise
from ppodc.records.schema import Column, Schema, TextColumn
from ppodc.toml_document import check_whole

if TYPE_CHECKING:
    from ppodc.linkage.compare.field_parts import FieldPart
    from ppodc.linkage.owner_table import OwnerTable

YEAR_BITS, PART_BITS = 14, 7  # of a year below 10,000, and of a month or a day below 100
_DATE = 8  # digits: year, month, day
_MAX_CLASSES = 8
_CODE = Exact("code")  # how a text is encoded by 40 bits of its digest


@dataclass(frozen=True, slots=True)
class Levelled(Field):
    """A field with several bits, of which the last says that a value is missing."""

    missing: int = 0

    def to_dict(self) -> dict[str, Any]:
        entry = Field.to_dict(self)
        return entry if self.missing else {k: v for k, v in entry.items() if k != "missing"}

    def _checked(self, weights: Any, most: int) -> tuple[int, ...]:
        """Weights of a spec, 1 to `most` of them."""
        check_whole(self.missing, f"missing of {self.where}", 0, MAX_WEIGHT)
        if not isinstance(weights, list | tuple) or not 1 <= len(weights) <= most:
            raise SpecError(f"{self.where}: weights must be a list of 1 to {most} numbers")
        for weight in weights:
            check_whole(weight, f"a weight of {self.where}", 0, MAX_WEIGHT)
        if not any(weights):
            raise SpecError(f"{self.where}: at least one weight must be more than 0.")
        return tuple(weights)

    def describe(self) -> str:
        missing = [f"a missing value {self.missing}"] if self.missing else []
        return ", ".join([*self._told(), *missing])

    @abstractmethod
    def _told(self) -> list[str]:
        """Say what each level counts."""

    def bits(self, a: Any, b: Any) -> Bits:
        if a is None or b is None:
            return self._absent
        return (*self._bits(a, b), False)

    @property
    def _absent(self) -> Bits:
        """Bits of a pair of which a value is missing."""
        return (*[False] * (len(self.points) - 1), True)


@dataclass(frozen=True, slots=True)
class Weights(Levelled):
    """A field with a list of weights, of which a pair gets one: the more alike, the earlier."""

    weights: tuple[int, ...] = (1,)

    def _keep_falling(self, most: int) -> None:
        weights = self._checked(self.weights, most)
        if list(weights) != sorted(weights, reverse=True):
            raise SpecError(f"{self.where}: weights must not grow as texts get less alike.")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "weight", weights[0])

    @property
    def points(self) -> tuple[int, ...]:
        """Each bit is set where the one before is, so that sums of points are the weights."""
        falls = [own - after for own, after in pairwise((*self.weights, 0))]
        return (*falls, self.missing)

    @property
    def largest(self) -> int:
        return max(*self.weights, self.missing)

    def weighed(self, outcomes: Outcomes) -> Field:
        most = len(self.weights)
        levels = [(False,) * d + (True,) * (most - d) + (False,) for d in range(most)]
        found = [max(0, outcomes.gain(level)) for level in levels]
        weights = np.maximum.accumulate(found[::-1])[::-1].tolist()
        weights[0] = max(1, weights[0])
        missing = max(0, outcomes.gain(self._absent))
        return replace(self, weights=tuple(weights), missing=missing)


@dataclass(frozen=True, slots=True)
class EditLevels(Weights, Edit):
    """Texts at edit distance 0, 1, 2, ... have the weights of this list; beyond it none."""

    how: ClassVar[str] = "levels"
    keys: ClassVar[tuple[str, ...]] = ("weights", "missing")
    required: ClassVar[tuple[str, ...]] = ("weights",)

    def __post_init__(self) -> None:
        self._keep_falling(5)
        object.__setattr__(self, "most", len(self.weights) - 1)

    def _told(self) -> list[str]:
        return [f"edit distance {d} counts {w}" for d, w in enumerate(self.weights)]

    def _bits(self, a: Any, b: Any) -> Bits:
        distance = levenshtein(a, b)
        return tuple(distance <= d for d in range(len(self.weights)))

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.level_parts import EditLevelsPart

        return EditLevelsPart(self, size)

    def levelled(self, schema: Schema) -> Field:
        return self


@dataclass(frozen=True, slots=True)
class Dates(Levelled):
    """Dates of 8 digits, year, month and day, each with a weight where it is equal.

    `exchanged` counts where month and day of one are day and month of the other, and differ. As
    uploaded: year and "missing", then month and day.
    """

    how: ClassVar[str] = "date"
    keys: ClassVar[tuple[str, ...]] = ("year", "month", "day", "exchanged", "missing")

    year: int = 1
    month: int = 1
    day: int = 1
    exchanged: int = 0

    def __post_init__(self) -> None:
        weights = self._checked((self.year, self.month, self.day, self.exchanged), 4)
        object.__setattr__(self, "weight", sum(weights[:3]))

    def to_dict(self) -> dict[str, Any]:
        return Field.to_dict(self)  # with `missing` in any case

    def _check_type(self, column: Column | TextColumn) -> None:
        digits = isinstance(column, TextColumn) and column.signs == "digits"
        if not digits or column.longest < _DATE:  # type: ignore[union-attr]
            raise SpecError(f"{self.where}: date compares columns of 8 digits, 19840131.")

    def _told(self) -> list[str]:
        parts = {"year": self.year, "month": self.month, "day": self.day}
        told = [f"the same {name} counts {weight}" for name, weight in parts.items() if weight]
        return [*told, *([f"day and month exchanged {self.exchanged}"] if self.exchanged else [])]

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

    def _bits(self, a: Any, b: Any) -> Bits:
        same = tuple(x == y for x, y in zip(a, b, strict=True))
        return (*same, a[1] == b[2] and a[2] == b[1] and a[1] != b[1])

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.level_parts import DatesPart

        return DatesPart(self)

    def weighed(self, outcomes: Outcomes) -> Field:
        """Weights of year, month, day and of exchanged ones, each by itself."""
        year, month, day, exchanged = (max(0, outcomes.odds(place)) for place in range(4))
        return replace(
            self,
            year=year if year or month or day or exchanged else 1,
            month=month,
            day=day,
            exchanged=exchanged,
            missing=max(0, outcomes.gain(self._absent)),
        )


@dataclass(frozen=True, slots=True)
class Swapped(Field):
    """Two columns of texts are exchanged: the first of x is the second of y, and the reverse.

    As uploaded: 40 bits of the digests of both, each with "missing", as exact fields have it. Texts
    that differ are taken as equal with probability 2^-40.
    """

    how: ClassVar[str] = "swapped"
    keys: ClassVar[tuple[str, ...]] = ("other", "weight")
    required: ClassVar[tuple[str, ...]] = ("other",)

    other: str = ""

    def __post_init__(self) -> None:
        Field.__post_init__(self)
        if not isinstance(self.other, str):
            raise SpecError(f"{self.where}: other must be the name of a column")

    @property
    def named(self) -> list[str]:
        return [self.column, self.other]

    def check(self, schema: Schema) -> None:
        if self.column == self.other:
            raise SpecError(f"{self.where}: swapped needs two columns.")
        for column in self._both(schema):
            self._check_type(column)

    def _both(self, schema: Schema) -> list[Column | TextColumn]:
        return [self._found(schema, name) for name in self.named]

    def describe(self) -> str:
        return f"exchanged, weight {self.weight}"

    def size(self, schema: Schema) -> int:
        return CODE_BITS

    def width(self, size: int) -> int:
        return 2 * _CODE.width(size)

    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        columns = [table.column(column) for column in self._both(schema)]
        return self.encode_values(list(zip(*columns, strict=True)), self.size(schema))

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        texts = (None, None) if value is None else value
        return [part for text in texts for part in _encoded(text, size)]

    def decode(self, entry: Sequence[int]) -> Any:
        half = len(entry) // 2
        return _CODE.decode(entry[:half]), _CODE.decode(entry[half:])

    def _bits(self, a: Any, b: Any) -> Bits:
        return (None not in (*a, *b) and a[0] == b[1] and a[1] == b[0],)

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.level_parts import SwappedPart

        return SwappedPart(self)


@dataclass(frozen=True, slots=True)
class FrequencyClasses(Weights):
    """Equal texts; the class of the text, from a public table, says what that counts.

    `common` lists the texts of each class, the most frequent first; all others are one class more.
    Weights grow with rarity. As uploaded: an exact field of 40 bits of the digest, and the class.
    """

    how: ClassVar[str] = "frequency"
    keys: ClassVar[tuple[str, ...]] = ("weights", "missing", "common")
    required: ClassVar[tuple[str, ...]] = ("common", "weights")

    common: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        weights = self._checked(self.weights, _MAX_CLASSES + 1)
        if not _is_lists(self.common) or not all(
            isinstance(text, str) for texts in self.common for text in texts
        ):
            raise SpecError(f"{self.where}: common must be lists of texts")
        common = tuple(tuple(normalise(text) for text in texts) for texts in self.common)
        known = [text for texts in common for text in texts]
        if len(weights) != len(common) + 1 or len(known) != len(set(known)):
            raise SpecError(
                f"{self.where}: give a weight for each list of common texts and one for all "
                "others; a text stands in one list."
            )
        if list(weights) != sorted(weights):
            raise SpecError(f"{self.where}: weights must grow with rarity.")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "common", common)
        object.__setattr__(self, "weight", weights[-1])

    def _told(self) -> list[str]:
        told = [
            f"the same of {len(texts)} common ones counts {weight}"
            for texts, weight in zip(self.common, self.weights, strict=False)
        ]
        return [*told, f"any other that is the same {self.weights[-1]}"]

    @property
    def points(self) -> tuple[int, ...]:
        rises = np.diff(self.weights).tolist()
        return (self.weights[0], *rises, self.missing)

    def size(self, schema: Schema) -> int:
        return CODE_BITS

    def width(self, size: int) -> int:
        return _CODE.width(size) + 1

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        return [*_encoded(value, size), 0 if value is None else self.rarity(value)]

    def rarity(self, text: str) -> int:
        """Bits of the classes that a text is rarer than, the most common first."""
        known = {each: place for place, texts in enumerate(self.common) for each in texts}
        return (1 << known.get(text, len(self.common))) - 1

    def decode(self, entry: Sequence[int]) -> Any:
        code = _CODE.decode(entry[:-1])
        return None if code is None else (code, entry[-1])

    def _bits(self, a: Any, b: Any) -> Bits:
        equal = a[0] == b[0]
        return (equal, *(equal and bool(a[1] >> c & 1) for c in range(len(self.common))))

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.level_parts import FrequencyPart

        return FrequencyPart(self)

    def weighed(self, outcomes: Outcomes) -> Field:
        if self.common:  # its weights come from public frequencies, beside another field
            return self
        missing = max(0, outcomes.gain(self._absent))
        return replace(self, weights=(max(1, outcomes.gain((True, False))),), missing=missing)


def _is_lists(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(x, list | tuple) for x in value)


def _encoded(text: str | None, size: int) -> list[int]:
    """A text as an exact field of its digest."""
    return _CODE._encode(None if text is None else digest_code(text), size, False)


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
