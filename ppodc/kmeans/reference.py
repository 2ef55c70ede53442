"""Exact k-means on plaintext: what both suites must reproduce to the last bit.

Clusters are pairs (sums, size), as in the chapter; a centre is the fraction sums / size and never
becomes a float. Ties go to the lowest cluster index. A cluster that comes out empty becomes one
record (size 1) whose row follows from the public seed, the iteration and the cluster's index; that
record stays in its own cluster too, so sizes add up to at most m + k.
"""

import hashlib
import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppodc.errors import InputError
from ppodc.records.sharing import MAX_VALUE

_CHUNK = 1 << 15  # rows whose scores are Python integers at the same time

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Iteration:
    """The clusters after one iteration, re-seeding included, and whether the loop stops here."""

    labels: Integers
    sums: Integers
    sizes: Integers
    stop: bool


@dataclass(frozen=True, slots=True)
class Trace:
    """All iterations of a run; the properties speak of the last one."""

    iterations: list[Iteration]

    @property
    def labels(self) -> Integers:
        return self.iterations[-1].labels

    @property
    def sums(self) -> Integers:
        return self.iterations[-1].sums

    @property
    def sizes(self) -> Integers:
        return self.iterations[-1].sizes

    @property
    def n_iter(self) -> int:
        return len(self.iterations)

    @property
    def converged(self) -> bool:
        return self.iterations[-1].stop

    def centres(self) -> list[list[Fraction]]:
        return centres(self.sums, self.sizes)


def centres(sums: Integers, sizes: Integers) -> list[list[Fraction]]:
    """sums / size of each cluster (Eq. 5.1)."""
    return [
        [Fraction(value, size) for value in row]
        for row, size in zip(sums.tolist(), sizes.tolist(), strict=True)
    ]


def chosen_rows(purpose: str, seed: int, m: int, *place: int) -> Iterator[int]:
    """The oracle's own reading of the rule for chosen rows, in no hurry.

    Word i is the first 8 bytes (little endian) of SHA-256("ppodc v1 " purpose | n | seed | place |
    i), all numbers as 8 bytes, n the number of places; words from the largest multiple of m that
    is at most 2^64 on are passed over; the row is the word modulo m.
    """
    for i in itertools.count():
        numbers = [len(place), seed, *place, i]
        text = f"ppodc v1 {purpose}".encode() + struct.pack(f"<{len(numbers)}Q", *numbers)
        (word,) = struct.unpack_from("<Q", hashlib.sha256(text).digest())
        if word < 2**64 - 2**64 % m:
            yield word % m


def _first_rows(seed: int, m: int, k: int) -> list[int]:
    """The first k distinct rows of the stream."""
    if not 1 <= k <= m:
        raise InputError(f"{k} clusters cannot start from {m} records: use at most as many as rows")
    chosen: list[int] = []
    for row in chosen_rows("initial rows", seed, m):
        if row not in chosen:
            chosen.append(row)
        if len(chosen) == k:
            break
    return chosen


def kmeans(
    records: NDArray[Any],
    k: int,
    *,
    beta: Fraction | int | str,
    max_iter: int,
    seed: int,
    centres: NDArray[Any] | None = None,
    keep: NDArray[np.bool_] | None = None,
) -> Trace:
    """Algorithm 5.1 with integers 0..2^20, from k records or from public integer `centres`.

    Records that `keep` leaves out have a label, and may start a cluster, but are in no sum.
    """
    points = _integers(records, "the records")
    limit = Fraction(beta)
    if max_iter < 1 or limit < 0:
        raise InputError("max_iter must be at least 1 and beta at least 0")
    if not 0 <= seed < 1 << 63:
        raise InputError("the seed must be a whole number from 0 to 2^63 - 1")
    if centres is None:
        sums = points[_first_rows(seed, len(points), k)]
    else:
        sums = _integers(centres, "the initial centres")
        if sums.shape != (k, points.shape[1]):
            raise InputError(f"the initial centres must have shape {(k, points.shape[1])}")
    sizes = np.ones(k, np.int64)
    iterations: list[Iteration] = []
    for i in range(1, max_iter + 1):
        labels = nearest(points, sums, sizes)
        stand_ins = [next(chosen_rows("reseed row", seed, len(points), i, h)) for h in range(k)]
        counted = np.ones(len(points), np.bool_) if keep is None else keep
        new_sums, new_sizes = _clusters(points, labels, stand_ins, counted)
        stop = movement(sums, sizes, new_sums, new_sizes) <= limit
        sums, sizes = new_sums, new_sizes
        iterations.append(Iteration(labels, sums, sizes, stop))
        if stop:
            break
    return Trace(iterations)


