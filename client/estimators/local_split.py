"""k-means of columns that different owners hold, under local differential privacy."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.estimators.given_tables import named_owners, tables_of
from client.estimators.local_estimator import LocalEstimator, bounds_of
from client.estimators.owner_tables import Bounds, check_rows, schema_of, seed_of
from client.estimators.parameters import ARRAY, BY_NAME, NOTHING, WHOLE, Kinds
from ppodc.errors import OptionError, TableError
from ppodc.local_dp.split_columns import SplitColumns
from ppodc.local_dp.stability import warning
from ppodc.records.encode import encode


class LocalPrivateSplitKMeans(LocalEstimator):
    """k-means of perturbed records whose columns different owners hold, row by row alike.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    epsilon : float, default=1.0
        Guaranteed for one record at all owners together; shared out evenly over them.
    bounds : tuple, sequence or mapping, default=None
        (low, high) for all columns, pairs by name, or for each owner what `LocalPrivateKMeans`
        takes. Public.
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
    standard_error_ : ndarray of shape (n_clusters, all columns)
        Standard error of each centre, from noise that is drawn again.
    usable_ : bool
        As in `LocalPrivateKMeans`; its limits were chosen on tables of one owner.
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

    _kinds: ClassVar[Kinds] = {
        **LocalEstimator._kinds,
        "n_clusters": [WHOLE],
        "bounds": [ARRAY, BY_NAME, NOTHING],
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
        self._check_parameters()
        self.seed_ = seed_of(self.random_state)
        names, parts = named_owners(X)
        if len(parts) < 2:
            raise TableError("give a list or mapping with one table for each owner, two at least.")
        given: Any = self.bounds
        by_name = isinstance(given, Mapping)
        alike = by_name or given is None or np.ndim(given[0]) == 0
        if not alike and len(given) != len(parts):
            raise OptionError(f"bounds must have {len(parts)} entries, one for each owner.")
        tables, schemas = [], []
        for number, (name, part) in enumerate(zip(names, parts, strict=True)):
            table = tables_of(self, {name: part}, reset=True)
            columns = getattr(self, "feature_names_in_", None)
            own = given if alike else given[number]
            if by_name and columns is not None:
                own = {column: given[column] for column in columns if column in given}
            schemas.append(schema_of(table, own, self.ub, columns))
            table.check(schemas[-1])
            tables.append(table)
        rows = {check_rows(table, self.n_clusters) for table in tables}
        if len(rows) > 1:
            raise TableError("the tables must have the same rows in the same order: their numbers "
                            f"are {sorted(rows)}.")  # fmt: skip
        n, widths = rows.pop(), [len(schema.columns) for schema in schemas]
        made = SplitColumns.of(widths, self.ub, self.epsilon, n, self.n_clusters, self.seed_)
        owners = [encode(t[0], schema) for t, schema in zip(tables, schemas, strict=True)]
        report = made.guarantee()
        self._guarantee(report)
        reports = [made.perturb(owner, own, self._streams(own, owner, b"split"))
                   for owner, own in enumerate(owners)]  # fmt: skip
        found = made.collect(reports, self.n_clusters, self.seed_)
        low, high = np.concatenate([bounds_of(schema) for schema in schemas], axis=1)
        self.cluster_centers_: NDArray[np.float64] = low + found.centres / self.ub * (high - low)
        self.sizes_: NDArray[np.float64] = found.sizes
        self.labels_ = np.asarray(found.labels)
        stability = found.stability
        loss = None if stability is None else stability.loss
        errors = None if stability is None else stability.errors / self.ub * (high - low)
        self.standard_error_: NDArray[np.float64] | None = errors
        self._judge(warning(loss, None))
        return self
