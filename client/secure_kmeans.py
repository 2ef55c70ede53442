"""`SecureKMeans`: the platform behind scikit-learn's interface.

Each table given to `fit` belongs to another owner; one table alone is one owner's. `fit` runs the
job where `platform` says and opens the result as the owners would. Everything after it is computed
here, on the records given, from the centres: `predict`, `transform` and `score` send nothing.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from client.owner_tables import (
    SEEDS,
    Bounds,
    DataError,
    Tables,
    as_data_errors,
    check_rows,
    named_columns,
    refuse,
    schema_of,
    seed_of,
    tables_of,
)
from client.platforms import NAME, PLATFORMS, Outcome, Platform, RemotePlatform, run_job
from client.record_linkage import RecordLinkage
from ppodc.kmeans.job import (
    MAX_CLUSTERS,
    MAX_ITERATIONS,
    MAX_STARTS,
    MIN_SIZE,
    ByRecords,
    Job,
    job_of,
    parse_beta,
)
from ppodc.kmeans.noisy.explain import mostly_noise
from ppodc.kmeans.noisy.job import DELTA, NoisyJob
from ppodc.kmeans.noisy.result import PrivateResult
from ppodc.kmeans.result import Result
from ppodc.kmeans.suites import NAMES as SUITES
from ppodc.records.schema import Schema
from ppodc.records.sharing import MAX_VALUE
from ppodc.spec import Spec

_MOST_ITERATIONS = 100
_RANDOM_STARTS = 10  # what n_init="auto" means for random starts, as in scikit-learn
_EXACT_ALONE = ("init", "n_init", "tol", "beta", "min_size", "inertia", "dedup")


class SecureKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Exact k-means over several owners' records, none of which either cloud sees.

    Distances are measured on the grid: every column's range, from low to high, counts as ub steps.

    Parameters
    ----------
    n_clusters : number of clusters.
    init : "k-means++" (records far apart, by the seed), "random" (any records, by the seed) or an
        array of centres in real units. The paillier suite has no k-means++.
    n_init : starts from other records; the one of least inertia wins, and nobody learns which.
        "auto", as in scikit-learn: 10 with init="random", else 1.
    max_iter : most iterations of a start, 100 if None; with epsilon exactly so many, 3 up to two
        columns and else 4 if None.
    tol : stop when the centres move by at most this: the sum over all clusters of the squared
        distance between old and new centre, every column's range counting as 1. Taken exactly, by
        its digits; 0: until nothing moves. scikit-learn's is relative to the variance of the data,
        which nobody knows here.
    beta : the same in squared steps of the grid, as a spec has it (tol * ub^2); instead of tol.
    random_state : seed of the initial records; the same seed gives the same result. None draws one,
        which `seed_` and `spec_` keep.
    bounds : (low, high) for all columns, one pair for each, or pairs by name. Public, so they must
        be given; "data" takes them from the data, which tells both clouds the extremes.
    ub : values are rounded to whole numbers 0..ub between the bounds.
    min_size : owners learn nothing of a cluster with fewer records.
    inertia : whether owners learn the inertia too.
    suite : "shares" (fast) or "paillier" (as published).
    pairs : worker pairs, if `fit` starts a platform.
    dedup : a `RecordLinkage` that says which records of different owners are the same: such a
        record counts once, and nobody learns which. With a `rule`, tables are DataFrames with the
        columns that it compares and those to cluster, which `bounds` must name; its blocks cost
        every owner some of its privacy budget. Needs the shares suite.
    epsilon, delta : with epsilon, noise inside the two clouds keeps (epsilon, delta)-differential
        privacy for one record, against either cloud and all other owners; owners are charged for
        it, and usually allow 10. Needs the shares suite; init, n_init, tol, beta, min_size, inertia
        and dedup do not go with it.
    platform : where jobs run: a running `LocalPlatform`, a `ThreadPlatform` (threads of this
        process, quick) or a `RemotePlatform` (a real deployment). None starts a LocalPlatform in
        every `fit`.
    verbose : whether to show how far the job is.

    Attributes
    ----------
    cluster_centers_ : centres in real units, (n_clusters, columns); NaN where there is none.
    sizes_ : records of each cluster; 0 if it is empty or has fewer than min_size. Noisy with
        epsilon.
    labels_ : cluster of each record as the last iteration assigned it: the rows of the table, or of
        all tables one behind the other, in the order given. Where the job converged with tol 0 and
        every cluster has a centre, these are the labels that `predict` gives.
        With epsilon each owner finds the nearest centre itself.
    owner_labels_ : the same, an array for each table.
    privacy_ : with epsilon the `PrivacyReport`, else None.
    inertia_ : sum of the squared distances to the nearest centres in steps of the grid, over the
        clusters that have one; None unless asked for. `result_.inertia_` is the exact fraction.
    n_iter_, converged_ : iterations that were run, of all starts; whether the last one met tol.
    seed_, spec_, result_ : the seed, the dataset's spec, the result as the first owner opened it.
    n_features_in_, feature_names_in_ : number of columns, and their names if the tables have any.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [Interval(Integral, 1, MAX_CLUSTERS, closed="both")],
        "init": [StrOptions(set(get_args(ByRecords))), "array-like"],
        "n_init": [Interval(Integral, 1, MAX_STARTS, closed="both"), StrOptions({"auto"})],
        "max_iter": [Interval(Integral, 1, MAX_ITERATIONS, closed="both"), None],
        "tol": [Interval(Real, 0, None, closed="left"), str],
        "beta": [Interval(Real, 0, None, closed="left"), str, None],
        "random_state": SEEDS,
        "bounds": [StrOptions({"data"}), "array-like", Mapping, None],
        "ub": [Interval(Integral, 1, MAX_VALUE, closed="both")],
        "min_size": [Interval(Integral, 1, None, closed="left")],
        "inertia": ["boolean"],
        "suite": [StrOptions(set(SUITES))],
        "pairs": [Interval(Integral, 1, None, closed="left")],
        "dedup": [RecordLinkage, None],
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "platform": PLATFORMS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int | str = 1,
        max_iter: int | None = None,
        tol: float | str = 0,
        beta: float | str | None = None,
        random_state: Any = None,
        bounds: Bounds = None,
        ub: int = 1000,
        min_size: int = MIN_SIZE,
        inertia: bool = False,
        suite: str = "shares",
        pairs: int = 1,
        dedup: RecordLinkage | None = None,
        epsilon: float | None = None,
        delta: float = DELTA,
        platform: Platform | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.beta = beta
        self.random_state = random_state
        self.bounds = bounds
        self.ub = ub
        self.min_size = min_size
        self.inertia = inertia
        self.suite = suite
        self.pairs = pairs
        self.dedup = dedup
        self.epsilon = epsilon
        self.delta = delta
        self.platform = platform
        self.verbose = verbose

    @classmethod
    def from_spec(cls, spec: Spec, **rest: Any) -> Self:
        """The estimator that asks for the very job of a spec; `rest`: its other parameters."""
        if isinstance(spec.job, NoisyJob):
            return cls._from_private(spec, spec.job, **rest)
        job, dedup = job_of(spec), None
        if job.ks:
            raise DataError("the spec asks for several numbers of clusters: see `fit_each`.")
        columns = job.clustered(spec.schema).columns
        bounds: Any = [(column.low, column.high) for column in columns]
        if job.dedup is not None:
            dedup = RecordLinkage.from_inside(spec.schema, job.dedup)
            if dedup.by_name:
                bounds = {column.name: (column.low, column.high) for column in columns}
        return cls(
            job.k,
            init=job.init if isinstance(job.init, str) else np.array(job.init),
            n_init=job.n_init,
            max_iter=job.max_iter,
            beta=str(job.beta),
            random_state=job.seed,
            bounds=bounds,
            ub=spec.schema.ub,
            min_size=job.min_size,
            inertia=job.inertia,
            dedup=dedup,
            **rest,
        )

    @classmethod
    def _from_private(cls, spec: Spec, job: NoisyJob, **rest: Any) -> Self:
        made = cls(
            job.k,
            max_iter=job.iterations,
            random_state=job.seed,
            bounds=[(column.low, column.high) for column in spec.schema.columns],
            ub=spec.schema.ub,
            epsilon=job.epsilon,
            delta=job.delta,
            **rest,
        )
        if made._private_job() != job:
            raise DataError("the spec asks for another number of points than 3 for each cluster.")
        return made

    def fit(
        self,
        X: ArrayLike | Sequence[ArrayLike],  # noqa: N803
        y: object = None,
        **other: object,
    ) -> Self:
        """Cluster the records: of one table, or of a list with a table for each owner."""
        refuse(other)
        ran, tables = self._run(X)
        self._keep(ran.spec, ran.results, tables)
        return self

    def fit_each(
        self,
        X: ArrayLike | Sequence[ArrayLike],  # noqa: N803
        n_clusters: Iterable[int],
    ) -> dict[int, Self]:
        """A fitted estimator for each number of clusters, all from one job.

        The records are taken in once; with `inertia` the results can be compared (elbow).
        """
        counts = sorted({int(k) for k in n_clusters})
        if len(counts) < 2:
            raise DataError("n_clusters must be several numbers; for a single one there is `fit`.")
        last = clone(self).set_params(n_clusters=counts[-1])
        ran, tables = last._run(X, counts)
        fitted = {}
        for k in counts:
            fitted[k] = copy(last).set_params(n_clusters=k)
            fitted[k]._keep(ran.spec, [result.by_k[k] for result in ran.results], tables)
        return fitted

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.int64]:  # noqa: N803
        """The nearest centre of each record, the lowest on ties; exact, on the grid."""
        with as_data_errors():
            return self._told().predict(self._rows(X))

    def transform(self, X: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.float64]:  # noqa: N803
        """The distance of each record to each centre, in steps of the grid; NaN where none is."""
        with as_data_errors():
            return self._told().distances(self._rows(X))

    def score(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> float:  # noqa: N803
        """Minus the inertia of these records: squared distances to the nearest centres, summed."""
        with as_data_errors():
            return -self._told().inertia_of(self._rows(X))

    def _run(self, data: Any, counts: Sequence[int] = ()) -> tuple[Outcome, Tables]:
        self._validate_params()
        tables = tables_of(self, self._clustered(data), reset=True)
        if isinstance(self.init, str):
            check_rows(tables, self.n_clusters)
        names = getattr(self, "feature_names_in_", None)
        spec = self._spec(schema_of(tables, self.bounds, self.ub, names), counts)
        if self.epsilon is not None and not isinstance(self.platform, RemotePlatform):
            self._warn_of_noise(spec, sum(map(len, tables)))  # there others may have rows too
        by_name = self.dedup is not None and self.dedup.by_name
        ran = run_job(
            spec,
            named_columns(data if _is_list(data) else [data], spec.schema) if by_name else tables,
            self.platform,
            suite=self.suite,
            pairs=self.pairs,
            verbose=bool(self.verbose),
        )
        return ran, tables

    def _warn_of_noise(self, spec: Spec, rows: int) -> None:
        verdict = mostly_noise(spec, rows)
        if verdict:
            warnings.warn(verdict, stacklevel=4)

    @property
    def _n_features_out(self) -> int:
        return len(self.sizes_)

    def _told(self) -> Result | PrivateResult:
        check_is_fitted(self)
        return self.result_

    def _rows(self, data: Any) -> NDArray[np.float64]:
        return np.concatenate(tables_of(self, self._clustered(data), reset=False))

    def _keep(self, spec: Spec, results: Sequence[Result | PrivateResult], tables: Tables) -> None:
        first = results[0]
        self.spec_, self.result_, self.seed_ = spec, first, spec.to_dict()["job"]["seed"]
        self.cluster_centers_: NDArray[np.float64] = first.cluster_centers_
        self.sizes_: NDArray[Any] = first.sizes_
        self.privacy_ = first.privacy_ if isinstance(first, PrivateResult) else None
        self.n_iter_: int = first.n_iter_
        self.converged_: bool = first.converged_
        self.inertia_ = None if first.inertia_ is None else float(first.inertia_)
        self.owner_labels_: list[NDArray[np.int64]] = [
            first.predict(table) if result.labels_ is None else result.labels_
            for result, table in zip(results, tables, strict=True)
        ]
        self.labels_: NDArray[np.int64] = np.concatenate(self.owner_labels_)

    def _spec(self, schema: Schema, counts: Sequence[int] = ()) -> Spec:
        """The spec that this estimator asks for, over these columns to cluster."""
        with as_data_errors():
            job: Job | NoisyJob = self._private_job(counts) if self.epsilon else self._job(counts)
            if self.dedup is not None and isinstance(job, Job):
                schema, linkage = self.dedup.inside(schema)
                job = replace(job, dedup=linkage)
            return Spec(NAME, schema, job)

    def _clustered(self, data: Any) -> Any:
        """The columns to cluster of tables that have some to link by name as well."""
        if self.dedup is None or not self.dedup.by_name:
            return data
        if not isinstance(self.bounds, Mapping):
            raise DataError("with a rule to link by, bounds must name the columns to cluster.")
        names = list(self.bounds)
        tables = [
            table[names] if set(names) <= set(getattr(table, "columns", ())) else table
            for table in (data if _is_list(data) else [data])
        ]
        return tables if _is_list(data) else tables[0]

    def _job(self, counts: Sequence[int] = ()) -> Job:
        init: Any = self.init
        if not isinstance(init, str):
            init = tuple(tuple(float(x) for x in row) for row in np.atleast_2d(np.asarray(init)))
        return Job(
            k=int(self.n_clusters),
            beta=self._beta(),
            max_iter=_MOST_ITERATIONS if self.max_iter is None else int(self.max_iter),
            init=init,
            seed=seed_of(self.random_state),
            labels=True,
            min_size=int(self.min_size),
            n_init=self._starts(),
            inertia=self.inertia,
            ks=tuple(counts),
        )

    def _private_job(self, counts: Sequence[int] = ()) -> NoisyJob:
        usual = type(self)().get_params()
        for name in _EXACT_ALONE:
            value = getattr(self, name)
            if name == "n_init" and value == "auto":
                continue
            if not isinstance(value, type(usual[name])) or value != usual[name]:
                raise DataError(f"{name} does not go with epsilon: leave out one of them.")
        if counts:
            raise DataError("with epsilon there is one number of clusters: each costs privacy.")
        return NoisyJob(
            k=int(self.n_clusters),
            epsilon=0.0 if self.epsilon is None else float(self.epsilon),
            delta=float(self.delta),
            iterations=None if self.max_iter is None else int(self.max_iter),
            seed=seed_of(self.random_state),
        )

    def _starts(self) -> int:
        if isinstance(self.n_init, str):
            random = isinstance(self.init, str) and self.init == "random"
            return _RANDOM_STARTS if random else 1
        return int(self.n_init)

    def _beta(self) -> Fraction:
        tol = parse_beta(self.tol)
        if self.beta is None:
            return tol * self.ub**2
        if tol:
            raise DataError("tol and beta say the same in two units: give one of them.")
        return parse_beta(self.beta)


def _is_list(data: Any) -> bool:
    """Whether there is a table for each owner."""
    return isinstance(data, list | tuple)
