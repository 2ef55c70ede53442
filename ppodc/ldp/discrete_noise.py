"""Exact discrete Gaussian and Laplace noise from random bits, with integers only.

Samplers of Canonne, Kamath and Steinke (2020): every coin has a rational probability and is tossed
by comparing uniform integers; no floating point. The discrete Gaussian of parameter sigma^2 has
Pr[x] proportional to e^(-x^2 / (2 sigma^2)) on the integers; added to a whole number that changes
by at most D it keeps (D^2 / (2 sigma^2))-zero-concentrated privacy, as the continuous one would.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError


def _below(random: SecureRandom, bound: int) -> int:
    """Uniform in 0..bound - 1, by rejection."""
    width = (bound - 1).bit_length()
    size = (width + 7) // 8
    while True:
        value = int.from_bytes(random.bytes(size), "little") >> (8 * size - width)
        if value < bound:
            return value


def _exp_coin(random: SecureRandom, gain: int, of: int) -> bool:
    """True with probability e^-(gain/of): the parity of the first failing coin gain/(i of)."""
    while gain > of:
        if not _exp_coin(random, 1, 1):
            return False
        gain -= of
    i = 1
    while _below(random, i * of) < gain:
        i += 1
    return i % 2 == 1


def discrete_laplace(random: SecureRandom, scale: int) -> int:
    """Pr[x] proportional to e^(-|x| / scale), for a whole scale."""
    if scale < 1:
        raise InputError("the scale of noise must be at least 1")
    while True:
        rest = _below(random, scale)
        if not _exp_coin(random, rest, scale):
            continue
        whole = 0
        while _exp_coin(random, 1, 1):
            whole += 1
        size, negative = rest + scale * whole, bool(_below(random, 2))
        if not (negative and size == 0):
            return -size if negative else size


def discrete_gaussian(random: SecureRandom, variance: Fraction) -> int:
    """Pr[x] proportional to e^(-x^2 / (2 variance)), by rejection from Laplace."""
    if variance <= 0:
        raise InputError("the variance of noise must be greater than 0")
    scale = math.isqrt(math.floor(variance)) + 1
    while True:
        x = discrete_laplace(random, scale)
        gamma = (abs(x) - variance / scale) ** 2 / (2 * variance)
        if _exp_coin(random, gamma.numerator, gamma.denominator):
            return x


def gaussian_noise(
    random: SecureRandom, variance: Fraction, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """An array of independent draws."""
    draws = [discrete_gaussian(random, variance) for _ in range(math.prod(shape))]
    return np.array(draws, np.int64).reshape(shape)
