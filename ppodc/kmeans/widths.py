"""Bits of a job's numbers, and whether a key or a ring holds them.

All bounds are exact integers. Sizes of clusters are at least 1 and add up to at most m + k (each
re-seeded cluster adds one), so their product alpha is at most ((m + k) / k)^k. A centre lies in
0..ub per attribute, hence an order-preserving squared distance is at most alpha^2 l ub^2. The two
sides of the stop test (Eq. 5.5, times the denominator q of beta) are at most alpha^4 k l ub^2 q
once beta is clamped to k l ub^2, which no movement of the centres can exceed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from ppodc.crypto.paillier import KEY_BITS
from ppodc.errors import OptionError, WidthError
from ppodc.kmeans.parameters import Parameters

STATISTICAL = 64  # bits by which a random mask exceeds the value that it hides
_LIMB = 64
_MOST_RECORDS = 1 << 48  # where the search for the largest m that fits gives up


@dataclass(frozen=True, slots=True)
class Widths:
    """Bits of the largest value of each kind."""

    value: int
    counts: int
    sums: int
    alpha: int  # also of a product of some of the sizes, as all are at least 1
    distance: int
    stop: int

    @classmethod
    def of(cls, p: Parameters) -> "Widths":
        if min(p.m, p.l, p.k, p.ub) < 1 or p.beta < 0:
            raise OptionError("m, l, k and ub must be at least 1 and beta at least 0")
        alpha = alpha_max(p.m, p.k)
        return cls(
            value=p.ub.bit_length(),
            counts=(p.m + p.k).bit_length(),
            sums=((p.m + p.k) * p.ub).bit_length(),
            alpha=alpha.bit_length(),
            distance=distance_max(p).bit_length(),
            stop=stop_max(p).bit_length(),
        )


def alpha_max(m: int, k: int) -> int:
    """The largest product of k sizes that add up to at most m + k."""
    return int((m + k) ** k // k**k)


def distance_max(p: Parameters) -> int:
    """The largest order-preserving squared distance (Eq. 5.3)."""
    return alpha_max(p.m, p.k) ** 2 * p.l * p.ub**2


def clamp_beta(p: Parameters) -> Fraction:
    """beta, or the largest possible movement k l ub^2 if beta exceeds it: the same stop bit."""
    return min(p.beta, Fraction(p.k * p.l * p.ub**2))


def stop_max(p: Parameters) -> int:
    """The larger bound of the two sides of Eq. 5.5 with the denominator of beta cleared."""
    beta = clamp_beta(p)
    f_squared = alpha_max(p.m, p.k) ** 4
    return f_squared * max(p.k * p.l * p.ub**2 * beta.denominator, beta.numerator)


def stop_limbs(p: Parameters) -> int:
    """64-bit limbs of the ring for the stop test."""
    return -(-(Widths.of(p).stop + 1) // _LIMB)


def check_paillier(p: Parameters, key_bits: int) -> Widths:
    """The widths of a job that a Paillier key of `key_bits` holds; WidthError if it does not."""
    if _fits(p, key_bits):
        return Widths.of(p)
    needed = _needed(p)
    most_k = _largest(lambda k: _fits(replace(p, k=k), key_bits), p.k)
    most_m = _largest(lambda m: _fits(replace(p, m=m), key_bits), min(p.m, _MOST_RECORDS))
    advice = []
    if most_k:
        advice.append(f"at most {most_k} cluster{'s' * (most_k > 1)} for {p.m} records")
    if most_m >= p.k:
        advice.append(f"at most {most_m} record{'s' * (most_m > 1)} for {p.k} clusters")
    fitting = (
        " or ".join(advice)
        if advice
        else "no number of records or clusters: lower ub or round beta"
    )
    key = next((bits for bits in KEY_BITS if _fits(p, bits)), None)
    larger = f"a key of {key} bits fits" if key else "no offered key fits"
    raise WidthError(
        f"{p.m} records in {p.k} clusters need a key of more than {needed} bits, but this key has "
        f"{key_bits}. It holds {fitting}; for the job as it is, {larger}. "
        f"The shares suite has no such limit."
    )


def _needed(p: Parameters) -> int:
    widths = Widths.of(p)
    return max(widths.distance, widths.stop) + STATISTICAL + 2


def _fits(p: Parameters, key_bits: int) -> bool:
    return _needed(p) < key_bits


def _largest(fits: Callable[[int], bool], known_bad: int) -> int:
    """The largest number from 0 below `known_bad` that fits, where smaller ones fit too."""
    low, high = 0, known_bad
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
