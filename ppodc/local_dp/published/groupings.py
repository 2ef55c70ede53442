"""Clusterings of bit reports that need all pairs: matrix kCluster, average linkage, DBSCAN.

The collector estimates the distance of every pair of reports, in parts of a column's range, and
clusters those: up to 20,000 reports, 4 n^2 bytes. Each owner gets the labels of its own reports,
-1 for noise; everybody gets centres, as with the linear form. Nothing but reports is used, so no
privacy is spent beyond them. Distances carry the noise of all bits: `deviation` says how much, and
only budgets that protect nobody make it small.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import SpecError
from ppodc.local_dp.kmodes import MAX_ITERATIONS
from ppodc.local_dp.mechanism import Clusters, FlippedBits
from ppodc.local_dp.published.bit_estimates import DistanceScale
from ppodc.local_dp.published.kcluster import MATRIX_ROWS, dbscan, kcluster_matrix
from ppodc.local_dp.published.packed_bits import unpack
from ppodc.local_dp.tallies import Reports
from ppodc.toml_document import check_whole, double

GroupingName = Literal["matrix", "hierarchical", "dbscan"]
Labels = NDArray[np.int64]
Matrix = NDArray[np.float32]
_BLURRED = 0.5  # of a range: a deviation with which no two ends of it are told apart


@dataclass(frozen=True, slots=True)
class Grouping:
    """A method, and for DBSCAN the radius in parts of a range and the records of a core."""

    method: GroupingName
    radius: float = 0.0
    least: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(GroupingName):
            raise SpecError(f"job.grouping must be one of {', '.join(get_args(GroupingName))}")
        dense = self.method == "dbscan"
        if (self.radius > 0, self.least > 0) != (dense, dense):
            raise SpecError("job.radius and job.least are both needed for dbscan, and only there")

    @classmethod
    def of(cls, method: Any, radius: Any, least: Any) -> "Grouping":
        """From a spec, where `radius` and `least` may be missing."""
        reach = 0.0 if radius is None else double(radius, "job.radius")
        if least is not None:
            check_whole(least, "job.least", 1, MATRIX_ROWS)
        return cls(method, reach, least or 0)

    def to_dict(self) -> dict[str, Any]:
        """The keys of a spec."""
        dense = {"radius": self.radius, "least": self.least} if self.least else {}
        return {"grouping": self.method, **dense}

    def labels(self, distances: Matrix, k: int, seed: int) -> Labels:
        """0..k - 1, or -1; of DBSCAN the k largest clusters, the largest first."""
        if self.method == "matrix":
            random = SecureRandom.public(seed)
            return kcluster_matrix(distances, k, max_iter=MAX_ITERATIONS, random=random).labels
        if self.method == "hierarchical":
            return average_linkage(distances, k)
        found = dbscan(distances, self.radius, self.least)
        sizes = np.bincount(found[found >= 0])
        place = np.full(len(sizes) + 1, -1)  # the last for noise
        largest = np.argsort(-sizes, kind="stable")[:k]
        place[largest] = np.arange(len(largest))
        return np.asarray(place[found], np.int64)


@dataclass(frozen=True, slots=True)
class GroupedBits(FlippedBits):
    """Bit reports that are clustered by their pairs; perturbed as those of the linear form."""

    grouping: Grouping
    t: int

    @property
    def scale(self) -> DistanceScale:
        """Of distances in parts of a range."""
        code = self.reports.code
        return DistanceScale.of(self.reports.flips, code.bits, 1.0, self.t / code.ub)

    @property
    def deviation(self) -> float:
        """Standard deviation of the estimated distance of two records."""
        return self.scale.noise * math.sqrt(self.reports.attributes)

    @property
    def blurred(self) -> bool:
        """Whether distances are little but noise."""
        return self.deviation > (self.grouping.radius or _BLURRED)

    def collect(self, reports: Reports, n: int, k: int, seed: int) -> Clusters:
        from ppodc.local_dp.published.distances import check_matrix_rows, distance_matrix

        check_matrix_rows(n)
        attributes, bits = self.reports.attributes, self.reports.code.bits
        rows = reports.rows(np.arange(n))
        labels = self.grouping.labels(distance_matrix(rows, attributes, self.scale), k, seed)
        ones, sizes = np.zeros((k, attributes * bits), np.int64), np.zeros(k, np.int64)
        for h in range(k):
            own = rows[labels == h]
            sizes[h] = len(own)
            strings = unpack(own.reshape(len(own) * attributes, -1), bits) if len(own) else ones[:0]
            ones[h] = strings.reshape(len(own), -1).sum(axis=0) if len(own) else 0
        return Clusters(self.centres(ones, sizes), sizes.astype(np.float64), labels=labels)


def average_linkage(distances: Matrix, k: int) -> Labels:
    """k clusters that are merged by mean distance (UPGMA), numbered by their first record.

    Chains of nearest neighbours find the merges in O(n^2); the lowest n - k of them count.
    """
    n, apart = len(distances), np.array(distances, np.float64)
    np.fill_diagonal(apart, np.inf)
    sizes, alive = np.ones(n), np.ones(n, bool)
    merges: list[tuple[float, int, int]] = []
    chain: list[int] = []
    while len(merges) < n - 1:
        if not chain:
            chain = [int(alive.argmax())]
        last = chain[-1]
        near = int(apart[last].argmin())
        if len(chain) > 1 and apart[last, chain[-2]] <= apart[last, near]:
            near = chain[-2]
        if len(chain) < 2 or near != chain[-2]:
            chain.append(near)
            continue
        del chain[-2:]
        merges.append((float(apart[last, near]), last, near))
        row = (sizes[last] * apart[last] + sizes[near] * apart[near]) / (sizes[last] + sizes[near])
        sizes[near] += sizes[last]
        row[[last, near]] = np.inf
        apart[near], apart[:, near], apart[last], apart[:, last] = row, row, np.inf, np.inf
        alive[last] = False
    return _cut(n, sorted(merges)[: n - k])


def _cut(n: int, merges: list[tuple[float, int, int]]) -> Labels:
    """Clusters of records that these merges join."""
    parent = list(range(n))

    def root(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for _, first, second in merges:
        parent[root(first)] = root(second)
    roots = [root(x) for x in range(n)]
    numbers = {each: number for number, each in enumerate(dict.fromkeys(roots))}
    return np.array([numbers[each] for each in roots], np.int64)
