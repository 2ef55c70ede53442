"""Estimated distance matrices of bit reports, and their adjusting.

d^^2 is the sum of the attributes' squares; debiased, its expected error is subtracted and the rest
clipped at 0. Corrections to the sources: the distance of a record to itself is 0 and no estimate
(it would be -mu e^b/(e^b - 1)^2 from d_H = 0); adjusting keeps entries up to T = 2t - 4 sigma,
since the published rule (the largest entry that is an exact sum of two others) finds sums that are
equal by chance. O(n^2 d s / 64) word operations, 4 n^2 bytes.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.local_dp.published.bit_estimates import DistanceScale
from ppodc.local_dp.published.kcluster import MATRIX_ROWS
from ppodc.local_dp.published.packed_bits import Packed
from ppodc.mpc.compiled import compiled

_TILE = 64

Matrix = NDArray[np.float32]


def check_matrix_rows(rows: int) -> None:
    """Refuse more records than a matrix can have."""
    if rows > MATRIX_ROWS:
        raise InputError(
            f"a matrix of distances of {rows} records does not fit: at most {MATRIX_ROWS}; "
            'use metric="manhattan", which needs no matrix'
        )


def hamming_matrix(reports: Packed) -> Matrix:
    """Differing bits of every pair, (n, n), for reports of one attribute."""
    return _matrix(reports, 1, np.arange(64 * reports.shape[1] + 1, dtype=np.float32))


def signed_distances(reports: Packed, scale: DistanceScale) -> Matrix:
    """d^ of every pair for one attribute; may be negative, 0 on the diagonal."""
    distances = np.asarray(scale.distances(hamming_matrix(reports)), np.float32)
    np.fill_diagonal(distances, 0.0)
    return distances


def distance_matrix(
    reports: Packed,
    attributes: int,
    scale: DistanceScale,
    *,
    debias: bool = False,
    self_zero: bool = True,
) -> Matrix:
    """Euclidean d^ of every pair; `self_zero=False` estimates the diagonal too, as printed."""
    bits = np.arange(64 * (reports.shape[1] // attributes) + 1)
    squares = (scale.distances(bits) ** 2).astype(np.float32)
    matrix = _matrix(reports, attributes, squares)
    if debias:
        matrix -= np.float32(attributes * scale.bias_of_square)
        np.maximum(matrix, 0, out=matrix)
    np.sqrt(matrix, out=matrix)
    if self_zero:
        np.fill_diagonal(matrix, 0.0)
    return matrix


def _matrix(reports: Packed, attributes: int, score: Matrix) -> Matrix:
    """sum over attributes of score[d_H]."""
    check_matrix_rows(len(reports))
    out = np.empty((len(reports), len(reports)), np.float32)
    strings = np.ascontiguousarray(reports).reshape(len(reports), attributes, -1)
    _score_pairs(strings, score, out)
    return out


def _array(kind: Any, dimensions: int, *, readonly: bool) -> Any:
    return types.Array(kind, dimensions, "C", readonly=readonly)


def _count_ones(_context: Any, word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


# How many bits of a word are 1: the processor's own instruction, which runs on several at once.
_ones_of: Any = intrinsic(_count_ones)


@compiled(
    _array(types.uint64, 3, readonly=True),
    _array(types.float32, 1, readonly=True),
    _array(types.float32, 2, readonly=False),
)
def _score_pairs(strings: Packed, score: Matrix, out: Matrix) -> None:
    """Tile by tile, so that strings and the mirrored entries stay in the nearest memory."""
    n, attributes, words = strings.shape
    for top in range(0, n, _TILE):
        for left in range(top, n, _TILE):
            for i in range(top, min(top + _TILE, n)):
                for k in range(max(i, left), min(left + _TILE, n)):
                    total = np.float32(0)
                    for a in range(attributes):
                        ones = np.uint64(0)
                        for w in range(words):
                            ones += _ones_of(strings[i, a, w] ^ strings[k, a, w])
                        total += score[ones]
                    out[i, k] = total
                    out[k, i] = total


# ------------------------------------------------------------------- distance adjusting


def adjusted(distances: NDArray[Any], limit: float) -> NDArray[np.float64]:
    """One attribute: entries above `limit` filled with sums of believed ones, hop by hop.

    If x <= y <= z then d(x, z) = d(x, y) + d(y, z). An entry is the mean over all j with one leg
    known from an earlier hop and one leg kept; what stays open keeps its raw value.
    """
    raw = np.asarray(distances, np.float64)
    kept = raw <= limit
    known, values = kept.copy(), np.where(kept, raw, 0.0)
    legs = np.where(kept, raw, 0.0)
    near = kept.astype(np.float64)
    while not known.all():
        reached = known.astype(np.float64)
        ways = reached @ near
        sums = (values * reached) @ near + reached @ legs
        new = ~known & (ways > 0)
        if not new.any():
            break
        values[new] = sums[new] / ways[new]
        known |= new
        known &= known.T
    return np.where(known, (values + values.T) / 2, raw)


def published_limit(distances: NDArray[Any]) -> float:
    """Line 3 of the published algorithm: the largest entry that equals a sum of two others."""
    raw = np.asarray(distances, np.float64)
    best = 0.0
    for i in range(len(raw)):
        sums = raw[i][:, None] + raw  # d(i, j) + d(j, k)
        equal = np.isclose(sums, raw[i][None, :], rtol=0, atol=1e-9)
        equal[i, :] = False
        equal &= (raw[i][:, None] > 0) & (raw > 0)
        found = raw[i][equal.any(axis=0)]
        best = max(best, float(found.max(initial=0.0)))
    return best
