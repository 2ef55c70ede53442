"""The steps of a job of totals: every pair sums its records, the lead adds up and masks anew.

Who learns what: the clouds learn nothing beyond the number of records, which they know; owners
learn the sums (and, if the spec says so, the sums of squares) of each column over all records, and
so, by subtracting their own, those of all other owners together: an owner without whose records
fewer than `least` are left gets no half.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from ppodc.errors import InputError
from ppodc.linkage.ahead import Compare, Home, ready
from ppodc.linkage.joined.joining import Joining
from ppodc.linkage.schedule import is_side
from ppodc.pairs.plan import LEAD, BaseStep, Plan, PlanStep, SlotView, StepResults, Task
from ppodc.pairs.shards import Shard
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.service.store import Checkpoint
from ppodc.totals.job import Job
from ppodc.totals.kind import COUNT, CROSS, SQUARES, SUMS


@dataclass(slots=True)
class TotalsPlan(Plan):
    """One cloud's state of the job. It is short: after a kill it starts anew."""

    job: Job
    parts: tuple[Any, ...] = ()  # this cloud's share of each pair's totals
    output: dict[str, OutputShare] | None = None

    @property
    def table(self) -> Sequence[PlanStep[Any]]:
        return TABLE

    def result(self) -> ResultShare:
        if self.output is None:
            raise InputError("the job has no output yet.")
        facts, sealed = {"records": self.facts.sealed.m}, self.facts.sealed
        others = {owner: sealed.m - sealed.rows_of(owner) for owner in sealed.told_apart}
        untold = {owner for owner, rows in others.items() if rows < self.job.least}
        if self.job.least == 1 or not untold:
            return ResultShare(facts, self.output)
        own = {
            name: {owner: half.rows(0, 0) if owner in untold else half for owner in others}
            for name, half in self.output.items()
        }
        return ResultShare(facts, {}, own_halves=own)


@dataclass(slots=True)
class JoinedTotalsPlan(TotalsPlan):
    """One cloud's state of a job over joined rows; after a kill it goes on from a checkpoint."""

    linking: Joining | None = None
    own: dict[str, dict[str, OutputShare]] | None = None  # by output and owner, if told apart

    @property
    def owners(self) -> list[str]:
        """The owners for each of whom it is decided whether totals are told; none: for all."""
        if self.linking is None or self.linking.columns.join.least == 1:
            return []
        return self.linking.owners

    @property
    def table(self) -> Sequence[PlanStep[Any]]:
        return JOINED

    @property
    def max_iter(self) -> int:
        state = self.linking
        return 0 if state is None else self.iteration + len(state.rounds) + (not state.home)

    @property
    def links(self) -> bool:
        """Whether the rows are not joined yet."""
        return self.linking is not None and not self.linking.over

    def in_turn(self, shard: Shard) -> bool:
        """Uploads are taken in for comparisons first, then rows to add up."""
        return is_side(shard.name) == (self.links and not self.prepare)

    def link(self, act: Callable[[Any], None]) -> None:
        """A step of the join is done; after the last, rows are taken in to be added up."""
        if self.linking is None:
            raise InputError("this job joins no rows.")
        after, count = copy(self.linking), self.iteration + 1
        act(after)
        self.facts.save(Checkpoint(count, False, after.kept(), event=""))
        self.linking, self.iteration, self.ready = after, count, not after.over

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        return self.linking is not None and self.linking.fits(checkpoint.arrays)

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        if self.linking is not None:
            self.linking.restore(checkpoint.arrays)
        self.iteration = checkpoint.iteration

    def result(self) -> ResultShare:
        if self.own is not None:
            return ResultShare({}, {}, own_halves=self.own)
        if self.output is None:
            raise InputError("the job has no output yet.")
        return ResultShare({}, self.output)


class Sum(BaseStep[TotalsPlan]):
    """Every pair's share of the sums, and of the sums of squares, over its records."""

    name, counts_rows = "sum", True

    def due(self, plan: TotalsPlan) -> bool:
        return not plan.parts

    def tasks(self, plan: TotalsPlan, place: SlotView) -> list[Task]:
        return [Task("sum", place.names)]

    def keep(self, plan: TotalsPlan, results: StepResults) -> None:
        plan.parts = tuple(results.one(slot, "sum") for slot in results.slots)


class Output(BaseStep[TotalsPlan]):
    """A fresh half of the totals for the owners."""

    name, uses_records = "output", False
    reveals = "owners, from both halves: the totals"

    def due(self, plan: TotalsPlan) -> bool:
        return plan.output is None

    def slots(self, plan: TotalsPlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: TotalsPlan, place: SlotView) -> list[Task]:
        return [Task("output", inputs=plan.parts)]

    def keep(self, plan: TotalsPlan, results: StepResults) -> None:
        names = output_names(plan.job)
        plan.output = dict(zip(names, results.one(LEAD, "output"), strict=True))


class SumJoined(Sum):
    """Every pair's share of the sums over its rows that are joined."""

    def slots(self, plan: TotalsPlan) -> list[int]:
        return sorted({s.slot for s in plan.facts.shards if not is_side(s.name)})

    def tasks(self, plan: TotalsPlan, place: SlotView) -> list[Task]:
        assert isinstance(plan, JoinedTotalsPlan)  # noqa: S101 - the only plan with this step
        if not plan.owners or plan.linking is None:
            return [*ready(plan, place), *super().tasks(plan, place)]
        partners, runs = plan.linking.whose(place.shards)
        told = (len(plan.owners), *partners)
        return [*ready(plan, place), Task("sum", place.names, told, runs)]


class OutputOfJoined(Output):
    """A fresh half of the totals of the joined rows, or zeros."""

    reveals = "owners, from both halves: number and totals of the joined records"

    def due(self, plan: TotalsPlan) -> bool:
        assert isinstance(plan, JoinedTotalsPlan)  # noqa: S101 - the only plan with this step
        return plan.own is None and super().due(plan)

    def tasks(self, plan: TotalsPlan, place: SlotView) -> list[Task]:
        assert isinstance(plan, JoinedTotalsPlan)  # noqa: S101 - the only plan with this step
        return [Task("output", agreed=(len(plan.owners),), inputs=plan.parts)]

    def keep(self, plan: TotalsPlan, results: StepResults) -> None:
        assert isinstance(plan, JoinedTotalsPlan)  # noqa: S101 - the only plan with this step
        halves, names = results.one(LEAD, "output"), output_names(plan.job)
        if not plan.owners:
            plan.output = dict(zip(names, halves, strict=True))
            return
        plan.own = {
            name: dict(zip(plan.owners, halves[place :: len(names)], strict=True))
            for place, name in enumerate(names)
        }


def output_names(job: Job) -> tuple[str, ...]:
    """Names of the outputs, in the order in which a half makes them."""
    if job.join is None:
        return (SUMS, SQUARES) if job.variance else (SUMS,)
    further = (CROSS,) if job.cross else (SQUARES,) if job.variance else ()
    return (COUNT, SUMS, *further)


TABLE: Sequence[PlanStep[Any]] = (Sum(), Output())
JOINED: Sequence[PlanStep[Any]] = (Compare(), Home(), SumJoined(), OutputOfJoined())
