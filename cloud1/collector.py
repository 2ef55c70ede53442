"""The collector: cloud 1 alone clusters the reports of a sealed dataset of the kind `local`.

Reports are read from the store and counted a chunk at a time, so that memory does not grow with
their number: in this process, or on the workers of a cluster, with the same result. There is no
other cloud, no worker pair and nothing to resume: whatever ends the process, `collect` starts anew
and comes to the same result.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloud1.report_workers import ReportsOnWorkers
from ppodc.cluster.workers import Workers
from ppodc.errors import JobFailedError, PpodcError, StateError
from ppodc.local_dp.cloud import make_result
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.tallies import Chunks, Reports, ReportsHere
from ppodc.service.job_state import JobState
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store import Store
from ppodc.service.store.job_lock import job_lock
from ppodc.spec import Spec

_CHUNK_BYTES = 16 << 20

Progress = Callable[[int, int], None]  # reports read in the pass under way, of this many


@dataclass(frozen=True, slots=True)
class Collected:
    """The outcome of a local job."""

    dataset: str
    m: int
    privacy: str
    facts: dict[str, Any]

    def figures(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return {"dataset": self.dataset, "m": self.m, **self.facts}


def collect(
    store: Store,
    dataset: str,
    progress: Progress = lambda done, m: None,
    workers: Workers | None = None,
    count: int = 1,
) -> Collected:
    """Seal if that is still to do, cluster the reports, keep the result; again is harmless.

    `workers`: count on this many of these instead of here.
    """
    report = form_of(store.datasets.spec(dataset)).guarantee
    with job_lock(store.folder, dataset):
        state = store.jobs.get(dataset).state
        if state == JobState.CANCELLED:
            raise StateError(f"the job of {dataset!r} was cancelled; create a new dataset.")
        if state == JobState.CREATED:
            _seal(store, dataset)
        sealed = store.seals.sealed(dataset)
        m = sealed.m
        if state != JobState.DONE:
            chunks = partial(_chunks, store, sealed, progress)
            with _reports(store.datasets.spec(dataset), chunks, workers, count) as reports:
                _cluster(store, dataset, m, reports)
            learnt = "the collector and owners with records: the clusters, estimated from reports"
            store.ledger.append("reports clustered", dataset, {"privacy": report.brief}, learnt)
            store.jobs.transition(dataset, JobState.DONE)
        facts = dict(store.results.half(dataset).facts)
    return Collected(dataset, m, str(report), facts)


def _seal(store: Store, dataset: str) -> None:
    """Fix the reports; refused while there are too few for the job."""
    committed = [upload for upload in store.uploads.of(dataset) if upload.committed]
    least = store.datasets.spec(dataset).job.to_dict()["k"]
    rows = sum(upload.rows for upload in committed)
    if rows < least:
        raise StateError(
            f"dataset {dataset!r} has {rows} reports and needs {least} at least; wait for owners."
        )
    store.seals.seal(dataset, [upload.upload_id for upload in committed])


def cancel(store: Store, dataset: str) -> JobState:
    """Stop a job for good; refused when it is over, or while another process runs it."""
    with job_lock(store.folder, dataset):
        store.jobs.request_cancel(dataset)
        store.jobs.transition(dataset, JobState.CANCELLED)
    return JobState.CANCELLED


@contextlib.contextmanager
def _reports(
    spec: Spec, chunks: Chunks, workers: Workers | None, count: int
) -> Iterator[Reports]:  # fmt: skip
    """The reports, counted here or by workers."""
    if workers is None:
        yield ReportsHere(form_of(spec).mechanism.tally, chunks)
    else:
        with ReportsOnWorkers(workers, count, spec, chunks) as counted:
            yield counted


def _cluster(store: Store, dataset: str, m: int, reports: Reports) -> None:
    store.jobs.begin(dataset, "", 0)
    store.jobs.transition(dataset, JobState.RUNNING)
    try:
        result = make_result(store.datasets.spec(dataset), reports, m)
        store.results.save(dataset, result)
    except PpodcError as error:
        store.jobs.transition(dataset, JobState.FAILED, message=str(error))
        raise JobFailedError(
            f"the job of {dataset!r} stopped: {error} Nothing is lost; run it again."
        ) from error


def _chunks(store: Store, sealed: Sealed, progress: Progress) -> Iterator[NDArray[Any]]:
    """All sealed reports, some megabytes at a time."""
    part = form_of(store.datasets.spec(sealed.dataset)).mechanism.part
    step = max(1, _CHUNK_BYTES // (np.dtype(part.dtype).itemsize * part.columns))
    for first in range(0, sealed.m, step):
        count = min(step, sealed.m - first)
        yield store.seals.rows(sealed, first, count)
        progress(first + count, sealed.m)
