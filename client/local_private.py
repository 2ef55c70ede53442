"""Estimators under local differential privacy, in scikit-learn's manner, on this machine.

Each array given to `fit` belongs to another owner. Every record is perturbed by itself, as its
owner's device would; from then on only the reports are used. What is found is what a collector
would find; `labels_` of k-means and k-modes are those that each owner finds for its own records,
the nearest centre. `privacy_` says what is guaranteed for one record, beside what is claimed.
"""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.estimator import Estimator
from client.one_machine import Bounds, Tables, schema_of, tables_of
from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.ldp.bit_codes import thermometer
from ppodc.ldp.bit_estimates import DistanceScale
from ppodc.ldp.bit_reports import (
    BitReports,
    ldpseg_as_published,
    privbv,
    privbv_as_published,
)
from ppodc.ldp.categories import AttributeResponse
from ppodc.ldp.distances import distance_matrix
from ppodc.ldp.job import Job, build, category_sizes
from ppodc.ldp.kcluster import dbscan
from ppodc.ldp.kmodes import nearest_mode
from ppodc.ldp.mechanism import EachAttribute, FlippedBits, Mechanism
from ppodc.ldp.report_streams import RecordStreams, ReportKey, row_ids
from ppodc.ldp.weighted_kmeans import nearest
from ppodc.records.encode import encode
from ppodc.records.privacy_report import PrivacyReport
from ppodc.records.schema import Column, Schema

_CHUNK = 1 << 16


class _LocalEstimator(Estimator):
    """What the estimators share: streams of noise and the warning about published settings."""

    insecure_noise_seed: int | None
    privacy_: PrivacyReport

    def _streams(self, records: NDArray[np.int64], owner: int, digest: bytes) -> RecordStreams:
        """A new key for each owner, unless noise that everybody can repeat was asked for."""
        seed = self.insecure_noise_seed
        key = ReportKey() if seed is None else ReportKey.from_seed(seed)
        return key.streams(digest, row_ids(0, len(records)), records, str(owner).encode())

    def _reports(self, owners: list[NDArray[np.int64]], mechanism: Mechanism) -> NDArray[Any]:
        """One report of every record, owner by owner."""
        digest = mechanism.digest()
        parts = [
            mechanism.perturb(records, self._streams(records, owner, digest))
            for owner, records in enumerate(owners)
        ]
        self.privacy_ = mechanism.guarantee()
        if not self.privacy_.claim_holds:
            warnings.warn(str(self.privacy_), stacklevel=4)
        return np.concatenate(parts)


def _chunked(reports: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(reports), _CHUNK):
        yield reports[start : start + _CHUNK]


