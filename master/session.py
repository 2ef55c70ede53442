"""One session with C2: worker pairs are made, steps run on them, lost pairs are replaced.

Each cloud keeps its own states; between the two only the names of steps and their outcomes travel.
A step counts once both clouds have the results of all its pairs. If either worker of a pair fails,
both are thrown away with their keys and randomness, and the slot's part of the step is repeated on
a fresh pair.
"""

import logging
import time
from collections.abc import Iterable
from typing import Any

from cloud1.worker import Worker1
from master.cloud2_client import Cloud2Client
from ppodc.cluster.workers import Failure, Workers, launch, outcomes
from ppodc.errors import CancelledError, ProtocolError, StepFailedError, printable
from ppodc.pairs import control_messages
from ppodc.pairs.cloud_job import CloudJob
from ppodc.pairs.control_messages import LONGEST_WAIT
from ppodc.pairs.plan import MAX_ATTEMPTS, Step
from ppodc.pairs.progress import Clock, Event, Listener
from ppodc.pairs.recording import Recording
from ppodc.pairs.statements import Committed, Signed
from ppodc.service.addresses import check_worker_endpoint
from ppodc.service.config import Cloud1Config
from ppodc.service.job_state import JobState
from ppodc.service.store import Store

_NO_SEPARATION = (
    "note: both clouds use one Ray cluster, whose users can read both shares. Fine for trials; "
    "for real data give each cloud its own."
)
_LOOK_SECONDS = 0.5  # between two looks at progress, cancellation and C2
_POLL_SECONDS = 2.0  # between two questions to C2 while our own half is at work

log = logging.getLogger(__name__)


