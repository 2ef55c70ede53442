"""Rule `dice` (bit filters): 2 |a and b| / (|a| + |b|) >= p / q.

In whole numbers: 2 q |a and b| >= p (|a| + |b|). A filter without any bit is no filter: owners
refuse it. As a record, a filter is the whole number whose binary digits are its bits.
"""

import base64
import binascii
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import SpecError, TableError
from ppodc.linkage.rules.rule import MAX_WEIGHT, CellError, Ints, Record, Rule, Thresholds
from ppodc.records.schema import Schema
from ppodc.toml_document import check_whole, fraction

if TYPE_CHECKING:
    from ppodc.linkage.compare.filter_match import FilterMatcher
    from ppodc.linkage.owner_table import OwnerTable

_MAX_FILTER = 1 << 14


@dataclass(frozen=True, slots=True)
class Dice(Rule):
    """Bit filters of `bits` bits: twice the common ones over all ones, at least `threshold`."""

    name: ClassVar[str] = "dice"
    keys: ClassVar[tuple[str, ...]] = ("bits", "threshold")

    bits: int
    threshold: Fraction

    def __post_init__(self) -> None:
        check_whole(self.bits, "bits of a filter", 1, _MAX_FILTER)
        object.__setattr__(self, "threshold", fraction(self.threshold, "threshold of dice"))
        if not 0 < self.threshold <= 1:
            raise SpecError("the threshold of dice must be above 0 and at most 1.")
        if self.threshold.denominator > MAX_WEIGHT:
            raise SpecError("write the threshold of dice with fewer digits.")

    @property
    def batch_pairs(self) -> int:
        return (1 << 24) // self.bits

    def check(self, schema: Schema) -> None:
        if [(text.signs, text.longest) for text in schema.texts] != [("filter", self.bits)]:
            raise SpecError(f"rule dice needs one column of texts, a filter of {self.bits} bits.")

    def describe(self) -> str:
        return f"the Dice coefficient of their filters is at least {float(self.threshold):g}"

    def columns(self, schema: Schema) -> int:
        return self.bits

    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        none = np.zeros(self.bits, np.uint8)
        filters = table.cells(schema.texts[0].name, self._bits, none, needed=True)
        return np.array(filters, np.int64).reshape(len(filters), self.bits)

    def _bits(self, value: Any) -> NDArray[np.uint8]:
        """Bits of a filter in base64; CellError with the reason if it is none."""
        try:
            data = base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise CellError("not base64") from None
        bits = np.unpackbits(np.frombuffer(data, np.uint8))
        if len(data) != -(-self.bits // 8) or bits[self.bits :].any():
            raise CellError(f"not a filter of {self.bits} bits")
        if not bits.any():
            raise CellError("a filter without any bit")
        return bits[: self.bits]

    def decode(self, values: Ints, schema: Schema) -> list[Record]:
        return [(int("".join(map(str, row)), 2),) for row in values[:, : self.bits].tolist()]

    def matches(self, x: Record, y: Record) -> bool:
        common, ones = _counts(x, y)
        return 2 * self.threshold.denominator * common >= self.threshold.numerator * ones

    def score(self, x: Record, y: Record) -> float:
        common, ones = _counts(x, y)
        return 2 * common / ones

    def thresholds(self) -> Thresholds:
        own = float(self.threshold)
        return Thresholds(own, sorted({0.5, 0.6, 0.7, 0.8, 0.9, own}), at_least=True)

    def matcher(self, schema: Schema) -> "FilterMatcher":
        from ppodc.linkage.compare.filter_match import FilterMatcher

        return FilterMatcher(self)


def dice(bits: int, *, threshold: float | str | Fraction) -> Dice:
    """Bit filters match if their Dice coefficient is at least the threshold; 0.7 means 7/10."""
    return Dice(bits, fraction(threshold, "threshold of dice"))


def _counts(x: Record, y: Record) -> tuple[int, int]:
    """Common bits of two filters, and the bits of both."""
    a, b = int(x[0]), int(y[0])
    if not a or not b:
        raise TableError("a filter without any bit cannot be compared.")
    return (a & b).bit_count(), a.bit_count() + b.bit_count()