def _integers(values: NDArray[Any], what: str) -> Integers:
    """(rows, l) as int64 after checking type, shape and range."""
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "iu":
        raise InputError(f"{what} must be a non-empty two-dimensional array of integers")
    if values.min() < 0 or values.max() > MAX_VALUE:
        raise InputError(f"{what} must lie in 0..{MAX_VALUE}")
    return values.astype(np.int64)


def nearest(records: Integers, sums: Integers, sizes: Integers) -> Integers:
    """The nearest cluster of each record, the lowest index on ties; exact on any input.

    ||t - mu_h||^2 without its common ||t||^2 is (||lambda_h||^2 - 2 |c_h| t.lambda_h) / |c_h|^2.
    With L the least common multiple of the sizes, multiplying by L^2 leaves Python integers.
    """
    counts = sizes.tolist()
    scale = math.lcm(*counts)
    weights = [(scale // size) ** 2 for size in counts]
    norms = [sum(value * value for value in row) for row in sums.tolist()]
    constant = np.array([w * n for w, n in zip(weights, norms, strict=True)], object)
    factor = np.array([2 * w * size for w, size in zip(weights, counts, strict=True)], object)
    bound = records.shape[1] * int(records.max()) * int(sums.max())
    kind: Any = np.int64 if bound < 1 << 63 else object
    points, directions = records.astype(kind, copy=False), sums.T.astype(kind)
    labels = np.empty(len(records), np.int64)
    for start in range(0, len(records), _CHUNK):
        inner = (points[start : start + _CHUNK] @ directions).astype(object)
        labels[start : start + _CHUNK] = np.argmin(constant - factor * inner, axis=1)
    return labels


def _clusters(
    records: Integers, labels: Integers, candidates: Sequence[int], keep: NDArray[np.bool_]
) -> tuple[Integers, Integers]:
    """Sums and sizes by label; an empty cluster h becomes the record candidates[h]."""
    k = len(candidates)
    sizes = np.bincount(labels[keep], minlength=k).astype(np.int64)
    sums = np.stack([records[(labels == h) & keep].sum(axis=0) for h in range(k)])
    for h in np.flatnonzero(sizes == 0).tolist():
        sums[h], sizes[h] = records[candidates[h]], 1
    return sums, sizes


def movement(
    old_sums: Integers, old_sizes: Integers, new_sums: Integers, new_sizes: Integers
) -> Fraction:
    """The sum over clusters of the squared distance between old and new centre (Eq. 5.4)."""
    total = Fraction(0)
    for old, size, new, new_size in pairs_of_clusters(old_sums, old_sizes, new_sums, new_sizes):
        squares = sum((new_size * a - size * b) ** 2 for a, b in zip(old, new, strict=True))
        total += Fraction(squares, (size * new_size) ** 2)
    return total


def pairs_of_clusters(
    old_sums: ArrayLike, old_sizes: ArrayLike, new_sums: ArrayLike, new_sizes: ArrayLike
) -> list[tuple[list[int], int, list[int], int]]:
    """(old sums, old size, new sums, new size) of each cluster as Python integers."""
    columns = [np.asarray(part).tolist() for part in (old_sums, old_sizes, new_sums, new_sizes)]
    return list(zip(*columns, strict=True))
