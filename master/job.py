"""The master: runs a dataset's job from the seal to the result, through failures.

States are on disk before they are acted on. Whatever ends this process, `resume` goes on from the
last iteration that both clouds have on disk, and the result is the same to the last bit.
"""

import contextlib
import fcntl
import logging
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from cloud1.worker import RESOURCE
from master.cloud2_client import Cloud2Link
from master.progress import Event, Listener, ignore
from master.sealing import SealReport, seal
from master.session import MasterSession
from ppodc.cluster import ray_cluster
from ppodc.cluster.ray_cluster import Place
from ppodc.crypto.paillier_keys import load_public
from ppodc.errors import (
    BusyError,
    CancelledError,
    ChannelError,
    InputError,
    JobFailedError,
    PpodcError,
    SessionLostError,
)
from ppodc.kmeans import suites
from ppodc.kmeans.job import job_of
from ppodc.kmeans.suites import Suite
from ppodc.pairs.cloud_job import drop_pools
from ppodc.service.config import Cloud1Config
from ppodc.service.job_state import JobState
from ppodc.service.store import JobInfo, Store

_MOST_LOST = 2  # sessions lost in a row without an iteration in between

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended: `state` is done or cancelled."""

    dataset: str
    state: JobState
    n_iter: int
    converged: bool
    m: int
    seconds: float = 0.0  # of all iterations of the last session
    worked: float = 0.0  # of these, in which the slowest pair did protocol work


def run_job(
    config: Cloud1Config,
    dataset: str,
    suite: str = suites.DEFAULT,
    pairs: int | None = None,
    progress: Listener = ignore,
) -> JobEnd:
    """Seal if that is still to do, and run the job to its end."""
    with _job(config, dataset) as store:
        state = store.jobs.get(dataset).state
        if state not in (JobState.CREATED, JobState.SEALED, JobState.DONE):
            raise InputError(f"the job of {dataset!r} is {state}. {_advice(dataset, state)}")
        return _drive(config, store, dataset, suites.named(suite), pairs, progress)


def resume_job(
    config: Cloud1Config, dataset: str, pairs: int | None = None, progress: Listener = ignore
) -> JobEnd:
    """Continue a job that failed, was interrupted or lost its master."""
    with _job(config, dataset) as store:
        job = store.jobs.get(dataset)
        if job.state in (JobState.CREATED, JobState.SEALED, JobState.CANCELLED):
            raise InputError(
                f"the job of {dataset!r} is {job.state}. {_advice(dataset, job.state)}"
            )
        suite = suites.named(job.suite or suites.DEFAULT)
        return _drive(config, store, dataset, suite, pairs or job.pairs, progress)


def prepare_job(
    config: Cloud1Config,
    dataset: str,
    iterations: int,
    pairs: int | None = None,
    progress: Listener = ignore,
) -> None:
    """Fill the pools of every pair for so many iterations, ahead of `run_job` with as many pairs.

    The records must be sealed, since their number fixes what an iteration takes.
    """
    with _job(config, dataset) as store, contextlib.closing(Cloud2Link(config)) as link:
        state = store.jobs.get(dataset).state
        if state != JobState.SEALED:
            before = (
                f": first run ppodc dataset seal {dataset}" if state == JobState.CREATED else ""
            )
            raise InputError(
                f"pools are filled for a sealed dataset, {dataset!r} is {state}{before}."
            )
        many = pairs or config.pairs
        place = Place(config.ray_address, RESOURCE, many)
        with ray_cluster.connected(place), _interruptible():
            session = MasterSession(
                config, store, link, dataset, "shares", many, _key(config)[0], progress, iterations
            )
            try:
                session.run()
            finally:
                session.close()
                link.settle(dataset, _digest(store, dataset), "prepared")


def seal_dataset(config: Cloud1Config, dataset: str, suite: str = suites.DEFAULT) -> SealReport:
    """Close a dataset for uploads at both clouds."""
    with _job(config, dataset) as store, contextlib.closing(Cloud2Link(config)) as link:
        return seal(store, link, dataset, suites.named(suite), _key(config)[1])


def cancel_job(config: Cloud1Config, dataset: str) -> JobState:
    """Stop a job for good: at once if no master runs it, else the running master does it."""
    with Store.open(config.store, "cloud1") as store:
        store.jobs.request_cancel(dataset)
        try:
            with _lock(store, dataset), contextlib.closing(Cloud2Link(config)) as link:
                link.settle(dataset, _digest(store, dataset), "cancelled", "cancelled by cloud 1")
                drop_pools(store, dataset, config.pools)
                return store.jobs.transition(dataset, JobState.CANCELLED).state
        except BusyError:
            return store.jobs.get(dataset).state


def status(config: Cloud1Config, dataset: str) -> JobInfo:
    """Where the job stands, as last written by any master."""
    with Store.open(config.store, "cloud1") as store:
        return store.jobs.get(dataset)


# ------------------------------------------------------------------- driving


def _drive(
    config: Cloud1Config,
    store: Store,
    dataset: str,
    suite: Suite,
    pairs: int | None,
    progress: Listener,
) -> JobEnd:
    modulus, bits = _key(config)
    times = (0.0, 0.0)
    with contextlib.closing(Cloud2Link(config)) as link:
        if store.jobs.get(dataset).state != JobState.DONE:
            progress(
                Event(dataset, "sealing", 0, job_of(store.datasets.spec(dataset)).max_iter, 0, 0)
            )
            seal(store, link, dataset, suite, bits)
            try:
                session = _run(
                    config, store, link, dataset, suite, pairs or config.pairs, modulus, progress
                )
                times = (session.seconds, session.worked)
            except CancelledError:
                drop_pools(store, dataset, config.pools)
                return _cancelled(store, link, dataset)
            except (KeyboardInterrupt, SystemExit):
                _give_up(store, link, dataset, "stopped by the operator")
                raise
            except PpodcError as error:
                raise _give_up(store, link, dataset, str(error)) from error
        # C2 hands its halves out only now: both clouds have theirs, of the same run.
        link.settle(dataset, _digest(store, dataset), "done")
    drop_pools(store, dataset, config.pools)
    facts, m = store.results.half(dataset).facts, store.uploads.sealed(dataset).m
    end = JobEnd(dataset, JobState.DONE, facts["n_iter"], facts["converged"], m, *times)
    max_iter = job_of(store.datasets.spec(dataset)).max_iter
    progress(Event(dataset, "done", end.n_iter, max_iter, m, m, 0.0, 0.0))
    return end


def _run(
    config: Cloud1Config,
    store: Store,
    link: Cloud2Link,
    dataset: str,
    suite: Suite,
    pairs: int,
    modulus: int,
    progress: Listener,
) -> MasterSession:
    """Sessions with C2 until the job is done; a lost one is opened again from the checkpoint."""
    lost, reached = 0, -1
    place = Place(config.ray_address, RESOURCE, pairs)
    store.jobs.transition(dataset, JobState.PREPARING, suite=suite, pairs=pairs)
    with ray_cluster.connected(place), _interruptible():
        while True:
            session = MasterSession(config, store, link, dataset, suite, pairs, modulus, progress)
            try:
                session.run()
            except (SessionLostError, ChannelError) as error:
                lost = 0 if session.iteration > reached else lost + 1
                reached = max(reached, session.iteration)
                if lost >= _MOST_LOST:
                    raise
                log.warning("the session with cloud 2 is lost, opening another: %s", error)
                store.jobs.transition(dataset, JobState.PREPARING)
            else:
                return session
            finally:
                session.close()


def _give_up(store: Store, link: Cloud2Link, dataset: str, reason: str) -> JobFailedError:
    """Write down why, tell C2 as well as possible; the error for the user."""
    advice = _advice(dataset, JobState.FAILED)
    store.jobs.transition(dataset, JobState.FAILED, message=reason)
    try:
        link.settle(dataset, _digest(store, dataset), "failed", reason)
    except PpodcError as error:
        log.warning("cloud 2 could not be told: %s", error)
    return JobFailedError(f"the job of {dataset!r} stopped: {reason.rstrip('.')}. {advice}")


def _cancelled(store: Store, link: Cloud2Link, dataset: str) -> JobEnd:
    store.jobs.transition(dataset, JobState.CANCELLED)
    link.settle(dataset, _digest(store, dataset), "cancelled", "cancelled by cloud 1")
    job = store.jobs.get(dataset)
    return JobEnd(
        dataset, job.state, job.iteration, converged=False, m=store.uploads.sealed(dataset).m
    )


def _advice(dataset: str, state: JobState) -> str:
    if state in (JobState.CREATED, JobState.SEALED):
        return f"Start it with: ppodc run {dataset}"
    if state == JobState.CANCELLED:
        return "Create a new dataset to run it again."
    return f"Nothing is lost; once the cause is removed, go on with: ppodc resume {dataset}"


def _digest(store: Store, dataset: str) -> str | None:
    try:
        return store.uploads.sealed(dataset).digest
    except InputError:
        return None


def _key(config: Cloud1Config) -> tuple[int, int]:
    """(modulus, bits) of C2's Paillier key."""
    key = load_public(config.paillier_public, allow_insecure=bool(config.insecure_key_bits))
    return int(key.n), key.bits


# ------------------------------------------------------- one master at a time


@contextlib.contextmanager
def _job(config: Cloud1Config, dataset: str) -> Iterator[Store]:
    with Store.open(config.store, "cloud1") as store, _lock(store, dataset):
        yield store


@contextlib.contextmanager
def _lock(store: Store, dataset: str) -> Iterator[None]:
    """Hold the job; the lock goes with the process, however it ends."""
    store.datasets.get(dataset)  # a name that is no dataset must not leave a file behind
    file = os.open(store.folder / f"{dataset}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BusyError(f"another process is running the job of {dataset!r}.") from error
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the job like Ctrl-C: in order, and resumable."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
