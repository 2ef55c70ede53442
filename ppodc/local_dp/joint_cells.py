"""`joint`: a record of categories tells its cell, through one oracle and with its whole epsilon.

Its joint cell, where these can be counted. Otherwise P public points are drawn from the domain by
the public seed, and the cell is the point that differs from the record in the fewest attributes
(the lowest on ties): coarser, and equally private, since the points do not depend on data. The
collector finds modes of the cells with their estimated counts as weights.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.local_dp.categories import cells_of
from ppodc.local_dp.codebook import Expectation
from ppodc.local_dp.kmodes import nearest_mode
from ppodc.local_dp.mechanism import Clusters, all_cells, modes_of
from ppodc.local_dp.oracles import Oracle, oracle
from ppodc.local_dp.report_streams import RecordStreams
from ppodc.local_dp.tallies import Numbers, Reports
from ppodc.privacy.guarantee import Guarantee, PrivacyReport
from ppodc.records.upload_form import RowsPart


@dataclass(frozen=True, slots=True, eq=False)
class Cells(ABC):
    """Values of each attribute, and the oracle that tells cells apart."""

    sizes: tuple[int, ...]
    oracle: Oracle

    @abstractmethod
    def cells(self, records: NDArray[Any]) -> NDArray[np.int64]:
        """The number of each record's cell."""

    @abstractmethod
    def all(self) -> NDArray[np.int64]:
        """The values (cells, attributes) of every cell."""

    @abstractmethod
    def digest(self) -> bytes: ...

    def guarantee(self) -> PrivacyReport:
        return PrivacyReport(Guarantee(self.oracle.epsilon), ())

    @property
    def part(self) -> RowsPart:
        return self.oracle.part

    def check(self, reports: NDArray[Any]) -> None:
        self.oracle.check(reports)

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        return self.oracle.perturb(self.cells(records), streams)

    def tally(self, reports: NDArray[Any], found: Numbers = ()) -> Numbers:
        return (self.oracle.count(reports),)

    def collect(self, reports: Reports, n: int, k: int, seed: int) -> Clusters:
        estimates = self.oracle.estimate(reports.total()[0], n)
        variance = n * self.oracle.variance
        return modes_of(self.all(), estimates, variance, self.sizes, n, k, seed)

    def label(self, records: NDArray[Any], centres: NDArray[np.float64]) -> NDArray[np.int64]:
        return nearest_mode(records, np.rint(centres).astype(np.int64))

    def expectation(self, n: int, k: int) -> Expectation:
        return Expectation(n, k, self.oracle.cells, len(self.sizes), self.oracle.variance)


@dataclass(frozen=True, slots=True, eq=False)
class JointCells(Cells):
    """A cell for every combination of values."""

    def cells(self, records: NDArray[Any]) -> NDArray[np.int64]:
        return cells_of(records, self.sizes)

    def all(self) -> NDArray[np.int64]:
        return all_cells(self.sizes)

    def digest(self) -> bytes:
        return hashlib.sha256(f"joint {self.sizes} {self.oracle}".encode()).digest()


@dataclass(frozen=True, slots=True, eq=False)
class SampledCells(Cells):
    """A cell for every one of these points (P, attributes)."""

    points: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: float, points: int, seed: int) -> "SampledCells":
        """Points drawn from the domain by the public seed."""
        random = SecureRandom.public(seed)
        columns = [np.array(random.below(size, points), np.int64) for size in sizes]
        return cls(tuple(sizes), oracle(points, epsilon), np.stack(columns, axis=1))

    def cells(self, records: NDArray[Any]) -> NDArray[np.int64]:
        return nearest_mode(records, self.points)

    def all(self) -> NDArray[np.int64]:
        return self.points

    def digest(self) -> bytes:
        text = f"sampled cells {self.sizes} {self.oracle} "
        return hashlib.sha256(text.encode() + self.points.astype("<i8").tobytes()).digest()
