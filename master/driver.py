"""A master: the one process that drives a job, session by session, to its end.

Whatever goes wrong is written down and told to C2; what both clouds have on disk stays, and another
master goes on from there.
"""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from master.cloud2_client import Cloud2Client
from master.sealing import seal
from master.session import MasterSession
from ppodc.cluster.ray_cluster import RayPlacement
from ppodc.cluster.ray_workers import RayWorkers
from ppodc.cluster.workers import Workers
from ppodc.crypto.paillier_keys import load_public, load_share
from ppodc.errors import (
    CancelledError,
    ChannelError,
    InputError,
    JobFailedError,
    PpodcError,
    SessionLostError,
)
from ppodc.pairs.cloud_job import drop_pools
from ppodc.pairs.control_messages import MAX_PAIRS, Outcome
from ppodc.pairs.pair_worker import LINK_TIMEOUT
from ppodc.pairs.progress import Event, Listener
from ppodc.pairs.shards import usable_pairs
from ppodc.service.config import Cloud1Config
from ppodc.service.config_text import digest
from ppodc.service.job_state import JobState
from ppodc.service.spec_check import check_supplies
from ppodc.service.store import Store

_MOST_LOST = 2  # sessions lost in a row without an iteration in between

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The outcome of a job: `state` is done or cancelled, `facts` are the public ones."""

    dataset: str
    state: JobState
    m: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    summary: str = ""  # the facts, in words; of a cancelled job how far it came
    seconds: float = 0.0  # of all iterations of the last session
    worked: float = 0.0  # of these, in which the slowest pair did protocol work

    def figures(self) -> dict[str, Any]:
        """A flat table for JSON."""
        times = {"seconds": self.seconds, "worked": self.worked}
        return {"dataset": self.dataset, "state": self.state, **self.facts, "m": self.m, **times}


@dataclass(frozen=True, slots=True)
class JobResources:
    """The dependencies of a master: C1's workers and store, and the connection to C2."""

    workers: Callable[[int], AbstractContextManager[Workers]]  # for this many pairs
    cloud2: Callable[[], Cloud2Client]
    store: Callable[[], Store]
    link_timeout: float = LINK_TIMEOUT


def means_of(config: Cloud1Config) -> JobResources:
    """Workers on the Ray that the configuration names, and its C2 over ZeroMQ."""
    return JobResources(
        lambda pairs: RayWorkers(RayPlacement(config.ray_address, "cloud1", pairs)),
        lambda: Cloud2Client.connect(config),
        lambda: Store.open(config.store, "cloud1"),
    )


