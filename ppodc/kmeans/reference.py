"""Exact k-means on plaintext: what both suites must reproduce to the last bit.

Clusters are pairs (sums, size), as in the chapter; a centre is the fraction sums / size and never
becomes a float. Ties go to the lowest cluster index. A cluster that comes out empty becomes one
record (size 1) whose row follows from the public seed, the iteration and the cluster's index; that
record stays in its own cluster too, so sizes add up to at most m + k. Such a record is no part of
the result: owners get sums and sizes as they were before, and zeros for too small clusters.

*Too small*: an owner is told of a cluster only if at least `min_size` of its records are not the
owner's own, which it knows and could subtract. Where one owner has all records, all of them count.

*k-means++*: the first record is that of the first initial row. For each further one, D_i is the
squared distance of record i to the nearest chosen one and P_i = D_0 + ... + D_i; with u, a fraction
of 64 bits from the seed, the first record with P_i > u P_(m-1) is chosen, or the last record where
none is (all D are 0). *Rows that do not count* (dummies, duplicates): their D are 0, so that no
further record is one of them; the first, those of "random" and stand-ins may be. *Several starts*:
the least inertia, sum ||x||^2 - sum ||lambda_h||^2 / n_h, wins, the earlier one on ties.
"""

import hashlib
import itertools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ppodc.errors import OptionError
from ppodc.records.sharing import MAX_VALUE

_CHUNK = 1 << 15  # rows whose scores are Python integers at the same time

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration: clusters as assigned, as the next one begins with them, and the stop bit.

    `sums` and `sizes` are of the records assigned; in `next_sums` and `next_sizes` a record stands
    in the place of each empty cluster; `squares` are the sums of ||x||^2; `members` (k, owners) are
    the sizes by owner, where owners are told apart.
    """

    labels: Integers
    sums: Integers
    sizes: Integers
    squares: tuple[int, ...]
    next_sums: Integers
    next_sizes: Integers
    stop: bool
    members: Integers | None = None

    def told(self, min_size: int, owner: int) -> NDArray[np.bool_]:
        """Which clusters the owner of this number is told of."""
        if self.members is None or min_size <= 1:
            return self.sizes >= min_size
        told: NDArray[np.bool_] = self.sizes - self.members[:, owner] >= min_size
        return told

    def revealed(self, min_size: int, owner: int = 0) -> tuple[Integers, Integers]:
        """Sums and sizes as an owner gets them: zeros for clusters that it is not told of."""
        large = self.told(min_size, owner)
        return np.where(large[:, None], self.sums, 0), np.where(large, self.sizes, 0)

    def inertia(self, min_size: int = 1, owner: int = 0) -> Fraction:
        """Squared distances to the centres, over clusters that the owner is told of."""
        sums, sizes = (part.tolist() for part in self.revealed(min_size, owner))
        total = Fraction(0)
        for row, n, squares in zip(sums, sizes, self.squares, strict=True):
            if n:
                total += squares - Fraction(sum(value * value for value in row), n)
        return total


@dataclass(frozen=True, slots=True)
class Trace:
    """All iterations of a run; the properties speak of the last one, as one owner gets it."""

    iterations: list[Iteration]
    min_size: int = 1
    owner: int = 0

    def for_owner(self, owner: int) -> "Trace":
        """The trace as the owner of this number gets it."""
        return replace(self, owner=owner)

    @property
    def labels(self) -> Integers:
        return self.iterations[-1].labels

    @property
    def sums(self) -> Integers:
        return self.iterations[-1].revealed(self.min_size, self.owner)[0]

    @property
    def sizes(self) -> Integers:
        return self.iterations[-1].revealed(self.min_size, self.owner)[1]

    @property
    def inertia(self) -> Fraction:
        return self.iterations[-1].inertia(self.min_size, self.owner)

    @property
    def n_iter(self) -> int:
        return len(self.iterations)

    @property
    def converged(self) -> bool:
        return self.iterations[-1].stop


def centres(sums: Integers, sizes: Integers) -> list[list[Fraction]]:
    """sums / size of each cluster (Eq. 5.1), none of which is empty."""
    return [
        [Fraction(value, size) for value in row]
        for row, size in zip(sums.tolist(), sizes.tolist(), strict=True)
    ]


def as_taken_in(values: NDArray[Any], ub: int) -> Integers:
    """Records as they count, whatever was uploaded: min(t mod 2^b, ub) with b = bits(ub)."""
    taken: Integers = np.minimum(values % (1 << ub.bit_length()), ub).astype(np.int64)
    return taken


def chosen_rows(purpose: str, seed: int, m: int, *place: int) -> Iterator[int]:
    """The rule for chosen rows, computed independently and slowly.

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


def _first_rows(seed: int, m: int, k: int, start: int) -> list[int]:
    """The first k distinct rows of the stream."""
    if not 1 <= k <= m:
        raise OptionError(
            f"{k} clusters cannot start from {m} records: use at most as many as rows"
        )
    chosen: list[int] = []
    for row in chosen_rows("initial rows", seed, m, *_place(start)):
        if row not in chosen:
            chosen.append(row)
        if len(chosen) == k:
            break
    return chosen


def spread_rows(
    records: NDArray[Any],
    seed: int,
    k: int,
    start: int = 0,
    keep: NDArray[np.bool_] | None = None,
) -> list[int]:
    """The rows that k-means++ chooses, all but the first among those that `keep` leaves."""
    points = _integers(records, "the records")
    chosen = _first_rows(seed, len(points), 1, start)
    distances = _squared_distances(points, chosen[0])
    if keep is not None:
        distances = np.where(keep, distances, 0)
    while len(chosen) < k:
        word = next(chosen_rows("k-means++", seed, 2**64, len(chosen), *_place(start)))
        sums = list(itertools.accumulate(distances.tolist()))
        bound = Fraction(word, 2**64) * sums[-1]
        chosen.append(next((i for i, sum_i in enumerate(sums) if sum_i > bound), len(sums) - 1))
        distances = np.minimum(distances, _squared_distances(points, chosen[-1]))
    return chosen


