"""`joint` where there are too many joint cells to count: the nearest of some points of the domain.

P public points are drawn from the domain by the public seed; a record tells, through one oracle and
with its whole epsilon, which of them differs from it in the fewest attributes (the lowest on ties).
The collector finds modes of the points with their estimated counts as weights: coarser than cells,
and equally private, since the points do not depend on data.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.ldp.codebook import Expectation
from ppodc.ldp.kmodes import nearest_mode
from ppodc.ldp.mechanism import Clusters, modes_of
from ppodc.ldp.oracles import Oracle, oracle
from ppodc.ldp.report_streams import RecordStreams
from ppodc.ldp.tallies import Numbers, Reports
from ppodc.records.privacy_report import Guarantee, PrivacyReport
from ppodc.records.upload_form import RowsPart


@dataclass(frozen=True, slots=True, eq=False)
class SampledCells:
    """Points (P, attributes), and the oracle that tells them apart."""

    sizes: tuple[int, ...]
    points: NDArray[np.int64]
    oracle: Oracle

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: float, points: int, seed: int) -> "SampledCells":
        """Points drawn from the domain by the public seed."""
        random = SecureRandom(seed.to_bytes(32, "big"))
        columns = [np.array(random.below(size, points), np.int64) for size in sizes]
        return cls(tuple(sizes), np.stack(columns, axis=1), oracle(points, epsilon))

    def guarantee(self) -> PrivacyReport:
        return PrivacyReport(Guarantee(self.oracle.epsilon), ())

    @property
    def part(self) -> RowsPart:
        return self.oracle.part

    def check(self, reports: NDArray[Any]) -> None:
        self.oracle.check(reports)

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        return self.oracle.perturb(self.cells(records), streams)

    def cells(self, records: NDArray[Any]) -> NDArray[np.int64]:
        """The number of each record's nearest point."""
        return nearest_mode(records, self.points)

    def tally(self, reports: NDArray[Any], found: Numbers = ()) -> Numbers:
        return (self.oracle.count(reports),)

    def collect(self, reports: Reports, n: int, k: int, seed: int) -> Clusters:
        estimates = self.oracle.estimate(reports.total()[0], n)
        return modes_of(self.points, estimates, self.sizes, n, k, seed)

    def digest(self) -> bytes:
        text = f"sampled cells {self.sizes} {self.oracle} "
        return hashlib.sha256(text.encode() + self.points.astype("<i8").tobytes()).digest()

    def expectation(self, n: int, k: int) -> Expectation:
        return Expectation(n, k, len(self.points), len(self.sizes), self.oracle.variance)
