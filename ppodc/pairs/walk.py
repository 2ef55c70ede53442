"""A cloud's walk through the plan of a job: which step comes next, and each slot's part in it.

Both clouds derive the same walk from the spec, the sealed uploads and the number of pairs. A slot's
part in a step is an `Order`: shards to take in first, then tasks. `Walk.keep` moves the plan once
every slot of the step is done. Workers on a cluster, which may die, are driven by `cloud_job`; a
`Walker` does every step with halves in this process.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import PpodcError, ProtocolError, SpecError
from ppodc.kinds import cloud_side
from ppodc.pairs.cloud_side import Material, PairHalf
from ppodc.pairs.plan import (
    JobFacts,
    PlanStep,
    Progress,
    SlotView,
    Step,
    StepResults,
    Task,
    due_step,
    keep_nothing,
)
from ppodc.pairs.progress import Clock, Event, Listener, ignore
from ppodc.pairs.shards import Shard, split, usable_pairs
from ppodc.pairs.tasks import agreed, do_task, ingest
from ppodc.records.result_shares import ResultShare
from ppodc.records.upload_form import Cloud
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store import Checkpoint
from ppodc.spec import Spec
from ppodc.transport.channel import Channel

ShardRows = Callable[[Shard], NDArray[np.uint64]]  # this cloud's share of a shard's rows


@dataclass(slots=True)
class Held:
    """Shards that the worker in a slot has, and the iteration of its last run of each task."""

    shards: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)

    def add(self, tasks: Sequence[Task], iteration: int) -> None:
        """Note tasks that were done."""
        self.done |= {task.name: iteration for task in tasks}


@dataclass(frozen=True, slots=True)
class Order:
    """A slot's part in a step: shards to take in first, then tasks."""

    missing: list[Shard]
    tasks: list[Task]


class Walk:
    """One cloud's plan of a job and its place in it.

    `save` puts a checkpoint on disk. With `prepare` the walk only fills pools for that many
    iterations.
    """

    def __init__(
        self,
        spec: Spec,
        sealed: Sealed,
        pairs: int = 1,
        *,
        shards_per_pair: int = 1,
        prepare: int = 0,
        save: Callable[[Checkpoint], None] = keep_nothing,
    ) -> None:
        self.spec, self.side = spec, cloud_side(spec)
        self.pairs = usable_pairs(sealed.m, pairs)
        usual = split(sealed.m, self.pairs, shards_per_pair, len(spec.schema.columns))
        shards = self.side.shards(sealed, self.pairs, usual)
        self.plan = self.side.plan(JobFacts(sealed, shards, self.pairs, prepare, save))
        self.number = 1  # of the next step

    def next_step(self) -> Step | None:
        """The step that must come now; None when all is done."""
        due = due_step(self.plan)
        return None if due is None else Step(self.number, due.name, due.iteration(self.plan))

    def line(self, step: Step) -> PlanStep[Any]:
        """The line of the plan's table for this step; InputError if it is not due."""
        due = due_step(self.plan)
        if due is None or step != self.next_step():
            raise ProtocolError(f"{step.name} of iteration {step.iteration} is not the next step.")
        return due

    def order(self, line: PlanStep[Any], slot: int, held: Held) -> Order:
        """The slot's part in the step."""
        own = self.plan.shards_at(slot)
        missing = [shard for shard in own if line.uses_records and shard.name not in held.shards]
        return Order(missing, line.tasks(self.plan, SlotView(slot, own, held.done)))

    def keep(self, results: StepResults) -> None:
        """Take over the results of all slots, and move on to the next step."""
        self.line(results.step).keep(self.plan, results)
        self.number += 1

    def rows_at(self, slot: int) -> int:
        """Rows that a slot works on now."""
        return sum(shard.rows for shard in self.plan.shards_at(slot))

    def rows(self) -> int:
        """Rows that all slots work on now; a row that lies on several pairs counts as often."""
        return sum(map(self.rows_at, range(self.pairs)))


@dataclass(frozen=True, slots=True)
class OpenHalf:
    """A half of a pair and its channel to the other half."""

    channel: Channel
    half: PairHalf


@contextmanager
def opened_half(
    spec: Spec, suite: str, role: Cloud, channel: Channel, m: int, material: Material
) -> Iterator[OpenHalf]:
    """One cloud's half of a pair; both clouds open theirs at the same time.

    Whatever ends the block early is reported to the other cloud.
    """
    half = cloud_side(spec).open_half(suite, role, channel, m, material)
    try:
        yield OpenHalf(channel, half)
    except BaseException as error:
        channel.fail(str(error) if isinstance(error, PpodcError) else "it was stopped.")
        raise
    finally:
        half.close()


class Walker:
    """Walks with one half of every pair in this process, slot after slot.

    The other cloud must walk at the same time. `rows` gives this cloud's share of a shard.
    """

    def __init__(
        self,
        walk: Walk,
        halves: Sequence[OpenHalf],
        rows: ShardRows,
        progress: Listener = ignore,
    ) -> None:
        if walk.spec.audit:
            raise SpecError(
                "the spec asks for an audit, which takes two clouds with ledgers of their own. Run "
                "it there, or without audit."
            )
        self.walk = walk
        self._halves, self._rows, self._progress = halves, rows, progress
        self._held = [Held() for _ in halves]
        self._clock = Clock(walk.rows(), walk.plan.max_iter)

    def run(self) -> ResultShare:
        """Walk to the end; this cloud's share of the result."""
        while self.advance() is not None:
            pass
        return self.walk.plan.result()

    def advance(self) -> Step | None:
        """Do the next step; None if there is none."""
        step = self.walk.next_step()
        if step is None:
            return None
        plan, line, before = self.walk.plan, self.walk.line(step), self.walk.plan.iteration
        self._clock.rows = self.walk.rows()
        self._clock.begin(step.iteration)
        count, tasks, results = self._counter(step, line), {}, {}
        for slot in line.slots(plan):
            held, order = self._held[slot], self.walk.order(line, slot, self._held[slot])
            for shard in order.missing:
                self._do(slot, step, [ingest(shard, self._rows(shard))], count)
                held.shards.add(shard.name)
            tasks[slot] = order.tasks
            results[slot] = self._do(slot, step, order.tasks, count)
            held.add(order.tasks, step.iteration)
        self.walk.keep(StepResults(step, tasks, results))
        if plan.iteration > before:
            self._clock.end_iteration()
        return step

    def _do(self, slot: int, step: Step, tasks: Sequence[Task], count: Progress) -> list[Any]:
        at = self._halves[slot]
        with agreed(at.channel, step, 1, tasks):
            return [do_task(self.walk.side, at.half, task, count) for task in tasks]

    def _counter(self, step: Step, line: PlanStep[Any]) -> Progress:
        """Counts the records of a step, and reports each count."""
        done, plan, rows = 0, self.walk.plan, self._clock.rows
        in_iteration = line.counts_rows and step.iteration > plan.iteration
        name, most = self.walk.spec.name, plan.max_iter

        def count(more: int) -> None:
            nonlocal done
            done += more
            left = self._clock.left(step.iteration, done) if in_iteration else (None, None)
            self._progress(Event(name, step.name, step.iteration, most, done, rows, *left))

        count(0)
        return count
