"""Columns of the same records at different owners, under local differential privacy.

Each owner tells, for every record, the nearest of some public points over its own columns, by
randomized response with its share of epsilon; it needs to know nothing of the others. The
collector pairs the reports of a row and estimates how many records lie at every combination of
points: the response matrix of a combination is the product of the owners' (`categories`). k-means
on the combinations with these weights gives centres over all columns.

A record spends the sum of the shares, exactly, against a collector that has all of its reports.
Rows must stand in the same order at all owners. The variance of a count is the product of the
owners' variances, so this needs many more records than one owner with all columns does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import OptionError, TableError
from ppodc.local_dp.categories import AttributeResponse, values_of
from ppodc.local_dp.codebook import points_for
from ppodc.local_dp.frequencies import possible
from ppodc.local_dp.mechanism import Clusters
from ppodc.local_dp.report_streams import RecordStreams
from ppodc.local_dp.stability import shaken
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.privacy.spread_points import spread_points
from ppodc.privacy.weighted_kmeans import nearest, weighted_kmeans

_FEWEST = 4  # points of an owner
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SplitColumns:
    """Points (P, columns) of every owner, and the response that tells them apart."""

    points: tuple[NDArray[np.int64], ...]
    response: AttributeResponse

    @classmethod
    def of(
        cls, columns: Sequence[int], ub: int, epsilon: float, n: int, k: int, seed: int
    ) -> "SplitColumns":
        """For owners with so many columns each; epsilon of a record is shared out evenly."""
        if len(columns) < 2:
            raise OptionError("columns are split between two owners or more")
        total = points_for(n, k, epsilon / len(columns))
        each = max(_FEWEST, math.ceil(total ** (1 / len(columns))))
        points = tuple(spread_points(each, own, ub, seed) for own in columns)
        return cls(points, AttributeResponse.of((each,) * len(columns), epsilon))

    def guarantee(self) -> PrivacyReport:
        """Of one record at all owners together; `per_attribute` has every owner's share."""
        return self.response.guarantee()

    def perturb(self, owner: int, records: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        """At one owner: (records, 1) numbers of points."""
        points, other = self.points[owner], self.response.others[owner]
        own = AttributeResponse((len(points),), (other,))
        cells = nearest(records.astype(np.float64), points.astype(np.float64))
        return own.perturb(cells[:, None], streams)

    def collect(self, reports: Sequence[NDArray[Any]], k: int, seed: int) -> Clusters:
        """At the collector: k clusters from the owners' reports of the same rows."""
        if len(reports) != len(self.points) or len({len(own) for own in reports}) != 1:
            raise TableError("every owner must report the same rows, in the same order")
        paired = np.concatenate(reports, axis=1)
        self.response.check(paired)
        n, sizes = len(paired), self.response.sizes
        counts = self.response.count(paired)
        weights = possible(self.response.estimate(counts, n), n)
        if np.count_nonzero(weights) < k:
            weights = weights + 1.0
        places = self._places(values_of(np.arange(math.prod(sizes)), sizes))
        centres, held = weighted_kmeans(places, weights, k, random=SecureRandom.public(seed))
        deviations = np.sqrt(self.response.variance(counts, n))
        stability = shaken(places, weights, deviations, centres, seed)
        return Clusters(centres, held, stability, nearest(self._places(paired), centres))

    def _places(self, numbers: NDArray[Any]) -> Reals:
        """Coordinates over all columns of combinations of points."""
        parts = [points[numbers[:, j]] for j, points in enumerate(self.points)]
        return np.concatenate(parts, axis=1).astype(np.float64)
