"""Values 0..ub as strings of bits: threshold bits (PrivBV, DPBV, LDPseg) and weighted ones.

A code is constant between breaks: `table[r]` is the string of every value with r breaks at or
below it. So the largest difference of two strings, on which privacy depends, is found exactly by
looking at all pairs of rows of the table.

*Bit vectors* (PrivBV, DPBV): r_1..r_s uniform in [-t, ub + t] from the dataset's public seed; bit i
is 1 iff |x - r_i| <= t. PrivBV draws r in [0, ub], which is wrong near the borders. *Thermometer*
(LDPseg): floor(x n / ub) ones, then zeros. *Weights* w in (1, 2]: bit j is worth
w^(n-1-j) (w - 1)/(w^n - 1) of the range, of all sums the nearest one to x (ties to the smaller).
*Binary*: whole and fraction bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import SpecError
from ppodc.local_dp.published.flips import Flips

MAX_BITS = 4096
MAX_WEIGHTED_BITS = 16
_MOST_PAIRS = 1 << 12  # rows of a table whose pairs are all looked at


@dataclass(frozen=True, slots=True, eq=False)
class BitCode:
    """A code of bits for values 0..ub; `breaks` rise, `table` has one row more."""

    ub: int
    breaks: NDArray[np.int64]
    table: NDArray[np.uint8]

    @property
    def bits(self) -> int:
        return int(self.table.shape[1])

    def rows(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The row of the table of each value."""
        return np.searchsorted(self.breaks, values, side="right").astype(np.int64)

    def encode(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """The strings, before any flip: (..., bits)."""
        return self.table[self.rows(values)]

    def differing(self) -> int:
        """D: the largest Hamming distance between the strings of two values."""
        if len(self.table) > _MOST_PAIRS:
            return self.bits  # an upper bound; attained by full tables
        ones = np.unique(self.table, axis=0).astype(np.float32)  # sums below 2^24 are exact
        more = ones @ (1 - ones).T
        return int((more + more.T).max())

    def epsilon(self, flips: Flips) -> float:
        """The guarantee for one value: the largest sum of the bits' ratios over two values."""
        up, down = flips.ratios()
        if (up == up[0]).all() and (down == up[0]).all():
            return float(up[0]) * self.differing()
        return self._largest(up, down)

    def _largest(self, up: NDArray[np.float64], down: NDArray[np.float64]) -> float:
        """max over rows x, y of sum_j [x_j (1 - y_j) up_j + (1 - x_j) y_j down_j]."""
        if len(self.table) > _MOST_PAIRS:
            return float(np.maximum(up, down).sum())  # an upper bound; attained by full tables
        ones = np.unique(self.table, axis=0).astype(np.float64)
        zeros = 1.0 - ones
        return float(((ones * up) @ zeros.T + (zeros * down) @ ones.T).max())


def _tabled(ub: int, breaks: NDArray[np.int64], strings: NDArray[Any]) -> BitCode:
    return BitCode(ub, breaks, np.ascontiguousarray(strings, np.uint8))


def _check_bits(bits: int, most: int = MAX_BITS) -> None:
    if not 1 <= bits <= most:
        raise SpecError(f"the number of bits must be from 1 to {most}, not {bits}")


def bit_vector(ub: int, centres: NDArray[np.int64], t: int) -> BitCode:
    """Bit i is 1 iff |x - centres[i]| <= t."""
    _check_bits(len(centres))
    if t < 1:
        raise SpecError("t must be at least one unit of the encoded range")
    low, high = centres - t, centres + t
    inside = np.concatenate([low, high + 1])
    breaks = np.unique(inside[(inside > 0) & (inside <= ub)]).astype(np.int64)
    first = np.concatenate([[0], breaks])[:, None]
    return _tabled(ub, breaks, (first >= low) & (first <= high))


def random_centres(ub: int, t: int, bits: int, random: SecureRandom) -> NDArray[np.int64]:
    """r_1..r_s uniform in the extended domain [-t, ub + t] of DPBV."""
    _check_bits(bits)
    return np.array([int(x) - t for x in random.below(ub + 2 * t + 1, bits)], np.int64)


def thermometer(ub: int, bits: int) -> BitCode:
    """i = floor(x n / ub) ones: bit j is 1 iff x >= (j + 1) ub / n."""
    _check_bits(bits)
    breaks = np.array([-(-(j + 1) * ub // bits) for j in range(bits)], np.int64)
    if len(np.unique(breaks)) < bits:
        raise SpecError(f"{bits} bits are more than the {ub + 1} values of the column can use")
    return _tabled(ub, breaks, np.tril(np.ones((bits + 1, bits)), -1))


def weight_values(ub: int, bits: int, w: float) -> NDArray[np.float64]:
    """The values of the bits, the largest first; together ub."""
    _check_bits(bits, MAX_WEIGHTED_BITS)
    if not 1 < w <= 2:
        raise SpecError("the weight must be greater than 1 and at most 2; 1 is the thermometer")
    powers: NDArray[np.float64] = np.power(w, np.arange(bits - 1, -1, -1))
    return np.asarray(powers * (ub * (w - 1) / (w**bits - 1)))


def weighted(ub: int, bits: int, w: float) -> BitCode:
    """The string whose sum is nearest to x."""
    strings = _all_strings(bits)
    return _nearest(ub, strings, strings @ weight_values(ub, bits, w))


def binary_values(unit: int, whole: int, fraction: int) -> NDArray[np.float64]:
    """The values of the bits when 1.0 is `unit` encoded units."""
    exponents = np.arange(whole - 1, -fraction - 1, -1).astype(np.float64)
    return np.asarray(unit * 2.0**exponents)


def binary(ub: int, unit: int, whole: int, fraction: int) -> BitCode:
    """`whole` integer and `fraction` fraction bits, rounded down."""
    _check_bits(whole + fraction, MAX_WEIGHTED_BITS)
    strings = _all_strings(whole + fraction)
    values = strings @ binary_values(unit, whole, fraction)
    breaks = np.ceil(values[1:]).astype(np.int64)
    kept = breaks <= ub
    return _tabled(ub, breaks[kept], strings[: 1 + int(kept.sum())])


def _all_strings(bits: int) -> NDArray[np.float64]:
    numbers = np.arange(1 << bits)
    return (numbers[:, None] >> np.arange(bits - 1, -1, -1) & 1).astype(np.float64)


def _nearest(ub: int, strings: NDArray[Any], sums: NDArray[np.float64]) -> BitCode:
    order = np.argsort(sums, kind="stable")
    values, strings = sums[order], strings[order]
    middles = np.floor((values[1:] + values[:-1]) / 2).astype(np.int64) + 1  # ties to the smaller
    breaks, last = np.unique(middles, return_index=True)
    # Of several strings that no whole number tells apart, the largest below the break counts.
    ends = np.concatenate([last[1:], [len(middles)]])
    kept = breaks <= ub
    return _tabled(ub, breaks[kept], strings[np.concatenate([[0], ends[kept]])])
