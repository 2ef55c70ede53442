"""k-prototypes under local differential privacy, in scikit-learn's manner, on this machine."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.estimators.base import check_fitted
from client.estimators.given_tables import LEFT_OUT, Missing, Tables
from client.estimators.local_estimator import LocalEstimator, bounds_of
from client.estimators.local_private import LocalClusters, in_words
from client.estimators.owner_tables import check_rows, seed_of
from client.estimators.parameters import ARRAY, BY_NAME, NOTHING, POSITIVE, WHOLE, Kinds
from client.estimators.worded_tables import by_column, fitted, worded_tables
from ppodc.local_dp.job import MISMATCH, build, tops
from ppodc.local_dp.mechanism import MechanismName
from ppodc.local_dp.owner import encoded
from ppodc.local_dp.result import doubt
from ppodc.records.schema import Column, Schema

Given = Sequence[Any]  # of a column: (low, high), or its words


class LocalPrivateKPrototypes(LocalClusters):
    """Clusters of perturbed records of numbers and words (k-prototypes).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    epsilon : float, default=1.0
        Guaranteed for one record with all its columns.
    columns : sequence or mapping, default=()
        For each column a pair (low, high) of a number or a list of words, in order or by name.
        Public: take them from elsewhere, not from the data.
    mismatch : float, default=0.5
        Two different words count like two numbers that are so many parts of their range apart.
    points : int or None, default=None
        Public points; None chooses by the number of records.
    random_state : int, RandomState or None, default=None
        Public seed of points and starts.
    ub : int, default=1000
        Numbers are rounded to whole numbers 0..ub between the bounds.
    insecure_noise_seed : int or None, default=None
        For experiments: noise that anyone can draw again, hence no privacy.
    missing : "refuse" or "leave out", default="refuse"
        What becomes of rows with a missing value: an error that names them, or they are left out
        and counted in `left_out_`.
    id_column : str or None, default=None
        A column that names rows, which stays here: `to_frame` has it beside the labels.

    Attributes
    ----------
    cluster_centers_ : ndarray of object, shape (n_clusters, columns)
        Estimated prototypes: means of numbers, and the most frequent words.
    standard_error_ : ndarray of shape (n_clusters, columns)
        Of a number its standard error; of a word how often noise drawn again chooses another.
    sizes_, labels_, privacy_, usable_, seed_
        As in `LocalPrivateKMeans`; the limits of `usable_` were chosen on numbers alone.

    Examples
    --------
    >>> from ppodc import LocalPrivateKPrototypes
    >>> rows = [[20.0, "no"]] * 500 + [[70.0, "yes"]] * 500
    >>> model = LocalPrivateKPrototypes(
    ...     2, epsilon=6.0, columns=[(0, 100), ["no", "yes"]], random_state=1
    ... )
    >>> sorted(model.fit(rows).cluster_centers_[:, 1])
    ['no', 'yes']
    """

    _kinds: ClassVar[Kinds] = {
        **LocalEstimator._kinds,
        "n_clusters": [WHOLE],
        "columns": [ARRAY, BY_NAME],
        "mismatch": [POSITIVE],
        "points": [WHOLE, NOTHING],
        "ub": [WHOLE],
    }
    mechanism: MechanismName = "mixed"
    published = None

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        columns: Sequence[Given] | Mapping[str, Given] = (),
        mismatch: float = MISMATCH,
        points: int | None = None,
        random_state: Any = None,
        ub: int = 1000,
        insecure_noise_seed: int | None = None,
        missing: Missing = "refuse",
        id_column: str | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.columns = columns
        self.mismatch = mismatch
        self.points = points
        self.random_state = random_state
        self.ub = ub
        self.insecure_noise_seed = insecure_noise_seed
        self.missing = missing
        self.id_column = id_column

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster the owners' tables: a list or mapping with one for each owner, or one table."""
        self._check_parameters()
        self.seed_ = seed_of(self.random_state)
        tables = self._rows(X, reset=True)
        columns = by_column(self.columns, self, "columns", "(low, high) or its words")
        schema = Schema(tuple(_column(name, entry) for name, entry in columns), self.ub)
        self._schema, given = schema, fitted(tables, schema, self.missing)
        rows = check_rows([own.values for own in given], self.n_clusters)
        self._used = job = self._job(rows, points=self.points or 0, mismatch=self.mismatch)
        self._mechanism = mechanism = build(job, schema)
        owners = [encoded(own, job, schema) for own in given]
        found = self._collect(mechanism, self._reports(owners, mechanism))
        low, high = bounds_of(schema)
        scale = (high - low) / tops(job, schema)
        self._centres = found.centres
        self.cluster_centers_: NDArray[Any] = in_words(low + found.centres * scale, schema)
        self.sizes_: NDArray[np.float64] = found.sizes
        self._keep(tables, mechanism.label(np.concatenate(owners), found.centres))
        errors = None if found.stability is None else found.stability.errors * scale
        self.standard_error_: NDArray[np.float64] | None = errors
        self._judge(doubt(mechanism, found.stability, rows, self.n_clusters))
        return self

    def predict(self, X: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.int64]:  # noqa: N803
        """The nearest prototype of each record, as its owner finds it; nothing is reported."""
        check_fitted(self)
        tables = self._rows(X)
        given = fitted(tables, self._schema, self.missing)
        whole = [encoded(own, self._used, self._schema) for own in given]
        labels = [self._mechanism.label(own, self._centres) for own in whole]
        return np.concatenate(tables.spread(labels, LEFT_OUT))

    def _rows(self, data: Any, *, reset: bool = False) -> Tables:
        return worded_tables(
            self, data, reset=reset, columns=self.columns, id_column=self.id_column
        )


def _column(name: str, entry: Given) -> Column:
    if len(entry) == 2 and all(isinstance(bound, Real) for bound in entry):
        return Column(name, *entry)
    return Column.of_words(name, entry)
