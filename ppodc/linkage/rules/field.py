"""Fields of the rule `fields`: one comparison of one column, and its simple kinds.

`Exact`: equal. `Edit`: within an edit distance. `Numeric`: within a difference of whole numbers. A
missing value agrees with nothing. `levels` has kinds with several weights.

A comparison gives bits, each with its points; the points of the bits that are set add up.

An owner uploads a field as columns of small numbers. The *size* of a field follows from its column:
the most characters of a text within an edit distance, the bits of any other value.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ppodc.errors import InputError, SpecError, TableError
from ppodc.linkage.blocks.candidates import BATCH_PAIRS
from ppodc.linkage.exact_codes import number_bits, text_bits, text_code
from ppodc.linkage.rules.outcomes import Bits, Outcomes
from ppodc.linkage.rules.rule import MAX_WEIGHT, Ints
from ppodc.linkage.symbols import MAX_LENGTH, NONE, codes, levenshtein
from ppodc.records.schema import Column, Schema, TextColumn
from ppodc.toml_document import check_keys, check_whole, plain

if TYPE_CHECKING:
    from ppodc.linkage.compare.field_parts import FieldPart
    from ppodc.linkage.owner_table import OwnerTable

COLUMN_BITS = 20  # the most bits of an uploaded number


@dataclass(frozen=True, slots=True)
class Field(ABC):
    """One comparison; `most` is its tolerance."""

    how: ClassVar[str]  # in a spec
    keys: ClassVar[tuple[str, ...]] = ("max", "weight")  # of an entry in a spec, in this order
    required: ClassVar[tuple[str, ...]] = ()  # of these
    most_allowed: ClassVar[int] = 0  # 0: there is no tolerance

    column: str
    most: int = 0
    weight: int = 1

    def __post_init__(self) -> None:
        check_whole(self.most, f"max of {self.where}", 0, self.most_allowed)
        check_whole(self.weight, f"weight of {self.where}", 1, MAX_WEIGHT)

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Self:
        """Parse an entry of `fields` in a spec."""
        required = ("column", "compare", *cls.required)
        optional = [key for key in cls.keys if key not in cls.required]
        check_keys(entry, "rule fields", required=required, optional=optional)
        given = {_attribute(key): entry[key] for key in entry if key != "compare"}
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry that `from_dict` reads."""
        values = {key: plain(getattr(self, _attribute(key))) for key in self.keys}
        return {"column": self.column, "compare": self.how, **values}

    @property
    def where(self) -> str:
        """The field, as errors name it."""
        return f"field {self.column!r}"

    @property
    def named(self) -> list[str]:
        """Columns that the field compares."""
        return [self.column]

    @property
    def points(self) -> tuple[int, ...]:
        """Points of each bit of the comparison."""
        return (self.weight,)

    @property
    def largest(self) -> int:
        """The most points that a pair can get."""
        return self.weight

    @abstractmethod
    def describe(self) -> str:
        """Say what the field counts for what."""

    # ---------------------------------------------------------------- columns

    def check(self, schema: Schema) -> None:
        """Refuse a column that the field does not fit, and a tolerance that any two values meet."""
        column = self.of(schema)
        self._check_type(column)
        largest = column.longest if isinstance(column, TextColumn) else self._whole_range(column)
        if self.most_allowed and self.most >= largest:
            raise SpecError(
                f"{self.where}: with max {self.most} any two values would agree: they are at most "
                f"{largest} apart."
            )

    def _whole_range(self, column: Column) -> int:
        if column.high - column.low >= 1 << COLUMN_BITS or column.low % 1 or column.high % 1:
            raise SpecError(
                f"{self.where}: a field of numbers needs whole bounds less than 2^20 apart."
            )
        return int(column.high - column.low)

    def of(self, schema: Schema) -> Column | TextColumn:
        """Return the column that the field compares."""
        return self._found(schema, self.column)

    def _found(self, schema: Schema, name: str) -> Column | TextColumn:
        found = schema.named(name)
        if found is None:
            raise SpecError(f"field {name!r} is no column of the schema.")
        return found

    def _check_type(self, column: Column | TextColumn) -> None:
        """Refuse a column of the wrong type: most fields compare texts."""
        self._text(column)

    def _text(self, column: Column | TextColumn) -> TextColumn:
        if not isinstance(column, TextColumn) or column.signs == "filter":
            raise SpecError(f"{self.where}: {self.how} compares columns of words or digits.")
        return column

    # -------------------------------------------------------------- encoding

    def size(self, schema: Schema) -> int:
        """Characters of a text within an edit distance, bits of any other value."""
        column = self.of(schema)
        return text_bits(column) if isinstance(column, TextColumn) else number_bits(column)

    @abstractmethod
    def width(self, size: int) -> int:
        """Columns of a field of this size as uploaded."""

    @property
    def batch_pairs(self) -> int:
        """Pairs that are compared at a time, so that they fit in memory."""
        return BATCH_PAIRS

    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        """Encode an owner's column: (rows, width)."""
        column = self.of(schema)
        digits = isinstance(column, TextColumn) and column.signs == "digits"
        return self.encode_values(self._read(table, column), self.size(schema), digits=digits)

    def _read(self, table: "OwnerTable", column: Column | TextColumn) -> Sequence[Any]:
        """Read the values that `encode_values` takes."""
        return table.column(column)

    def encode_values(self, values: Sequence[Any], size: int, *, digits: bool = False) -> Ints:
        """Encode values: (rows, width).

        They are codes or whole numbers of `size` bits, texts of at most `size` characters
        (`digits`: in a column of digits), or None where one is missing.
        """
        rows = []
        for number, value in enumerate(values, 1):
            try:
                rows.append(self._encode(value, size, digits))
            except InputError as error:
                raise TableError(f"row {number}, column {self.column!r}: {error}") from None
        return np.array(rows, np.int64).reshape(len(rows), self.width(size))

    @abstractmethod
    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        """Encode one value."""

    @abstractmethod
    def decode(self, entry: Sequence[int]) -> Any:
        """Return the value of one encoded row as `bits` compares it; None if it is missing."""

    # ------------------------------------------------------------- comparing

    def bits(self, a: Any, b: Any) -> Bits:
        """Bits of the comparison of two values: the protocols reproduce them."""
        if a is None or b is None:
            return (False,) * len(self.points)
        return self._bits(a, b)

    @abstractmethod
    def _bits(self, a: Any, b: Any) -> Bits:
        """Bits of two values that are present."""

    def score(self, a: Any, b: Any) -> int:
        """Points of two values."""
        return sum(p for p, bit in zip(self.points, self.bits(a, b), strict=True) if bit)

    @abstractmethod
    def part(self, size: int) -> "FieldPart":
        """Return the comparison on shares."""

    # ------------------------------------------------------------- suggesting

    def levelled(self, schema: Schema) -> "Field":
        """The field with a weight for each level and points for missing texts, if it has any."""
        return self

    def weighed(self, outcomes: Outcomes) -> "Field":
        """The field with the weights that these frequencies of its outcomes make."""
        return replace(self, weight=max(1, outcomes.gain((True,))))


