"""The job that `SecureKMeans` asks for, and the parameters that ask for the job of a spec."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from client.estimators.joined_tables import JoinedTables, join_parameters
from client.estimators.owner_tables import seed_of
from client.estimators.private_job import private_job
from client.estimators.record_linkage import RecordLinkage
from client.platforms.jobs import NAME
from ppodc.errors import OptionError
from ppodc.kmeans.job import Job, job_of, parse_beta
from ppodc.kmeans.private.job import NoisyJob
from ppodc.records.schema import Schema
from ppodc.spec import Spec

_MOST_ITERATIONS = 100
_RANDOM_STARTS = 10  # what n_init="auto" means for random starts, as in scikit-learn


def plain_parameters(spec: Spec) -> dict[str, Any]:
    """The parameters of an estimator that asks for the k-means job of a spec."""
    job = job_of(spec)
    if job.ks:
        raise OptionError("the spec asks for several numbers of clusters: see `fit_each`.")
    columns = job.clustered(spec.schema).columns
    by_name = {column.name: (column.low, column.high) for column in columns}
    found: dict[str, Any] = {
        "n_clusters": job.k,
        "init": job.init if isinstance(job.init, str) else np.array(job.init),
        "n_init": job.n_init,
        **_when_to_stop(job),
        "random_state": job.seed,
        "bounds": list(by_name.values()),
        "ub": spec.schema.ub,
        "min_size": job.min_size,
        "inertia": job.inertia,
    }
    if job.dedup is not None:
        found["dedup"] = RecordLinkage.from_inside(spec.schema, job.dedup)
        if found["dedup"].by_name:
            found["bounds"] = by_name
    if job.join is not None:
        found |= {"bounds": by_name, "sizes": job.sizes, "labels": job.labels}
        found |= join_parameters(job.join, spec.schema)
    return found


def _when_to_stop(job: Job) -> dict[str, Any]:
    if job.iterations is not None:
        return {"iterations": job.iterations}
    return {"max_iter": job.max_iter, "beta": str(job.beta)}


def spec_of(estimator: Any, schema: Schema, counts: Sequence[int] = ()) -> Spec:
    """The spec that an estimator asks for, over these columns to cluster."""
    job: Job | NoisyJob
    job = private_job(estimator, counts) if estimator.epsilon else job_for(estimator, counts)
    if estimator.dedup is not None and isinstance(job, Job):
        schema, linkage = estimator.dedup.inside(schema)
        job = replace(job, dedup=linkage)
    return Spec(NAME, schema, job)


def joined_spec(estimator: Any, joined: JoinedTables, counts: Sequence[int] = ()) -> Spec:
    """The spec that an estimator asks for, over joined columns."""
    job = job_for(estimator, counts)
    job = replace(job, labels=estimator.labels, join=joined.join, sizes=estimator.sizes)
    return Spec(NAME, joined.schema, job)


def job_for(estimator: Any, counts: Sequence[int] = ()) -> Job:
    """The job that an estimator asks for, without [linkage] or [join]."""
    init = estimator.init
    if not isinstance(init, str):
        init = tuple(tuple(float(x) for x in row) for row in np.atleast_2d(np.asarray(init)))
    most = estimator.max_iter
    return Job(
        k=int(estimator.n_clusters),
        beta=_beta(estimator),
        max_iter=_MOST_ITERATIONS if most is None else int(most),
        iterations=None if estimator.iterations is None else int(estimator.iterations),
        init=init,
        seed=seed_of(estimator.random_state),
        labels=estimator.join is None,
        min_size=int(estimator.min_size),
        n_init=_starts(estimator),
        inertia=estimator.inertia,
        ks=tuple(counts),
    )


def _starts(estimator: Any) -> int:
    if isinstance(estimator.n_init, str):
        random = isinstance(estimator.init, str) and estimator.init == "random"
        return _RANDOM_STARTS if random else 1
    return int(estimator.n_init)


def _beta(estimator: Any) -> Fraction:
    tol = parse_beta(estimator.tol)
    given = tol or estimator.beta or estimator.max_iter is not None
    if estimator.iterations is not None and given:
        raise OptionError(
            "iterations fixes how many iterations there are: leave out max_iter, tol and beta."
        )
    if estimator.beta is None:
        return tol * int(estimator.ub) ** 2
    if tol:
        raise OptionError("tol and beta say the same in two units: give one of them.")
    return parse_beta(estimator.beta)
