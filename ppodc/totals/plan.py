"""The steps of a job of totals: every pair sums its records, the lead adds up and masks anew.

Who learns what: the clouds learn nothing beyond the number of records, which they know; owners
learn the sums (and, if the spec says so, the sums of squares) of each column over all records, and
so, by subtracting their own, those of all other owners together: an owner without whose records
fewer than `least` are left gets no half.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ppodc.errors import InputError
from ppodc.pairs.plan import LEAD, BaseStep, Plan, PlanStep, SlotView, StepResults, Task
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.totals.job import Job
from ppodc.totals.kind import SQUARES, SUMS


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
        names = (SUMS, SQUARES) if plan.job.variance else (SUMS,)
        plan.output = dict(zip(names, results.one(LEAD, "output"), strict=True))


TABLE: Sequence[PlanStep[Any]] = (Sum(), Output())
