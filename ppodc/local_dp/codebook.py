"""`codebook`, the default with one collector: each record tells its nearest public point, once.

A public codebook of P points in the domain; a record reports the number of its nearest point
through a frequency oracle with its whole epsilon: no split over attributes, bits or rounds. The
collector debiases the counts, makes them possible (norm-sub) and runs k-means on the points with
their counts as weights. Any codebook is equally private, since the points do not depend on data.

More points tell more and are noisier: P = 0.4 sqrt(n (e^eps - 1)^2 / e^eps), within 8 k..4096.
`expectation` says before any upload how large the noise of a cluster will be.
"""

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import SpecError, StateError
from ppodc.local_dp.frequencies import possible
from ppodc.local_dp.oracles import Counts, Oracle, oracle
from ppodc.local_dp.report_streams import RecordStreams
from ppodc.local_dp.stability import Stability, shaken
from ppodc.privacy.guarantee import Guarantee, PrivacyReport
from ppodc.privacy.spread_points import spread_points
from ppodc.privacy.weighted_kmeans import Settle, nearest, weighted_kmeans
from ppodc.records.upload_form import RowsPart

MAX_POINTS = 4096
_LARGEST = 100  # epsilon


def points_for(n: int, k: int, epsilon: float) -> int:
    """P by the rule above; a k beyond 512 still gets 4096 points."""
    if n < 1 or k < 1:
        raise SpecError("expected_rows and k must be at least 1")
    if epsilon > _LARGEST:
        raise SpecError(f"epsilon {epsilon:g} is beyond any use: at most {_LARGEST} is taken.")
    signal = math.expm1(epsilon) ** 2 / math.exp(epsilon)
    return min(max(round(0.4 * math.sqrt(n * signal)), 8 * k), MAX_POINTS)


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """Points (P, d) in 0..ub, and the oracle that tells them apart."""

    points: NDArray[np.int64]
    oracle: Oracle
    settle: Settle | None = None  # where not every point of the domain may be a centre
    cell: NDArray[np.float64] | None = None  # as `stability` takes it
    attributes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", self.points.shape[1])

    @classmethod
    def of(
        cls, columns: int, ub: int, epsilon: float, points: int, seed: int, name: str = "auto"
    ) -> "Codebook":
        """Points spread over the domain by the public seed."""
        return cls(spread_points(points, columns, ub, seed), oracle(points, epsilon, name))

    def guarantee(self) -> PrivacyReport:
        """The oracle's epsilon, whatever the number of columns."""
        return PrivacyReport(Guarantee(self.oracle.epsilon), ())

    @property
    def part(self) -> RowsPart:
        return self.oracle.part

    def digest(self) -> bytes:
        """Tells mechanisms apart: memoised reports follow from it."""
        text = f"codebook {self.oracle} {self.points.shape} "
        return hashlib.sha256(text.encode() + self.points.astype("<i8").tobytes()).digest()

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        """At the owner: one report a record."""
        return self.oracle.perturb(self.cells(records), streams)

    def cells(self, records: NDArray[Any]) -> NDArray[np.int64]:
        """The number of each record's nearest point."""
        return nearest(records.astype(np.float64), self.points.astype(np.float64))

    def count(self, reports: NDArray[Any]) -> Counts:
        return self.oracle.count(reports)

    def weights(self, counts: Counts, n: int) -> NDArray[np.float64]:
        """Records at each point: possible, adding up to n."""
        return possible(self.oracle.estimate(counts, n), n)

    def centres(
        self, counts: Counts, n: int, k: int, seed: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(centres, sizes) in 0..ub, at the collector."""
        if n < k:
            raise StateError(f"{k} clusters need at least as many records, and there are {n}")
        weights = self.weights(counts, n)
        if np.count_nonzero(weights) < k:  # nothing but noise: the points themselves must do
            weights = weights + 1.0
        points, random = self.points.astype(np.float64), SecureRandom.public(seed)
        return weighted_kmeans(points, weights, k, random=random, settle=self.settle)

    def stability(
        self, counts: Counts, n: int, centres: NDArray[np.float64], seed: int
    ) -> Stability:
        """The dependence of these centres on the noise of the counts."""
        deviation = math.sqrt(n * self.oracle.variance)
        points = self.points.astype(np.float64)
        return shaken(
            points, self.weights(counts, n), deviation, centres, seed, self.settle, self.cell
        )

    def expectation(self, n: int, k: int) -> "Expectation":
        """The expected quality for n records."""
        return Expectation(n, k, len(self.points), self.attributes, self.oracle.variance)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Before the upload: how much of a cluster is noise.

    An even cluster holds n/k records over P/k points. Each point's count has the deviation
    sqrt(n v), so the cluster's own has sqrt(P/k n v): `noise` is that in parts of its size. In
    trials (SIPU s1, a1, unbalance, Adult, BANK) the mean squared distance to the nearest centre
    was within 1.5 times that of k-means up to noise 0.25, and no better than centres placed
    without any data from 1 on.
    """

    rows: int
    k: int
    points: int
    columns: int
    variance: float  # of a share, times n

    @property
    def share_error(self) -> float:
        """Standard deviation of the share of one point."""
        return math.sqrt(self.variance / self.rows)

    @property
    def noise(self) -> float:
        """Standard deviation of an even cluster's size, in parts of that size."""
        return math.sqrt(self.points * self.k) * self.share_error

    @property
    def centre_error(self) -> float:
        """Of a centre's coordinate, in parts of the range: noise, and half a step of the points.

        An even cluster is as wide as the range times k^(-1/d), so its points deviate from the
        centre by that over sqrt(12), and a weighted mean of such points by `noise` times that.
        """
        width = self.k ** (-1 / self.columns) / math.sqrt(12)
        step = self.points ** (-1 / self.columns) / math.sqrt(12)
        return math.hypot(min(1.0, self.noise) * width, step / math.sqrt(self.points / self.k))

    @property
    def rows_needed(self) -> int:
        """Records with which the noise would fall to a quarter, with as many points."""
        return math.ceil(16 * self.points * self.k * self.variance)

    def verdict(self) -> str:
        """One line for people."""
        if self.noise <= 0.25:
            return "enough records: expect centres close to those of ordinary k-means"
        if self.noise <= 1.0:
            return (
                f"few records: expect blurred clusters; {self.rows_needed:,} rows or a larger "
                "epsilon would do"
            )
        return (
            "too few records: the result will be no better than centres placed without data; "
            f"{self.rows_needed:,} rows or a larger epsilon would do"
        )