class Master:
    """One process that drives one job; it holds the job's lock."""

    def __init__(
        self,
        config: Cloud1Config,
        store: Store,
        dataset: str,
        suite: str | None,
        pairs: int | None,
        progress: Listener,
        means: JobResources,
    ) -> None:
        self._config, self._store, self._dataset = config, store, dataset
        spec = store.datasets.spec(dataset)
        check_supplies(spec, config)
        self._suite = spec.kind.suite(suite)
        self._pairs = config.pairs if pairs is None else pairs
        if not 1 <= self._pairs <= MAX_PAIRS:
            raise InputError(f"a job runs on 1 to {MAX_PAIRS} worker pairs, not {self._pairs}.")
        self._progress = progress
        self._means = means
        self._modulus, self._key_bits = cloud2_key(config)

    def drive(self) -> JobEnd:
        """To the end, from wherever the job stands."""
        store, dataset = self._store, self._dataset
        times = (0.0, 0.0)
        with contextlib.closing(self._means.cloud2()) as cloud2:
            if store.jobs.get(dataset).state != JobState.DONE:
                self._progress(Event(dataset, "sealing", 0, 0, 0, 0))
                self._check_terms(cloud2)
                report = seal(store, cloud2, dataset, self._suite, self._key_bits)
                if report.left_out:
                    words = f"left out, since only one cloud has them: {', '.join(report.left_out)}"
                    self._progress(Event(dataset, "sealing", 0, 0, 0, 0, message=words))
                try:
                    session = self._run(cloud2)
                    times = (session.seconds, session.job.worked)
                except CancelledError:
                    return self._cancelled(cloud2)
                except (KeyboardInterrupt, SystemExit):
                    _give_up(store, cloud2, dataset, "stopped by the operator")
                    raise
                except PpodcError as error:
                    raise _give_up(store, cloud2, dataset, str(error)) from error
            # C2 hands its halves out only now: both clouds have theirs, of the same session.
            session_id = store.results.session_id(dataset)
            _settle(store, cloud2, dataset, "done", session_id=session_id)
        drop_pools(store, dataset, self._config.pools)
        facts, m = store.results.half(dataset).facts, store.seals.sealed(dataset).m
        iterations = store.jobs.get(dataset).iteration
        self._progress(Event(dataset, "done", iterations, iterations, m, m, 0.0, 0.0))
        summary = store.datasets.spec(dataset).kind.summary(facts)
        return JobEnd(dataset, JobState.DONE, m, facts, summary, *times)

    def _check_terms(self, cloud2: Cloud2Client) -> None:
        """Before anything is sealed: does C2 run such a job, on no more pairs than rows?"""
        rows = sum(upload.rows for upload in self._store.uploads.of(self._dataset, committed=True))
        digest = self._store.datasets.spec(self._dataset).digest
        pairs = usable_pairs(rows, self._pairs)
        cloud2.check_terms(self._dataset, digest, self._suite, pairs)

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
                cloud2.settle(self._dataset, self._store.seals.digest(self._dataset), "prepared")

    def _run(self, cloud2: Cloud2Client) -> MasterSession:
        """Sessions with C2 until the job is done; lost ones are opened again."""
        lost, reached = 0, -1
        jobs, dataset = self._store.jobs, self._dataset
        jobs.begin(dataset, self._suite, self._pairs, digest(self._config))
        with self._means.workers(self._pairs) as workers, _interruptible():
            while True:
                if jobs.get(dataset).cancel_requested:
                    raise CancelledError("the job was cancelled.")
                session = self._session(workers, cloud2)
                try:
                    session.run()
                except (SessionLostError, ChannelError) as error:
                    lost = 0 if session.job.plan.iteration > reached else lost + 1
                    reached = max(reached, session.job.plan.iteration)
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
        state = cancel(self._config, store, cloud2, dataset)
        iterations = store.jobs.get(dataset).iteration
        summary = f"after {iterations} iterations" if iterations else ""
        facts = {"n_iter": iterations, "converged": False}
        return JobEnd(dataset, state, store.seals.sealed(dataset).m, facts, summary)


def cancel(config: Cloud1Config, store: Store, cloud2: Cloud2Client, dataset: str) -> JobState:
    """Cancel at both clouds; C2 first, since a job that is over here cannot be cancelled again."""
    store.jobs.request_cancel(dataset)  # refused if the job has ended meanwhile
    _settle(store, cloud2, dataset, "cancelled", "cancelled by cloud 1")
    drop_pools(store, dataset, config.pools)
    return store.jobs.transition(dataset, JobState.CANCELLED).state


def _settle(
    store: Store,
    cloud2: Cloud2Client,
    dataset: str,
    outcome: Outcome,
    message: str = "",
    session_id: str | None = None,
) -> None:
    """Tell C2 how the job ended; each cloud notes the head of the other's ledger."""
    seal, head = store.seals.digest(dataset), store.ledger.head()
    store.ledger.note(dataset, cloud2.settle(dataset, seal, outcome, message, session_id, head))


def _give_up(store: Store, cloud2: Cloud2Client, dataset: str, reason: str) -> JobFailedError:
    """Write down why, tell C2 as well as possible; the error for the user."""
    what_now = advice(dataset, JobState.FAILED)
    store.jobs.transition(dataset, JobState.FAILED, message=reason)
    try:
        _settle(store, cloud2, dataset, "failed", reason)
    except PpodcError as error:
        log.warning("cloud 2 could not be told: %s", error)
    return JobFailedError(f"the job of {dataset!r} stopped: {reason.rstrip('.')}. {what_now}")


def cloud2_key(config: Cloud1Config) -> tuple[int | None, int]:
    """(modulus, bits) of C2's Paillier key, or the split one; (None, 0) if there is none here."""
    weak = bool(config.insecure_key_bits)
    if config.paillier_share is not None:
        key = load_share(config.paillier_share, 1, allow_insecure=weak).public
    elif config.paillier_public is not None:
        key = load_public(config.paillier_public, allow_insecure=weak)
    else:
        return None, 0
    return int(key.n), key.bits


def advice(dataset: str, state: JobState) -> str:
    """Advice on a job in this state."""
    if state in (JobState.CREATED, JobState.SEALED):
        return f"Start it with: ppodc run {dataset}"
    if state == JobState.CANCELLED:
        return "Create a new dataset to run it again."
    return f"Nothing is lost; once the cause is removed, go on with: ppodc resume {dataset}"


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
