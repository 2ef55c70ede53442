"""One session with C2: worker pairs are made, steps run on them, lost pairs are replaced.

Each cloud keeps its own states; between the two only the names of steps and their outcomes travel.
A step counts once both clouds have the results of all its pairs. If either worker of a pair fails,
both are thrown away with their keys and randomness, and the slot's part of the step is repeated on
a fresh pair.
"""

import logging
import time
from typing import Any

from cloud1.worker import RESOURCE, Worker1
from master.cloud2_client import Cloud2Link
from master.progress import Clock, Event, Listener
from ppodc.cluster import ray_cluster
from ppodc.cluster.ray_cluster import Place
from ppodc.cluster.ray_workers import Failure, answers, ended, outcome, spawn
from ppodc.errors import CancelledError, InputError, StepFailedError, printable
from ppodc.kmeans.suites import Suite
from ppodc.pairs import control_messages
from ppodc.pairs.cloud_job import Side
from ppodc.pairs.control_messages import LONGEST_WAIT
from ppodc.pairs.pair_worker import LINK_TIMEOUT
from ppodc.pairs.shards import MAX_ATTEMPTS, Step
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
    """See the module. `run` ends with this cloud's result on disk and the state `done`."""

    def __init__(
        self,
        config: Cloud1Config,
        store: Store,
        link: Cloud2Link,
        dataset: str,
        suite: Suite,
        pairs: int,
        modulus: int,
        progress: Listener,
        prepare: int = 0,
    ) -> None:
        self._config, self._store, self._link = config, store, link
        self._dataset, self._modulus = dataset, modulus
        self._tell = progress
        self._side = Side(store, dataset, suite, pairs, config.shards_per_pair, prepare)
        self._setup = self._side.setup(LINK_TIMEOUT, config.pools)
        self._ticket = b""
        self.seconds = 0.0  # of all iterations of this session
        self._clock = Clock(self._side.sealed.m, self._side.job.max_iter)
        self._counts: dict[int, int] = {}
        self._asked: dict[Any, int] = {}

    @property
    def iteration(self) -> int:
        """The last iteration that both clouds have."""
        return self._side.iteration

    @property
    def worked(self) -> float:
        """Seconds of protocol work among these."""
        return self._side.worked

    def run(self) -> None:
        """All steps from where both clouds stand to the result."""
        self._report("starting")
        self._open()
        while (step := self._side.next_step()) is not None:
            began = time.monotonic()
            self._clock.begin(step.kind)
            self._run_step(step)
            if step.kind in ("assign", "update"):
                self.seconds += time.monotonic() - began
            if step.kind == "update":
                self._clock.end_iteration()
        if not self._side.prepare:
            self._side.save_result()
            self._store.jobs.transition(self._dataset, JobState.DONE)

    def close(self) -> None:
        """Kill this cloud's workers."""
        self._side.close()

    # ----------------------------------------------------------------- pairs

    def _open(self) -> None:
        side = self._side
        place = Place(self._config.ray_address, RESOURCE, side.pairs)
        ray_cluster.check_workers(place, side.pairs)
        if ray_cluster.offers("cloud2"):
            self._report("starting", message=_NO_SEPARATION)
        self._link.uploads(self._dataset, side.spec.digest)  # is C2 there? Ask before waiting long
        publics = self._spawn(list(range(side.pairs)))
        own = self._store.jobs.checkpoints(self._dataset)
        opened = self._link.open(
            control_messages.Open(
                dataset=self._dataset,
                spec=side.spec.digest,
                seal=side.sealed.digest,
                suite=side.suite,
                pairs=side.pairs,
                shards_per_pair=self._config.shards_per_pair,
                pool=self._setup.pool,
                prepare=side.prepare,
                checkpoints=own,
                publics=publics,
            )
        )
        if opened.resume_from is not None and opened.resume_from not in own:
            raise InputError("cloud 2 wants to go on from an iteration that cloud 1 does not have.")
        if len(opened.ends) != side.pairs:
            raise InputError(f"cloud 2 started {len(opened.ends)} workers instead of {side.pairs}.")
        if not side.prepare:
            side.restore(opened.resume_from)
        self._ticket = opened.ticket
        self._introduce(dict(enumerate(opened.ends)))

    def _spawn(self, slots: list[int]) -> list[bytes]:
        """Fresh workers in these slots; their channel keys."""
        for slot in slots:
            self._side.place(slot, spawn(Worker1, RESOURCE, self._setup, self._modulus))
        asked = [self._side.slots[slot].worker.public.remote() for slot in slots]
        return [bytes(public) for public in answers(asked, "cloud 1's workers")]

    def _introduce(self, ends: dict[int, control_messages.PairEnd]) -> None:
        told = []
        for slot, end in ends.items():
            pair_with = self._side.slots[slot].worker.pair_with
            told.append(pair_with.remote(end.endpoint, end.public, self._side.pair_name(slot)))
        answers(told, "cloud 1's workers")

    def _replace(self, slot: int) -> None:
        (public,) = self._spawn([slot])
        self._introduce({slot: self._link.replace(self._ticket, slot, public)})

    # ----------------------------------------------------------------- steps

    def _run_step(self, step: Step) -> None:
        side = self._side
        slots = side.needed(step)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            side.begin(step, attempt, slots)
            self._link.step(self._ticket, step, attempt, slots)
            failed = self._outcome(step)
            if not failed:
                side.commit()
                return
            reasons = "; ".join(sorted({failure.text for failure in failed.values()}))
            log.warning("%s of iteration %d failed: %s", step.kind, step.iteration, reasons)
            if attempt == MAX_ATTEMPTS or any(failure.fatal for failure in failed.values()):
                raise StepFailedError(
                    f"{step.kind} of iteration {step.iteration} failed after {attempt} "
                    f"attempt{'s' * (attempt > 1)}: {reasons}"
                )
            self._report("recovering", step, reasons)
            slots = sorted(failed)
            for slot in slots:
                self._replace(slot)

    def _outcome(self, step: Step) -> dict[int, Failure]:
        """Wait for both clouds; the slots that failed at either, or none and C2 has committed."""
        asked = time.monotonic()
        while True:
            _, failed, running = self._side.wait(_LOOK_SECONDS)
            self._look(step)
            if running and time.monotonic() - asked < _POLL_SECONDS:
                continue
            wait = 0.0 if running or failed else LONGEST_WAIT
            answer = self._link.poll(
                self._ticket, step.number, wait, commit=not running and not failed
            )
            asked = time.monotonic()
            if answer.committed:
                return {}
            theirs = {f.slot: Failure(printable(f.text), f.fatal) for f in answer.failed}
            # A half whose peer failed would notice by itself; there is nothing to wait for.
            if not set(running) - set(theirs) and (failed or theirs):
                return {**theirs, **failed}

    # -------------------------------------------------------------- watching

    def _look(self, step: Step) -> None:
        """Between two waits: has somebody cancelled, and how many rows are done?"""
        if self._store.jobs.get(self._dataset).cancel_requested:
            raise CancelledError("the job was cancelled.")
        self._collect_counts()
        self._report(step.kind, step)

    def _collect_counts(self) -> None:
        if self._asked:
            for reference in ended(self._asked, 0):
                slot, count = self._asked.pop(reference), outcome(reference)
                if not isinstance(count, Failure):  # a worker that is gone shows in the step
                    self._counts[slot] = int(count)
        else:
            self._asked = self._side.rows_done()

    def _report(self, phase: str, step: Step | None = None, message: str = "") -> None:
        side, rows = self._side, self._side.sealed.m
        iteration = side.iteration if step is None else step.iteration
        done = 0
        if step is not None and step.kind in ("prepare", "ingest", "assign", "labels"):
            done = self._rows_done()
        left = self._clock.left(iteration, done) if phase == "assign" else (None, None)
        max_iter = side.job.max_iter
        self._tell(Event(self._dataset, phase, iteration, max_iter, done, rows, *left, message))

    def _rows_done(self) -> int:
        """Rows of finished slots in full, of the others as far as they have told."""
        done, _, _ = self._side.wait(0)
        total = 0
        for shard_slot in range(self._side.pairs):
            rows = sum(s.rows for s in self._side.shards if s.slot == shard_slot)
            total += rows if shard_slot in done else min(rows, self._counts.get(shard_slot, 0))
        return total
