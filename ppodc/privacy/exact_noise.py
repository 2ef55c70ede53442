"""Exact samplers of integer noise; no floating point decides a probability.

    two_sided          P[z] = (1 - a) / (1 + a) a^|z|,  a = exp(-epsilon)
    discrete_gaussian  P[x] in proportion to exp(-x^2 / (2 variance))
    choose             P[i] in proportion to exp(epsilon scores[i] / 2)

These are the samplers of Canonne, Kamath and Steinke (2020). Every coin has a rational probability
and is tossed by comparing a uniform integer. All parameters are fractions. The discrete Gaussian
added to an integer that changes by at most D gives (D^2 / (2 variance))-zero-concentrated privacy,
as the continuous one does.

Owners and clouds derive noise from a key, so that the same question gets the same noise. The order
in which a sampler draws is therefore a format: another order is fresh noise that nobody accounted
for. `tests/vectors/exact_noise.json` fixes it.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import OptionError

Below = Callable[[int], int]  # n -> uniform 0..n-1


def uniform_below(random: SecureRandom) -> Below:
    """Draw uniform integers from the stream, by rejection."""

    def below(bound: int) -> int:
        width = (bound - 1).bit_length()
        size = (width + 7) // 8
        while True:
            value = int.from_bytes(random.bytes(size), "little") >> (8 * size - width)
            if value < bound:
                return value

    return below


def exp_coin(below: Below, x: Fraction) -> bool:
    """Return True with probability exp(-x), for x >= 0; one coin for each whole unit of x."""
    whole, rest = divmod(x.numerator, x.denominator)
    for _ in range(whole):
        if not _exp_coin_of_at_most_1(below, 1, 1):
            return False
    return rest == 0 or _exp_coin_of_at_most_1(below, rest, x.denominator)


def _exp_coin_of_at_most_1(below: Below, p: int, q: int) -> bool:
    """Return True with probability exp(-p/q), for 0 <= p <= q.

    K is the first k at which a coin of probability p / (q k) fails, and
    P[K odd] = 1 - p/q + (p/q)^2/2! - ... = exp(-p/q).
    """
    k = 1
    while below(q * k) < p:
        k += 1
    return k % 2 == 1


def two_sided(below: Below, epsilon: Fraction) -> int:
    """Draw from the two-sided geometric distribution, P[z] in proportion to exp(-epsilon |z|)."""
    s, t = epsilon.numerator, epsilon.denominator
    if s <= 0:
        raise OptionError("noise needs epsilon > 0.")
    while True:
        u = below(t)
        if u and not _exp_coin_of_at_most_1(below, u, t):
            continue
        v = 0
        while _exp_coin_of_at_most_1(below, 1, 1):
            v += 1
        size = (u + t * v) // s  # P[u + t v = w] ~ exp(-w / t): s of them in a row make one size
        negative = below(2) == 1
        if size or not negative:  # or 0 would count twice
            return -size if negative else size


def discrete_gaussian(below: Below, variance: Fraction) -> int:
    """Draw from the discrete Gaussian distribution, by rejection from the two-sided geometric."""
    if variance <= 0:
        raise OptionError("noise needs a variance > 0.")
    scale = math.isqrt(math.floor(variance)) + 1
    while True:
        x = two_sided(below, Fraction(1, scale))
        if exp_coin(below, (abs(x) - variance / scale) ** 2 / (2 * variance)):
            return x


def gaussian_noise(
    random: SecureRandom, variance: Fraction, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Draw an array of independent discrete Gaussians."""
    below = uniform_below(random)
    draws = [discrete_gaussian(below, variance) for _ in range(math.prod(shape))]
    return np.array(draws, np.int64).reshape(shape)


def choose(below: Below, scores: Sequence[int], epsilon: Fraction) -> int:
    """Draw an index by the exponential mechanism for scores of sensitivity 1, by rejection."""
    best = max(scores)
    while True:
        index = below(len(scores))
        if exp_coin(below, epsilon * (best - scores[index]) / 2):
            return index
