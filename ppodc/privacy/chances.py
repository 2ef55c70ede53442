"""Probabilities as whole numbers out of 2^32, and the epsilon that they really have.

A uniform 32-bit word decides every random choice by integer comparison: no floating point decides
a probability. e^epsilon is enclosed with 80 digits and rounded so that what is drawn is at least as
private as what was asked for; every guarantee is computed from the integers, not from the wish.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from ppodc.errors import OptionError

WORD = 1 << 32
MAX_EPSILON = 1000
_LEAST_SIGNAL = 1e-6
_DOWN, _UP = Context(prec=80, rounding=ROUND_FLOOR), Context(prec=80, rounding=ROUND_CEILING)

Epsilon = float | Fraction


def check_epsilon(epsilon: Epsilon, what: str = "epsilon") -> Fraction:
    """The exact value of an epsilon that a mechanism can be built for."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | Fraction):
        raise OptionError(f"{what} must be a number")
    if not math.isfinite(epsilon) or not 0 < epsilon <= MAX_EPSILON:
        raise OptionError(f"{what} must be greater than 0 and at most {MAX_EPSILON}")
    return Fraction(epsilon)


def other_words(epsilon: Epsilon, values: int = 2) -> int:
    """u = ceil(2^32 / (e^epsilon + values - 1)): words that lead to one given other value.

    Randomized response over `values` values: each of the others is reported for u of the 2^32
    words, the true one for the rest, so that the likelihood ratio (2^32 - (values - 1) u) / u is
    at most e^epsilon. With two values u / 2^32 is the probability of a flipped bit.
    """
    exact = check_epsilon(epsilon)
    least = _DOWN.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    # `exp` is within half a unit of its last digit, whatever the rounding
    below = _DOWN.add(_DOWN.next_minus(_DOWN.exp(least)), Decimal(values - 1))
    words = math.ceil(_UP.divide(Decimal(WORD), below))
    keep = WORD - (values - 1) * words
    if (keep - words) / WORD < _LEAST_SIGNAL:
        raise OptionError(
            f"epsilon = {float(exact):g} over {values} values leaves nothing but noise; use a "
            "larger epsilon, fewer values or fewer bits"
        )
    return words


def log_ratio(numerator: int, denominator: int) -> float:
    """ln(numerator / denominator), never below the true value."""
    if numerator == denominator:
        return 0.0
    ratio = _UP.divide(Decimal(numerator), Decimal(denominator))
    above = _UP.next_plus(_UP.ln(ratio))  # `ln` is within half a unit of its last digit
    nearest = float(above)
    return nearest if Decimal(nearest) >= above else math.nextafter(nearest, math.inf)


def nearest_words(chance: float | Fraction) -> int:
    """The multiple of 2^-32 nearest to a published probability, neither 0 nor 1."""
    return min(WORD - 1, max(1, round(Fraction(chance) * WORD)))
