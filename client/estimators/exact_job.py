"""Exact k-means, as the parameters of `SecureKMeans` ask for it."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from client.data_errors import DataError
from client.estimators.joined_tables import join_parameters
from client.estimators.owner_tables import seed_of
from client.estimators.record_linkage import RecordLinkage
from ppodc.kmeans.job import Job, job_of, parse_beta
from ppodc.spec import Spec

if TYPE_CHECKING:
    from client.estimators.secure_kmeans import SecureKMeans

_MOST_ITERATIONS = 100
_RANDOM_STARTS = 10  # what n_init="auto" means for random starts, as in scikit-learn


def exact_job(estimator: "SecureKMeans", counts: Sequence[int] = ()) -> Job:
    """The job of an estimator without epsilon; DataError for parameters that contradict."""
    init: Any = estimator.init
    if not isinstance(init, str):
        init = tuple(tuple(float(x) for x in row) for row in np.atleast_2d(np.asarray(init)))
    most, exactly = estimator.max_iter, estimator.iterations
    return Job(
        k=int(estimator.n_clusters),
        beta=_beta(estimator),
        max_iter=_MOST_ITERATIONS if most is None else int(most),
        iterations=None if exactly is None else int(exactly),
        init=init,
        seed=seed_of(estimator.random_state),
        labels=True,
        min_size=int(estimator.min_size),
        n_init=_starts(estimator),
        inertia=estimator.inertia,
        ks=tuple(counts),
    )


def exact_parameters(spec: Spec) -> dict[str, Any]:
    """The parameters of an estimator that asks for the exact job of this spec."""
    job = job_of(spec)
    if job.ks:
        raise DataError("the spec asks for several numbers of clusters: see `fit_each`.")
    columns = job.clustered(spec.schema).columns
    named: dict[str, Any] = {column.name: (column.low, column.high) for column in columns}
    found: dict[str, Any] = {
        "n_clusters": job.k,
        "init": job.init if isinstance(job.init, str) else np.array(job.init),
        "n_init": job.n_init,
        "random_state": job.seed,
        "bounds": list(named.values()),
        "ub": spec.schema.ub,
        "min_size": job.min_size,
        "inertia": job.inertia,
    }
    if job.iterations is not None:
        found["iterations"] = job.iterations
    else:
        found |= {"max_iter": job.max_iter, "beta": str(job.beta)}
    if job.dedup is not None:
        found["dedup"] = RecordLinkage.from_inside(spec.schema, job.dedup)
        if found["dedup"].by_name:
            found["bounds"] = named
    if job.join is not None:
        found |= {**join_parameters(job.join, spec.schema), "sizes": job.sizes, "bounds": named}
    return found


def _starts(estimator: "SecureKMeans") -> int:
    if isinstance(estimator.n_init, str):
        random = isinstance(estimator.init, str) and estimator.init == "random"
        return _RANDOM_STARTS if random else 1
    return int(estimator.n_init)


def _beta(estimator: "SecureKMeans") -> Fraction:
    tol, beta = parse_beta(estimator.tol), estimator.beta
    if estimator.iterations is not None and (tol or beta or estimator.max_iter is not None):
        raise DataError(
            "iterations fixes how many iterations there are: leave out max_iter, tol and beta."
        )
    if beta is None:
        return tol * estimator.ub**2
    if tol:
        raise DataError("tol and beta say the same in two units: give one of them.")
    return parse_beta(beta)
