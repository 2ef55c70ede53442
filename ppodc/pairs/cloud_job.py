"""One cloud's side of a running job: its workers, its states, its checkpoints.

Master (C1) and follower (C2) each have one and drive it through the same steps. It knows which
step comes next, so C2 needs no word from C1 to know what is allowed. A step is begun on slots,
waited for, and committed once both clouds have all of its results; only then does the state move,
and after an update it is on disk before anything follows.

A slot whose worker failed is given a fresh one; what the old one held is taken in again as part of
the slot's next tasks.
"""

import contextlib
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppodc.cluster import ray_workers
from ppodc.cluster.ray_workers import Failure
from ppodc.errors import InputError
from ppodc.kmeans.half import State
from ppodc.kmeans.job import job_of
from ppodc.kmeans.result import CLUSTERS, LABELS
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.suites import Suite
from ppodc.pairs import shards
from ppodc.pairs.pair_worker import Setup, pools_of_job
from ppodc.pairs.shards import LEAD, Run, Shard, Step, Task
from ppodc.records.output_half import OutputHalf, ResultHalf
from ppodc.service.job_state import JobState
from ppodc.service.store import Checkpoint, Store

Parts = tuple[State, ...]


@dataclass(slots=True)
class Slot:
    """The worker in one place, and what it holds."""

    worker: Any  # a Ray actor handle
    generation: int
    ingested: set[str] = field(default_factory=set)
    assigned: int = 0  # the iteration its labels are of


@dataclass(slots=True)
class _Current:
    """The step under way: tasks and results by slot."""

    step: Step
    tasks: dict[int, list[Task]] = field(default_factory=dict)
    running: dict[Any, int] = field(default_factory=dict)  # Ray reference -> slot
    results: dict[int, list[Any]] = field(default_factory=dict)
    failed: dict[int, Failure] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)

    def forget(self, slot: int) -> None:
        """Nothing that the slot's worker did or still does counts any more."""
        self.running = {ref: place for ref, place in self.running.items() if place != slot}
        self.results.pop(slot, None)
        self.failed.pop(slot, None)


def drop_pools(store: Store, dataset: str, pools: Path) -> None:
    """Remove the supplies that a job which is over has left on this machine, if any."""
    with contextlib.suppress(InputError):  # never sealed: it had none
        job = _name(store.datasets.spec(dataset).digest, store.uploads.sealed(dataset).digest)
        shutil.rmtree(pools_of_job(pools, job), ignore_errors=True)


def _name(spec: str, seal: str) -> str:
    """What both clouds call a job: the digests of its spec and of its records."""
    return f"{spec[:32]}/{seal[:32]}"


