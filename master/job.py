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
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from master.cloud2_client import Cloud2Client
from master.sealing import SealReport, seal
from master.session import MasterSession
from ppodc.cluster.ray_cluster import Place
from ppodc.cluster.ray_workers import RayWorkers
from ppodc.cluster.workers import Workers
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
from ppodc.pairs.cloud_job import drop_pools
from ppodc.pairs.control_messages import MAX_PAIRS
from ppodc.pairs.pair_worker import LINK_TIMEOUT
from ppodc.pairs.plan import pair_kind, suite_of
from ppodc.pairs.progress import Event, Listener, ignore
from ppodc.service.config import Cloud1Config, CollectorConfig
from ppodc.service.job_state import JobState
from ppodc.service.store import JobInfo, Store

_MOST_LOST = 2  # sessions lost in a row without an iteration in between

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended: `state` is done or cancelled; `facts` are the public ones of its result."""

    dataset: str
    state: JobState
    m: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""  # the facts, in words; of a cancelled job how far it came
    seconds: float = 0.0  # of all iterations of the last session
    worked: float = 0.0  # of these, in which the slowest pair did protocol work

    def figures(self) -> dict[str, Any]:
        """As a flat table, for JSON."""
        times = {"seconds": self.seconds, "worked": self.worked}
        return {"dataset": self.dataset, "state": self.state, **self.facts, "m": self.m, **times}


@dataclass(frozen=True, slots=True)
class Means:
    """What a master works with: C1's workers and store, and the line to C2."""

    workers: Callable[[int], AbstractContextManager[Workers]]  # for so many pairs
    cloud2: Callable[[], Cloud2Client]
    store: Callable[[], Store]
    link_timeout: float = LINK_TIMEOUT


def means_of(config: Cloud1Config) -> Means:
    """Workers on the Ray that the configuration names, and its C2 over ZeroMQ."""
    return Means(
        lambda pairs: RayWorkers(Place(config.ray_address, "cloud1", pairs)),
        lambda: Cloud2Client.connect(config),
        lambda: Store.open(config.store, "cloud1"),
    )


def run_job(
    config: Cloud1Config,
    dataset: str,
    suite: str | None = None,
    pairs: int | None = None,
    progress: Listener = ignore,
    means: Means | None = None,
) -> JobEnd:
    """Seal if that is still to do, and run the job to its end."""
    means = means or means_of(config)
    with _job(means, dataset) as store:
        state = store.jobs.get(dataset).state
        if state not in (JobState.CREATED, JobState.SEALED, JobState.DONE):
            raise InputError(f"the job of {dataset!r} is {state}. {_advice(dataset, state)}")
        return _Master(config, store, dataset, suite, pairs, progress, means).drive()


def resume_job(
    config: Cloud1Config,
    dataset: str,
    pairs: int | None = None,
    progress: Listener = ignore,
    means: Means | None = None,
) -> JobEnd:
    """Continue a job that failed, was interrupted or lost its master."""
    means = means or means_of(config)
    with _job(means, dataset) as store:
        job = store.jobs.get(dataset)
        if job.state in (JobState.CREATED, JobState.SEALED, JobState.CANCELLED):
            raise InputError(
                f"the job of {dataset!r} is {job.state}. {_advice(dataset, job.state)}"
            )
        if pairs is None:
            pairs = job.pairs or None  # as many as it was begun with
        return _Master(config, store, dataset, job.suite or None, pairs, progress, means).drive()


def prepare_job(
    config: Cloud1Config,
    dataset: str,
    iterations: int,
    suite: str | None = None,
    pairs: int | None = None,
    progress: Listener = ignore,
    means: Means | None = None,
) -> None:
    """Fill the pools of every pair for so many iterations, ahead of `run_job` with as many pairs.

    The records must be sealed, since their number fixes what an iteration takes.
    """
    means = means or means_of(config)
    with _job(means, dataset) as store:
        state = store.jobs.get(dataset).state
        if state != JobState.SEALED:
            before = (
                f": first run ppodc dataset seal {dataset}" if state == JobState.CREATED else ""
            )
            raise InputError(
                f"pools are filled for a sealed dataset, {dataset!r} is {state}{before}."
            )
        _Master(config, store, dataset, suite, pairs, progress, means).prepare(iterations)


