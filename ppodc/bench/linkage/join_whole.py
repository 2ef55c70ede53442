"""The whole joined job beside `pandas.merge` and scikit-learn on the same tables.

Both clouds are threads of this process. k-means begins with the same public centres in both, and
goes on until nothing moves, so that sizes must be equal and centres equal up to rounding.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.kinds import owner_side
from ppodc.kmeans.job import job_of
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.progress import ignore
from ppodc.pairs.shards import cut
from ppodc.pairs.walk import Walk, Walker, opened_half
from ppodc.records.result_shares import ResultShare, open_shares
from ppodc.records.sharing import split
from ppodc.records.upload_form import Cloud
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel, memory_pair

K, MOST_ITERATIONS = 4, 1000  # of jobs that are cut short, scikit-learn assigns once more
_PATIENCE = 600.0
_ROLES: tuple[Cloud, Cloud] = (1, 2)
_NEAR = 1e-6  # of centres in steps, which rounding of doubles explains


@dataclass(frozen=True, slots=True)
class Plain:
    """The result in the clear, and its CPU time."""

    sizes: list[int]
    centres: NDArray[np.float64]
    cpu_s: float


def merged(spec: Spec, tables: list[Any], keys: list[str], relation: str) -> tuple[Spec, Plain]:
    """`pandas.merge` of rows that have one partner, then scikit-learn.

    Centres are those of K joined people, so that no cluster is empty; the job with these too.
    """
    from sklearn.cluster import KMeans

    began = time.process_time()
    left, right = tables
    if relation == "1:1":
        left = left.drop_duplicates(keys, keep=False)
    both = left.merge(right.drop_duplicates(keys, keep=False), on=keys, validate=relation)
    names = job_of(spec).clustered(spec.schema).names
    people = both[names].to_numpy(np.float64)
    centres = np.unique(people, axis=0)[:: max(1, len(people) // K)][:K]
    model = KMeans(K, init=centres, n_init=1, max_iter=MOST_ITERATIONS, tol=0, algorithm="lloyd")
    model.fit(people)
    cpu = time.process_time() - began
    sizes = np.bincount(model.labels_, minlength=K).tolist()
    init = tuple(map(tuple, centres.tolist()))
    job = replace(job_of(spec), k=K, init=init, max_iter=MOST_ITERATIONS, min_size=1)
    return replace(spec, job=job), Plain(sizes, model.cluster_centers_, cpu)


def whole_job(spec: Spec, sealed: Sealed, sent: list[NDArray[np.int64]]) -> tuple[Any, float]:
    """An owner's opened result, and the CPU time of both clouds together."""
    values = np.concatenate(sent)
    share, _ = split(values)
    shares = share, share - values.astype(np.uint64)
    first, second = memory_pair(timeout=_PATIENCE)
    began = time.process_time()
    with ThreadPoolExecutor(2) as threads:
        running = [
            threads.submit(partial(_walked, spec, sealed, shares[role - 1], role, channel))
            for role, channel in zip(_ROLES, (first, second), strict=True)
        ]
        found = [each.result() for each in running]
    cpu = time.process_time() - began
    owner = sealed.owners[0]
    own = (half.for_owner(owner, sealed.places_of(owner)) for half in found)
    return owner_side(spec).of(owner).open_result(open_shares(*own)), cpu


def _walked(
    spec: Spec, sealed: Sealed, share: NDArray[np.uint64], role: Cloud, channel: Channel
) -> ResultShare:
    with (
        closing(channel),
        opened_half(spec, "shares", role, channel, sealed.m, Material()) as half,
    ):
        return Walker(Walk(spec, sealed), [half], partial(cut, share), ignore).run()


def beside(spec: Spec, sealed: Sealed, sent: list[Any], plain: Plain) -> dict[str, Any]:
    """Figures of both, and whether the results are the same."""
    result, cpu = whole_job(spec, sealed, sent)
    same = result.sizes_.tolist() == plain.sizes
    near = np.abs(result.cluster_centers_ - plain.centres).max() <= _NEAR
    return {
        "whole_same": bool(same and near),
        "whole_iterations": result.n_iter_,
        "whole_cpu_s": cpu,
        "plain_cpu_s": plain.cpu_s,
    }
