"""`SecureKMeans`: the platform behind scikit-learn's interface.

Each table given to `fit` belongs to another owner; one table alone is one owner's. `fit` runs the
job where `platform` says and opens the result as the owners would. Everything after it is computed
here, on the records given, from the centres: `predict`, `transform` and `score` send nothing.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.estimators.base import Clusterer, Transformer, check_fitted
from client.estimators.given_tables import (
    LEFT_OUT,
    MISSING,
    Missing,
    Tables,
    frames_of,
    tables_of,
)
from client.estimators.joined_tables import joined_tables
from client.estimators.kmeans_job import joined_spec, plain_parameters, spec_of
from client.estimators.owner_tables import (
    BOUNDS,
    SEEDS,
    Bounds,
    check_rows,
    refuse,
    schema_of,
)
from client.estimators.parameters import (
    ARRAY,
    BOOLEAN,
    NOTHING,
    POSITIVE,
    TEXT,
    VERBOSE,
    WHOLE,
    Kinds,
    among,
    instance,
    real,
    whole,
)
from client.estimators.private_job import private_parameters
from client.estimators.record_linkage import RecordLinkage
from client.estimators.several_k import SeveralNumbers
from client.platforms.jobs import PLATFORMS, Platform, is_remote, run_job
from client.platforms.outcome import Outcome
from ppodc.errors import OptionError
from ppodc.kinds import owner_side
from ppodc.kmeans.job import (
    MAX_CLUSTERS,
    MAX_ITERATIONS,
    MAX_STARTS,
    MIN_SIZE,
    ByRecords,
)
from ppodc.kmeans.private.explain import mostly_noise
from ppodc.kmeans.private.job import DELTA, NoisyJob
from ppodc.kmeans.private.result import PrivateResult
from ppodc.kmeans.result import Result
from ppodc.kmeans.suites import NAMES as SUITES
from ppodc.linkage.joined.join import LEAST, Relation
from ppodc.records.sharing import MAX_VALUE
from ppodc.spec import Spec

if TYPE_CHECKING:
    import pandas as pd


class SecureKMeans(SeveralNumbers, Transformer, Clusterer):
    """Exact k-means over several owners' records, none of which either cloud sees.

    Distances are measured on the grid: every column's range, from low to high, counts as ub steps.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : "k-means++", "random" or array of shape (n_clusters, columns), default="k-means++"
        Records far apart, any records, or centres in real units. The seed decides which records.
        The paillier suite has no k-means++.
    n_init : int or "auto", default=1
        Starts from other records. The one of least inertia wins, and nobody learns which. "auto" is
        10 with init="random", else 1.
    max_iter : int or None, default=None
        Most iterations of a start; None is 100. With epsilon exactly this many; None is 3 for up to
        two columns, else 4.
    iterations : int or None, default=None
        Exactly this many iterations instead of a stop test, so that the clouds learn nothing of
        when the centres came to rest. Centres at rest stay where they are. It takes the place of
        max_iter, tol and beta.
    tol : float or str, default=0
        Stop when the centres move by at most this: the sum over all clusters of the squared
        distance between old and new centre, every column's range counting as 1. Taken exactly, by
        its digits. 0 goes on until nothing moves. scikit-learn's is relative to the variance of the
        data, which nobody knows here.
    beta : float, str or None, default=None
        The same in squared steps of the grid (tol * ub^2), as a spec has it; instead of tol.
    random_state : int, RandomState or None, default=None
        Seed of the initial records; the same seed gives the same result. None draws one, which
        `seed_` and `spec_` keep.
    bounds : tuple, sequence of tuples, mapping or "data", default=None
        (low, high) for all columns, one pair for each, or pairs by name. Bounds are public, so
        they must be given. "data" takes them from the data and reveals the extremes to both clouds.
    ub : int, default=1000
        Values are rounded to whole numbers 0..ub between the bounds.
    min_size : int, default=5
        An owner learns nothing of a cluster in which fewer records are not its own.
    inertia : bool, default=False
        Whether owners learn the inertia too.
    missing : "refuse" or "leave out", default="refuse"
        What becomes of rows with a missing value: an error that names them, or they are left out
        and counted in `left_out_`.
    id_column : str or None, default=None
        A column that names rows. It stays here; `to_frame` has it beside what was found. Without
        it rows are known by the index of their table.
    suite : "shares" or "paillier", default="shares"
        Fast, or as published.
    pairs : int, default=1
        Worker pairs, if `fit` starts a platform.
    dedup : RecordLinkage or None, default=None
        Records of different owners that it links count once, and nobody learns which. With a
        `rule`, tables are DataFrames with the columns that it compares and those to cluster, which
        `bounds` must name. Its blocks cost every owner some of its privacy budget. Needs the shares
        suite.
    join : RecordLinkage or None, default=None
        Tables are DataFrames or files with different columns about the same people, and all have
        the columns that it compares. People whom all sides hold are clustered by the columns of
        all, which `bounds` must name; nobody learns who they are. The rows of the first table
        count, and of tables with the same columns as it. Needs the shares suite.
    relation : "1:1" or "m:1", default="1:1"
        With join: rows that have each other and nobody else, or rows of the first side that have
        one partner, which several of them may share.
    least : int, default=20
        With join: if fewer rows are joined, owners are told zeros.
    sizes : bool, default=True
        With join: whether owners learn sizes, and so how many rows are joined. Without, centres are
        rounded to steps of the grid.
    labels : bool, default=False
        With join: whether owners on the side of the first table learn which of their own rows are
        joined, and the clusters of these. That tells them whom the other sides hold too.
    epsilon : float or None, default=None
        Noise inside the two clouds keeps (epsilon, delta)-differential privacy for one record,
        against either cloud and all other owners. Owners are charged for it, and usually allow 10.
        Needs the shares suite, and excludes init, n_init, iterations, tol, beta, min_size, inertia,
        dedup and join.
    delta : float, default=1e-06
        See epsilon.
    platform : LocalPlatform, ThreadPlatform, RemotePlatform or None, default=None
        Where the job runs: a running platform on this machine, threads of this process, or a real
        deployment. None runs up to 20,000 rows in threads of this process, and more rows, or
        several worker pairs, on a LocalPlatform that `fit` starts and stops. Only a deployment
        keeps the owners' records apart; the others run the real protocols on one machine.
    verbose : bool, default=False
        Whether to show the progress of the job.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, columns)
        Centres in real units as the first owner gets them; NaN where there is none.
    sizes_ : ndarray of shape (n_clusters,)
        Records of each cluster; 0 for fewer than min_size of others. Noisy with epsilon.
    labels_ : ndarray of int
        Cluster of each record as the last iteration assigned it, table after table. If the job
        converged with tol 0 and every cluster has a centre, `predict` gives the same labels. With
        epsilon each owner finds the nearest centre itself. With join and labels those of the side
        of the first table, -1 where a row is not joined; with join alone None.
    owner_labels_ : list of ndarray
        The labels of each table; None for tables of other sides of a join, and with join alone.
    left_out_ : list of int
        Rows of each table that were left out, because a value is missing; their label is -1.
    privacy_ : PrivacyReport or None
        With epsilon, the guarantee.
    inertia_ : float or None
        Sum of the squared distances to the nearest centres in steps of the grid, over the clusters
        that have one. `result_.inertia_` is the exact fraction.
    inertia_in_ranges_ : float or None
        The same with every column's range counting as 1, so that it does not depend on ub.
    n_iter_ : int
        Iterations of all starts.
    converged_ : bool
        Whether the last iteration met tol.
    seed_ : int
        The seed of the initial records.
    spec_ : Spec
        The spec of the dataset.
    result_ : Result or PrivateResult
        The result as the first owner opened it.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if the tables have any.

    Examples
    --------
    >>> from ppodc import SecureKMeans, ThreadPlatform
    >>> north, south = [[1, 2], [1, 4], [9, 8]], [[2, 2], [8, 9]]
    >>> model = SecureKMeans(
    ...     2, bounds=(0, 10), random_state=0, min_size=1, platform=ThreadPlatform()
    ... )
    >>> model.fit([north, south]).sizes_.tolist()
    [3, 2]
    >>> model.labels_.tolist()
    [0, 0, 1, 0, 1]
    """

    result_: Result | PrivateResult
    _kinds: ClassVar[Kinds] = {
        "n_clusters": [whole(1, MAX_CLUSTERS)],
        "init": [among(*get_args(ByRecords)), ARRAY],
        "n_init": [whole(1, MAX_STARTS), among("auto")],
        "max_iter": [whole(1, MAX_ITERATIONS), NOTHING],
        "iterations": [whole(1, MAX_ITERATIONS), NOTHING],
        "tol": [real(0, closed=True), TEXT],
        "beta": [real(0, closed=True), TEXT, NOTHING],
        "random_state": SEEDS,
        "bounds": BOUNDS,
        "ub": [whole(1, MAX_VALUE)],
        "min_size": [WHOLE],
        "inertia": [BOOLEAN],
        "missing": MISSING,
        "id_column": [TEXT, NOTHING],
        "suite": [among(*SUITES)],
        "pairs": [WHOLE],
        "dedup": [instance(RecordLinkage), NOTHING],
        "join": [instance(RecordLinkage), NOTHING],
        "relation": [among(*get_args(Relation))],
        "least": [WHOLE],
        "sizes": [BOOLEAN],
        "labels": [BOOLEAN],
        "epsilon": [POSITIVE, NOTHING],
        "delta": [real(0, 1, closed=False)],
        "platform": PLATFORMS,
        "verbose": [VERBOSE],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int | str = 1,
        max_iter: int | None = None,
        iterations: int | None = None,
        tol: float | str = 0,
        beta: float | str | None = None,
        random_state: Any = None,
        bounds: Bounds = None,
        ub: int = 1000,
        min_size: int = MIN_SIZE,
        inertia: bool = False,
        missing: Missing = "refuse",
        id_column: str | None = None,
        suite: str = "shares",
        pairs: int = 1,
        dedup: RecordLinkage | None = None,
        join: RecordLinkage | None = None,
        relation: Relation = "1:1",
        least: int = LEAST,
        sizes: bool = True,
        labels: bool = False,
        epsilon: float | None = None,
        delta: float = DELTA,
        platform: "Platform | None" = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.iterations = iterations
        self.tol = tol
        self.beta = beta
        self.random_state = random_state
        self.bounds = bounds
        self.ub = ub
        self.min_size = min_size
        self.inertia = inertia
        self.missing = missing
        self.id_column = id_column
        self.suite = suite
        self.pairs = pairs
        self.dedup = dedup
        self.join = join
        self.relation = relation
        self.least = least
        self.sizes = sizes
        self.labels = labels
        self.epsilon = epsilon
        self.delta = delta
        self.platform = platform
        self.verbose = verbose

    @classmethod
    def from_spec(cls, spec: Spec, **rest: Any) -> Self:
        """The estimator that asks for the very job of a spec; `rest`: its other parameters."""
        if isinstance(spec.job, NoisyJob):
            return cls(**private_parameters(spec, spec.job), **rest)
        return cls(**plain_parameters(spec), **rest)

    def fit(
        self,
        X: ArrayLike | Sequence[ArrayLike],  # noqa: N803
        y: object = None,
        **other: object,
    ) -> Self:
        """Cluster the records: of one table, or of a list or mapping with one for each owner."""
        refuse(other)
        ran, tables = self._run(X)
        self._keep(ran.spec, ran.results, tables)
        return self

    def to_frame(self) -> "pd.DataFrame":
        """A row for each record: its owner, its label in the table, and its cluster."""
        check_fitted(self)
        if self.owner_labels_ is None:
            raise OptionError("with join there are labels only if you ask for them: labels=True.")
        return self._tables.frame({"label": self.owner_labels_})

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.int64]:  # noqa: N803
        """The nearest centre of each record, the lowest on ties; exact, on the grid."""
        told, rows = self._told(), self._rows(X)
        return np.concatenate(rows.spread([told.predict(own) for own in rows], LEFT_OUT))

    def transform(self, X: ArrayLike | Sequence[ArrayLike]) -> Any:  # noqa: N803
        """The distance of each record to each centre, in steps of the grid; NaN where none is."""
        told, rows = self._told(), self._rows(X)
        far = np.concatenate(rows.spread([told.distances(own) for own in rows], np.nan))
        return self._contained(far, X)

    def score(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> float:  # noqa: N803
        """Minus the inertia of these records: squared distances to the nearest centres, summed."""
        return -self._told().inertia_of(np.concatenate(self._rows(X)))

    def _run(self, data: Any, counts: Sequence[int] = ()) -> tuple[Outcome, Tables]:
        self._check_parameters()
        if isinstance(data, Iterator):
            data = list(data)
        spec, tables, sent = (self._plain if self.join is None else self._joined)(data, counts)
        suite, verbose = self.suite, bool(self.verbose)
        ran = run_job(spec, sent, self.platform, suite=suite, pairs=self.pairs, verbose=verbose)
        return ran, tables

    def _plain(self, data: Any, counts: Sequence[int]) -> tuple[Spec, Tables, list[Any]]:
        """The spec over tables of the same columns, their rows, and what each owner uploads."""
        if not self.sizes:
            raise OptionError("sizes=False is for joined tables: without join, owners learn sizes.")
        by_name = self.dedup is not None and self.dedup.by_name
        if by_name and not isinstance(self.bounds, Mapping):
            raise OptionError("with a rule to link by, bounds must name the columns to cluster.")
        tables = self._rows(data, reset=True)
        if isinstance(self.init, str):
            check_rows(tables, self.n_clusters)
        names = getattr(self, "feature_names_in_", None)
        schema = schema_of(tables, self.bounds, self.ub, names)
        spec = spec_of(self, schema, counts)
        alone = not is_remote(self.platform)  # there others may have rows too
        tables.check(schema)
        if self.epsilon and alone:
            rows = sum(map(len, tables))
            for told in filter(None, (mostly_noise(spec, rows), owner_side(spec).doubt(rows))):
                warnings.warn(told, stacklevel=4)
        sent = tables.among(frames_of(data, spec.schema)) if by_name else tables
        return spec, tables, sent

    def _joined(self, data: Any, counts: Sequence[int]) -> tuple[Spec, Tables, list[Any]]:
        """The spec over joined columns, and what each owner uploads."""
        if self.dedup is not None or self.epsilon:
            raise OptionError("join goes with neither dedup nor epsilon: leave out one of them.")
        joined = joined_tables(self, self.ub, data)
        return joined_spec(self, joined, counts), joined.tables, joined.tables

    def _told(self) -> Result | PrivateResult:
        check_fitted(self)
        return self.result_

    def _rows(self, data: Any, *, reset: bool = False) -> Tables:
        how: Any = {"missing": self.missing, "id_column": self.id_column}
        return tables_of(self, data, reset=reset, columns=self.bounds, **how)

    def _keep(self, spec: Spec, results: Sequence[Result | PrivateResult], tables: Tables) -> None:
        first = results[0]
        self.spec_, self.result_, self.seed_ = spec, first, spec.to_dict()["job"]["seed"]
        self.cluster_centers_: NDArray[np.float64] = first.cluster_centers_
        self.sizes_: NDArray[Any] | None = first.sizes_
        if isinstance(first, Result) and not first.sized:
            self.sizes_ = None
        self.privacy_ = first.privacy_ if isinstance(first, PrivateResult) else None
        self.n_iter_: int = first.n_iter_
        self.converged_: bool | None = first.converged_
        self.inertia_ = None if first.inertia_ is None else float(first.inertia_)
        ranges = None if self.inertia_ is None else self.inertia_ / spec.schema.ub**2
        self.inertia_in_ranges_: float | None = ranges
        self._tables, self.left_out_ = tables, tables.left_out
        labels = [result.labels_ for result in results]
        if self.join is None:
            both = zip(results, tables, strict=True)
            labels = [first.predict(t) if r.labels_ is None else r.labels_ for r, t in both]
        self.owner_labels_: list[NDArray[np.int64] | None] | None = None
        self.labels_: NDArray[np.int64] | None = None
        if any(each is not None for each in labels):
            self.owner_labels_ = tables.spread(labels, LEFT_OUT)
            self.labels_ = np.concatenate([x for x in self.owner_labels_ if x is not None])
        weak = "" if self.privacy_ is None else self.privacy_.weak()
        for told in filter(None, (first.untold(), weak)):
            warnings.warn(told, stacklevel=3)
