"""`SecureKMeans`: the whole platform on this machine behind scikit-learn's familiar interface.

Each array given to `fit` belongs to another owner. `fit` starts both clouds, lets every owner
upload its shares, runs the job and opens the result as the owners would.
"""

import inspect
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.operator import Operator
from client.owner import Owner
from ppodc.errors import InputError
from ppodc.kmeans.job import Job, parse_beta
from ppodc.kmeans.row_choice import MAX_SEED
from ppodc.local.platform import LocalPlatform
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec

Bounds = tuple[float, float] | Sequence[tuple[float, float]] | Literal["data"] | None


class SecureKMeans:
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
    suite : "shares" (fast) or "paillier" (as published).
    pairs : worker pairs.

    Attributes
    ----------
    cluster_centers_ : centres in real units, (n_clusters, columns).
    sizes_ : records of each cluster.
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
        suite: str = "shares",
        pairs: int = 1,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.max_iter = max_iter
        self.beta = beta
        self.random_state = random_state
        self.bounds = bounds
        self.ub = ub
        self.suite = suite
        self.pairs = pairs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> "SecureKMeans":
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                known = ", ".join(self._names())
                raise ValueError(f"SecureKMeans has no parameter {name!r}; it has {known}.")
            setattr(self, name, value)
        return self

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"SecureKMeans({shown})"

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> "SecureKMeans":  # noqa: N803
        """Cluster the owners' arrays: a list with one array for each owner, or one array."""
        owners = _owners(X)
        spec = self._spec(owners)
        names = [f"owner{i}" for i in range(1, len(owners) + 1)]
        with tempfile.TemporaryDirectory(prefix="ppodc-") as folder:
            platform = LocalPlatform(Path(folder, "platform"), owners=names, pairs=self.pairs)
            with platform:
                with Operator.connect(platform.config("operator")) as operator:
                    operator.create(spec)
                for name, records in zip(names, owners, strict=True):
                    with Owner.connect(platform.config(name)) as owner:
                        owner.upload(spec.name, records, progress=False)
                platform.run(spec.name, self.suite)
                results = []
                for name in names:
                    with Owner.connect(platform.config(name)) as owner:
                        results.append(owner.result(spec.name))
        self.cluster_centers_: NDArray[np.float64] = results[0].cluster_centers_
        self.sizes_: NDArray[np.int64] = results[0].sizes_
        self.n_iter_: int = results[0].n_iter_
        self.labels_: NDArray[np.int64] = np.concatenate([result.labels_ for result in results])
        self.n_features_in_: int = owners[0].shape[1]
        return self

    def fit_predict(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> Any:  # noqa: N803
        """`fit`, and the labels."""
        return self.fit(X).labels_

    def _spec(self, owners: list[NDArray[np.float64]]) -> Spec:
        bounds = self._bounds(owners)
        columns = tuple(
            Column(f"x{i}", float(low), float(high)) for i, (low, high) in enumerate(bounds)
        )
        init: Any = "random"
        if not isinstance(self.init, str):
            init = tuple(tuple(float(x) for x in row) for row in np.asarray(self.init))
        elif self.init != "random":
            raise InputError(f"init must be 'random' or an array of centres, not {self.init!r}.")
        seed = self.random_state
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise InputError("random_state must be a whole number: it is part of the public spec.")
        job = Job(
            k=self.n_clusters,
            beta=parse_beta(self.beta),
            max_iter=self.max_iter,
            init=init,
            seed=int(seed) % (MAX_SEED + 1),
            labels=True,
        )
        return Spec("records", Schema(columns, self.ub), job)

    def _bounds(self, owners: list[NDArray[np.float64]]) -> list[tuple[float, float]]:
        width = owners[0].shape[1]
        if self.bounds is None:
            raise InputError(
                "bounds must be given: (low, high), or one pair for each column. They are public, "
                "so choose them by meaning; bounds='data' takes them from the data and leaks them."
            )
        if isinstance(self.bounds, str):
            if self.bounds != "data":
                raise InputError(f"bounds must be numbers or 'data', not {self.bounds!r}.")
            warnings.warn(
                "bounds='data' tells both clouds the smallest and largest value of every column.",
                stacklevel=4,
            )
            rows = np.concatenate(owners)
            low, high = rows.min(axis=0), rows.max(axis=0)
            # a constant column needs some width; where it lies does not matter
            return [
                (a, b if b > a else a + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)
            ]
        pairs = np.asarray(self.bounds, dtype=float)
        if pairs.shape == (2,):
            pairs = np.tile(pairs, (width, 1))
        if pairs.shape != (width, 2):
            raise InputError(f"bounds must be one pair, or {width} pairs of (low, high).")
        return [(low, high) for low, high in pairs.tolist()]


def _owners(data: Any) -> list[NDArray[np.float64]]:
    """One two-dimensional array for each owner."""
    if hasattr(data, "to_numpy") or (isinstance(data, np.ndarray) and data.ndim == 2):
        data = [data]
    owners = [np.asarray(part, dtype=np.float64) for part in data]
    if owners and all(part.ndim == 1 for part in owners):  # a table given as nested lists
        owners = [np.stack(owners)]
    if not owners or any(part.ndim != 2 or not len(part) for part in owners):
        raise InputError("give one table (rows by columns) for each owner, none of them empty.")
    if len({part.shape[1] for part in owners}) != 1:
        raise InputError("all owners' tables must have the same columns.")
    return owners
