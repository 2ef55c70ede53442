"""The steps of a job of totals: every pair sums its records, the lead adds up and masks anew.

Who learns what: the clouds learn nothing beyond the number of records, which they know; owners
learn the sums (and, if the spec says so, the sums of squares) of each column over all records, and
so, by subtracting their own, those of all other owners together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ppodc.errors import InputError
from ppodc.pairs.plan import LEAD, BaseStep, Place, PlanStep, Progress, StepResults, Task
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import OutputHalf, ResultHalf
from ppodc.service.store import Checkpoint
from ppodc.totals.half import TotalsHalf
from ppodc.totals.job import Job
from ppodc.totals.result import SQUARES, SUMS


@dataclass(slots=True)
class TotalsPlan:
    """One cloud's state of the job. It is short: after a kill it starts anew."""

    job: Job
    shards: Sequence[Shard]
    pairs: int
    prepare: int = 0
    ready: bool = False
    iteration: int = 0
    max_iter: int = 0
    parts: tuple[Any, ...] = ()  # this cloud's share of each pair's totals
    output: dict[str, OutputHalf] | None = None
    table: Sequence[PlanStep[Any]] = field(default_factory=lambda: TABLE)

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        return False  # none is ever saved

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        raise InputError("a job of totals has no iterations to go back to.")

    def result(self) -> ResultHalf:
        if self.output is None:
            raise InputError("the job has no output yet.")
        return ResultHalf({"records": sum(shard.rows for shard in self.shards)}, self.output)


class Sum(BaseStep[TotalsPlan]):
    """Every pair's share of the sums, and of the sums of squares, over its records."""

    name, counts_rows = "sum", True

    def due(self, plan: TotalsPlan) -> bool:
        return not plan.parts

    def tasks(self, plan: TotalsPlan, place: Place) -> list[Task]:
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

    def tasks(self, plan: TotalsPlan, place: Place) -> list[Task]:
        return [Task("output", inputs=plan.parts)]

    def keep(self, plan: TotalsPlan, results: StepResults) -> None:
        names = (SUMS, SQUARES) if plan.job.variance else (SUMS,)
        plan.output = dict(zip(names, results.one(LEAD, "output"), strict=True))


TABLE: Sequence[PlanStep[Any]] = (Sum(), Output())


def perform(half: TotalsHalf, task: Task, progress: Progress) -> Any:
    """What a worker's half does for each task of the plan."""
    if task.name == "sum":
        return half.sum(task.shards, progress)
    return half.output(task.inputs)