@dataclass(frozen=True, slots=True)
class Exact(Field):
    """Values are equal.

    As uploaded: a bit that says whether the value is missing, then those of its code
    (`exact_codes`), cut into columns of at most 20 bits.
    """

    how: ClassVar[str] = "exact"

    def _check_type(self, column: Column | TextColumn) -> None:
        if isinstance(column, TextColumn) and column.signs == "filter":
            raise SpecError(f"{self.where}: a filter is compared by the rule dice.")

    def describe(self) -> str:
        return f"equal, weight {self.weight}"

    def width(self, size: int) -> int:
        return -(-(size + 1) // COLUMN_BITS)

    def column_bits(self, size: int) -> int:
        """Bits in each column: they are shared out evenly."""
        return -(-(size + 1) // self.width(size))

    def _read(self, table: "OwnerTable", column: Column | TextColumn) -> Sequence[Any]:
        values = table.column(column)
        if not isinstance(column, TextColumn):
            return values
        return [None if value is None else text_code(column, value) for value in values]

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        word = 1 if value is None else whole(value, size) << 1
        return cut(word, self.width(size), self.column_bits(size))

    def decode(self, entry: Sequence[int]) -> Any:
        return None if entry[0] & 1 else tuple(entry)

    def _bits(self, a: Any, b: Any) -> Bits:
        return (a == b,)

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.field_parts import ExactPart

        return ExactPart(self, size)

    def levelled(self, schema: Schema) -> Field:
        from ppodc.linkage.rules.levels import FrequencyClasses

        text = isinstance(self.of(schema), TextColumn)
        return FrequencyClasses(self.column) if text else self


@dataclass(frozen=True, slots=True)
class Numeric(Field):
    """Whole numbers differ by at most `most`.

    As uploaded: the number, and a bit that says whether there is one.
    """

    how: ClassVar[str] = "numeric"
    most_allowed: ClassVar[int] = 1 << COLUMN_BITS

    def _check_type(self, column: Column | TextColumn) -> None:
        if isinstance(column, TextColumn):
            raise SpecError(f"{self.where}: numeric compares columns of numbers.")

    def describe(self) -> str:
        return f"at most {self.most} apart, weight {self.weight}"

    def width(self, size: int) -> int:
        return 2

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        return [0, 0] if value is None else [whole(value, size), 1]

    def decode(self, entry: Sequence[int]) -> Any:
        return entry[0] if entry[1] else None

    def _bits(self, a: Any, b: Any) -> Bits:
        return (abs(int(a) - int(b)) <= self.most,)

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.field_parts import NumericPart

        return NumericPart(self, size)


@dataclass(frozen=True, slots=True)
class Edit(Field):
    """Texts are within an edit distance of `most`.

    As uploaded: codes of the characters (`symbols`), filled up to size + most with "no character",
    and a bit that says whether the value is missing.
    """

    how: ClassVar[str] = "edit"
    most_allowed: ClassVar[int] = MAX_LENGTH

    def describe(self) -> str:
        return f"edit distance at most {self.most}, weight {self.weight}"

    def size(self, schema: Schema) -> int:
        return self._text(self.of(schema)).longest

    def width(self, size: int) -> int:
        return size + self.most + 1

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        if value is not None and not isinstance(value, str):
            raise TableError("a text is needed.")
        text = codes(value or "", digits=digits)
        if len(text) > size:
            raise TableError(f"the text has {len(text)} characters, more than {size}.")
        return [*text, *[NONE] * (size + self.most - len(text)), int(value is None)]

    def decode(self, entry: Sequence[int]) -> Any:
        return None if entry[-1] else tuple(code for code in entry[:-1] if code != NONE)

    def _bits(self, a: Any, b: Any) -> Bits:
        return (levenshtein(a, b) <= self.most,)

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.field_parts import EditPart

        return EditPart(self, size)

    def levelled(self, schema: Schema) -> Field:
        from ppodc.linkage.rules.levels import EditLevels

        return EditLevels(self.column, weights=(1,) * (self.most + 1))


def exact(column: str, *, weight: int = 1) -> Exact:
    """A field whose values must be equal."""
    return Exact(column, 0, weight)


def edit(column: str, *, max: int, weight: int = 1) -> Edit:  # noqa: A002 - as in the spec file
    """A field within an edit distance."""
    return Edit(column, max, weight)


def numeric(column: str, *, max: int, weight: int = 1) -> Numeric:  # noqa: A002 - as above
    """A field within a difference of encoded values."""
    return Numeric(column, max, weight)


def _attribute(key: str) -> str:
    """The attribute of a field that a key of a spec stands for."""
    return "most" if key == "max" else key


def cut(word: int, columns: int, bits: int) -> list[int]:
    """A number cut into columns of some bits each, the lowest first."""
    return [word >> bits * place & ((1 << bits) - 1) for place in range(columns)]


def whole(value: Any, bits: int) -> int:
    if not isinstance(value, int | np.integer) or not 0 <= value < 1 << bits:
        raise TableError(f"a number must be whole and from 0 to {(1 << bits) - 1}.")
    return int(value)
