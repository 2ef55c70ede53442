"""C2's part in a job: it follows the master's steps, but only those that must come next.

C1 names a dataset, then a step at a time. What the step touches, C2 works out from its own copy of
the spec, its own seal and its own checkpoints. A step out of turn, another iteration, rows that
the seed does not give, a result before the stop bit: there is no way to ask for them. Refusals go
back as text and into the log.

C2 answers that it has an iteration's results before it writes them to its disk, so that both clouds
write at the same time. Its next step begins only when they are written. Whatever comes next from C1
waits for that, and gets the error if it failed. A job never ends with such an answer: behind the
last iteration comes a step that C2 keeps before it answers. An audited step is signed, and kept
first.
"""

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cloud2.worker import Worker2
from ppodc.cluster.workers import Workers, in_background, launch
from ppodc.crypto.paillier_keys import load_secret, load_share
from ppodc.errors import (
    InputError,
    ProtocolError,
    SessionLostError,
    StateError,
    printable,
    without_places,
)
from ppodc.kinds import cloud_side
from ppodc.pairs import control_messages
from ppodc.pairs.cloud_job import CloudJob, drop_pools
from ppodc.pairs.control_messages import PairEnd
from ppodc.pairs.pair_worker import LINK_TIMEOUT, Setup
from ppodc.pairs.statements import SignedParts
from ppodc.service.config import Cloud2Config
from ppodc.service.config_text import digest
from ppodc.service.job_state import JobState
from ppodc.service.spec_check import check_supplies
from ppodc.service.store import Store
from ppodc.transport.wire import Array

IDLE_SECONDS = 900.0  # after so long without a word from the master its workers are freed
_TEXT = 20_000  # characters of all failures in one answer
_STATES: dict[control_messages.Outcome, JobState] = {
    "done": JobState.DONE,
    "failed": JobState.FAILED,
    "cancelled": JobState.CANCELLED,
}

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Session:
    ticket: bytes
    job: CloudJob
    setup: Setup
    lock: threading.Lock = field(default_factory=threading.Lock)
    last_used: float = field(default_factory=time.monotonic)
    moving: "Future[None] | None" = None  # a step is being kept, and the next one begun

    def move_on(self, body: control_messages.Poll) -> None:
        """Keep the step that both clouds have the results of. Begin the next or keep the result."""
        job = self.job
        job.commit(body.signed, body.head)
        coming = job.walk.next_step()
        if coming is not None:
            job.begin(coming, 1, job.walk.line(coming).slots(job.plan))
        elif not job.plan.prepare:
            job.save_result()

    def moved(self) -> None:
        """Wait until nothing moves; the error of what did, once."""
        moving, self.moving = self.moving, None
        if moving is not None:
            moving.result()

    def close(self) -> None:
        """End the workers, when what is being kept is kept."""
        if self.moving is not None:
            wait([self.moving])
        self.job.close()


