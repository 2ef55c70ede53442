"""Operations on a dataset's job at cloud 1: run, resume, prepare, seal, cancel, status.

One process at a time drives a job (`master.driver`). States are on disk before they are acted on:
whatever ends that process, `resume` goes on from the last iteration that both clouds have on disk,
and the result is the same to the last bit.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from master.driver import JobEnd, JobResources, Master, advice, cancel, cloud2_key, means_of
from master.sealing import SealReport, seal
from ppodc.errors import BusyError, StateError
from ppodc.pairs.progress import Listener, ignore
from ppodc.service.config import Cloud1Config, CollectorConfig
from ppodc.service.job_state import JobState
from ppodc.service.store import JobInfo, Store
from ppodc.service.store.job_lock import job_lock


def run_job(
    config: Cloud1Config,
    dataset: str,
    suite: str | None = None,
    pairs: int | None = None,
    progress: Listener = ignore,
    means: JobResources | None = None,
) -> JobEnd:
    """Seal if that is still to do, and run the job to its end."""
    means = means or means_of(config)
    with _job(means, dataset) as store:
        state = store.jobs.get(dataset).state
        if state not in (JobState.CREATED, JobState.SEALED, JobState.DONE):
            raise StateError(f"the job of {dataset!r} is {state}. {advice(dataset, state)}")
        return Master(config, store, dataset, suite, pairs, progress, means).drive()


def resume_job(
    config: Cloud1Config,
    dataset: str,
    pairs: int | None = None,
    progress: Listener = ignore,
    means: JobResources | None = None,
) -> JobEnd:
    """Continue a job that failed, was interrupted or lost its master."""
    means = means or means_of(config)
    with _job(means, dataset) as store:
        job = store.jobs.get(dataset)
        if job.state in (JobState.CREATED, JobState.SEALED, JobState.CANCELLED):
            raise StateError(f"the job of {dataset!r} is {job.state}. {advice(dataset, job.state)}")
        if pairs is None:
            pairs = job.pairs or None  # as many as it was begun with
        return Master(config, store, dataset, job.suite or None, pairs, progress, means).drive()


def prepare_job(
    config: Cloud1Config,
    dataset: str,
    iterations: int,
    suite: str | None = None,
    pairs: int | None = None,
    progress: Listener = ignore,
    means: JobResources | None = None,
) -> None:
    """Fill the pools of every pair for this many iterations, ahead of `run_job` with as many pairs.

    The records must be sealed, since their number fixes what an iteration takes.
    """
    means = means or means_of(config)
    with _job(means, dataset) as store:
        state = store.jobs.get(dataset).state
        if state != JobState.SEALED:
            before = (
                f": first run ppodc dataset seal {dataset}" if state == JobState.CREATED else ""
            )
            raise StateError(
                f"pools are filled for a sealed dataset, {dataset!r} is {state}{before}."
            )
        Master(config, store, dataset, suite, pairs, progress, means).prepare(iterations)


def seal_dataset(
    config: Cloud1Config, dataset: str, suite: str | None = None, means: JobResources | None = None
) -> SealReport:
    """Close a dataset for uploads at both clouds."""
    means = means or means_of(config)
    with _job(means, dataset) as store, contextlib.closing(means.cloud2()) as cloud2:
        chosen = store.datasets.spec(dataset).kind.suite(suite)
        return seal(store, cloud2, dataset, chosen, cloud2_key(config)[1])


def cancel_job(config: Cloud1Config, dataset: str, means: JobResources | None = None) -> JobState:
    """Stop a job for good: at once if no master runs it, else the running master does it."""
    means = means or means_of(config)
    with means.store() as store:
        store.jobs.request_cancel(dataset)
        try:
            with _lock(store, dataset), contextlib.closing(means.cloud2()) as cloud2:
                return cancel(config, store, cloud2, dataset)
        except BusyError:
            return store.jobs.get(dataset).state


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a job, as last written by any master, and advice if it needs any."""

    job: JobInfo
    advice: str


def status(config: Cloud1Config | CollectorConfig, dataset: str) -> JobStatus:
    """A job under way whose lock nobody holds has lost its master."""
    with Store.open(config.store, "cloud1") as store:
        job = store.jobs.get(dataset)
        what_now = "" if job.state == JobState.DONE else advice(dataset, job.state)
        if job.state == JobState.FAILED:
            what_now += (
                f"; its data stay until then. To give it up and delete them: ppodc cancel {dataset}"
                f", then ppodc dataset delete {dataset}"
            )
        if job.state in (JobState.PREPARING, JobState.RUNNING):
            try:
                with _lock(store, dataset):
                    what_now = f"No master runs it any more. {what_now}"
            except BusyError:
                what_now = ""
        return JobStatus(job, what_now)


# ------------------------------------------------------- one master at a time


@contextlib.contextmanager
def _job(means: JobResources, dataset: str) -> Iterator[Store]:
    with means.store() as store, _lock(store, dataset):
        yield store


@contextlib.contextmanager
def _lock(store: Store, dataset: str) -> Iterator[None]:
    """Hold the job; the lock goes with the process, however it ends."""
    store.datasets.get(dataset)  # a name that is no dataset must not leave a file behind
    with job_lock(store.folder, dataset):
        yield