def seal_dataset(
    config: Cloud1Config, dataset: str, suite: str | None = None, means: Means | None = None
) -> SealReport:
    """Close a dataset for uploads at both clouds."""
    means = means or means_of(config)
    with _job(means, dataset) as store, contextlib.closing(means.cloud2()) as cloud2:
        chosen = suite_of(pair_kind(store.datasets.spec(dataset)), suite)
        return seal(store, cloud2, dataset, chosen, _key(config)[1])


def cancel_job(config: Cloud1Config, dataset: str, means: Means | None = None) -> JobState:
    """Stop a job for good: at once if no master runs it, else the running master does it."""
    means = means or means_of(config)
    with means.store() as store:
        store.jobs.request_cancel(dataset)
        try:
            with _lock(store, dataset), contextlib.closing(means.cloud2()) as cloud2:
                return _cancel(config, store, cloud2, dataset)
        except BusyError:
            return store.jobs.get(dataset).state


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Where a job stands, as last written by any master, and what to do if anything is."""

    job: JobInfo
    advice: str


def status(config: Cloud1Config | CollectorConfig, dataset: str) -> JobStatus:
    """A job under way whose lock nobody holds has lost its master."""
    with Store.open(config.store, "cloud1") as store:
        job = store.jobs.get(dataset)
        advice = "" if job.state == JobState.DONE else _advice(dataset, job.state)
        if job.state == JobState.FAILED:
            advice += (
                f"; its data stay until then. To give it up and delete them: ppodc cancel {dataset}"
                f", then ppodc dataset delete {dataset}"
            )
        if job.state in (JobState.PREPARING, JobState.RUNNING):
            try:
                with _lock(store, dataset):
                    advice = f"No master runs it any more. {advice}"
            except BusyError:
                advice = ""
        return JobStatus(job, advice)


# ------------------------------------------------------------------- driving


class _Master:
    """One process that drives one job; it holds the job's lock."""

    def __init__(
        self,
        config: Cloud1Config,
        store: Store,
        dataset: str,
        suite: str | None,
        pairs: int | None,
        progress: Listener,
        means: Means,
    ) -> None:
        self._config, self._store, self._dataset = config, store, dataset
        self._suite = suite_of(pair_kind(store.datasets.spec(dataset)), suite)
        self._pairs = config.pairs if pairs is None else pairs
        if not 1 <= self._pairs <= MAX_PAIRS:
            raise InputError(f"a job runs on 1 to {MAX_PAIRS} worker pairs, not {self._pairs}.")
        self._progress = progress
        self._means = means
        self._modulus, self._key_bits = _key(config)

    def drive(self) -> JobEnd:
        """To the end, from wherever the job stands."""
        store, dataset = self._store, self._dataset
        times = (0.0, 0.0)
        with contextlib.closing(self._means.cloud2()) as cloud2:
            if store.jobs.get(dataset).state != JobState.DONE:
                self._progress(Event(dataset, "sealing", 0, 0, 0, 0))
                report = seal(store, cloud2, dataset, self._suite, self._key_bits)
                if report.left_out:
                    words = f"left out, since only one cloud has them: {', '.join(report.left_out)}"
                    self._progress(Event(dataset, "sealing", 0, 0, 0, 0, message=words))
                try:
                    session = self._run(cloud2)
                    times = (session.seconds, session.side.worked)
                except CancelledError:
                    return self._cancelled(cloud2)
                except (KeyboardInterrupt, SystemExit):
                    _give_up(store, cloud2, dataset, "stopped by the operator")
                    raise
                except PpodcError as error:
                    raise _give_up(store, cloud2, dataset, str(error)) from error
            # C2 hands its halves out only now: both clouds have theirs, of the same run.
            cloud2.settle(dataset, _digest(store, dataset), "done", run=store.results.run(dataset))
        drop_pools(store, dataset, self._config.pools)
        facts, m = store.results.half(dataset).facts, store.seals.sealed(dataset).m
        iterations = store.jobs.get(dataset).iteration
        self._progress(Event(dataset, "done", iterations, iterations, m, m, 0.0, 0.0))
        summary = pair_kind(store.datasets.spec(dataset)).describe(facts)
        return JobEnd(dataset, JobState.DONE, m, facts, summary, *times)

    def prepare(self, iterations: int) -> None:
        """Fill the pools; the job stays where it stands."""
        with (
            contextlib.closing(self._means.cloud2()) as cloud2,
            self._means.workers(self._pairs) as workers,
            _interruptible(),
        ):
            session = self._session(workers, cloud2, iterations)
            try:
                session.run()
            except CancelledError:
                session.close()
                self._cancelled(cloud2)
                raise
            finally:
                session.close()
                cloud2.settle(self._dataset, _digest(self._store, self._dataset), "prepared")

    def _run(self, cloud2: Cloud2Client) -> MasterSession:
        """Sessions with C2 until the job is done; lost ones are opened again."""
        lost, reached = 0, -1
        jobs, dataset = self._store.jobs, self._dataset
        jobs.transition(dataset, JobState.PREPARING, suite=self._suite, pairs=self._pairs)
        with self._means.workers(self._pairs) as workers, _interruptible():
            while True:
                if jobs.get(dataset).cancel_requested:
                    raise CancelledError("the job was cancelled.")
                session = self._session(workers, cloud2)
                try:
                    session.run()
                except (SessionLostError, ChannelError) as error:
                    lost = 0 if session.side.plan.iteration > reached else lost + 1
                    reached = max(reached, session.side.plan.iteration)
                    if lost >= _MOST_LOST:
                        raise
                    log.warning("the session with cloud 2 is lost, opening another: %s", error)
                    jobs.transition(dataset, JobState.PREPARING)
                else:
                    return session
                finally:
                    session.close()

    def _session(self, workers: Workers, cloud2: Cloud2Client, prepare: int = 0) -> MasterSession:
        return MasterSession(
            self._config,
            self._store,
            workers,
            cloud2,
            self._dataset,
            self._suite,
            self._pairs,
            self._modulus,
            self._progress,
            link_timeout=self._means.link_timeout,
            prepare=prepare,
        )

    def _cancelled(self, cloud2: Cloud2Client) -> JobEnd:
        store, dataset = self._store, self._dataset
        state = _cancel(self._config, store, cloud2, dataset)
        iterations = store.jobs.get(dataset).iteration
        summary = f"after {iterations} iterations" if iterations else ""
        facts = {"n_iter": iterations, "converged": False}
        return JobEnd(dataset, state, store.seals.sealed(dataset).m, facts, summary)