class Follower:
    """The sessions of this cloud, one per dataset; used by the gateway's threads."""

    def __init__(
        self,
        store: Store,
        config: Cloud2Config,
        workers: Workers,
        link_timeout: float = LINK_TIMEOUT,
    ) -> None:
        self._store, self._config, self._workers = store, config, workers
        self._link_timeout = link_timeout
        # Read once here: a key that cannot be used must show when the service starts.
        self._key_bits, weak = 0, bool(config.insecure_key_bits)
        if config.paillier_share is not None:
            share = load_share(config.paillier_share, 2, allow_insecure=weak)
            self._key_bits = share.public.bits
        elif config.paillier_secret is not None:
            secret = load_secret(config.paillier_secret, allow_insecure=weak)
            self._key_bits = secret.public.bits
        self._sessions: dict[str, _Session] = {}
        self._opening = threading.Lock()

    def uploads(self, body: control_messages.Uploads) -> control_messages.UploadList:
        """A page of the uploads that this cloud has in full."""
        self._known(body.dataset, body.spec)
        page = self._store.uploads.of(
            body.dataset, committed=True, skip=body.first, limit=control_messages.PAGE
        )
        audited = page if self._store.datasets.spec(body.dataset).audit else []
        fits = tuple(self._store.audits.fit(upload) for upload in audited)
        return control_messages.UploadList(page, fits)

    def terms(self, body: control_messages.Terms) -> control_messages.Done:
        """Refuse before anything is fixed what `open` would refuse after it."""
        self._known(body.dataset, body.spec)
        self._accepted_suite(body.dataset, body.suite, body.pairs)
        return control_messages.Done()

    def seal(self, body: control_messages.Seal, ids: Array) -> control_messages.Sealed:
        """Fix the records; the same again is harmless."""
        self._known(body.dataset, body.spec)
        if ids.ndim != 2 or ids.dtype != np.uint8 or ids.shape[1] != 16:
            raise ProtocolError("the upload ids of a seal must be rows of 16 bytes.")
        digest = self._store.seals.seal(body.dataset, [row.tobytes().hex() for row in ids])
        self._store.ledger.note(body.dataset, body.head)
        return control_messages.Sealed(digest, self._store.ledger.head())

    def open(self, body: control_messages.Open) -> control_messages.Opened:
        """Start workers for a sealed dataset; a session that was open for it ends."""
        with self._opening:
            self._known(body.dataset, body.spec)
            self._end(body.dataset)
            job = self._job_of(body)
            self._workers.check(job.pairs)
            resume = job.resume_point(body.checkpoints)
            if not body.prepare:
                self._store.jobs.begin(body.dataset, body.suite, job.pairs, digest(self._config))
                job.restore(resume)
            setup = job.setup(self._link_timeout, self._config.pools)
            session = _Session(secrets.token_bytes(16), job, setup)
            job.session_id = control_messages.session_id(session.ticket)
            try:
                ends = self._start(session, dict(enumerate(body.publics)))
                word = _commit(body, job, resume)
            except BaseException:
                job.close()
                raise
            self._sessions[body.dataset] = session
        log.info("job %s: %d workers, from iteration %s", body.dataset, job.pairs, resume or 0)
        return control_messages.Opened(session.ticket, resume, ends, word)

    def step(self, body: control_messages.RunStep) -> control_messages.Done:
        """Begin the step that must come now, on slots that wait for it."""
        with self._session(body.ticket) as session:
            session.job.begin(body.step, body.attempt, body.slots)
        return control_messages.Done()

    def poll(self, body: control_messages.Poll) -> control_messages.Progress:
        """Report the step's progress; if C1 has all results too, keep C2's own and go on.

        Those of an iteration are kept, and the next step begun, behind the answer.
        """
        with self._session(body.ticket) as session:
            job, trail = session.job, session.job.trail
            if job.committed(body.number):  # the answer to the first asking was lost
                begun = job.begun(body.number + 1)
                again = () if trail is None else trail.signed(body.number)
                return control_messages.Progress([], [], [], True, begun, again)
            done, failed, running = job.wait(body.wait)
            if body.commit and job.complete():
                head = self._store.ledger.head() if job.iterates else None
                if job.iterates and trail is None:
                    session.moving = in_background(session.move_on, body)
                    return control_messages.Progress(done, [], [], True, True, (), head)
                session.move_on(body)
                signed = () if trail is None else trail.signed(body.number)
                begun = job.begun(body.number + 1)
                return control_messages.Progress(done, [], [], True, begun, signed, head)
        longest = _TEXT // max(1, len(failed))
        failures = [
            control_messages.Failed(slot, without_places(f.text)[:longest], f.fatal)
            for slot, f in failed.items()
        ]
        return control_messages.Progress(done, failures, running, False, False)

    def replace(self, body: control_messages.Replace) -> PairEnd:
        """A fresh worker for a slot whose pair failed, at either cloud."""
        with self._session(body.ticket) as session:
            job = session.job
            if not 0 <= body.slot < job.pairs:
                raise ProtocolError(f"this session has no slot {body.slot}.")
            log.info("job %s: new worker for slot %d", job.dataset, body.slot)
            end = self._start(session, {body.slot: body.public})[0]
            if job.trail is not None:
                job.trail.replace(job.pair_name(body.slot), body.commitment)
            return end

    def settle(self, body: control_messages.Settle) -> control_messages.Settled:
        """The job ended or paused at C1: free the workers and note the outcome."""
        with self._opening:
            if body.outcome == "prepared":  # pools were filled; the job stands where it stood
                self._end(body.dataset)
                return control_messages.Settled()
            state = self._store.jobs.get(body.dataset).state
            target = _STATES[body.outcome]
            session = self._sessions.get(body.dataset)
            if target == JobState.DONE and state != JobState.DONE:
                self._check_done(body, session)
            self._end(body.dataset)
            if state != target and not (state == JobState.CREATED and body.outcome == "failed"):
                message = printable(body.message)
                self._store.jobs.transition(body.dataset, target, message=message)
                log.info("job %s: %s", body.dataset, target)
            if target.final:
                drop_pools(self._store, body.dataset, self._config.pools)
            self._store.ledger.note(body.dataset, body.head)
        return control_messages.Settled(self._store.ledger.head())

    def stop(self) -> None:
        """End all sessions and their workers."""
        with self._opening:
            for dataset in list(self._sessions):
                self._end(dataset)

    def free_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """End sessions whose master has not been heard of for so long."""
        oldest = time.monotonic() - seconds
        with self._opening:
            for dataset, session in list(self._sessions.items()):
                if session.last_used < oldest:
                    log.warning("job %s: no word from cloud 1, workers freed", dataset)
                    self._end(dataset)

    def _known(self, dataset: str, spec: str) -> None:
        if self._store.datasets.get(dataset).digest != spec:
            raise InputError(f"dataset {dataset!r} has another spec at cloud 2; compare digests.")

    def _accepted_suite(self, dataset: str, name: str, pairs: int) -> str:
        """The suite of a job on this many pairs, if this cloud runs such."""
        if not 1 <= pairs <= self._config.max_pairs:
            raise InputError(
                f"cloud 2 gives at most {self._config.max_pairs} workers to a job; use fewer pairs."
            )
        spec = self._store.datasets.spec(dataset)
        check_supplies(spec, self._config)
        suite = spec.kind.suite(name)
        if suite not in self._config.suites:
            raise InputError(
                f"cloud 2 does not take part in the suite {suite!r}, only in "
                f"{', '.join(self._config.suites)}: see `suites` in cloud2.toml."
            )
        return suite

    def _job_of(self, body: control_messages.Open) -> CloudJob:
        info = self._store.jobs.get(body.dataset)
        if info.state.final:
            raise StateError(f"dataset {body.dataset!r} is {info.state} at cloud 2.")
        if self._store.seals.digest(body.dataset) != body.seal:
            raise StateError(f"cloud 2 has not sealed dataset {body.dataset!r} with these uploads.")
        if body.suite != info.suite and self._store.jobs.checkpoints(body.dataset):
            raise StateError(f"this job was begun with the suite {info.suite!r}; go on with it.")
        suite = self._accepted_suite(body.dataset, body.suite, body.pairs)
        job = CloudJob(
            self._store,
            self._workers,
            body.dataset,
            suite,
            body.pairs,
            body.shards_per_pair,
            body.prepare,
        )
        cloud_side(job.spec).check(job.sealed.m, job.suite, self._key_bits)
        if body.prepare > max(1, job.plan.max_iter):
            raise ProtocolError("a job needs supplies for no more iterations than it can have.")
        if len(body.publics) != job.pairs:
            raise ProtocolError(f"{job.pairs} pairs need as many channel keys.")
        return job

    def _start(self, session: _Session, publics: dict[int, bytes]) -> list[PairEnd]:
        """Workers for these slots; where they listen, in the order of the slots."""
        config, job = self._config, session.job
        key_file = None if config.paillier_secret is None else str(config.paillier_secret)
        share_file = None if config.paillier_share is None else str(config.paillier_share)
        key = (key_file, bool(config.insecure_key_bits), share_file)

        def start(slot: int, again: bool) -> Any:
            worker = self._workers.start(Worker2, session.setup, *key)
            job.place(slot, worker, again)
            where = (config.worker_host, config.worker_ports)
            pair = job.pair_name(slot)
            recording = None if job.trail is None else job.trail.draw(pair)
            return self._workers.call(worker, "listen", *where, publics[slot], pair, recording)

        ends = launch(self._workers, start, list(publics), "cloud 2's workers")
        said = [
            None if job.trail is None else job.trail.committed(job.pair_name(slot))
            for slot in publics
        ]
        both = zip(ends, said, strict=True)
        return [PairEnd(endpoint, own, commitment) for (endpoint, own), commitment in both]

    @contextmanager
    def _session(self, ticket: bytes) -> Iterator[_Session]:
        for session in list(self._sessions.values()):
            if secrets.compare_digest(session.ticket, ticket):
                with session.lock:
                    session.last_used = time.monotonic()
                    session.moved()
                    yield session
                return
        raise SessionLostError("this session is over at cloud 2; continue with: ppodc resume")

    def _check_done(self, body: control_messages.Settle, session: _Session | None) -> None:
        finished = session is None or session.job.walk.next_step() is None
        if not finished or not self._store.results.has(body.dataset):
            raise StateError(f"dataset {body.dataset!r} has no result at cloud 2 yet.")
        if self._store.results.session_id(body.dataset) != body.session_id:
            raise StateError(
                f"cloud 2's result of dataset {body.dataset!r} is of another session: its store is "
                "older than the end of the job. Put a newer copy in place."
            )

    def _end(self, dataset: str) -> None:
        session = self._sessions.pop(dataset, None)
        if session is not None:
            session.close()


def _commit(body: control_messages.Open, job: CloudJob, resume: int | None) -> SignedParts | None:
    """Keep the commitments of both clouds before any hello; this cloud's word, if audited."""
    if job.trail is None:
        return None
    if len(body.commitments) != job.pairs:
        raise ProtocolError("an audited job needs a commitment for each pair.")
    theirs = {job.pair_name(slot): said for slot, said in enumerate(body.commitments)}
    shape = (job.pairs, body.shards_per_pair)
    job.trail.open(job.session_id, job.suite, shape, resume, body.word, theirs)
    return job.trail.own_word()
