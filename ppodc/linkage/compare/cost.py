"""Cost of comparing a pair, for estimates: seconds of one core at each cloud, bytes each way.

Rates are those that `ppodc bench linkage-pairs` has measured: good for orders of magnitude.
"""

from dataclasses import dataclass

_ANDS = 1.0e7  # AND pairs a second, made and used
_AND_BYTES = 4.4
_TRANSFERS = 7.4e6  # a second
_SIGN_SECONDS, _SIGN_BYTES, _SIGN_BITS = 1.2e-6, 69.0, 17  # of one comparison


@dataclass(frozen=True, slots=True)
class PairCost:
    """Seconds, and bytes that each cloud sends."""

    seconds: float = 0.0
    size: float = 0.0

    def __add__(self, other: "PairCost") -> "PairCost":
        return PairCost(self.seconds + other.seconds, self.size + other.size)


def ands(count: float) -> PairCost:
    """Cost of AND gates."""
    return PairCost(count / _ANDS, count * _AND_BYTES)


def signs(count: float, bits: int = _SIGN_BITS) -> PairCost:
    """Cost of comparisons with 0 of numbers of this many bits."""
    wide = count * bits / _SIGN_BITS
    return PairCost(wide * _SIGN_SECONDS, wide * _SIGN_BYTES)


def selects(count: int, words: int) -> PairCost:
    """Cost of adding a row of words to a sum if a match bit is set."""
    return PairCost(count * (1 + words / 4) / _TRANSFERS, count * (8.0 * words + 4))


def edit_ands(length: int, diagonals: int, sums: int) -> float:
    """AND gates of an edit distance: 3 a row and diagonal, 1 on the outermost two, and the sums."""
    return length * (max(0, 3 * diagonals - 4) + sums)
