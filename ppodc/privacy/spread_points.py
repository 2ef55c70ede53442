"""Points spread evenly over 0..ub in every column, the same on every machine.

An additive recurrence (multiples of the inverse powers of the root of x^(d+1) = x + 1, in integers)
starts them; a few Lloyd steps on uniform points from the seed relax them. All distances are whole
numbers below 2^53, so doubles hold them exactly, in whatever order they are added up.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import OptionError
from ppodc.privacy.weighted_kmeans import nearest

_FRACTION_BITS, _ROOT_BITS = 64, 192
_SAMPLES_EACH, _MOST_SAMPLES = 32, 1 << 16
_STEPS = 6


@lru_cache(maxsize=32)
def _spread(count: int, columns: int, ub: int, seed: int) -> NDArray[np.int64]:
    points = _recurrence(count, columns, ub)
    samples = min(_MOST_SAMPLES, _SAMPLES_EACH * count)
    words = SecureRandom.public(seed).uint64((samples, columns))
    # the upper 32 bits times ub + 1, shifted back: uniform up to 2^-11
    uniform = ((words >> np.uint64(32)) * np.uint64(ub + 1) >> np.uint64(32)).astype(np.float64)
    for _ in range(_STEPS):
        labels = nearest(uniform, points.astype(np.float64))
        sizes = np.bincount(labels, minlength=count)
        for s in range(columns):
            sums = np.bincount(labels, uniform[:, s], minlength=count).astype(np.int64)
            points[:, s] = np.where(sizes > 0, sums // np.maximum(sizes, 1), points[:, s])
    points.flags.writeable = False
    return points


def spread_points(count: int, columns: int, ub: int, seed: int) -> NDArray[np.int64]:
    """(count, columns) whole numbers 0..ub."""
    if count < 1 or columns < 1 or ub < 1 or not 0 <= seed < 1 << 63:
        raise OptionError("spread points need a count, columns, ub from 1 and a seed from 0")
    return _spread(count, columns, ub, seed)


def _recurrence(count: int, columns: int, ub: int) -> NDArray[np.int64]:
    """Point i has in column s the fraction (1/2 + i g^-(s+1)) mod 1 of the range."""
    whole, root = 1 << _FRACTION_BITS, _root(columns)
    steps = [(whole << _ROOT_BITS * s) // root**s for s in range(1, columns + 1)]
    rows = [
        [((whole // 2 + i * step) % whole) * (ub + 1) // whole for step in steps]
        for i in range(count)
    ]
    return np.array(rows, np.int64)


def _root(columns: int) -> int:
    """The root of x^(columns + 1) = x + 1, between 1 and 2, times 2^192; rounded down."""
    one = 1 << _ROOT_BITS
    low, high = one, 2 * one
    while high - low > 1:
        middle = (low + high) // 2
        above = middle ** (columns + 1) > (middle + one) << _ROOT_BITS * columns
        low, high = (low, middle) if above else (middle, high)
    return low