def _squared_distances(points: Integers, row: int) -> Integers:
    """Of all points to one of them; below 2^40 per attribute."""
    squared: Integers = ((points - points[row]) ** 2).sum(axis=1)
    return squared


def _place(start: int) -> tuple[int, ...]:
    """A start's part in the name of a stream of rows; empty for the first start."""
    return (start,) if start else ()


def kmeans(
    records: NDArray[Any],
    k: int,
    *,
    beta: Fraction | int | str,
    max_iter: int,
    seed: int,
    centres: NDArray[Any] | None = None,
    keep: NDArray[np.bool_] | None = None,
    min_size: int = 1,
    init: str = "random",
    start: int = 0,
    stops: bool = True,
    owners: NDArray[Any] | None = None,
) -> Trace:
    """Algorithm 5.1 with integers 0..2^20, from k records or from public integer `centres`.

    `init` is "random" or "k-means++", `start` the number of the start. Without `stops` all
    `max_iter` iterations are done.
    Records that `keep` leaves out have a label, and may start a cluster where rows follow from the
    seed, but are in no sum. The
    result says nothing of clusters that end with fewer than `min_size` records; with `owners`, the
    number of each record's owner or (records, owners) how much of it is its own, nothing to an
    owner without whose records they are fewer.
    """
    points = _integers(records, "the records")
    limit = Fraction(beta)
    if max_iter < 1 or limit < 0:
        raise OptionError("max_iter must be at least 1 and beta at least 0")
    if not 0 <= seed < 1 << 63:
        raise OptionError("the seed must be a whole number from 0 to 2^63 - 1")
    if centres is None:
        if init == "k-means++":
            sums = points[spread_rows(points, seed, k, start, keep)]
        else:
            sums = points[_first_rows(seed, len(points), k, start)]
    else:
        sums = _integers(centres, "the initial centres")
        if sums.shape != (k, points.shape[1]):
            raise OptionError(f"the initial centres must have shape {(k, points.shape[1])}")
    sizes = np.ones(k, np.int64)
    iterations: list[Iteration] = []
    for i in range(1, max_iter + 1):
        labels = nearest(points, sums, sizes)
        stand_ins = [
            next(chosen_rows("reseed row", seed, len(points), i, h, *_place(start)))
            for h in range(k)
        ]
        counted = np.ones(len(points), np.bool_) if keep is None else keep
        new_sums, new_sizes = _clusters(points[counted], labels[counted], k)
        squares = _squares(points[counted], labels[counted], k)
        next_sums, next_sizes = _reseeded(new_sums, new_sizes, points[stand_ins])
        stop = stops and movement(sums, sizes, next_sums, next_sizes) <= limit
        members = None if owners is None else _members(labels, owners, counted, k)
        iterations.append(
            Iteration(labels, new_sums, new_sizes, squares, next_sums, next_sizes, stop, members)
        )
        sums, sizes = next_sums, next_sizes
        if stop:
            break
    return Trace(iterations, min_size)


def _integers(values: NDArray[Any], what: str) -> Integers:
    """(rows, l) as int64 after checking type, shape and range."""
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "iu":
        raise OptionError(f"{what} must be a non-empty two-dimensional array of integers")
    if values.min() < 0 or values.max() > MAX_VALUE:
        raise OptionError(f"{what} must lie in 0..{MAX_VALUE}")
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
    bound = records.shape[1] * int(np.abs(records).max()) * int(sums.max())
    kind: Any = np.int64 if bound < 1 << 63 else object
    points, directions = records.astype(kind, copy=False), sums.T.astype(kind)
    labels = np.empty(len(records), np.int64)
    for start in range(0, len(records), _CHUNK):
        inner = (points[start : start + _CHUNK] @ directions).astype(object)
        labels[start : start + _CHUNK] = np.argmin(constant - factor * inner, axis=1)
    return labels


def _clusters(records: Integers, labels: Integers, k: int) -> tuple[Integers, Integers]:
    """Sums and sizes by label."""
    sizes = np.bincount(labels, minlength=k).astype(np.int64)
    return np.stack([records[labels == h].sum(axis=0) for h in range(k)]), sizes


def _members(
    labels: Integers, owners: NDArray[Any], counted: NDArray[np.bool_], k: int
) -> Integers | None:
    """Sizes by label and owner: (k, owners); None if one of the owners has all records."""
    if owners.ndim == 1:
        if len(np.unique(owners)) < 2:
            return None
        owners = owners[:, None] == np.arange(owners.max() + 1)
    own = owners * counted[:, None]
    return np.stack([own[labels == h].sum(axis=0) for h in range(k)])


def _squares(records: Integers, labels: Integers, k: int) -> tuple[int, ...]:
    """The sum of ||x||^2 by label."""
    norms = (records.astype(np.int64) ** 2).sum(axis=1)  # at most 2^40 per value
    return tuple(sum(norms[labels == h].tolist()) for h in range(k))


def _reseeded(sums: Integers, sizes: Integers, candidates: Integers) -> tuple[Integers, Integers]:
    """Sums and sizes in which an empty cluster h has become the record candidates[h]."""
    empty = sizes == 0
    return np.where(empty[:, None], candidates, sums), np.where(empty, 1, sizes)


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
