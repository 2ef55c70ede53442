"""A mechanism as the platform uses it: what devices and the collector agree on from a spec.

Each perturbs a record once, with the whole epsilon that the job grants it, and says what the
collector makes of the reports. Counting mechanisms (all but those of bits) need one pass over
the reports and keep only counts; bit vectors (privbv, ldpseg) need one pass for each iteration of
the linear kCluster and keep only sums of bits. Memory does not grow with the number of reports, and
chunks may be tallied anywhere (`tallies`).
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.local_dp.categories import AttributeResponse, values_of
from ppodc.local_dp.codebook import Codebook, Expectation
from ppodc.local_dp.frequencies import possible
from ppodc.local_dp.kmodes import MAX_ITERATIONS, WeightedCells, best_kmodes, nearest_mode
from ppodc.local_dp.published.bit_estimates import bit_shares, centres_of
from ppodc.local_dp.published.bit_reports import BitReports
from ppodc.local_dp.published.kcluster import first_rows
from ppodc.local_dp.published.packed_bits import unpack
from ppodc.local_dp.report_streams import RecordStreams
from ppodc.local_dp.stability import Stability, shaken_modes
from ppodc.local_dp.tallies import Numbers, Reports
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.privacy.weighted_kmeans import nearest
from ppodc.records.upload_form import RowsPart

MechanismName = Literal["codebook", "joint", "mixed", "privbv", "ldpseg", "ldpk-modes"]
NUMERIC = ("codebook", "privbv", "ldpseg")


@dataclass(frozen=True, slots=True)
class Clusters:
    """Centres (k, l) in units of the encoded records, and estimated numbers of records."""

    centres: NDArray[np.float64]
    sizes: NDArray[np.float64]
    stability: Stability | None = None
    labels: NDArray[np.int64] | None = None  # of the reports, where the collector finds them; or -1


class Mechanism(Protocol):
    """A local mechanism. Records are whole numbers, as `ppodc.local_dp.job` encodes them."""

    def guarantee(self) -> PrivacyReport:
        """The guarantee for one record with all its columns."""

    @property
    def part(self) -> RowsPart:
        """The form of reports."""

    def check(self, reports: NDArray[Any]) -> None:
        """Refuse reports that nobody could have drawn, beyond what `part` finds."""

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        """At the owner: one report a record."""

    def tally(self, reports: NDArray[Any], found: Numbers = ()) -> Numbers:
        """At the collector, of a chunk: numbers that add up over chunks."""

    def collect(self, reports: Reports, n: int, k: int, seed: int) -> Clusters:
        """At the collector: k clusters of n reports, from their tallies."""

    def label(self, records: NDArray[Any], centres: NDArray[np.float64]) -> NDArray[np.int64]:
        """At the owner: the nearest centre of each record, the lowest on ties."""

    def digest(self) -> bytes:
        """Tells mechanisms apart: the same digest draws the same noise for the same record."""

    def expectation(self, n: int, k: int) -> Expectation | None:
        """The expected quality for n records, where it is known."""


@dataclass(frozen=True, slots=True)
class NearestPoint:
    """`codebook`: each record tells its nearest public point."""

    book: Codebook

    def guarantee(self) -> PrivacyReport:
        return self.book.guarantee()

    @property
    def part(self) -> RowsPart:
        return self.book.part

    def check(self, reports: NDArray[Any]) -> None:
        self.book.oracle.check(reports)

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        return self.book.oracle.perturb(self.cells(records), streams)

    def cells(self, records: NDArray[Any]) -> NDArray[np.int64]:
        """The number of each record's nearest point."""
        return self.book.cells(records)

    def tally(self, reports: NDArray[Any], found: Numbers = ()) -> Numbers:
        return (self.book.count(reports),)

    def collect(self, reports: Reports, n: int, k: int, seed: int) -> Clusters:
        counts = reports.total()[0]
        centres, sizes = self.book.centres(counts, n, k, seed)
        return Clusters(centres, sizes, self.book.stability(counts, n, centres, seed))

    def label(self, records: NDArray[Any], centres: NDArray[np.float64]) -> NDArray[np.int64]:
        return nearest(records.astype(np.float64), centres)

    def digest(self) -> bytes:
        return self.book.digest()

    def expectation(self, n: int, k: int) -> Expectation:
        return self.book.expectation(n, k)


