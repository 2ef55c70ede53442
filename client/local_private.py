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
from client.one_machine import Bounds, schema_of, tables_of
from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.ldp.bit_estimates import DistanceScale
from ppodc.ldp.bit_reports import BitReports, privbv, privbv_as_published
from ppodc.ldp.categories import numbered
from ppodc.ldp.codebook import Expectation
from ppodc.ldp.distances import distance_matrix
from ppodc.ldp.job import Job, build
from ppodc.ldp.kcluster import dbscan
from ppodc.ldp.kmodes import nearest_mode
from ppodc.ldp.mechanism import FlippedBits, Mechanism
from ppodc.ldp.published import Setting, setting_of
from ppodc.ldp.report_streams import RecordStreams, ReportKey, row_ids
from ppodc.ldp.weighted_kmeans import nearest
from ppodc.records.encode import encode, fitting
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

    def _expect(self, expected: Expectation | None) -> None:
        """Warn where little but noise is to be expected."""
        self.usable_: bool = expected is None or expected.noise <= 1.0
        if not self.usable_ and expected is not None:
            warnings.warn(expected.verdict(), stacklevel=3)


def _check_rows(rows: int, clusters: int) -> None:
    if rows < clusters:
        raise InputError(f"{clusters} clusters need at least as many records, not {rows}.")


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
        self._published: Setting | None = None

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
        made = cls(mechanism=mechanism, **rest)
        setting = {"b": b, "s": s, "t": t} if mechanism == "privbv" else {"epsilon": b, "s": s}
        made._published = setting_of(mechanism, setting)
        return made

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster the owners' arrays: a list with one array for each owner, or one array."""
        tables = tables_of(X)
        schema = schema_of(tables, self.bounds, self.ub)
        owners = [encode(table, schema) for table in tables]
        rows = sum(map(len, owners))
        _check_rows(rows, self.n_clusters)
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
        self._expect(expected)
        self.n_features_in_: int = len(schema.columns)
        return self

    def fit_predict(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Any:  # noqa: N803
        """`fit`, and the labels."""
        return self.fit(X).labels_

    def _mechanism(self, schema: Schema, rows: int) -> Mechanism:
        asked = self.epsilon if self._published is None else None
        job = Job(
            self.n_clusters, asked, self.mechanism, expected_rows=rows, points=self.points or 0,
            bits=self.bits, seed=self.random_state, as_published=self._published,
        )  # fmt: skip
        return build(job, schema)


class LocalPrivateKModes(_LocalEstimator):
    """k-modes of perturbed records of categories: words, or whole numbers from 0.

    Parameters
    ----------
    n_clusters : number of modes.
    epsilon : guaranteed for one record with all its columns.
    mechanism : "joint" (the better one) or "ldpk-modes" (the published one, made honest).
    categories : for each column a list of its words, or how many numbers it has; public.
    random_state, insecure_noise_seed : as in LocalPrivateKMeans.

    Attributes
    ----------
    cluster_centers_ : modes, words where a column has words. sizes_, labels_, privacy_, usable_ :
    as in LocalPrivateKMeans.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        mechanism: Literal["joint", "ldpk-modes"] = "joint",
        categories: Sequence[int | Sequence[str]] = (),
        random_state: int = 0,
        insecure_noise_seed: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.categories = categories
        self.random_state = random_state
        self.insecure_noise_seed = insecure_noise_seed
        self._published: Setting | None = None

    @classmethod
    def as_published(cls, *, epsilon: float, **rest: Any) -> "LocalPrivateKModes":
        """LDPK-modes with epsilon for every attribute: a record spends as many times that."""
        made = cls(mechanism="ldpk-modes", **rest)
        made._published = setting_of("ldpk-modes", {"epsilon": epsilon})
        return made

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """The modes of the owners' arrays: a list with one array for each owner, or one array."""
        tables = tables_of(X, object)
        schema = Schema(tuple(_category_column(i, c) for i, c in enumerate(self.categories)))
        owners = [numbered(fitting(table, schema), schema) for table in tables]
        _check_rows(sum(map(len, owners)), self.n_clusters)
        asked = self.epsilon if self._published is None else None
        job = Job(
            self.n_clusters, asked, self.mechanism, seed=self.random_state,
            as_published=self._published,
        )  # fmt: skip
        mechanism = build(job, schema)
        reports = self._reports(owners, mechanism)
        found = mechanism.collect(
            lambda: _chunked(reports), len(reports), self.n_clusters, self.random_state
        )
        modes = found.centres.astype(np.int64)
        self.cluster_centers_: NDArray[Any] = _in_words(modes, schema)
        self.sizes_: NDArray[np.float64] = found.sizes
        self.labels_: NDArray[np.int64] = nearest_mode(np.concatenate(owners), modes)
        self._expect(mechanism.expectation(len(reports), self.n_clusters))
        return self

    def fit_predict(self, X: Any, y: object = None) -> Any:  # noqa: N803
        """`fit`, and the labels."""
        return self.fit(X).labels_


def _category_column(place: int, categories: int | Sequence[str]) -> Column:
    if isinstance(categories, int):
        return Column(f"x{place}", 0, categories - 1)
    return Column.of_words(f"x{place}", categories)


def _in_words(modes: NDArray[np.int64], schema: Schema) -> NDArray[Any]:
    """The modes, as words where a column has them."""
    if not schema.words:
        return modes
    shown = modes.astype(object)
    for place in schema.words:
        shown[:, place] = np.array(schema.columns[place].values, object)[modes[:, place]]
    return shown


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
        random = SecureRandom(self.random_state.to_bytes(32, "big"))
        if self._b is not None:
            t = max(1, (self.ub + 1) // 2)
            return privbv_as_published(
                columns, self.ub, b=self._b, bits=self.bits, t=t, random=random
            )
        return privbv(columns, self.ub, epsilon=self.epsilon, bits=self.bits, random=random)


def _bounds(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.array([column.low for column in schema.columns])
    return low, np.array([column.high for column in schema.columns])
