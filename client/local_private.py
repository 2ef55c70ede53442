"""Estimators under local differential privacy, in scikit-learn's manner, on this machine.

Each array given to `fit` belongs to another owner. Every record is perturbed by itself, as its
owner's device would; from then on only the reports are used. What is found is what a collector
would find; `labels_` of k-means and k-modes are those that each owner finds for its own records,
the nearest centre. `privacy_` says what is guaranteed for one record, beside what is claimed.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from client.owner_tables import (
    SEEDS,
    Bounds,
    DataError,
    as_data_errors,
    check_rows,
    schema_of,
    seed_of,
    tables_of,
)
from ppodc.crypto.random_stream import SecureRandom
from ppodc.ldp.bit_estimates import DistanceScale
from ppodc.ldp.bit_reports import BitReports, privbv, privbv_as_published
from ppodc.ldp.categories import numbered
from ppodc.ldp.codebook import Expectation
from ppodc.ldp.distances import check_matrix_rows, distance_matrix
from ppodc.ldp.job import Job, build
from ppodc.ldp.kcluster import dbscan
from ppodc.ldp.kmodes import nearest_mode
from ppodc.ldp.mechanism import FlippedBits, Mechanism
from ppodc.ldp.published import setting_of
from ppodc.ldp.report_streams import RecordStreams, ReportKey, row_ids
from ppodc.ldp.tallies import ReportsHere
from ppodc.ldp.weighted_kmeans import nearest
from ppodc.records.encode import encode, fitting, on_grid
from ppodc.records.privacy_report import PrivacyReport
from ppodc.records.schema import Column, Schema

_CHUNK = 1 << 16


_WHOLE = Interval(Integral, 1, None, closed="left")
_POSITIVE = Interval(Real, 0, None, closed="neither")


class _LocalEstimator(ClusterMixin, BaseEstimator):
    """What the estimators share: streams of noise and the warning about published settings."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [_POSITIVE],
        "random_state": SEEDS,
        "insecure_noise_seed": [Interval(Integral, 0, None, closed="left"), None],
    }
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
    published : the numbers of a published setting instead of epsilon and bits (`as_published`).

    Attributes
    ----------
    cluster_centers_, sizes_ : estimates, in real units.
    labels_ : nearest centre of each record, all owners' rows in the order given.
    standard_error_ : what to expect of a centre's coordinate, or None where it is not known.
    usable_ : False where little but noise is to be expected.
    privacy_ : the `PrivacyReport`.
    seed_ : the public seed, drawn if random_state is None.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_LocalEstimator._parameter_constraints,
        "n_clusters": [_WHOLE],
        "mechanism": [StrOptions({"codebook", "privbv", "ldpseg"})],
        "bounds": [StrOptions({"data"}), "array-like", Mapping, None],
        "points": [_WHOLE, None],
        "bits": [_WHOLE],
        "ub": [_WHOLE],
        "published": [Mapping, None],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        mechanism: Literal["codebook", "privbv", "ldpseg"] = "codebook",
        bounds: Bounds = None,
        points: int | None = None,
        bits: int = 8,
        random_state: Any = None,
        ub: int = 1000,
        insecure_noise_seed: int | None = None,
        published: Mapping[str, float] | None = None,
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
        self.published = published

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
        setting = {"b": b, "s": s, "t": t} if mechanism == "privbv" else {"epsilon": b, "s": s}
        return cls(mechanism=mechanism, published=setting, **rest)

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster the owners' arrays: a list with one array for each owner, or one array."""
        self._validate_params()
        self.seed_ = seed_of(self.random_state)
        tables = tables_of(self, X, reset=True)
        rows = check_rows(tables, self.n_clusters)
        names = getattr(self, "feature_names_in_", None)
        self._schema = schema = schema_of(tables, self.bounds, self.ub, names)
        with as_data_errors():
            owners = [encode(table, schema) for table in tables]
            mechanism = self._mechanism(schema, rows)
        reports = self._reports(owners, mechanism)
        counted = ReportsHere(mechanism.tally, lambda: _chunked(reports))
        found = mechanism.collect(counted, rows, self.n_clusters, self.seed_)
        low, high = _bounds(schema)
        self.cluster_centers_: NDArray[np.float64] = low + found.centres / self.ub * (high - low)
        self.sizes_: NDArray[np.float64] = found.sizes
        whole = np.concatenate(owners).astype(np.float64)
        self.labels_: NDArray[np.int64] = nearest(whole, found.centres)
        expected = mechanism.expectation(rows, self.n_clusters)
        error = None if expected is None else expected.centre_error * (high - low)
        self.standard_error_: NDArray[np.float64] | None = error
        self._expect(expected)
        self._centres = found.centres
        return self

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.int64]:  # noqa: N803
        """The nearest centre of each record, as its owner finds it; nothing is reported."""
        check_is_fitted(self)
        records = np.concatenate(tables_of(self, X, reset=False))
        with as_data_errors():
            whole = on_grid(records, self._schema).astype(np.float64)
        return nearest(whole, self._centres)

    def _mechanism(self, schema: Schema, rows: int) -> Mechanism:
        given = self.published
        setting = None if given is None else setting_of(self.mechanism, dict(given))
        asked = self.epsilon if setting is None else None
        job = Job(
            self.n_clusters, asked, self.mechanism, expected_rows=rows, points=self.points or 0,
            bits=self.bits, seed=self.seed_, as_published=setting,
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
    random_state, insecure_noise_seed, published : as in LocalPrivateKMeans.

    Attributes
    ----------
    cluster_centers_ : modes, words where a column has words. sizes_, labels_, privacy_, usable_,
    seed_ : as in LocalPrivateKMeans.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_LocalEstimator._parameter_constraints,
        "n_clusters": [_WHOLE],
        "mechanism": [StrOptions({"joint", "ldpk-modes"})],
        "categories": ["array-like"],
        "published": [Mapping, None],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        mechanism: Literal["joint", "ldpk-modes"] = "joint",
        categories: Sequence[int | Sequence[str]] = (),
        random_state: Any = None,
        insecure_noise_seed: int | None = None,
        published: Mapping[str, float] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.categories = categories
        self.random_state = random_state
        self.insecure_noise_seed = insecure_noise_seed
        self.published = published

    @classmethod
    def as_published(cls, *, epsilon: float, **rest: Any) -> "LocalPrivateKModes":
        """LDPK-modes with epsilon for every attribute: a record spends as many times that."""
        return cls(mechanism="ldpk-modes", published={"epsilon": epsilon}, **rest)

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """The modes of the owners' arrays: a list with one array for each owner, or one array."""
        self._validate_params()
        self.seed_ = seed_of(self.random_state)
        tables = tables_of(self, X, reset=True, kind=object)
        check_rows(tables, self.n_clusters)
        if len(self.categories) != tables[0].shape[1]:
            raise DataError(
                f"categories must have {tables[0].shape[1]} entries: for each column a list of its "
                "words, or how many numbers it has."
            )
        with as_data_errors():
            columns = (_category_column(i, c) for i, c in enumerate(self.categories))
            self._schema = schema = Schema(tuple(columns))
            owners = [numbered(fitting(table, schema), schema) for table in tables]
            mechanism = self._mechanism(schema, sum(map(len, owners)))
        reports = self._reports(owners, mechanism)
        counted = ReportsHere(mechanism.tally, lambda: _chunked(reports))
        found = mechanism.collect(counted, len(reports), self.n_clusters, self.seed_)
        self._modes = modes = found.centres.astype(np.int64)
        self.cluster_centers_: NDArray[Any] = _in_words(modes, schema)
        self.sizes_: NDArray[np.float64] = found.sizes
        self.labels_: NDArray[np.int64] = nearest_mode(np.concatenate(owners), modes)
        self._expect(mechanism.expectation(len(reports), self.n_clusters))
        return self

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.int64]:  # noqa: N803
        """The nearest mode of each record, as its owner finds it; nothing is reported."""
        check_is_fitted(self)
        records = np.concatenate(tables_of(self, X, reset=False, kind=object))
        with as_data_errors():
            whole = numbered(fitting(records, self._schema), self._schema)
        return nearest_mode(whole, self._modes)

    def _mechanism(self, schema: Schema, rows: int) -> Mechanism:
        given = self.published
        setting = None if given is None else setting_of(self.mechanism, dict(given))
        asked = self.epsilon if setting is None else None
        job = Job(
            self.n_clusters, asked, self.mechanism, expected_rows=rows, seed=self.seed_,
            as_published=setting,
        )  # fmt: skip
        return build(job, schema)


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
    published : whether epsilon counts for every bit (see `as_published`).

    Attributes
    ----------
    labels_ : the collector's labels of the reports; -1 is noise. privacy_ : the report.
    usable_ : False where distances are little but noise.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_LocalEstimator._parameter_constraints,
        "eps": [_POSITIVE],
        "min_samples": [_WHOLE],
        "bits": [_WHOLE],
        "bounds": [StrOptions({"data"}), "array-like", None],
        "debias": ["boolean"],
        "ub": [_WHOLE],
        "published": ["boolean"],
    }

    def __init__(
        self,
        eps: float = 0.5,
        *,
        min_samples: int = 5,
        epsilon: float = 1.0,
        bits: int = 64,
        bounds: tuple[float, float] | None = None,
        debias: bool = False,
        random_state: Any = None,
        ub: int = 1000,
        insecure_noise_seed: int | None = None,
        published: bool = False,
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
        self.published = published

    @classmethod
    def as_published(
        cls, eps: float = 0.5, *, b: float, s: int, **rest: Any
    ) -> "LocalPrivateDBSCAN":
        """b for every bit, s bits a value; `fit` warns with what a record really spends."""
        return cls(eps, epsilon=b, bits=s, published=True, **rest)

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster the owners' arrays: a list with one array for each owner, or one array."""
        self._validate_params()
        self.seed_ = seed_of(self.random_state)
        tables = tables_of(self, X, reset=True)
        schema = schema_of(tables, self.bounds, self.ub)
        low, high = _bounds(schema)
        if len(set(low)) > 1 or len(set(high)) > 1:
            raise DataError("DBSCAN needs the same bounds for all columns: one pair.")
        with as_data_errors():
            check_matrix_rows(sum(map(len, tables)))
            mechanism = self._mechanism(len(schema.columns))
            owners = [encode(table, schema) for table in tables]
        reports = self._reports(owners, FlippedBits(mechanism))
        width = float(high[0] - low[0])
        scale = DistanceScale.of(mechanism.flips, self.bits, width, width / 2)
        matrix = distance_matrix(reports, mechanism.attributes, scale, debias=self.debias)
        self.labels_: NDArray[np.int64] = dbscan(matrix, self.eps, self.min_samples)
        noise = scale.noise * math.sqrt(mechanism.attributes)
        self.usable_: bool = noise <= self.eps
        if not self.usable_:
            warnings.warn(
                f"little but noise: an estimated distance deviates by {noise:.3g}, more than eps = "
                f"{self.eps:g}. DBSCAN needs epsilons that protect nobody; for numbers use "
                "LocalPrivateKMeans.",
                stacklevel=2,
            )
        return self

    def _mechanism(self, columns: int) -> BitReports:
        random = SecureRandom(self.seed_.to_bytes(32, "big"))
        if self.published:
            t = max(1, (self.ub + 1) // 2)
            return privbv_as_published(
                columns, self.ub, b=self.epsilon, bits=self.bits, t=t, random=random
            )
        return privbv(columns, self.ub, epsilon=self.epsilon, bits=self.bits, random=random)


def _bounds(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.array([column.low for column in schema.columns])
    return low, np.array([column.high for column in schema.columns])
