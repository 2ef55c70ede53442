"""One cloud's side of a running job: its workers, its plan, its checkpoints.

Master (C1) and follower (C2) each have one and drive it through the same steps. It knows which
step comes next, so C2 needs no word from C1 to know what is allowed. A step is begun on slots,
waited for, and committed once both clouds have all of its results; only then does the plan move,
and what must survive a kill is on disk before anything follows. One transaction keeps a step and
announces what the next one reveals, so an iteration of one step costs each cloud one write.

A slot whose worker failed is given a fresh one; what the old one held is taken in again as part of
the slot's next tasks. Records go to a worker shard by shard, the next when it has taken in the
last: neither it nor this process ever holds the shares of all.
"""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ppodc.cluster.workers import Failure, Workers, in_background
from ppodc.errors import BudgetError, ProtocolError, SessionLostError, StateError
from ppodc.pairs.audit_trail import AuditTrail
from ppodc.pairs.pair_worker import Setup, StepCost, pools_of_job
from ppodc.pairs.plan import MAX_ATTEMPTS, Plan, PlanStep, Step, StepResults, Task
from ppodc.pairs.statements import Signed
from ppodc.pairs.tasks import ingest
from ppodc.pairs.walk import Held, Order, Walk
from ppodc.service.job_state import JobState
from ppodc.service.ledger_entries import HALF_GIVEN, Head
from ppodc.service.store import Checkpoint, Store
from ppodc.transport.message_log import Heads

_REVEAL = "reveal begun"  # in the ledger
_NODES_SECONDS = 10.0  # between two questions for Ray's nodes
_LONG_SECONDS = 3600.0  # to wait at a time for a call that ends by itself


@dataclass(slots=True)
class Slot:
    """The worker in one slot and its state."""

    worker: Any  # a handle of `Workers`
    generation: int
    held: Held = field(default_factory=Held)


@dataclass(slots=True)
class _Current:
    """The step under way: tasks and results by slot."""

    step: Step
    tasks: dict[int, list[Task]] = field(default_factory=dict)
    running: dict[Any, int] = field(default_factory=dict)  # reference to a call -> slot
    results: dict[int, list[Any]] = field(default_factory=dict)
    failed: dict[int, Failure] = field(default_factory=dict)
    efforts: dict[int, StepCost] = field(default_factory=dict)

    def forget(self, slot: int) -> None:
        """Nothing that the slot's worker did or still does counts any more."""
        self.running = {ref: place for ref, place in self.running.items() if place != slot}
        self.results.pop(slot, None)
        self.efforts.pop(slot, None)
        self.failed.pop(slot, None)


def drop_pools(store: Store, dataset: str, pools: Path) -> None:
    """Remove the supplies that a job which is over has left on this machine, if any."""
    seal = store.seals.digest(dataset)
    if seal is not None:
        job = _name(store.datasets.spec(dataset).digest, seal)
        shutil.rmtree(pools_of_job(pools, job), ignore_errors=True)


def _name(spec: str, seal: str) -> str:
    """The name of a job at both clouds: the digests of its spec and of its records."""
    return f"{spec[:32]}/{seal[:32]}"


