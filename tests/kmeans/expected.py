"""The expected result of a whole k-means job, by the reference: for each k its best start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.job import Job
from ppodc.kmeans.reference import Trace, kmeans
from ppodc.kmeans.result import Result, ResultsByK


@dataclass(frozen=True, slots=True)
class Expected:
    """The best run of each k, and the figures of all runs together."""

    by_k: Mapping[int, Trace]
    n_iter: int
    converged: bool | None


def expected(
    job: Job,
    records: NDArray[Any],
    *,
    centres: NDArray[Any] | None = None,
    keep: NDArray[np.bool_] | None = None,
    owners: NDArray[Any] | None = None,
) -> Expected:
    """Of encoded records; `centres` are the public ones of the spec, `keep` the distinct records.

    `owners` has the number of each record's owner, or says of each record and owner whether it is
    the owner's own; without, all are one owner's. The least inertia over all clusters wins,
    whatever their sizes; the earliest start on ties.
    """
    init = job.init if isinstance(job.init, str) else "random"
    runs = {
        k: [
            kmeans(
                records, k, beta=job.beta, max_iter=job.max_iter, seed=job.seed, centres=centres,
                keep=keep, min_size=job.min_size, init=init, start=start,
                stops=job.iterations is None, owners=owners,
            )
            for start in range(job.n_init)
        ]
        for k in job.clusters
    }  # fmt: skip
    best = {k: min(found, key=lambda t: t.iterations[-1].inertia()) for k, found in runs.items()}
    every = [trace for found in runs.values() for trace in found]
    n_iter = sum(trace.n_iter for trace in every)
    converged = all(trace.converged for trace in every) if job.iterations is None else None
    return Expected(best, n_iter, converged)


def is_exact(job: Job, results: Sequence[Result | ResultsByK], plain: Expected) -> bool:
    """Whether what all owners opened, in the order of their records, equals it to the last bit.

    There is one result for each owner.
    """
    return all(
        _same(job, [r if isinstance(r, Result) else r.by_k[k] for r in results], plain, k)
        for k in job.clusters
    )


def _same(job: Job, results: Sequence[Result], plain: Expected, k: int) -> bool:
    trace = plain.by_k[k]
    told = [trace.for_owner(number) for number in range(len(results))]
    same = all(
        np.array_equal(result.sums_, own.sums)
        and np.array_equal(result.sizes_, own.sizes)
        and (result.n_iter_, result.converged_) == (plain.n_iter, plain.converged)
        and result.inertia_ == (own.inertia if job.inertia else None)
        for result, own in zip(results, told, strict=True)
    )
    labels = [np.empty(0, np.int64), *(r.labels_ for r in results if r.labels_ is not None)]
    return same and (not job.labels or np.array_equal(np.concatenate(labels), trace.labels))
