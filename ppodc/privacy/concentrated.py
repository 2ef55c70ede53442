"""Exact guarantees of mechanisms for one record.

The unit is one record with all its attributes, against a collector that knows the mechanism and
every public parameter. Independent parts of a report add up: epsilon is the sum over attributes.
D bits flipped with probability q = 1/(e^b + 1), p = 1 - q, in which two inputs differ, have
epsilon = b D, and for a smaller epsilon exactly

    delta_D(epsilon) = sum_j C(D, j) max(0, p^j q^(D-j) - e^epsilon p^(D-j) q^j),

since the likelihood ratio depends only on the number j of bits that speak for the first input.
The published analyses of bit vectors bound single outputs instead and call that delta: 2^D such
terms add up, and by their formula more published bits would be more private.

Noise in the two clouds is accounted in zero-concentrated privacy: rho adds up over iterations, and
(sqrt(L + epsilon) - sqrt(L))^2 with L = ln(1/delta) is the rho that gives (epsilon, delta).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import OptionError

DELTA = 1e-6  # at which the second figure of a report is given
_HALVINGS = 100


def flip_delta(b: float, differing: int, epsilon: float) -> float:
    """delta_D(epsilon) of D = `differing` flipped bits; tight."""
    if differing < 0 or b <= 0 or epsilon < 0:
        raise OptionError("delta needs b > 0, epsilon >= 0 and a number of bits from 0")
    least = (differing + epsilon / b) / 2  # only j above this have a positive term
    first = math.floor(least) + 1
    if first > differing:
        return 0.0
    j = np.arange(first, differing + 1, dtype=np.float64)
    log_q = -math.log1p(math.exp(b)) if b < 700 else -b
    log_p = log_q + b
    logs = _log_binomials(differing)[first:] + j * log_p + (differing - j) * log_q
    logs += np.log(-np.expm1(np.minimum(epsilon - b * (2 * j - differing), -1e-300)))
    top = float(logs.max())
    return min(1.0, math.exp(top) * float(np.exp(logs - top).sum()))


@lru_cache(maxsize=8)
def _log_binomials(n: int) -> NDArray[np.float64]:
    """ln C(n, j) for j = 0..n."""
    factorials = np.array([math.lgamma(j + 1) for j in range(n + 1)])
    return np.asarray(factorials[n] - factorials - factorials[::-1])


def binomial_tail(n: int, p: float, least: int) -> float:
    """Pr[at least `least` of n], each with probability p."""
    if least <= 0:
        return 1.0
    if not 0 < p < 1:
        return float(p >= 1)
    j = np.arange(least, n + 1)
    logs = _log_binomials(n)[least:] + j * math.log(p) + (n - j) * math.log1p(-p)
    return min(1.0, float(np.exp(logs).sum()))


def tight_epsilon(b: float, differing: int, delta: float) -> float:
    """The smallest epsilon with delta_D(epsilon) <= delta; b D for delta = 0."""
    _check_delta(delta)
    if delta == 0:
        return b * differing
    if flip_delta(b, differing, 0.0) <= delta:
        return 0.0
    return halved(0.0, b * differing, lambda middle: flip_delta(b, differing, middle) > delta)[1]


def bit_epsilon(epsilon: float, differing: int, delta: float = 0.0) -> float:
    """The largest b of one bit with which D bits keep (epsilon, delta)."""
    _check_delta(delta)
    if epsilon <= 0 or differing < 1:
        raise OptionError("a bit's budget needs epsilon > 0 and at least one bit")
    least = epsilon / differing
    if delta == 0:
        return least
    most = epsilon + 100.0
    return halved(least, most, lambda middle: flip_delta(middle, differing, epsilon) <= delta)[0]


def halved(low: float, high: float, is_low: Callable[[float], bool]) -> tuple[float, float]:
    """The last number that is low and the first that is not, as near as floats are."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low, high


def concentrated_rho(epsilon: float, delta: float) -> float:
    """The rho of zero-concentrated privacy that implies (epsilon, delta)."""
    _check_delta(delta)
    if delta == 0 or epsilon <= 0:
        raise OptionError("noise in the two clouds needs epsilon > 0 and delta > 0")
    log = math.log(1 / delta)
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2  # without cancellation


def _check_delta(delta: float) -> None:
    if not 0 <= delta < 1:
        raise OptionError("delta must be at least 0 and less than 1")
