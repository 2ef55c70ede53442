"""k-means of columns that different owners hold, under local differential privacy."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.data_errors import DataError, as_data_errors
from client.estimators.given_tables import tables_of
from client.estimators.local_estimator import WHOLE, LocalEstimator, bounds_of
from client.estimators.owner_tables import Bounds, check_rows, schema_of, seed_of
from ppodc.local_dp.split_columns import SplitColumns
from ppodc.records.encode import encode


class LocalPrivateSplitKMeans(LocalEstimator):
    """k-means of perturbed records whose columns different owners hold, row by row alike.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    epsilon : float, default=1.0
        Guaranteed for one record at all owners together; shared out evenly over them.
    bounds : tuple or sequence, default=None
        (low, high) for all columns, or for each owner what `LocalPrivateKMeans` takes. Public.
    random_state : int, RandomState or None, default=None
        Public seed of points and starts.
    ub : int, default=1000
        Values are rounded to whole numbers 0..ub between the bounds.
    insecure_noise_seed : int or None, default=None
        For experiments: noise that anyone can draw again, hence no privacy.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, all columns)
        Estimated centres, in real units, the owners' columns in the order given.
    sizes_ : ndarray of shape (n_clusters,)
        Estimated sizes.
    labels_ : ndarray of int
        The collector's labels of the paired reports; nobody has a whole record.
    privacy_ : PrivacyReport
        The guarantee for one record.

    Examples
    --------
    >>> import numpy as np
    >>> from ppodc import LocalPrivateSplitKMeans
    >>> ages, incomes = np.repeat([[20.0], [70.0]], 4000, axis=0), np.repeat([[9.0], [2.0]], 4000)
    >>> model = LocalPrivateSplitKMeans(2, epsilon=8.0, bounds=[(0, 100), (0, 10)], random_state=1)
    >>> model.fit([ages, incomes[:, None]]).cluster_centers_.shape
    (2, 2)
    >>> [round(share, 3) for share in model.privacy_.per_attribute]
    [4.0, 4.0]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LocalEstimator._parameter_constraints,
        "n_clusters": [WHOLE],
        "bounds": ["array-like", None],
        "ub": [WHOLE],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float = 1.0,
        bounds: Bounds | Sequence[Bounds] = None,
        random_state: Any = None,
        ub: int = 1000,
        insecure_noise_seed: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.bounds = bounds
        self.random_state = random_state
        self.ub = ub
        self.insecure_noise_seed = insecure_noise_seed

    def fit(self, X: Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Cluster rows of which each table, one for each owner, has some columns."""
        self._validate_params()
        self.seed_ = seed_of(self.random_state)
        if not isinstance(X, list | tuple) or len(X) < 2:
            raise DataError("give a list with one table for each owner, two at least.")
        tables = [tables_of(self, [table], reset=True) for table in X]
        rows = {check_rows(table, self.n_clusters) for table in tables}
        if len(rows) > 1:
            raise DataError("the tables must have the same rows in the same order: their numbers "
                            f"are {sorted(rows)}.")  # fmt: skip
        given: Any = self.bounds
        alike = given is None or np.ndim(given[0]) == 0
        if not alike and len(given) != len(X):
            raise DataError(f"bounds must have {len(X)} entries, one for each owner.")
        schemas = [schema_of(table, given if alike else given[owner], self.ub)
                   for owner, table in enumerate(tables)]  # fmt: skip
        n, columns = rows.pop(), [len(schema.columns) for schema in schemas]
        with as_data_errors():
            made = SplitColumns.of(columns, self.ub, self.epsilon, n, self.n_clusters, self.seed_)
            owners = [encode(t[0], schema) for t, schema in zip(tables, schemas, strict=True)]
            reports = [made.perturb(owner, own, self._streams(own, owner, b"split"))
                       for owner, own in enumerate(owners)]  # fmt: skip
        self.privacy_ = made.guarantee()
        found = made.collect(reports, self.n_clusters, self.seed_)
        low, high = np.concatenate([bounds_of(schema) for schema in schemas], axis=1)
        self.cluster_centers_: NDArray[np.float64] = low + found.centres / self.ub * (high - low)
        self.sizes_: NDArray[np.float64] = found.sizes
        self.labels_ = found.labels
        return self