class CloudJob:
    """One cloud's side of a running job. Used by one thread at a time."""

    def __init__(
        self,
        store: Store,
        workers: Workers,
        dataset: str,
        suite: str,
        pairs: int,
        shards_per_pair: int,
        prepare: int = 0,
    ) -> None:
        self.store, self.workers = store, workers
        self.dataset, self.suite = dataset, suite
        self._check_unopened()
        self.spec = store.datasets.spec(dataset)
        self.sealed = store.seals.sealed(dataset)
        self.name = _name(self.spec.digest, self.sealed.digest)
        self.trail: AuditTrail | None = None
        if self.spec.audit:
            if prepare:
                raise StateError("an audited job takes no supplies made ahead; run it without.")
            self.trail = AuditTrail(store, dataset, self.name, self.sealed)
        self.walk = Walk(
            self.spec,
            self.sealed,
            pairs,
            shards_per_pair=shards_per_pair,
            prepare=prepare,
            save=self._save,
        )
        self.pairs = self.walk.pairs
        self.slots: dict[int, Slot] = {}
        self.session_id = ""  # the same at both clouds; set when the session is opened
        self.worked = 0.0  # seconds of protocol work in iterations: of each step its slowest pair
        self.sent = 0  # bytes from this cloud's workers to the other's
        self._counted = (0.0, 0)  # of these two, what the store's figures have
        self._ray_deaths = workers.deaths()
        self._current: _Current | None = None
        self._behind = False  # whether the plan has moved and the disk may not know
        self._nodes_asked = 0.0
        self._opened: dict[str, int] = {}  # how often a step was announced that has a budget
        self._announced: Step | None = None  # as a first attempt on all its slots, in the ledger

    @property
    def plan(self) -> Plan:
        """This cloud's state of the job between steps."""
        return self.walk.plan

    def setup(self, link_timeout: float, pools: Path) -> Setup:
        """The setup of this side's workers."""
        canonical, kept = self.spec.canonical(), "" if self.spec.audit else str(pools)
        return Setup(self.name, canonical, self.sealed.m, self.suite, link_timeout, kept)

    # ------------------------------------------------------------ checkpoints

    def resume_point(self, theirs: Iterable[tuple[int, str]]) -> int | None:
        """The latest iteration that both clouds can go on from; None means from the start.

        `theirs` are the other cloud's (iteration, session id). Halves of two sessions do not fit.
        """
        common = set(theirs) & set(self.store.jobs.checkpoints(self.dataset).items())
        kept = {iteration for iteration, _ in common}
        for iteration in sorted(kept, reverse=True):
            checkpoint = self.store.jobs.checkpoint(self.dataset, iteration)
            if self.plan.can_go_on_from(checkpoint, kept):
                return iteration
        return None

    def restore(self, iteration: int | None) -> None:
        """Go back to this checkpoint, or to the start; later ones are forgotten first."""
        jobs = self.store.jobs
        jobs.drop_checkpoints_after(self.dataset, 0 if iteration is None else iteration)
        if iteration is None:
            return
        previous = None
        if iteration - 1 in jobs.checkpoints(self.dataset):
            previous = jobs.checkpoint(self.dataset, iteration - 1)
        self.plan.restore(jobs.checkpoint(self.dataset, iteration), previous)

    def _save(self, checkpoint: Checkpoint) -> None:
        self.store.jobs.save_checkpoint(self.dataset, checkpoint, self.session_id)

    # ---------------------------------------------------------------- workers

    def place(self, slot: int, worker: Any, again: bool = False) -> None:
        """Put a fresh worker into a slot; one that was there is ended.

        `again`: that one died before the other cloud heard of it, and the pair keeps its name.
        """
        old = self.slots.pop(slot, None)
        if old is not None:
            self.workers.end(old.worker)
        if self._current is not None:
            self._current.forget(slot)
        generation = old.generation + (not again) if old is not None else 0
        self.slots[slot] = Slot(worker, generation)

    def pair_name(self, slot: int) -> str:
        """The pair's name at both ends of the slot's channel."""
        return f"{slot}.{self.slots[slot].generation if slot in self.slots else 0}"

    def close(self) -> None:
        """End all workers; their memory and their keys go with them."""
        self._current = None
        for slot in self.slots.values():
            self.workers.end(slot.worker)
        self.slots.clear()

    # ------------------------------------------------------------------ steps

    def begin(self, step: Step, attempt: int, slots: Sequence[int]) -> None:
        """Start the step on these slots, in the background."""
        self._check_disk()
        line = self.walk.line(step)
        if self._current is None:
            self._current = _Current(step)
        current = self._current
        # A slot runs a step once; again only on a new pair, whose placing forgets what was before.
        over = {*current.running.values(), *current.failed, *current.results}
        allowed = set(line.slots(self.plan)) - over
        if not 1 <= attempt <= MAX_ATTEMPTS or not set(slots) <= allowed:
            raise ProtocolError(f"{step.name} cannot run on slots {list(slots)} now.")
        self._note_nodes()
        expected, self._announced = (self._announced, 1, line.slots(self.plan)), None
        if line.reveals and (step, attempt, list(slots)) != expected:
            self._announce(line, step, attempt, slots)
        for slot in slots:
            at = self.slots[slot]
            order = self.walk.order(line, slot, at.held)
            current.forget(slot)
            current.tasks[slot] = order.tasks
            run = partial(self.workers.call, at.worker, "run", step, attempt)
            if order.missing:
                call = in_background(self._hand_over, at.held, order, run)
            else:
                call = run(order.tasks)
            current.running[call] = slot

    def wait(self, seconds: float) -> tuple[list[int], dict[int, Failure], list[int]]:
        """(done, failed, running) slots of the step, after at most this many seconds.

        Returns early when nothing runs any more.
        """
        current = self._under_way()
        deadline = time.monotonic() + seconds
        while current.running:
            left = max(0.0, deadline - time.monotonic())
            ended = self.workers.ended(current.running, left)
            if not ended:
                break
            for call in ended:
                self._collect(current, current.running.pop(call), call)
        return sorted(current.results), dict(current.failed), sorted(current.running.values())

    def complete(self) -> bool:
        """Whether every slot that the step needs has its result here."""
        current = self._under_way()
        needed = set(self.walk.line(current.step).slots(self.plan))
        return not current.running and needed <= set(current.results)

    def commit(self, signed: Sequence[Signed] = (), other: Head | None = None) -> None:
        """Take over the results of the step; both clouds have them all.

        With it goes on disk that the other cloud has signed the step, if the job is audited, and
        the head of its ledger, if an iteration is over.
        """
        if not self.complete():
            raise ProtocolError("the step is not complete and cannot be committed.")
        current = self._under_way()
        agreed = []
        if self.trail is not None:
            agreed = self.trail.agreed(current.step.number, self.heads(), signed)
        line = self.walk.line(current.step)
        before, self._current = self.plan.iteration, None
        if current.step.iteration > before:
            self.worked += max(effort.seconds for effort in current.efforts.values())
        self.sent += sum(effort.sent for effort in current.efforts.values())
        self._behind = True  # until the disk has what the plan has
        with self.store.at_once():
            if self.trail is not None:
                self.trail.keep(agreed)
            self.walk.keep(StepResults(current.step, current.tasks, current.results))
            if line.name == "ingest" or self.plan.iteration > before:
                iteration = self.plan.iteration
                self.store.jobs.transition(self.dataset, JobState.RUNNING, iteration=iteration)
                self._count(iteration - before)
            if self.plan.iteration > before:
                self.store.ledger.note(self.dataset, other)
            announced = self._announce_next()
        self._behind, self._announced = False, announced

    @property
    def iterates(self) -> bool:
        """Whether the step under way is one of an iteration. Behind the last comes another step."""
        return self._under_way().step.iteration > self.plan.iteration

    def heads(self) -> dict[str, Heads]:
        """The running digests of each pair that took part in the step, if they keep a record."""
        efforts = self._under_way().efforts.items()
        return {self.pair_name(slot): effort.heads for slot, effort in efforts if effort.heads}

    def committed(self, number: int) -> bool:
        """Whether this step was taken over already."""
        self._check_disk()
        return number < self.walk.number

    def begun(self, number: int) -> bool:
        """Whether the step of this number is under way; not if its beginning was refused."""
        current = self._current
        return current is not None and current.step.number == number and bool(current.tasks)

    def save_result(self) -> None:
        """Keep this cloud's half of the result; may be repeated until the job is done."""
        self._check_disk()
        if self.walk.next_step() is not None:
            raise ProtocolError("the job is not finished yet.")
        self.store.results.save(self.dataset, self.plan.result(), self.session_id)

    def watch(self) -> dict[Any, int]:
        """References to each worker's count of rows in the step under way, by slot."""
        running = self._under_way().running.values()
        return {self.workers.watch(self.slots[slot].worker): slot for slot in running}

    # --------------------------------------------------------------- internal

    def _under_way(self) -> _Current:
        if self._current is None:
            raise ProtocolError("no step is under way.")
        return self._current

    def _check_unopened(self) -> None:
        """Refuse a job of whose result this cloud has given a half, whatever state it is in."""
        given = {entry.event for entry in self.store.ledger.entries(self.dataset)}
        if any(event.endswith(HALF_GIVEN) for event in given):
            raise StateError(
                f"a half of the result of {self.dataset!r} has left this cloud. Its job never runs "
                "again: a second result on changed shares would tell single records."
            )

    def _announce_next(self) -> Step | None:
        """Announce, in the transaction of a commit, what the next step reveals; that step.

        None if it reveals nothing, or may do so no more: `begin` then says why.
        """
        step = self.walk.next_step()
        if step is None:
            return None
        line = self.walk.line(step)
        if not line.reveals or self._spent(line):
            return None
        self._announce(line, step, 1, line.slots(self.plan))
        return step

    def _announce(
        self, line: PlanStep[Any], step: Step, attempt: int, slots: Sequence[int]
    ) -> None:
        """Write down what the step reveals before its workers can reveal it.

        An attempt that fails, that C1 breaks off or that a kill prevents counts as well. Refused
        if the job may begin no more of them in all its sessions together.
        """
        if self._spent(line):
            raise BudgetError(
                f"the job of {self.dataset!r} has begun {step.name!r} {line.most(self.plan)} times,"
                " restarts included, and each time tells the other cloud something. It may do so "
                "no more often. Create a new dataset, and let the owners upload again."
            )
        detail = {
            "step": step.name,
            "iteration": step.iteration,
            "attempt": attempt,
            "slots": list(slots),
        }
        self.store.ledger.append(_REVEAL, self.dataset, detail, line.reveals)
        self._opened[step.name] = self._opened.get(step.name, 0) + 1

    def _spent(self, line: PlanStep[Any]) -> bool:
        """Whether the step, and others that open the same, were announced as often as they may."""
        most = line.most(self.plan)
        if not most:
            return False
        names = {line.name, *line.alike}
        if not names <= self._opened.keys():
            entries = [e for e in self.store.ledger.entries(self.dataset) if e.event == _REVEAL]
            counts = Counter(json.loads(entry.detail)["step"] for entry in entries)
            self._opened |= {name: counts[name] for name in names}
        return sum(self._opened[name] for name in names) >= most

    def _collect(self, current: _Current, slot: int, call: Any) -> None:
        outcome = self.workers.outcome(call)
        if isinstance(outcome, Failure):
            current.failed[slot] = outcome
            died, self._ray_deaths = self._ray_deaths, self.workers.deaths()
            self.store.figures.add(worker_failures=1, ray_deaths=self._ray_deaths - died)
            return
        current.results[slot], current.efforts[slot] = outcome
        self.slots[slot].held.add(current.tasks[slot], current.step.iteration)

    def _count(self, iterations: int) -> None:
        """Add what was done since the last time to what this cloud counts about itself."""
        seconds, sent = self.worked - self._counted[0], self.sent - self._counted[1]
        self._counted = self.worked, self.sent
        self.store.figures.add(iterations=iterations, iteration_seconds=seconds, link_bytes=sent)

    def _note_nodes(self) -> None:
        """Note Ray's number of nodes for the operator, now and then, not in each iteration."""
        now = time.monotonic()
        if not self._nodes_asked or now - self._nodes_asked > _NODES_SECONDS:
            self._nodes_asked = now
            self.store.figures.put(ray_nodes=self.workers.nodes())

    def _check_disk(self) -> None:
        """A plan that is ahead of its disk must go no further; the disk is what counts."""
        if self._behind:
            raise SessionLostError("what was computed could not be kept; a new session is needed.")

    def _hand_over(self, held: Held, order: Order, run: Callable[[list[Task]], Any]) -> Any:
        """Give a worker the shards that it lacks, then its tasks; the outcome of these."""
        spent = StepCost(0.0, 0)
        for shard in order.missing:
            rows = self.store.seals.rows(self.sealed, shard.first, shard.rows)
            outcome = self._awaited(run([ingest(shard, rows)]))
            if isinstance(outcome, Failure):
                return outcome
            held.shards.add(shard.name)
            spent += outcome[1]
        outcome = self._awaited(run(order.tasks))
        return outcome if isinstance(outcome, Failure) else (outcome[0], spent + outcome[1])

    def _awaited(self, call: Any) -> Any:
        """Wait for a call: its result, or its Failure."""
        while not self.workers.ended([call], _LONG_SECONDS):
            pass
        return self.workers.outcome(call)
