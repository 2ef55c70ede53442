"""Probabilities as whole numbers out of 2^32, and the epsilon that they really have.

A uniform 32-bit word decides every random choice by integer comparison: no floating point decides
a probability. e^epsilon is enclosed with 256 bits and rounded so that what is drawn is at least as
private as what was asked for; every guarantee is computed from the integers, not from the wish.
"""

import math
from fractions import Fraction

import gmpy2
from gmpy2 import mpfr, mpq

from ppodc.errors import InputError

WORD = 1 << 32
MAX_EPSILON = 1000
_LEAST_SIGNAL = 1e-6

Epsilon = float | Fraction


def check_epsilon(epsilon: Epsilon, what: str = "epsilon") -> Fraction:
    """The exact value of an epsilon that a mechanism can be built for."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | Fraction):
        raise InputError(f"{what} must be a number")
    if not math.isfinite(epsilon) or not 0 < epsilon <= MAX_EPSILON:
        raise InputError(f"{what} must be greater than 0 and at most {MAX_EPSILON}")
    return Fraction(epsilon)


def other_words(epsilon: Epsilon, values: int = 2) -> int:
    """u = ceil(2^32 / (e^epsilon + values - 1)): words that lead to one given other value.

    Randomized response over `values` values: each of the others is reported for u of the 2^32
    words, the true one for the rest, so that the likelihood ratio (2^32 - (values - 1) u) / u is
    at most e^epsilon. With two values u / 2^32 is the probability of a flipped bit.
    """
    exact = check_epsilon(epsilon)
    with gmpy2.context(precision=256, round=gmpy2.RoundDown):
        below = gmpy2.exp(mpfr(mpq(exact.numerator, exact.denominator))) + (values - 1)
    with gmpy2.context(precision=256, round=gmpy2.RoundUp):
        words = int(gmpy2.ceil(mpfr(WORD) / below))
    keep = WORD - (values - 1) * words
    if (keep - words) / WORD < _LEAST_SIGNAL:
        raise InputError(
            f"epsilon = {float(exact):g} over {values} values leaves nothing but noise; use a "
            "larger epsilon, fewer values or fewer bits"
        )
    return words


def log_ratio(numerator: int, denominator: int) -> float:
    """ln(numerator / denominator), never below the true value."""
    with gmpy2.context(precision=128, round=gmpy2.RoundUp):
        exact = gmpy2.log(mpfr(mpq(numerator, denominator)))
    nearest = float(exact)
    return nearest if mpfr(nearest) >= exact else math.nextafter(nearest, math.inf)


def nearest_words(chance: float | Fraction) -> int:
    """The multiple of 2^-32 nearest to a published probability, neither 0 nor 1."""
    return min(WORD - 1, max(1, round(Fraction(chance) * WORD)))
