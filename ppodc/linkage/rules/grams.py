"""Field `grams`: the Dice coefficient of the q-grams of two texts, with a weight for each level.

The grams of a text are its runs of q characters, the text framed by q - 1 signs "no character" at
either end, each run once: "anna" has the bigrams .a an nn na a. (a dot stands for the sign). With
A and B the grams of two texts, 2 |A and B| / (|A| + |B|) is compared with each limit as a fraction:
nothing is rounded. Characters are those of `symbols`, as for an edit distance.

As uploaded: a bit that says whether the text is missing, then one for every possible gram, cut into
columns of at most 20 bits. Words have 32 characters and so 1,024 bigrams; digits have 12, so 144.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from ppodc.errors import SpecError
from ppodc.linkage.rules.field import COLUMN_BITS, cut
from ppodc.linkage.rules.levels import Weights
from ppodc.linkage.rules.outcomes import Bits
from ppodc.linkage.symbols import NONE, OTHER, codes
from ppodc.records.schema import Schema
from ppodc.toml_document import check_whole, fraction

if TYPE_CHECKING:
    from ppodc.linkage.compare.field_parts import FieldPart

MOST_GRAMS = 2048  # possible ones of a field: each costs a transfer for every pair
_MOST_LEVELS = 5
_FINEST = 1000  # denominator of a limit
_SYMBOLS = {"words": 32, "digits": 12}
_DIGIT_PLACES = {OTHER: 10, NONE: 11}  # of the codes beside 0..9 in a column of digits


@dataclass(frozen=True, slots=True)
class Grams(Weights):
    """Texts whose Dice coefficient reaches a limit of `least` have the weight beside it."""

    how: ClassVar[str] = "grams"
    keys: ClassVar[tuple[str, ...]] = ("q", "least", "weights", "missing")
    required: ClassVar[tuple[str, ...]] = ("least", "weights")

    least: tuple[Fraction, ...] = (Fraction(4, 5),)
    q: int = 2

    def __post_init__(self) -> None:
        where = self.where
        check_whole(self.q, f"q of {where}", 1, 3)
        if not isinstance(self.least, list | tuple):
            raise SpecError(f"{where}: least must be a list of numbers")
        least = tuple(fraction(limit, f"least of {where}") for limit in self.least)
        weights = self._checked(self.weights, _MOST_LEVELS)
        if list(least) != sorted(set(least), reverse=True) or len(least) != len(weights):
            raise SpecError(
                f"{where}: give falling limits, such as least = [0.9, 0.7], and as many weights."
            )
        if not all(0 < limit <= 1 and limit.denominator <= _FINEST for limit in least):
            raise SpecError(
                f"{where}: a limit of least must be above 0, at most 1 and of at most 3 digits."
            )
        self._keep_falling(_MOST_LEVELS)
        object.__setattr__(self, "least", least)

    def check(self, schema: Schema) -> None:
        possible = self.size(schema)
        if possible > MOST_GRAMS:
            raise SpecError(
                f"{self.where}: these characters make {possible:,} {self.q}-grams, and at most "
                f"{MOST_GRAMS:,} can be compared: take a smaller q."
            )

    def _told(self) -> list[str]:
        both = zip(self.least, self.weights, strict=True)
        return [f"Dice of {self.q}-grams from {float(p):g} on counts {w}" for p, w in both]

    def size(self, schema: Schema) -> int:
        """Number of possible grams."""
        return int(_SYMBOLS[self._text(self.of(schema)).signs] ** self.q)

    @property
    def batch_pairs(self) -> int:
        return (1 << 24) // MOST_GRAMS

    def width(self, size: int) -> int:
        return -(-(size + 1) // COLUMN_BITS)

    def _encode(self, value: Any, size: int, digits: bool) -> list[int]:
        word = 1 if value is None else self.grams(value, digits=digits) << 1
        return cut(word, self.width(size), COLUMN_BITS)

    def grams(self, text: str, *, digits: bool) -> int:
        """Set of a text's grams: bit g stands for gram g."""
        signs = codes(text, digits=digits)
        frame = [NONE] * (self.q - 1)
        framed = [*frame, *signs, *frame]
        base = _SYMBOLS["digits" if digits else "words"]
        if digits:
            framed = [_DIGIT_PLACES.get(code, code) for code in framed]
        found = 0
        for start in range(len(framed) - self.q + 1):
            gram = 0
            for code in framed[start : start + self.q]:
                gram = gram * base + code
            found |= 1 << gram
        return found

    def decode(self, entry: Sequence[int]) -> Any:
        word = sum(part << COLUMN_BITS * place for place, part in enumerate(entry))
        return None if word & 1 else word >> 1

    def _bits(self, a: Any, b: Any) -> Bits:
        """Whether each limit is reached; two texts without any gram are equal."""
        common, ones = (a & b).bit_count(), a.bit_count() + b.bit_count()
        return tuple(2 * p.denominator * common >= p.numerator * ones for p in self.least)

    def part(self, size: int) -> "FieldPart":
        from ppodc.linkage.compare.gram_parts import GramsPart

        return GramsPart(self, size)


def grams(
    column: str,
    least: float | str | Fraction | Sequence[float | str | Fraction] = 0.8,
    weights: int | Sequence[int] = 1,
    *,
    q: int = 2,
    missing: int = 0,
) -> Grams:
    """Texts whose q-grams have a Dice coefficient of `least[0]` or more count `weights[0]`, ..."""
    limits = [least] if isinstance(least, int | float | str | Fraction) else list(least)
    counted = [weights] if isinstance(weights, int) else list(weights)
    known = tuple(fraction(limit, f"least of field {column!r}") for limit in limits)
    return Grams(column, least=known, weights=tuple(counted), q=q, missing=missing)