class MasterSession:
    """One session with C2. `run` ends with this cloud's result on disk and the state `done`."""

    def __init__(
        self,
        config: Cloud1Config,
        store: Store,
        workers: Workers,
        cloud2: Cloud2Client,
        dataset: str,
        suite: str,
        pairs: int,
        modulus: int | None,
        progress: Listener,
        *,
        link_timeout: float,
        prepare: int = 0,
    ) -> None:
        self._config, self._store, self._cloud2 = config, store, cloud2
        self._workers = workers
        self._dataset, self._modulus = dataset, modulus
        self._tell = progress
        self.job = CloudJob(store, workers, dataset, suite, pairs, config.shards_per_pair, prepare)
        self._setup = self.job.setup(link_timeout, config.pools)
        self._ticket = b""
        self._begun_there = 0  # the number of the step that C2 has begun by itself
        self.seconds = 0.0  # of all iterations of this session
        self._rows = self.job.walk.rows()
        self._clock = Clock(self._rows, self.job.plan.max_iter)
        self._counts: dict[int, int] = {}
        self._asked: dict[Any, int] = {}

    def run(self) -> None:
        """All steps from where both clouds stand to the result."""
        self._report("starting")
        self._open()
        while (step := self.job.walk.next_step()) is not None:
            began, before = time.monotonic(), self.job.plan.iteration
            self._rows = self._clock.rows = self.job.walk.rows()
            self._clock.begin(step.iteration)
            self._run_step(step)
            if step.iteration > before:
                self.seconds += time.monotonic() - began
            if self.job.plan.iteration > before:
                self._clock.end_iteration()
        if self._begun_there == self.job.walk.number:
            raise ProtocolError("cloud 2 goes on with a job that is over, and may have no result.")
        if not self.job.plan.prepare:
            self.job.save_result()
            self._store.jobs.transition(self._dataset, JobState.DONE)

    def close(self) -> None:
        """Kill this cloud's workers."""
        self.job.close()

    # ----------------------------------------------------------------- pairs

    def _open(self) -> None:
        job = self.job
        self._workers.check(job.pairs)
        if self._workers.both_clouds():
            self._report("starting", message=_NO_SEPARATION)
        self._cloud2.uploads(self._dataset, job.spec.digest)  # is C2 there?
        publics = self._spawn(list(range(job.pairs)))
        own, trail = self._store.jobs.checkpoints(self._dataset), job.trail
        opened = self._cloud2.open(
            control_messages.Open(
                dataset=self._dataset,
                spec=job.spec.digest,
                seal=job.sealed.digest,
                suite=job.suite,
                pairs=job.pairs,
                shards_per_pair=self._config.shards_per_pair,
                prepare=job.plan.prepare,
                checkpoints=list(own.items()),
                publics=publics,
                commitments=self._commitments(range(job.pairs)),
                word=None if trail is None else trail.own_word(),
            )
        )
        if opened.resume_from is not None and opened.resume_from not in own:
            raise ProtocolError(
                "cloud 2 wants to go on from an iteration that cloud 1 does not have."
            )
        if len(opened.ends) != job.pairs:
            raise ProtocolError(
                f"cloud 2 started {len(opened.ends)} workers instead of {job.pairs}."
            )
        if not job.plan.prepare:
            job.restore(opened.resume_from)
        self._ticket = opened.ticket
        job.session_id = control_messages.session_id(opened.ticket)
        if trail is not None:
            theirs = {job.pair_name(slot): end.commitment for slot, end in enumerate(opened.ends)}
            trail.open(
                job.session_id,
                job.suite,
                (job.pairs, self._config.shards_per_pair),
                opened.resume_from,
                opened.word,
                theirs,
            )
        self._introduce(dict(enumerate(opened.ends)))

    def _spawn(self, slots: list[int]) -> list[bytes]:
        """Fresh workers in these slots; their channel keys."""

        share = self._config.paillier_share
        key = (
            self._modulus,
            None if share is None else str(share),
            bool(self._config.insecure_key_bits),
        )

        def start(slot: int, again: bool) -> Any:
            worker = self._workers.start(Worker1, self._setup, *key)
            self.job.place(slot, worker, again)
            if self.job.trail is not None:
                self.job.trail.draw(self.job.pair_name(slot))
            return self._workers.call(worker, "public")

        return [bytes(key) for key in launch(self._workers, start, slots, "cloud 1's workers")]

    def _introduce(self, ends: dict[int, control_messages.PairEnd]) -> None:
        told, config = [], self._config
        for slot, end in ends.items():
            check_worker_endpoint(end.endpoint, config.cloud2.endpoint, config.cloud2_workers)
            pair = (end.endpoint, end.public, self.job.pair_name(slot), self._recording(slot))
            told.append(self._workers.call(self.job.slots[slot].worker, "pair_with", *pair))
        outcomes(self._workers, told, "cloud 1's workers")  # who has died shows in the next step

    def _replace(self, slot: int) -> None:
        (public,) = self._spawn([slot])
        commitment = next(iter(self._commitments([slot])), None)
        end = self._cloud2.replace(self._ticket, slot, public, commitment)
        if self.job.trail is not None:
            self.job.trail.replace(self.job.pair_name(slot), end.commitment)
        self._introduce({slot: end})

    def _commitments(self, slots: Iterable[int]) -> tuple[Committed, ...]:
        """This cloud's commitments to seeds that are kept by now; none if nobody audits."""
        trail = self.job.trail
        if trail is None:
            return ()
        return trail.offer([self.job.pair_name(slot) for slot in slots])

    def _recording(self, slot: int) -> Recording | None:
        trail = self.job.trail
        return None if trail is None else trail.recording(self.job.pair_name(slot))

    # ----------------------------------------------------------------- steps

    def _run_step(self, step: Step) -> None:
        job = self.job
        slots = job.walk.line(step).slots(job.plan)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            job.begin(step, attempt, slots)
            if attempt > 1 or self._begun_there != step.number:
                self._cloud2.step(self._ticket, step, attempt, slots)
            failed = self._outcome(step)
            if not failed:
                return
            reasons = "; ".join(sorted({failure.text for failure in failed.values()}))
            log.info("%s of iteration %d failed: %s", step.name, step.iteration, reasons)
            if attempt == MAX_ATTEMPTS or any(failure.fatal for failure in failed.values()):
                raise StepFailedError(
                    f"{step.name} of iteration {step.iteration} failed after {attempt} "
                    f"attempt{'s' * (attempt > 1)}: {reasons}"
                )
            self._report("recovering", step, reasons)
            slots = sorted(failed)
            for slot in slots:
                self._replace(slot)

    def _outcome(self, step: Step) -> dict[int, Failure]:
        """Wait for both clouds; the slots that failed at either, or none and both committed."""
        asked = time.monotonic()
        while True:
            _, failed, running = self.job.wait(_LOOK_SECONDS)
            self._look(step, running)
            if running and time.monotonic() - asked < _POLL_SECONDS:
                continue
            wait = 0.0 if running or failed else LONGEST_WAIT
            commit = not running and not failed
            answer = self._cloud2.poll(
                self._ticket,
                step.number,
                wait,
                commit=commit,
                signed=self._signed(step) if commit else (),
                head=self._store.ledger.head() if commit else None,
            )
            asked = time.monotonic()
            if answer.committed:
                self._begun_there = step.number + 1 if answer.begun else 0
                self.job.commit(answer.signed, answer.head)
                return {}
            theirs = {f.slot: Failure(printable(f.text), f.fatal) for f in answer.failed}
            # A half whose peer failed would notice by itself; there is nothing to wait for.
            if not set(running) - set(theirs) and (failed or theirs):
                return {**theirs, **failed}

    def _signed(self, step: Step) -> tuple[Signed, ...]:
        """This cloud's signatures after the step; none if nobody audits."""
        trail = self.job.trail
        return () if trail is None else trail.sign(step.number, self.job.heads())

    # -------------------------------------------------------------- watching

    def _look(self, step: Step, running: list[int]) -> None:
        """Between two waits: has somebody cancelled, and how many rows are done?"""
        if self._store.jobs.get(self._dataset).cancel_requested:
            raise CancelledError("the job was cancelled.")
        if running:
            self._collect_counts()
        self._report(step.name, step)

    def _collect_counts(self) -> None:
        if self._asked:
            for reference in self._workers.ended(self._asked, 0):
                slot, count = self._asked.pop(reference), self._workers.outcome(reference)
                if not isinstance(count, Failure):  # a worker that is gone shows in the step
                    self._counts[slot] = int(count)
        else:
            self._asked = self.job.watch()

    def _report(self, phase: str, step: Step | None = None, message: str = "") -> None:
        job, rows = self.job, self._rows
        iteration = job.plan.iteration if step is None else step.iteration
        counted = step is not None and job.walk.line(step).counts_rows
        done = self._rows_done() if counted else 0
        in_iteration = counted and iteration > job.plan.iteration
        left = self._clock.left(iteration, done) if in_iteration else (None, None)
        max_iter = job.plan.max_iter
        self._tell(Event(self._dataset, phase, iteration, max_iter, done, rows, *left, message))

    def _rows_done(self) -> int:
        """Rows of finished slots in full, of the others as far as they have told."""
        done, _, _ = self.job.wait(0)
        total = 0
        for shard_slot in range(self.job.pairs):
            rows = self.job.walk.rows_at(shard_slot)
            total += rows if shard_slot in done else min(rows, self._counts.get(shard_slot, 0))
        return total
