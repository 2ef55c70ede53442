"""Bits that are flipped: a 1 stays 1 with P1, a 0 becomes 1 with Q, by position; what that keeps.

Where a first input has 1 and a second 0, the worst output of that bit has the likelihood ratio
up = max(ln P1/Q, ln (1-P1)/(1-Q)); the other way round down = max(ln Q/P1, ln (1-Q)/(1-P1)).
Bits are flipped independently, so the worst output takes the larger ratio of every bit: epsilon is
the largest sum over two encodings. (The published proof of UER multiplies ratios above 1 of some
outputs with ratios below 1 of others, where a^2 and a^-2 cancel.)
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import SpecError
from ppodc.privacy.chances import WORD, Epsilon, log_ratio, nearest_words, other_words

MoueVariant = Literal["text", "proof"]


@dataclass(frozen=True, slots=True)
class Flips:
    """Words (of 2^32) for which a 1 stays 1 and for which a 0 becomes 1, position by position."""

    stay: tuple[int, ...]
    rise: tuple[int, ...]

    @classmethod
    def symmetric(cls, b: Epsilon, bits: int) -> "Flips":
        """Randomized response with epsilon b a bit: both ratios of a bit are used up."""
        other = other_words(b)
        return cls((WORD - other,) * bits, (other,) * bits)

    @classmethod
    def moue(
        cls, a: float, epsilon: float, sensitivity: int, bits: int, variant: MoueVariant = "text"
    ) -> "Flips":
        """MOUE: P1 = a/(1+a) by the text, 1/(1+a) by its proof (which leaves only noise)."""
        kept = a / (1 + a) if variant == "text" else 1 / (1 + a)
        return cls(
            (nearest_words(kept),) * bits, (nearest_words(_rise(a, epsilon, sensitivity)),) * bits
        )

    @classmethod
    def uer(cls, a: float, epsilon: float, sensitivity: int, bits: int) -> "Flips":
        """UER: even positions P1 = a/(1+a), odd ones 1/(1+a^3), which carry the value inverted."""
        kept = nearest_words(a / (1 + a)), nearest_words(1 / (1 + a**3))
        rise = nearest_words(_rise(a, epsilon, sensitivity))
        return cls(tuple(kept[j % 2] for j in range(bits)), (rise,) * bits)

    def __len__(self) -> int:
        return len(self.stay)

    @property
    def bit_epsilon(self) -> float | None:
        """b if every bit is flipped alike in both directions, else None."""
        same = len(set(self.stay)) == 1 and len(set(self.rise)) == 1
        if not same or self.stay[0] + self.rise[0] != WORD:
            return None
        return log_ratio(self.stay[0], self.rise[0])

    def ratios(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(up, down) of every position."""
        up, down = [], []
        for stay, rise in zip(self.stay, self.rise, strict=True):
            up.append(max(log_ratio(stay, rise), log_ratio(WORD - stay, WORD - rise)))
            down.append(max(log_ratio(rise, stay), log_ratio(WORD - rise, WORD - stay)))
        return np.array(up), np.array(down)

    def chances(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(P1, Q) of every position."""
        return np.array(self.stay) / WORD, np.array(self.rise) / WORD


def _rise(a: float, epsilon: float, sensitivity: int) -> float:
    """Q = 1/(1 + a e^(epsilon/(r n))), the same in all published variants."""
    if not a > 0 or not math.isfinite(a) or sensitivity < 1:
        raise SpecError("MOUE and UER need a > 0 and a sensitivity of at least 1")
    return 1 / (1 + a * math.exp(epsilon / sensitivity))
