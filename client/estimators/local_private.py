"""k-means and k-modes under local differential privacy, in scikit-learn's manner, on this machine.

What is found is what a collector would find; `labels_` are those that each owner finds for its own
records, the nearest centre.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.estimators.base import check_fitted
from client.estimators.given_tables import LEFT_OUT, Missing, Tables, tables_of
from client.estimators.local_estimator import LocalEstimator, bounds_of
from client.estimators.owner_tables import BOUNDS, Bounds, check_rows, schema_of, seed_of
from client.estimators.parameters import ARRAY, BY_NAME, NOTHING, WHOLE, Kinds, among
from client.estimators.worded_tables import by_column, fitted, worded_tables
from ppodc.local_dp.job import Job, build
from ppodc.local_dp.kmodes import nearest_mode
from ppodc.local_dp.mechanism import Clusters, Mechanism, MechanismName
from ppodc.local_dp.owner import numbered
from ppodc.local_dp.published.groupings import Grouping
from ppodc.local_dp.published.settings import setting_of
from ppodc.local_dp.result import doubt
from ppodc.local_dp.tallies import ReportsHere
from ppodc.privacy.weighted_kmeans import nearest
from ppodc.records.encode import encode, on_grid
from ppodc.records.schema import Column, Schema

_CHUNK = 1 << 16  # reports
_WORDS = "a list of its words, or how many numbers it has"


class LocalClusters(LocalEstimator):
    """The base of k-means and k-modes: a job as a collector has it, and its k clusters."""

    n_clusters: int
    epsilon: float
    mechanism: MechanismName
    published: Mapping[str, float] | None

    def _job(self, rows: int, **rest: Any) -> Job:
        given = self.published
        setting = None if given is None else setting_of(self.mechanism, dict(given))
        asked = self.epsilon if setting is None else None
        shape: dict[str, Any] = {"expected_rows": rows, "seed": self.seed_, **rest}
        return Job(self.n_clusters, asked, self.mechanism, as_published=setting, **shape)

    def _collect(self, mechanism: Mechanism, reports: NDArray[Any]) -> Clusters:
        counted = ReportsHere(mechanism.tally, lambda: _chunked(reports))
        return mechanism.collect(counted, len(reports), self.n_clusters, self.seed_)


def _chunked(reports: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(reports), _CHUNK):
        yield reports[start : start + _CHUNK]


class LocalPrivateKMeans(LocalClusters):
    """k-means of perturbed records.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    epsilon : float, default=1.0
        Guaranteed for one record with all its columns.
    mechanism : "codebook", "privbv" or "ldpseg", default="codebook"
        The best one, or a published one made honest.
    bounds : tuple, sequence of tuples, mapping or "data", default=None
        (low, high) for all columns, or one pair for each. Bounds are public: take them from
        elsewhere, not from the data.
    points : int or None, default=None
        Points of the codebook; None chooses by the number of records.
    bits : int, default=8
        Bits for each value, of privbv and ldpseg.
    grouping : "matrix", "hierarchical" or None, default=None
        Of privbv: kCluster or average linkage on all pairs of at most 20,000 reports, instead of
        the linear kCluster.
    random_state : int, RandomState or None, default=None
        Public seed of points, thresholds and starts.
    ub : int, default=1000
        Values are rounded to whole numbers 0..ub between the bounds.
    insecure_noise_seed : int or None, default=None
        For experiments: noise that anyone can draw again, hence no privacy.
    published : mapping or None, default=None
        Numbers of a published setting instead of epsilon and bits; see `as_published`.
    missing : "refuse" or "leave out", default="refuse"
        What becomes of rows with a missing value: an error that names them, or they are left out
        and counted in `left_out_`.
    id_column : str or None, default=None
        A column that names rows, which stays here: `to_frame` has it beside the labels.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, columns)
        Estimated centres, in real units.
    sizes_ : ndarray of shape (n_clusters,)
        Estimated sizes.
    labels_ : ndarray of int
        Nearest centre of each record, all owners' rows in the order given; -1 of one left out.
    left_out_ : list of int
        Rows of each table that were left out, because a value is missing.
    standard_error_ : ndarray of shape (n_clusters, columns) or None
        Standard error of each centre, from noise that is drawn again; None if it is not known.
    usable_ : bool
        False where the centres may be little but noise. Where it was True in trials, more than nine
        of ten results cost less than twice what k-means does (`ppodc bench ldp usable`).
    privacy_ : PrivacyReport
        The guarantee for one record.
    seed_ : int
        The public seed, drawn if random_state is None.

    Examples
    --------
    >>> import numpy as np
    >>> from ppodc import LocalPrivateKMeans
    >>> points = np.repeat([[1.0, 1.0], [9.0, 9.0]], 3000, axis=0)
    >>> model = LocalPrivateKMeans(2, epsilon=4.0, bounds=(0, 10), random_state=1)
    >>> model.fit([points[:2000], points[2000:]]).cluster_centers_.shape
    (2, 2)
    >>> round(model.privacy_.guaranteed.epsilon, 3)
    4.0
    """

    _kinds: ClassVar[Kinds] = {
        **LocalEstimator._kinds,
        "n_clusters": [WHOLE],
        "mechanism": [among("codebook", "privbv", "ldpseg")],
        "bounds": BOUNDS,
        "points": [WHOLE, NOTHING],
        "bits": [WHOLE],
        "grouping": [among("matrix", "hierarchical"), NOTHING],
        "ub": [WHOLE],
        "published": [BY_NAME, NOTHING],
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
        grouping: Literal["matrix", "hierarchical"] | None = None,
        random_state: Any = None,
        ub: int = 1000,
        insecure_noise_seed: int | None = None,
        published: Mapping[str, float] | None = None,
        missing: Missing = "refuse",
        id_column: str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.bounds = bounds
        self.points = points
        self.bits = bits
        self.grouping = grouping
        self.random_state = random_state
        self.ub = ub
        self.insecure_noise_seed = insecure_noise_seed
        self.published = published
        self.missing = missing
        self.id_column = id_column

    @classmethod
    def as_published(
        cls,
        mechanism: Literal["privbv", "ldpseg"],
        *,
        b: float,
        s: int,
        t: float = 0.5,
        flips: Literal["moue", "uer"] = "moue",
        **rest: Any,
    ) -> "LocalPrivateKMeans":
        """The published setting: b (or epsilon of LDPseg) as claimed, s bits, t of the range.

        `flips` chooses between the two rules of LDPseg. `fit` warns with the epsilon that one
        record really spends.
        """
        setting: dict[str, Any] = {"b": b, "s": s, "t": t}
        if mechanism == "ldpseg":
            setting = {"epsilon": b, "s": s} | ({} if flips == "moue" else {"flips": flips})
        return cls(mechanism=mechanism, published=setting, **rest)

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster the owners' tables: a list or mapping with one for each owner, or one table."""
        self._check_parameters()
        self.seed_ = seed_of(self.random_state)
        tables = self._rows(X, reset=True)
        rows = check_rows(tables, self.n_clusters)
        names = getattr(self, "feature_names_in_", None)
        self._schema = schema = schema_of(tables, self.bounds, self.ub, names)
        tables.check(schema)
        owners = [encode(table, schema) for table in tables]
        pairs = None if self.grouping is None else Grouping(self.grouping)
        job = self._job(rows, points=self.points or 0, bits=self.bits, grouping=pairs)
        mechanism = build(job, schema)
        reports = self._reports(owners, mechanism)
        found = self._collect(mechanism, reports)
        low, high = bounds_of(schema)
        self.cluster_centers_: NDArray[np.float64] = low + found.centres / self.ub * (high - low)
        self.sizes_: NDArray[np.float64] = found.sizes
        whole = np.concatenate(owners).astype(np.float64)
        self._keep(tables, nearest(whole, found.centres))
        steps = None if found.stability is None else found.stability.errors / self.ub
        error = None if steps is None else steps * (high - low)
        self.standard_error_: NDArray[np.float64] | None = error
        self._centres = found.centres
        self._judge(doubt(mechanism, found.stability, rows, self.n_clusters))
        return self

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.int64]:  # noqa: N803
        """The nearest centre of each record, as its owner finds it; nothing is reported."""
        check_fitted(self)
        tables = self._rows(X)
        grids = [on_grid(rows, self._schema).astype(np.float64) for rows in tables]
        labels = [nearest(rows, self._centres) for rows in grids]
        return np.concatenate(tables.spread(labels, LEFT_OUT))

    def _rows(self, data: Any, *, reset: bool = False) -> Tables:
        how: Any = {"missing": self.missing, "id_column": self.id_column}
        return tables_of(self, data, reset=reset, columns=self.bounds, **how)


