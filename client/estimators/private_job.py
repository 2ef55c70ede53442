"""k-means under differential privacy, as the parameters of `SecureKMeans` ask for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from client.estimators.owner_tables import seed_of
from ppodc.errors import OptionError
from ppodc.kmeans.private.job import NoisyJob
from ppodc.spec import Spec

if TYPE_CHECKING:
    from client.estimators.secure_kmeans import SecureKMeans

_EXACT_ALONE = (
    "init", "n_init", "iterations", "tol", "beta", "min_size", "inertia", "dedup", "join",
)  # fmt: skip


def private_job(estimator: "SecureKMeans", counts: Sequence[int] = ()) -> NoisyJob:
    """The job of an estimator with epsilon; OptionError for parameters that do not go with it."""
    usual = type(estimator)().get_params()
    for name in _EXACT_ALONE:
        value = getattr(estimator, name)
        if name == "n_init" and value == "auto":
            continue
        if not isinstance(value, type(usual[name])) or value != usual[name]:
            raise OptionError(f"{name} does not go with epsilon: leave out one of them.")
    if counts:
        raise OptionError("with epsilon there is one number of clusters: each costs privacy.")
    return NoisyJob(
        k=int(estimator.n_clusters),
        epsilon=0.0 if estimator.epsilon is None else float(estimator.epsilon),
        delta=float(estimator.delta),
        iterations=None if estimator.max_iter is None else int(estimator.max_iter),
        seed=seed_of(estimator.random_state),
    )


def private_parameters(spec: Spec, job: NoisyJob) -> dict[str, Any]:
    """The parameters of an estimator that asks for this job."""
    made = NoisyJob(job.k, job.epsilon, job.delta, iterations=job.iterations, seed=job.seed)
    if made != job:
        raise OptionError("the spec asks for another number of points than 3 for each cluster.")
    return {
        "n_clusters": job.k,
        "max_iter": job.iterations,
        "random_state": job.seed,
        "bounds": [(column.low, column.high) for column in spec.schema.columns],
        "ub": spec.schema.ub,
        "epsilon": job.epsilon,
        "delta": job.delta,
    }