@dataclass(frozen=True, slots=True)
class EachAttribute:
    """`ldpk-modes`: randomized response on every attribute by itself."""

    response: AttributeResponse

    def guarantee(self) -> PrivacyReport:
        return self.response.guarantee()

    @property
    def part(self) -> RowsPart:
        return self.response.part

    def check(self, reports: NDArray[Any]) -> None:
        self.response.check(reports)

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        return self.response.perturb(records, streams)

    def tally(self, reports: NDArray[Any], found: Numbers = ()) -> Numbers:
        return (self.response.count(reports),)

    def collect(self, reports: Reports, n: int, k: int, seed: int) -> Clusters:
        counts, sizes = reports.total()[0], self.response.sizes
        estimates = self.response.estimate(counts, n)
        variance = self.response.variance(counts, n)
        return modes_of(all_cells(sizes), estimates, variance, sizes, n, k, seed)

    def label(self, records: NDArray[Any], centres: NDArray[np.float64]) -> NDArray[np.int64]:
        return nearest_mode(records, np.rint(centres).astype(np.int64))

    def digest(self) -> bytes:
        text = f"ldpk-modes {self.response.sizes} {self.response.others}"
        return hashlib.sha256(text.encode()).digest()

    def expectation(self, n: int, k: int) -> Expectation:
        sizes = self.response.sizes
        return Expectation(n, k, math.prod(sizes), len(sizes), self.response.usual_variance)


def all_cells(sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Every combination of values, in the order of `cells_of`."""
    return values_of(np.arange(math.prod(sizes)), sizes)


def modes_of(
    cells: NDArray[np.int64],
    estimates: NDArray[np.float64],
    variance: float | NDArray[np.float64],
    sizes: tuple[int, ...],
    n: int,
    k: int,
    seed: int,
) -> Clusters:
    """k modes of the estimated cells, each with the records that are nearest to it.

    `variance` is that of the estimates.
    """
    weights = possible(estimates, n)
    weighted = WeightedCells(cells, weights, sizes)
    found = best_kmodes(weighted, k, max_iter=MAX_ITERATIONS, random=SecureRandom.public(seed))
    totals = np.bincount(found.labels, weights[found.kept], minlength=k)
    stability = shaken_modes(weighted, np.sqrt(variance), found.modes, seed)
    return Clusters(found.modes.astype(np.float64), totals.astype(np.float64), stability)


@dataclass(frozen=True, slots=True)
class FlippedBits:
    """`privbv` and `ldpseg`: bits of every value, the linear kCluster."""

    reports: BitReports

    def guarantee(self) -> PrivacyReport:
        return self.reports.guarantee()

    @property
    def part(self) -> RowsPart:
        return self.reports.part

    def check(self, reports: NDArray[Any]) -> None:
        self.reports.check(reports)

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        return self.reports.perturb(records, streams)

    def tally(self, reports: NDArray[Any], found: Numbers = ()) -> Numbers:
        """(sums of ones, sizes) of the clusters that follow from those so far."""
        from ppodc.local_dp.published.nearest_bits import assign_and_sum

        ones, sizes = found
        return assign_and_sum(
            reports, self.reports.attributes, self.reports.code.bits, ones, sizes
        )[1:]  # fmt: skip

    def collect(self, reports: Reports, n: int, k: int, seed: int) -> Clusters:
        """One pass an iteration: assignments follow from the sums of bits of the one before."""
        first = reports.rows(first_rows(n, k, SecureRandom.public(seed)))
        bits = unpack(first.reshape(k * self.reports.attributes, -1), self.reports.code.bits)
        ones, sizes = bits.reshape(k, -1).astype(np.int64), np.ones(k, np.int64)
        for _ in range(MAX_ITERATIONS):
            new_ones, new_sizes = reports.total((ones, sizes))
            settled = np.array_equal(new_ones, ones) and np.array_equal(new_sizes, sizes)
            ones, sizes = new_ones, new_sizes
            if settled:
                break
        return Clusters(self.centres(ones, sizes), sizes.astype(np.float64))

    def centres(self, ones: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Centres (k, l) of clusters with these sums of ones and sizes."""
        centres = centres_of(bit_shares(ones, sizes, self.reports), self.reports)
        top = self.reports.levels_of or self.reports.code.ub
        return np.asarray(np.clip(centres * (top / self.reports.code.ub), 0.0, top))

    def label(self, records: NDArray[Any], centres: NDArray[np.float64]) -> NDArray[np.int64]:
        return nearest(records.astype(np.float64), centres)

    def digest(self) -> bytes:
        code, flips = self.reports.code, self.reports.flips
        text = f"bits {self.reports.attributes} {self.reports.levels_of} {code.ub} {flips} "
        arrays = code.breaks.astype("<i8").tobytes() + code.table.tobytes()
        return hashlib.sha256(text.encode() + arrays).digest()

    def expectation(self, n: int, k: int) -> None:
        return None
