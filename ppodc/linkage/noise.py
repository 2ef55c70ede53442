"""Noise for counts, drawn exactly: no floating point decides a probability.

Budgets are fractions and random bits come from the operating system. The sampler is that of
Canonne, Kamath and Steinke (2020): a coin of probability exp(-x) from coins of rational
probability, and from it the two-sided geometric distribution

    P[z] = (1 - a) / (1 + a) a^|z|,   a = exp(-e).

`padding` is what a cell gains in dummies: m + z *conditioned on* m + z >= 0 (drawn again, not
clamped), with m the least integer for which P[padding = 0] <= delta. A cell that loses a record
is then e-indistinguishable, one that gains a record (e, delta): the only output that only one of
the two can give is "no dummies". The chapter clamps a shifted Laplace variable at 0; the clamped
outputs carry more mass than its delta counts, and real-valued noise leaks through its rounding.
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError

Below = Callable[[int], int]  # n -> uniform 0..n-1
_DIGITS = 50
_SLACK = Decimal(10) ** -40  # more than all rounding of the 50 digits together


class Noise(Protocol):
    """What a partition draws."""

    def count(self, epsilon: Fraction) -> int:
        """Two-sided noise of mean 0 for a count of sensitivity 1."""

    def padding(self, epsilon: Fraction, delta: Fraction) -> int:
        """Dummies of a cell: at least 0."""

    def choose(self, scores: Sequence[int], epsilon: Fraction) -> int:
        """An index i with probability in proportion to exp(epsilon scores[i] / 2)."""


class ExactNoise:
    """The noise of this module from one stream of random numbers."""

    def __init__(self, random: SecureRandom | None = None) -> None:
        stream = SecureRandom() if random is None else random
        self._below: Below = lambda bound: int(stream.below(bound, 1)[0])

    def count(self, epsilon: Fraction) -> int:
        return two_sided(self._below, epsilon)

    def padding(self, epsilon: Fraction, delta: Fraction) -> int:
        return padding(self._below, epsilon, delta)

    def choose(self, scores: Sequence[int], epsilon: Fraction) -> int:
        return choose(self._below, scores, epsilon)


def exp_coin(below: Below, x: Fraction) -> bool:
    """True with probability exp(-x), x >= 0."""
    return _exp_coin(below, x.numerator, x.denominator)


def _exp_coin(below: Below, p: int, q: int) -> bool:
    """True with probability exp(-p/q).

    For p <= q: K is the first k at which a coin of probability p / (q k) fails, and
    P[K odd] = 1 - p/q + (p/q)^2/2! - ... = exp(-p/q). A larger p/q is one coin for each whole unit.
    """
    whole, p = divmod(p, q)
    for _ in range(whole):
        if not _exp_coin_of_at_most_1(below, 1, 1):
            return False
    return p == 0 or _exp_coin_of_at_most_1(below, p, q)


def _exp_coin_of_at_most_1(below: Below, p: int, q: int) -> bool:
    k = 1
    while below(q * k) < p:
        k += 1
    return k % 2 == 1


def two_sided(below: Below, epsilon: Fraction) -> int:
    """P[z] in proportion to exp(-epsilon |z|)."""
    s, t = epsilon.numerator, epsilon.denominator
    if s <= 0:
        raise InputError("noise needs epsilon > 0.")
    while True:
        u = below(t)
        if not _exp_coin(below, u, t):
            continue
        v = 0
        while _exp_coin(below, 1, 1):
            v += 1
        size = (u + t * v) // s  # P[u + t v = w] ~ exp(-w / t): s of them in a row make one size
        negative = below(2) == 1
        if size or not negative:  # or 0 would count twice
            return -size if negative else size


def padding(below: Below, epsilon: Fraction, delta: Fraction) -> int:
    """m + z conditioned on being at least 0 (see the module)."""
    shift = padding_shift(epsilon, delta)
    while True:
        drawn = shift + two_sided(below, epsilon)
        if drawn >= 0:
            return drawn


@lru_cache(maxsize=1024)
def padding_shift(epsilon: Fraction, delta: Fraction) -> int:
    """The least m with P[padding = 0] = (1-a) a^m / (1 + a - a^(m+1)) <= delta."""
    if epsilon <= 0 or not 0 < delta < 1:
        raise InputError("padding needs epsilon > 0 and 0 < delta < 1.")
    with localcontext() as context:
        context.prec = _DIGITS
        a = (-_decimal(epsilon)).exp()
        limit = _decimal(delta) * (1 - _SLACK)
        # (1-a) a^m <= limit (1 + a - a a^m)  <=>  a^m <= limit (1+a) / (1 - a + limit a)
        power = limit * (1 + a) / (1 - a + limit * a)
        return max(0, math.ceil(-power.ln() / _decimal(epsilon)))


def choose(below: Below, scores: Sequence[int], epsilon: Fraction) -> int:
    """The exponential mechanism for scores of sensitivity 1, by rejection."""
    best = max(scores)
    while True:
        index = below(len(scores))
        if exp_coin(below, epsilon * (best - scores[index]) / 2):
            return index


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
