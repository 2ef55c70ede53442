"""`mixed`: records of numbers and words; each tells its nearest public point, once.

Distance is that of k-prototypes: squared distance over numbers, and for every word that differs as
much as two numbers that are `mismatch` parts of their range apart. So a word is a corner of its own
in a space of numbers, two corners sqrt(2) `step` apart, and everything else is `codebook`: one
report through one oracle with the whole epsilon, debiased counts, k-means on the points. Means of
corners are settled on the heaviest word, which makes prototypes of centres.

Points are those of `codebook` over the numbers, the same for every combination of words; where
these are more than the points, each point has a combination drawn by the public seed. They do not
depend on data, so any of them is equally private: epsilon is the oracle's, whatever the columns.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import SpecError
from ppodc.local_dp.categories import values_of
from ppodc.local_dp.codebook import MAX_POINTS, Codebook, Expectation
from ppodc.local_dp.mechanism import Clusters, NearestPoint
from ppodc.local_dp.oracles import oracle
from ppodc.local_dp.stability import SPREAD, Stability
from ppodc.local_dp.tallies import Reports
from ppodc.privacy.spread_points import spread_points
from ppodc.privacy.weighted_kmeans import nearest

MAX_WORDS = 1024  # of all columns together
Reals = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns in a space of numbers: 0..ub for a number (size 0), a corner for each word."""

    sizes: tuple[int, ...]
    ub: int
    step: int

    @classmethod
    def of(cls, sizes: Sequence[int], ub: int, mismatch: float) -> "Layout":
        """InputError unless there are numbers and words, and not too many of these."""
        words = [size for size in sizes if size]
        if not words or len(words) == len(sizes):
            raise SpecError(
                "mixed needs columns of numbers (low, high) and of words (values): for numbers "
                "alone use codebook, for categories alone joint"
            )
        if sum(words) > MAX_WORDS:
            raise SpecError(f"mixed takes at most {MAX_WORDS} words in all columns: merge some")
        return cls(tuple(sizes), ub, max(1, math.isqrt(int((Fraction(mismatch) * ub) ** 2 / 2))))

    @property
    def numbers(self) -> list[int]:
        """The places of columns of numbers."""
        return [place for place, size in enumerate(self.sizes) if not size]

    @property
    def combinations(self) -> int:
        """Of words."""
        return math.prod(size for size in self.sizes if size)

    def _blocks(self) -> list[tuple[int, int, slice]]:
        """(column, size, its coordinates)."""
        widths = [size or 1 for size in self.sizes]
        ends = np.cumsum(widths).tolist()
        return [
            (place, size, slice(end - (size or 1), end))
            for place, (size, end) in enumerate(zip(self.sizes, ends, strict=True))
        ]

    def spread(self, records: NDArray[Any]) -> NDArray[Any]:
        """Records (n, columns) as coordinates, of the same type."""
        blocks = self._blocks()
        out = np.zeros((len(records), blocks[-1][2].stop), records.dtype)
        for place, size, block in blocks:
            if size:
                corners = block.start + records[:, place].astype(np.int64)
                out[np.arange(len(out)), corners] = self.step
            else:
                out[:, block.start] = records[:, place]
        return out

    def cell(self, points: int) -> Reals | None:
        """Deviation of a record from its point: none of words, if all combinations have points."""
        if self.combinations > points:
            return None
        width = (points / self.combinations) ** (-1 / len(self.numbers)) / math.sqrt(12)
        return np.concatenate(
            [np.zeros(size) if size else [self.ub * width] for size in self.sizes]
        )

    def settle(self, centres: Reals) -> Reals:
        """Every block of words on its heaviest one, the lowest on ties."""
        return np.asarray(self.spread(self.back(centres)), np.float64)

    def back(self, centres: Reals) -> Reals:
        """Centres (k, columns): numbers, and of words the number of the heaviest."""
        columns = [
            centres[:, block].argmax(axis=1).astype(np.float64) if size else centres[:, block.start]
            for _, size, block in self._blocks()
        ]
        return np.stack(columns, axis=1)

    def errors(self, errors: Reals) -> Reals:
        """Standard errors of numbers; of words the share of draws in which another one wins."""
        columns = [
            np.minimum(1.0, (errors[:, block] ** 2).sum(axis=1) / (2 * (SPREAD * self.step) ** 2))
            if size
            else errors[:, block.start]
            for _, size, block in self._blocks()
        ]
        return np.stack(columns, axis=1)


def mixed_points(layout: Layout, count: int, seed: int) -> Integers:
    """About `count` points: a multiple of the combinations of words, where these are not more."""
    words = [size for size in layout.sizes if size]
    each = max(1, round(count / layout.combinations))
    every = layout.combinations <= count  # which is at most MAX_POINTS
    rows = min(each, MAX_POINTS // layout.combinations) if every else count
    numbers = spread_points(rows, len(layout.numbers), layout.ub, seed)
    if every:
        drawn = np.repeat(values_of(np.arange(layout.combinations), words), rows, axis=0)
        numbers = np.tile(numbers, (layout.combinations, 1))
    else:
        random = SecureRandom.public(seed)
        drawn = np.stack([np.array(random.below(size, count), np.int64) for size in words], axis=1)
    records = np.zeros((len(drawn), len(layout.sizes)), np.int64)
    records[:, layout.numbers] = numbers
    records[:, [place for place, size in enumerate(layout.sizes) if size]] = drawn
    return np.asarray(layout.spread(records), np.int64)


@dataclass(frozen=True, slots=True)
class NearestMixed(NearestPoint):
    """`mixed`: the codebook lies in the layout's space."""

    layout: Layout

    @classmethod
    def of(cls, layout: Layout, epsilon: float, points: int, seed: int) -> "NearestMixed":
        """Points over all columns by the public seed."""
        made = mixed_points(layout, points, seed)
        cell = layout.cell(len(made))
        return cls(Codebook(made, oracle(len(made), epsilon), layout.settle, cell), layout)

    def cells(self, records: NDArray[Any]) -> Integers:
        return self.book.cells(self.layout.spread(records))

    def label(self, records: NDArray[Any], centres: Reals) -> Integers:
        spread = self.layout.spread(records).astype(np.float64)
        return nearest(spread, self.layout.spread(centres))

    def collect(self, reports: Reports, n: int, k: int, seed: int) -> Clusters:
        found = NearestPoint.collect(self, reports, n, k, seed)
        stability = found.stability
        if stability is not None:
            stability = Stability(stability.loss, self.layout.errors(stability.errors))
        return Clusters(self.layout.back(found.centres), found.sizes, stability)

    def digest(self) -> bytes:
        return hashlib.sha256(f"mixed {self.layout} ".encode() + self.book.digest()).digest()

    def expectation(self, n: int, k: int) -> Expectation:
        columns = len(self.layout.sizes)
        return Expectation(n, k, len(self.book.points), columns, self.book.oracle.variance)