class Side:
    """See the module. Used by one thread at a time."""

    def __init__(
        self,
        store: Store,
        dataset: str,
        suite: Suite,
        pairs: int,
        shards_per_pair: int,
        prepare: int = 0,
    ) -> None:
        self.store, self.dataset, self.suite = store, dataset, suite
        self.spec = store.datasets.spec(dataset)
        self.sealed = store.uploads.sealed(dataset)
        self.job = job_of(self.spec)
        self.params = self.job.parameters(self.spec.schema, self.sealed.m)
        self.pairs = shards.usable_pairs(self.sealed.m, pairs)
        self.shards = shards.split(self.sealed.m, self.pairs, shards_per_pair)
        self.slots: dict[int, Slot] = {}
        self.prepare = prepare  # iterations to fill pools for; 0: run the job
        self.iteration = 0
        self.stop = False
        self.worked = 0.0  # seconds of protocol work in iterations: of each step its slowest pair
        self._clusters: Parts = ()
        self._previous: Parts = ()
        self._sums: Parts = ()
        self._candidates: Parts = ()
        self._output: OutputHalf | None = None
        self._labels: OutputHalf | None = None
        self._ready = False
        self._number = 1
        self._current: _Current | None = None

    def setup(self, link_timeout: float, pools: Path, pool: int = 0) -> Setup:
        """What this side's workers must know."""
        p = self.params
        job = _name(self.spec.digest, self.sealed.digest)
        return Setup(
            job, self.suite, p.m, p.l, p.k, p.ub, str(p.beta), link_timeout, pool, str(pools)
        )

    def final_checkpoints(self) -> list[int]:
        """Iterations with a checkpoint after which the job stops."""
        last = self.job.max_iter
        kept = self.store.jobs.checkpoints(self.dataset)
        return [i for i in kept if i >= last or self.store.jobs.checkpoint(self.dataset, i).stop]

    def restore(self, iteration: int | None) -> None:
        """Go back to this checkpoint, or to the start; later ones are forgotten first."""
        self.store.jobs.drop_checkpoints_after(self.dataset, 0 if iteration is None else iteration)
        if iteration is None:
            return
        checkpoint = self.store.jobs.checkpoint(self.dataset, iteration)
        self.iteration, self.stop = iteration, checkpoint.stop
        self._clusters = (checkpoint.arrays[CLUSTERS],)
        if iteration - 1 in self.store.jobs.checkpoints(self.dataset):
            previous = self.store.jobs.checkpoint(self.dataset, iteration - 1)
            self._previous = (previous.arrays[CLUSTERS],)

    def place(self, slot: int, worker: Any) -> None:
        """Put a fresh worker into a slot; one that was there is killed."""
        old = self.slots.pop(slot, None)
        if old is not None:
            ray_workers.kill(old.worker)
        if self._current is not None:
            self._current.forget(slot)
        generation = old.generation + 1 if old is not None else 0
        self.slots[slot] = Slot(worker, generation)

    def pair_name(self, slot: int) -> str:
        """How both ends of the slot's channel know their pair."""
        return f"{slot}.{self.slots[slot].generation if slot in self.slots else 0}"

    def close(self) -> None:
        """Kill all workers; their memory and their keys go with them."""
        self._current = None
        for slot in self.slots.values():
            ray_workers.kill(slot.worker)
        self.slots.clear()

    # ------------------------------------------------------------------ steps

    @property
    def finished(self) -> bool:
        """Whether no further iteration follows."""
        return self.iteration > 0 and (self.stop or self.iteration >= self.job.max_iter)

    def next_step(self) -> Step | None:
        """The step that must come now; None when all is done."""
        if self.prepare:
            return None if self._ready else Step(self._number, "prepare", 0)
        if not self._ready:
            return Step(self._number, "ingest", self.iteration)
        if not self._clusters:
            return Step(self._number, "start", 0)
        if not self.finished:
            kind: shards.StepKind = "update" if self._sums else "assign"
            return Step(self._number, kind, self.iteration + 1)
        if self._output is None:
            return Step(self._number, "output", self.iteration)
        if self.job.labels and self._labels is None:
            return Step(self._number, "labels", self.iteration)
        return None

    def needed(self, step: Step) -> list[int]:
        """The slots that have something to do in this step."""
        if step.kind in ("update", "output"):
            return [LEAD]
        if step.kind == "start":
            return sorted({run.shard.slot for run in self._runs(step)}) or [LEAD]
        return list(range(self.pairs))

    def begin(self, step: Step, attempt: int, slots: Sequence[int]) -> None:
        """Start the step on these slots, in the background."""
        if step != self.next_step():
            raise InputError(f"{step.kind} of iteration {step.iteration} is not the next step.")
        if self._current is None:
            self._current = _Current(step)
        current = self._current
        allowed = set(self.needed(step)) - set(current.running.values())
        if not 1 <= attempt <= shards.MAX_ATTEMPTS or not set(slots) <= allowed:
            raise InputError(f"{step.kind} cannot run on slots {list(slots)} now.")
        for slot in slots:
            tasks = self._tasks(step, slot)
            current.forget(slot)
            current.tasks[slot] = tasks
            reference = self.slots[slot].worker.run.remote(step, attempt, tasks)
            current.running[reference] = slot

    def wait(self, seconds: float) -> tuple[list[int], dict[int, Failure], list[int]]:
        """(done, failed, running) slots of the step, after at most so many seconds.

        Returns early when nothing runs any more.
        """
        current = self._under_way()
        deadline = time.monotonic() + seconds
        while current.running:
            left = max(0.0, deadline - time.monotonic())
            ended = ray_workers.ended(current.running, left)
            if not ended:
                break
            for reference in ended:
                self._collect(current, current.running.pop(reference), reference)
        return sorted(current.results), dict(current.failed), sorted(current.running.values())

    def complete(self) -> bool:
        """Whether every slot that the step needs has its result here."""
        current = self._under_way()
        return not current.running and set(self.needed(current.step)) <= set(current.results)

    def commit(self) -> None:
        """Take over the results of the step; both clouds have them all."""
        if not self.complete():
            raise InputError("the step is not complete and cannot be committed.")
        current = self._under_way()
        self._current = None
        self._take(current)
        self._number += 1
        if current.step.kind in ("assign", "update"):
            self.worked += max(current.seconds.values())

    def committed(self, number: int) -> bool:
        """Whether this step was taken over already."""
        return number < self._number

    def save_result(self) -> None:
        """Keep this cloud's halves of the result; may be repeated until the job is done."""
        if self._output is None or self.next_step() is not None:
            raise InputError("the job is not finished yet.")
        facts = {"n_iter": self.iteration, "converged": self.stop}
        rows = {} if self._labels is None else {LABELS: self._labels}
        self.store.results.save(self.dataset, ResultHalf(facts, {CLUSTERS: self._output}, rows))

    def rows_done(self) -> dict[Any, int]:
        """References to each worker's count of rows in the step under way, by slot."""
        current = self._under_way()
        watch = {"concurrency_group": ray_workers.WATCH}
        return {
            self.slots[slot].worker.progress.options(**watch).remote(): slot
            for slot in current.running.values()
        }

    # --------------------------------------------------------------- internal

    def _under_way(self) -> _Current:
        if self._current is None:
            raise InputError("no step is under way.")
        return self._current

    def _collect(self, current: _Current, slot: int, reference: Any) -> None:
        outcome = ray_workers.outcome(reference)
        if isinstance(outcome, Failure):
            current.failed[slot] = outcome
            return
        current.results[slot], current.seconds[slot] = outcome
        held = self.slots[slot]
        for task in current.tasks[slot]:
            if task.kind == "ingest":
                held.ingested.update(task.shards)
            elif task.kind == "assign":
                held.assigned = current.step.iteration

    def _runs(self, step: Step) -> list[Run]:
        """The records that this step fetches, in cluster order."""
        job, m = self.job, self.sealed.m
        if step.kind == "start" and job.init == "random":
            return shards.runs(initial_rows(job.seed, m, job.k), self.shards)
        if step.kind == "assign":
            return shards.runs(reseed_rows(job.seed, step.iteration, m, job.k), self.shards)
        return []

    def _tasks(self, step: Step, slot: int) -> list[Task]:
        if step.kind == "update":
            return [Task("update", inputs=(self._clusters, self._sums, self._candidates))]
        if step.kind == "output":
            return [Task("output", inputs=self._clusters)]
        mine = [shard for shard in self.shards if shard.slot == slot]
        if step.kind == "prepare":
            return [Task("prepare", rows=(self.prepare, *(shard.rows for shard in mine)))]
        names = tuple(shard.name for shard in mine)
        tasks = self._ingest(slot, mine)
        for run in self._runs(step):
            if run.shard.slot == slot:
                tasks.append(Task("records", (run.shard.name,), run.rows))
        if step.kind == "start" and not self._runs(step):
            tasks.append(Task("centres", inputs=(self.job.initial_centres(self.spec.schema),)))
        if step.kind == "assign":
            tasks.append(Task("assign", names, inputs=self._clusters))
        if step.kind == "labels":
            if self.slots[slot].assigned != step.iteration:  # its worker is new: assign again
                tasks.append(Task("assign", names, inputs=self._previous))
            tasks.append(Task("labels", names))
        return tasks

    def _ingest(self, slot: int, shards: Sequence[Shard]) -> list[Task]:
        missing = [s for s in shards if s.name not in self.slots[slot].ingested]
        if not missing:
            return []
        shares = tuple(self.store.uploads.rows(self.dataset, s.first, s.rows) for s in missing)
        return [Task("ingest", tuple(s.name for s in missing), inputs=shares)]

    def _take(self, current: _Current) -> None:
        step = current.step
        if step.kind == "prepare":
            self._ready = True
        elif step.kind == "ingest":
            self._ready = True
            self.store.jobs.transition(self.dataset, JobState.RUNNING, iteration=self.iteration)
        elif step.kind == "start":
            self._clusters = self._fetched(current) or (_only(current, LEAD, "centres"),)
        elif step.kind == "assign":
            self._candidates = self._fetched(current)
            self._sums = tuple(_only(current, slot, "assign") for slot in sorted(current.results))
        elif step.kind == "update":
            self._advance(*_only(current, LEAD, "update"))
        elif step.kind == "output":
            self._output = _only(current, LEAD, "output")
        else:
            halves = [h for slot in sorted(current.results) for h in _only(current, slot, "labels")]
            self._labels = OutputHalf.joined(halves)

    def _advance(self, clusters: State, stop: bool) -> None:
        checkpoint = Checkpoint(self.iteration + 1, stop, {CLUSTERS: clusters})
        self.store.jobs.save_checkpoint(self.dataset, checkpoint)
        self.iteration += 1
        self.stop = stop
        self._previous, self._clusters = self._clusters, (clusters,)
        self._sums = self._candidates = ()
        self.store.jobs.transition(self.dataset, JobState.RUNNING, iteration=self.iteration)

    def _fetched(self, current: _Current) -> Parts:
        """The states of the step's records, back in cluster order."""
        waiting = {slot: iter(_all(current, slot, "records")) for slot in current.results}
        return tuple(next(waiting[run.shard.slot]) for run in self._runs(current.step))


def _all(current: _Current, slot: int, kind: shards.TaskKind) -> list[Any]:
    tasks, results = current.tasks[slot], current.results[slot]
    return [result for task, result in zip(tasks, results, strict=True) if task.kind == kind]


def _only(current: _Current, slot: int, kind: shards.TaskKind) -> Any:
    return _all(current, slot, kind)[-1]
