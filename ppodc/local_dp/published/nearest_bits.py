"""One pass of the linear kCluster: the nearest cluster of each bit report, and new sums of ones.

The mean Hamming distance of a report x to a cluster with shares m_i of ones is

    sum_i [x_i + m_i - 2 x_i m_i] = sum_i m_i + sum_i x_i (1 - 2 m_i),

a constant of the cluster and a sum over the ones of x. Shares are rounded to whole multiples of a
power of 2 small enough that no sum passes 2^30: whole numbers add up to the same in any order, so
labels and sums do not depend on how reports are cut into chunks, nor on who counts them.

Bits are not unpacked. Of every byte the 256 possible sums are tabled, so a report costs one lookup
a byte and cluster; and the ones of eight positions are counted at once, as eight counters of a
64-bit word that are emptied before they run over. O(n k d s / 8), tables of at most 2 MB.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from ppodc.local_dp.published.packed_bits import Packed, words_for
from ppodc.mpc.compiled import compiled, in_u8, out_i8

_LARGEST = 1 << 30
_TABLE_BYTES = 1 << 21
_EMPTY = (1 << 31) - 1  # farther than any cluster with members

Labels = NDArray[np.int64]


def assign_and_sum(
    reports: Packed, attributes: int, bits: int, ones: Labels, sizes: Labels
) -> tuple[Labels, Labels, Labels]:
    """Labels of the reports (records, attributes * words), new sums of ones, new sizes.

    `ones` (k, attributes * bits) and `sizes` are those of the clusters so far.
    """
    k, words = len(sizes), words_for(bits)
    shares = _shares(ones.reshape(k, attributes, bits), sizes)
    slopes = np.zeros((attributes, words * 64, k), np.int32)
    scale = _scale(attributes * bits)
    slopes[:, :bits] = np.where(sizes > 0, scale - 2 * shares.transpose(1, 2, 0), 0)
    constant = np.where(sizes > 0, shares.sum(axis=(1, 2)), _EMPTY).astype(np.int32)
    data = np.ascontiguousarray(reports, "<u8").view(np.uint8)
    scores = np.repeat(constant[None, :], len(data), axis=0)
    step = max(1, _TABLE_BYTES // (1024 * k))
    table = np.empty((step, 256, k), np.int32)
    _add_scores(data, slopes.reshape(-1, k), table, scores)
    labels = scores.argmin(axis=1).astype(np.int64)
    counters = np.zeros((k, data.shape[1]), np.uint64)
    totals = np.zeros(k * data.shape[1] * 8, np.int64)
    _add_ones(data, labels, _SPREAD, counters, totals)
    new = totals.reshape(k, attributes, words * 64)[:, :, :bits].reshape(k, -1)
    return labels, np.ascontiguousarray(new), np.bincount(labels, minlength=k).astype(np.int64)


def _scale(bits: int) -> int:
    """The integer for a share of 1: the largest power of 2 with which no sum passes 2^30."""
    return 1 << (_LARGEST // bits).bit_length() - 1


def _shares(ones: Labels, sizes: Labels) -> Labels:
    """round(scale ones / size), in whole numbers; halves up."""
    twice = 2 * np.maximum(1, sizes)[:, None, None]
    return np.asarray((2 * _scale(ones[0].size) * ones + twice // 2) // twice)


# Bit j of a byte as the lowest bit of byte j of a word.
_SPREAD = (
    (np.arange(256, dtype=np.uint64)[:, None] >> np.arange(8, dtype=np.uint64) & np.uint64(1))
    << (8 * np.arange(8, dtype=np.uint64))
).sum(axis=1, dtype=np.uint64)


@compiled(
    types.Array(types.uint8, 2, "C", readonly=True),
    types.Array(types.int32, 2, "C", readonly=True),
    types.Array(types.int32, 3, "C"),
    types.Array(types.int32, 2, "C"),
)
def _add_scores(
    data: NDArray[np.uint8],
    slopes: NDArray[np.int32],
    table: NDArray[np.int32],
    scores: NDArray[np.int32],
) -> None:
    """scores[i, c] += sum of slopes[j, c] over the ones j of row i, some bytes at a time."""
    step, k = table.shape[0], table.shape[2]
    for start in range(0, data.shape[1], step):
        count = min(step, data.shape[1] - start)
        for b in range(count):
            table[b, 0] = 0
            for j in range(8):
                for low in range(1 << j):  # the bytes whose highest bit is j
                    for c in range(k):
                        table[b, low + (1 << j), c] = (
                            table[b, low, c] + slopes[8 * (start + b) + j, c]
                        )
        for i in range(data.shape[0]):
            for b in range(count):
                byte = data[i, start + b]
                for c in range(k):
                    scores[i, c] += table[b, byte, c]


@compiled(
    types.Array(types.uint8, 2, "C", readonly=True),
    types.Array(types.int64, 1, "C", readonly=True),
    in_u8,
    types.Array(types.uint64, 2, "C"),
    out_i8,
)
def _add_ones(
    data: NDArray[np.uint8],
    labels: Labels,
    spread: NDArray[np.uint64],
    counters: NDArray[np.uint64],
    totals: Labels,
) -> None:
    """totals[(label, byte, bit)] += 1 for every one; counters hold at most 255 reports."""
    k, width = counters.shape
    filled = np.zeros(k, np.int64)
    for i in range(data.shape[0] + k):
        cluster = labels[i] if i < data.shape[0] else i - data.shape[0]
        if i < data.shape[0]:
            for b in range(width):
                counters[cluster, b] += spread[data[i, b]]
            filled[cluster] += 1
        if filled[cluster] == 255 or i >= data.shape[0]:
            filled[cluster] = 0
            for b in range(width):
                word = counters[cluster, b]
                counters[cluster, b] = 0
                for j in range(8):
                    totals[(cluster * width + b) * 8 + j] += np.int64(
                        (word >> np.uint64(8 * j)) & np.uint64(255)
                    )