class LocalPrivateKModes(LocalClusters):
    """k-modes of perturbed records of categories: words, or whole numbers from 0.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of modes.
    epsilon : float, default=1.0
        Guaranteed for one record with all its columns.
    mechanism : "joint" or "ldpk-modes", default="joint"
        The better one, or the published one made honest.
    categories : sequence or mapping, default=()
        For each column, in order or by name, a list of its words, or how many numbers it has.
        Public.
    random_state : int, RandomState or None, default=None
        Public seed of the starts.
    insecure_noise_seed : int or None, default=None
        For experiments: noise that anyone can draw again, hence no privacy.
    published : mapping or None, default=None
        Numbers of a published setting instead of epsilon; see `as_published`.
    missing : "refuse" or "leave out", default="refuse"
        What becomes of rows with a missing value: an error that names them, or they are left out
        and counted in `left_out_`.
    id_column : str or None, default=None
        A column that names rows, which stays here: `to_frame` has it beside the labels.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, columns)
        Modes, as words where a column has words.
    standard_error_ : ndarray of shape (n_clusters, columns)
        How often noise that is drawn again chooses another value.
    sizes_, labels_, privacy_, usable_, seed_
        As in `LocalPrivateKMeans`.

    Examples
    --------
    >>> from ppodc import LocalPrivateKModes
    >>> rows = [["red", "small"]] * 500 + [["blue", "large"]] * 500
    >>> model = LocalPrivateKModes(
    ...     2, epsilon=8.0, categories=[["red", "blue"], ["small", "large"]], random_state=1
    ... )
    >>> sorted(model.fit(rows).cluster_centers_.tolist())
    [['blue', 'large'], ['red', 'small']]
    """

    _kinds: ClassVar[Kinds] = {
        **LocalEstimator._kinds,
        "n_clusters": [WHOLE],
        "mechanism": [among("joint", "ldpk-modes")],
        "categories": [ARRAY, BY_NAME],
        "published": [BY_NAME, NOTHING],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        mechanism: Literal["joint", "ldpk-modes"] = "joint",
        categories: Sequence[int | Sequence[str]] | Mapping[str, int | Sequence[str]] = (),
        random_state: Any = None,
        insecure_noise_seed: int | None = None,
        published: Mapping[str, float] | None = None,
        missing: Missing = "refuse",
        id_column: str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.categories = categories
        self.random_state = random_state
        self.insecure_noise_seed = insecure_noise_seed
        self.published = published
        self.missing = missing
        self.id_column = id_column

    @classmethod
    def as_published(cls, *, epsilon: float, **rest: Any) -> "LocalPrivateKModes":
        """LDPK-modes with epsilon for every attribute: a record spends as many times that."""
        return cls(mechanism="ldpk-modes", published={"epsilon": epsilon}, **rest)

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """The modes of the owners' tables: a list or mapping with one for each, or one table."""
        self._check_parameters()
        self.seed_ = seed_of(self.random_state)
        tables = self._rows(X, reset=True)
        categories = by_column(self.categories, self, "categories", _WORDS)
        columns = (_category_column(name, entry) for name, entry in categories)
        self._schema = schema = Schema(tuple(columns))
        owners = [numbered(own, schema) for own in fitted(tables, schema, self.missing)]
        rows = check_rows(owners, self.n_clusters)
        mechanism = build(self._job(rows), schema)
        found = self._collect(mechanism, self._reports(owners, mechanism))
        self._modes = modes = found.centres.astype(np.int64)
        self.cluster_centers_: NDArray[Any] = in_words(modes, schema)
        self.sizes_: NDArray[np.float64] = found.sizes
        self._keep(tables, nearest_mode(np.concatenate(owners), modes))
        stability = found.stability
        self.standard_error_ = None if stability is None else stability.errors
        self._judge(doubt(mechanism, found.stability, rows, self.n_clusters))
        return self

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.int64]:  # noqa: N803
        """The nearest mode of each record, as its owner finds it; nothing is reported."""
        check_fitted(self)
        tables = self._rows(X)
        whole = [numbered(own, self._schema) for own in fitted(tables, self._schema, self.missing)]
        labels = [nearest_mode(own, self._modes) for own in whole]
        return np.concatenate(tables.spread(labels, LEFT_OUT))

    def _rows(self, data: Any, *, reset: bool = False) -> Tables:
        return worded_tables(
            self, data, reset=reset, columns=self.categories, id_column=self.id_column
        )


def _category_column(name: str, categories: int | Sequence[str]) -> Column:
    if isinstance(categories, int):
        return Column(name, 0, categories - 1)
    return Column.of_words(name, categories)


def in_words(centres: NDArray[Any], schema: Schema) -> NDArray[Any]:
    """The centres, with words where a column has them."""
    if not schema.categories:
        return centres
    shown = centres.astype(object)
    for place in schema.categories:
        words = np.array(schema.columns[place].values, object)
        shown[:, place] = words[centres[:, place].astype(np.int64)]
    return shown