def _cancel(config: Cloud1Config, store: Store, cloud2: Cloud2Client, dataset: str) -> JobState:
    """Cancel at both clouds; C2 first, since a job that is over here cannot be cancelled again."""
    store.jobs.request_cancel(dataset)  # refused if the job has ended meanwhile
    cloud2.settle(dataset, _digest(store, dataset), "cancelled", "cancelled by cloud 1")
    drop_pools(store, dataset, config.pools)
    return store.jobs.transition(dataset, JobState.CANCELLED).state


def _give_up(store: Store, cloud2: Cloud2Client, dataset: str, reason: str) -> JobFailedError:
    """Write down why, tell C2 as well as possible; the error for the user."""
    advice = _advice(dataset, JobState.FAILED)
    store.jobs.transition(dataset, JobState.FAILED, message=reason)
    try:
        cloud2.settle(dataset, _digest(store, dataset), "failed", reason)
    except PpodcError as error:
        log.warning("cloud 2 could not be told: %s", error)
    return JobFailedError(f"the job of {dataset!r} stopped: {reason.rstrip('.')}. {advice}")


def _advice(dataset: str, state: JobState) -> str:
    if state in (JobState.CREATED, JobState.SEALED):
        return f"Start it with: ppodc run {dataset}"
    if state == JobState.CANCELLED:
        return "Create a new dataset to run it again."
    return f"Nothing is lost; once the cause is removed, go on with: ppodc resume {dataset}"


def _digest(store: Store, dataset: str) -> str | None:
    try:
        return store.seals.sealed(dataset).digest
    except InputError:
        return None


def _key(config: Cloud1Config) -> tuple[int, int]:
    """(modulus, bits) of C2's Paillier key."""
    key = load_public(config.paillier_public, allow_insecure=bool(config.insecure_key_bits))
    return int(key.n), key.bits


# ------------------------------------------------------- one master at a time


@contextlib.contextmanager
def _job(means: Means, dataset: str) -> Iterator[Store]:
    with means.store() as store, _lock(store, dataset):
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
