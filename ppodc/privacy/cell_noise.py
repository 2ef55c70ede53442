"""Noise for the cells of a linkage: noisy counts, dummies, and noisy choices of a cut.

`padding` is the number of dummies in a cell: m + z *conditioned on* m + z >= 0 (drawn again, not
clamped), with z from the two-sided geometric distribution and m the least integer for which
P[padding = 0] <= delta. A cell that loses a record is then e-indistinguishable, one that gains a
record (e, delta): the only output that only one of the two can give is "no dummies". The chapter
clamps a shifted Laplace variable at 0; the clamped outputs carry more mass than its delta counts,
and real-valued noise leaks through its rounding.
"""

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import OptionError
from ppodc.privacy.exact_noise import Below, choose, two_sided, uniform_below

_DIGITS = 50
_SLACK = Decimal(10) ** -40  # more than all rounding of the 50 digits together


class Noise(Protocol):
    """The draws that a partition into cells makes."""

    def count(self, epsilon: Fraction) -> int:
        """Two-sided noise of mean 0 for a count of sensitivity 1."""

    def padding(self, epsilon: Fraction, delta: Fraction) -> int:
        """The number of dummies of a cell, at least 0."""

    def choose(self, scores: Sequence[int], epsilon: Fraction) -> int:
        """An index i with probability in proportion to exp(epsilon scores[i] / 2)."""


class ExactNoise:
    """Exact noise from one stream of random numbers."""

    def __init__(self, random: SecureRandom | None = None) -> None:
        self._below = uniform_below(SecureRandom() if random is None else random)

    def count(self, epsilon: Fraction) -> int:
        return two_sided(self._below, epsilon)

    def padding(self, epsilon: Fraction, delta: Fraction) -> int:
        return padding(self._below, epsilon, delta)

    def choose(self, scores: Sequence[int], epsilon: Fraction) -> int:
        return choose(self._below, scores, epsilon)


def padding(below: Below, epsilon: Fraction, delta: Fraction) -> int:
    """Draw m + z conditioned on being at least 0."""
    shift = padding_shift(epsilon, delta)
    while True:
        drawn = shift + two_sided(below, epsilon)
        if drawn >= 0:
            return drawn


@lru_cache(maxsize=1024)
def padding_shift(epsilon: Fraction, delta: Fraction) -> int:
    """The least m with P[padding = 0] = (1-a) a^m / (1 + a - a^(m+1)) <= delta."""
    if epsilon <= 0 or not 0 < delta < 1:
        raise OptionError("padding needs epsilon > 0 and 0 < delta < 1.")
    with localcontext() as context:
        context.prec = _DIGITS
        a = (-_decimal(epsilon)).exp()
        limit = _decimal(delta) * (1 - _SLACK)
        # (1-a) a^m <= limit (1 + a - a a^m)  <=>  a^m <= limit (1+a) / (1 - a + limit a)
        power = limit * (1 + a) / (1 - a + limit * a)
        return max(0, math.ceil(-power.ln() / _decimal(epsilon)))


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