class LocalPrivateKMeans(_LocalEstimator):
    """k-means of perturbed records.

    Parameters
    ----------
    n_clusters : number of clusters.
    epsilon : guaranteed for one record with all its columns.
    mechanism : "codebook" (the best), "privbv" or "ldpseg" (the published ones, made honest).
    bounds : (low, high) for all columns, or one pair for each; public, not from the data.
    points : of the codebook; None chooses by the number of records.
    bits : for each value of privbv and ldpseg.
    random_state : public seed of points, thresholds and starts.
    ub : values are rounded to whole numbers 0..ub between the bounds.
    insecure_noise_seed : for experiments: noise that anyone can draw again, hence no privacy.

    Attributes
    ----------
    cluster_centers_, sizes_ : estimates, in real units.
    labels_ : nearest centre of each record, all owners' rows in the order given.
    standard_error_ : what to expect of a centre's coordinate, or None where it is not known.
    usable_ : False where little but noise is to be expected.
    privacy_ : the `PrivacyReport`.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        mechanism: Literal["codebook", "privbv", "ldpseg"] = "codebook",
        bounds: Bounds = None,
        points: int | None = None,
        bits: int = 8,
        random_state: int = 0,
        ub: int = 1000,
        insecure_noise_seed: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.bounds = bounds
        self.points = points
        self.bits = bits
        self.random_state = random_state
        self.ub = ub
        self.insecure_noise_seed = insecure_noise_seed
        self._published: dict[str, float] | None = None

    @classmethod
    def as_published(
        cls,
        mechanism: Literal["privbv", "ldpseg"],
        *,
        b: float,
        s: int,
        t: float = 0.5,
        **rest: Any,
    ) -> "LocalPrivateKMeans":
        """The published setting: b (or epsilon of LDPseg) as claimed, s bits, t of the range.

        `fit` warns with the epsilon that one record really spends.
        """
        made = cls(mechanism=mechanism, epsilon=b, bits=s, **rest)
        made._published = {"b": b, "t": t}
        return made

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster the owners' arrays: a list with one array for each owner, or one array."""
        tables = tables_of(X)
        schema = schema_of(tables, self.bounds, self.ub)
        owners = [encode(table, schema) for table in tables]
        rows = sum(map(len, owners))
        if rows < self.n_clusters:
            raise InputError(f"{self.n_clusters} clusters need at least as many records.")
        mechanism = self._mechanism(schema, rows)
        reports = self._reports(owners, mechanism)
        found = mechanism.collect(
            lambda: _chunked(reports), rows, self.n_clusters, self.random_state
        )
        low, high = _bounds(schema)
        self.cluster_centers_: NDArray[np.float64] = low + found.centres / self.ub * (high - low)
        self.sizes_: NDArray[np.float64] = found.sizes
        whole = np.concatenate(owners).astype(np.float64)
        self.labels_: NDArray[np.int64] = nearest(whole, found.centres)
        expected = mechanism.expectation(rows, self.n_clusters)
        error = None if expected is None else expected.centre_error * (high - low)
        self.standard_error_: NDArray[np.float64] | None = error
        self.usable_: bool = expected is None or expected.noise <= 1.0
        if not self.usable_ and expected is not None:
            warnings.warn(expected.verdict(), stacklevel=2)
        self.n_features_in_: int = len(schema.columns)
        return self

    def fit_predict(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Any:  # noqa: N803
        """`fit`, and the labels."""
        return self.fit(X).labels_

    def _mechanism(self, schema: Schema, rows: int) -> Mechanism:
        columns, seed = len(schema.columns), self.random_state
        if self._published is None:
            job = Job(
                self.n_clusters, self.epsilon, self.mechanism, expected_rows=rows,
                points=self.points or 0, bits=self.bits, seed=seed,
            )  # fmt: skip
            return build(job, schema)
        if self.mechanism == "ldpseg":
            code = thermometer(self.ub, self.bits)
            return FlippedBits(
                ldpseg_as_published(columns, code, rows=rows, epsilon=self._published["b"])
            )
        t = max(1, round(self._published["t"] * self.ub))
        return FlippedBits(
            _published_privbv(columns, self.ub, self._published["b"], self.bits, t, seed)
        )


class LocalPrivateKModes(_LocalEstimator):
    """k-modes of perturbed records of categories, which are whole numbers from 0.

    Parameters
    ----------
    n_clusters : number of modes.
    epsilon : guaranteed for one record with all its columns.
    mechanism : "joint" (the better one) or "ldpk-modes" (the published one, made honest).
    categories : how many categories each column has; public.
    random_state, insecure_noise_seed : as in LocalPrivateKMeans.

    Attributes
    ----------
    cluster_centers_ : modes. sizes_, labels_, privacy_ : as in LocalPrivateKMeans.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        mechanism: Literal["joint", "ldpk-modes"] = "joint",
        categories: Sequence[int] = (),
        random_state: int = 0,
        insecure_noise_seed: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.categories = categories
        self.random_state = random_state
        self.insecure_noise_seed = insecure_noise_seed
        self._published = False

    @classmethod
    def as_published(cls, *, epsilon: float, **rest: Any) -> "LocalPrivateKModes":
        """LDPK-modes with epsilon for every attribute: a record spends as many times that."""
        made = cls(epsilon=epsilon, mechanism="ldpk-modes", **rest)
        made._published = True
        return made

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """The modes of the owners' arrays: a list with one array for each owner, or one array."""
        tables = tables_of(X)
        owners = self._records(tables)
        columns = (Column(f"x{i}", 0, size - 1) for i, size in enumerate(self.categories))
        schema = Schema(tuple(columns))
        job = Job(self.n_clusters, self.epsilon, self.mechanism, seed=self.random_state)
        mechanism = build(job, schema)
        if self._published:
            sizes = category_sizes(schema)
            mechanism = EachAttribute(AttributeResponse.as_published(sizes, self.epsilon))
        reports = self._reports(owners, mechanism)
        found = mechanism.collect(
            lambda: _chunked(reports), len(reports), self.n_clusters, self.random_state
        )
        self.cluster_centers_: NDArray[np.int64] = found.centres.astype(np.int64)
        self.sizes_: NDArray[np.float64] = found.sizes
        whole = np.concatenate(owners)
        self.labels_: NDArray[np.int64] = nearest_mode(whole, self.cluster_centers_)
        return self

    def _records(self, tables: Tables) -> list[NDArray[np.int64]]:
        sizes = np.array(self.categories)
        if len(sizes) != tables[0].shape[1]:
            raise InputError("categories must say how many there are, for each column.")
        for table in tables:
            fits = (table == np.floor(table)) & (table >= 0) & (table < sizes)
            if not fits.all():
                row = int(np.argwhere(~fits)[0, 0])
                raise InputError(f"row {row} (counted from 0) holds what is no category.")
        return [table.astype(np.int64) for table in tables]


class LocalPrivateDBSCAN(_LocalEstimator):
    """DBSCAN on distances estimated from PrivBV's bits: for shapes, and very large epsilons only.

    Parameters
    ----------
    eps : radius, in real units (all columns have the same bounds).
    min_samples : records within it, itself included, that make a core record.
    epsilon : guaranteed for one record; shared out over all bits of all columns.
    bits : for each value. bounds : one pair (low, high) for all columns.
    debias : subtract what noise adds to squared distances.
    random_state, ub, insecure_noise_seed : as in LocalPrivateKMeans.

    Attributes
    ----------
    labels_ : the collector's labels of the reports; -1 is noise. privacy_ : the report.
    """

    def __init__(
        self,
        eps: float = 0.5,
        *,
        min_samples: int = 5,
        epsilon: float = 1.0,
        bits: int = 64,
        bounds: tuple[float, float] | None = None,
        debias: bool = False,
        random_state: int = 0,
        ub: int = 1000,
        insecure_noise_seed: int | None = None,
    ) -> None:
        self.eps = eps
        self.min_samples = min_samples
        self.epsilon = epsilon
        self.bits = bits
        self.bounds = bounds
        self.debias = debias
        self.random_state = random_state
        self.ub = ub
        self.insecure_noise_seed = insecure_noise_seed
        self._b: float | None = None

    @classmethod
    def as_published(
        cls, eps: float = 0.5, *, b: float, s: int, **rest: Any
    ) -> "LocalPrivateDBSCAN":
        """b for every bit, s bits a value; `fit` warns with what a record really spends."""
        made = cls(eps, epsilon=b, bits=s, **rest)
        made._b = b
        return made

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster the owners' arrays: a list with one array for each owner, or one array."""
        tables = tables_of(X)
        schema = schema_of(tables, self.bounds, self.ub)
        low, high = _bounds(schema)
        if len(set(low)) > 1 or len(set(high)) > 1:
            raise InputError("DBSCAN needs the same bounds for all columns: one pair.")
        mechanism = self._mechanism(len(schema.columns))
        owners = [encode(table, schema) for table in tables]
        reports = self._reports(owners, FlippedBits(mechanism))
        width = float(high[0] - low[0])
        scale = DistanceScale.of(mechanism.flips, self.bits, width, width / 2)
        matrix = distance_matrix(reports, mechanism.attributes, scale, debias=self.debias)
        self.labels_: NDArray[np.int64] = dbscan(matrix, self.eps, self.min_samples)
        return self

    def fit_predict(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Any:  # noqa: N803
        """`fit`, and the labels."""
        return self.fit(X).labels_

    def _mechanism(self, columns: int) -> BitReports:
        if self._b is not None:
            t = max(1, (self.ub + 1) // 2)
            return _published_privbv(columns, self.ub, self._b, self.bits, t, self.random_state)
        random = SecureRandom(self.random_state.to_bytes(32, "big"))
        return privbv(columns, self.ub, epsilon=self.epsilon, bits=self.bits, random=random)


def _published_privbv(columns: int, ub: int, b: float, bits: int, t: int, seed: int) -> BitReports:
    random = SecureRandom(seed.to_bytes(32, "big"))
    return privbv_as_published(columns, ub, b=b, bits=bits, t=t, random=random)


def _bounds(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.array([column.low for column in schema.columns])
    return low, np.array([column.high for column in schema.columns])
