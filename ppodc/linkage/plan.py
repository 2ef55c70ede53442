"""The steps of a linkage job: all rows are compared on one pair, which gives fresh halves of links.

Who learns what: the clouds learn the number of rows of each owner, which they know; an owner learns
the links or flags of its own rows, and the names of the owners that it may be linked to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ppodc.errors import InputError
from ppodc.linkage.half import LinkageHalf
from ppodc.linkage.job import Job
from ppodc.linkage.result import LINKS, PARTNERS
from ppodc.pairs.plan import LEAD, BaseStep, Place, PlanStep, Progress, StepResults, Task
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import OutputHalf, ResultHalf
from ppodc.service.store import Checkpoint
from ppodc.service.store.uploads import Sealed


@dataclass(slots=True)
class LinkagePlan:
    """One cloud's state of the job. After a kill it starts anew."""

    job: Job
    sealed: Sealed
    shards: Sequence[Shard]
    pairs: int
    prepare: int = 0
    ready: bool = False
    iteration: int = 0
    max_iter: int = 0
    output: dict[str, OutputHalf] | None = None
    table: Sequence[PlanStep[Any]] = field(default_factory=lambda: TABLE)

    def __post_init__(self) -> None:
        if len(self.sealed.owners) < 2:
            raise InputError("a linkage needs records of at least two owners.")

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        return False  # none is ever saved

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        raise InputError("a linkage job has no iterations to go back to.")

    def result(self) -> ResultHalf:
        if self.output is None:
            raise InputError("the job has no output yet.")
        return ResultHalf({"owners": self.sealed.owners}, {}, self.output)


class Link(BaseStep[LinkagePlan]):
    """Every row with every row of the other owners; halves of the links of all rows."""

    name, counts_rows = "link", True
    reveals = "each owner, from both halves: the links of its records"

    def due(self, plan: LinkagePlan) -> bool:
        return plan.output is None

    def slots(self, plan: LinkagePlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: LinkagePlan, place: Place) -> list[Task]:
        flat = tuple(number for upload in plan.sealed.owned_rows for number in upload)
        return [Task("link", place.names, rows=flat)]

    def keep(self, plan: LinkagePlan, results: StepResults) -> None:
        names = (PARTNERS, LINKS) if plan.job.output == "links" else (PARTNERS,)
        plan.output = dict(zip(names, results.one(LEAD, "link"), strict=True))


TABLE: Sequence[PlanStep[Any]] = (Link(),)


def perform(half: LinkageHalf, task: Task, progress: Progress) -> Any:
    """What a worker's half does for each task of the plan."""
    uploads = list(zip(task.rows[0::2], task.rows[1::2], strict=True))
    return half.link(task.shards, uploads, progress)
