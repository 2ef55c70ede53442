"""`SecureKMeans`: the whole platform on this machine behind scikit-learn's familiar interface.

Each array given to `fit` belongs to another owner. `fit` starts both clouds, lets every owner
upload its shares, runs the job and opens the result as the owners would.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.estimator import Estimator
from client.one_machine import Bounds, run_here, schema_of, tables_of
from client.record_linkage import RecordLinkage
from ppodc.errors import InputError
from ppodc.kmeans.job import MIN_SIZE, Job, parse_beta
from ppodc.kmeans.row_choice import MAX_SEED
from ppodc.spec import Spec


class SecureKMeans(Estimator):
    """Exact k-means over several owners' records, none of which either cloud sees.

    Parameters
    ----------
    n_clusters : number of clusters.
    init : "random" (records chosen by the seed) or an array of centres in real units.
    max_iter : most iterations.
    beta : stop when the centres move by at most this, in squared encoded units (0..ub).
    random_state : seed of the initial records; the same seed gives the same result.
    bounds : (low, high) for all columns, or one pair for each. Public, so they must be given;
        "data" takes them from the data, which tells both clouds the extremes.
    ub : values are rounded to whole numbers 0..ub between the bounds.
    min_size : owners learn nothing of a cluster with fewer records.
    suite : "shares" (fast) or "paillier" (as published).
    pairs : worker pairs.
    dedup : a `RecordLinkage` whose theta and weights say which records of different owners are the
        same: such a record counts once, and nobody learns which. Needs the shares suite.

    Attributes
    ----------
    cluster_centers_ : centres in real units, (n_clusters, columns); NaN where there is none.
    sizes_ : records of each cluster; 0 if it is empty or has fewer than min_size.
    labels_ : cluster of each record, all owners' rows in the order given.
    n_iter_ : iterations that were run.
    n_features_in_ : number of columns.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "random",
        max_iter: int = 100,
        beta: float | str = 0,
        random_state: int = 0,
        bounds: Bounds = None,
        ub: int = 1000,
        min_size: int = MIN_SIZE,
        suite: str = "shares",
        pairs: int = 1,
        dedup: RecordLinkage | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.max_iter = max_iter
        self.beta = beta
        self.random_state = random_state
        self.bounds = bounds
        self.ub = ub
        self.min_size = min_size
        self.suite = suite
        self.pairs = pairs
        self.dedup = dedup

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> "SecureKMeans":  # noqa: N803
        """Cluster the owners' arrays: a list with one array for each owner, or one array."""
        owners = tables_of(X)
        schema = schema_of(owners, self.bounds, self.ub)
        spec = Spec("records", schema, self._job(len(schema.columns)))
        results = run_here(spec, owners, self.suite, self.pairs)
        self.cluster_centers_: NDArray[np.float64] = results[0].cluster_centers_
        self.sizes_: NDArray[np.int64] = results[0].sizes_
        self.n_iter_: int = results[0].n_iter_
        self.labels_: NDArray[np.int64] = np.concatenate([result.labels_ for result in results])
        self.n_features_in_: int = owners[0].shape[1]
        return self

    def fit_predict(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Any:  # noqa: N803
        """`fit`, and the labels."""
        return self.fit(X).labels_

    def _job(self, columns: int) -> Job:
        init: Any = "random"
        if not isinstance(self.init, str):
            init = tuple(tuple(float(x) for x in row) for row in np.asarray(self.init))
        elif self.init != "random":
            raise InputError(f"init must be 'random' or an array of centres, not {self.init!r}.")
        seed = self.random_state
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise InputError("random_state must be a whole number: it is part of the public spec.")
        return Job(
            k=self.n_clusters,
            beta=parse_beta(self.beta),
            max_iter=self.max_iter,
            init=init,
            seed=int(seed) % (MAX_SEED + 1),
            labels=True,
            dedup=None if self.dedup is None else self.dedup.rule(columns, self.ub),
            min_size=self.min_size,
        )
