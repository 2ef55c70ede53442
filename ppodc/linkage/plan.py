"""The steps of a linkage job: link, once for each round of portions | output.

All pairs take in all uploads; each round gives every pair a portion of the blocks (`work`), and
what was found so far is kept in a checkpoint after it. A job goes on from there with any number of
pairs.

Who learns what: the clouds learn how many rows each upload has, with blocks its cells with padded
counts, and so how many pairs are compared; nothing of the matches. An owner learns the links or
flags of its own rows, or the number of all links.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, StateError
from ppodc.linkage import schedule
from ppodc.linkage.ahead import Compare
from ppodc.linkage.blocks.candidates import Work
from ppodc.linkage.job import Job, job_of
from ppodc.linkage.schedule import LEFT, RIGHT, Round, shard_name
from ppodc.pairs.plan import LEAD, BaseStep, Plan, PlanStep, SlotView, StepResults, Task
from ppodc.pairs.shards import Shard
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store import Checkpoint
from ppodc.spec import Spec

_SUMS, _DONE = "sums", "done"  # arrays of a checkpoint: shares, and how many blocks are in them
Sums = NDArray[np.uint64]


def rounds_left(
    spec: Spec, sealed: Sealed, uploads: Sequence[schedule.Rows], pairs: int, done: int
) -> list[Round]:
    """All work behind the first `done` blocks."""
    blocks = schedule.sealed_work(spec, sealed, uploads)
    return schedule.rounds(blocks[done:], pairs, job_of(spec).rule.portion_pairs)


def link_task(
    portion: Sequence[Work],
    uploads: Sequence[schedule.Rows],
    done: int,
    place: SlotView,
    *more: Any,
) -> Task:
    """Compare this portion; `more` is what the half is given besides."""
    told = (done, len(portion), schedule.digest(portion), sum(s.rows for s in place.shards))
    return Task("link", (), told, (tuple(portion), tuple(uploads), *more))


def checked_portion(task: Task) -> Sequence[Work]:
    """The portion of such a task, if it is the one that both clouds speak of."""
    portion: Sequence[Work] = task.inputs[0]
    if schedule.digest(portion) != task.agreed[2]:
        raise InputError("a portion of the work does not fit its digest.")
    return portion


def shards(spec: Spec, sealed: Sealed, pairs: int) -> list[Shard]:
    """Every upload with rows on every pair, for each side of comparisons that it can stand on."""
    uploads = schedule.rows_of(spec, sealed)
    first, last = (edge(rows.owner for rows in uploads) for edge in (min, max))
    return [
        Shard(shard_name(upload, side), rows.first, rows.count, slot)
        for slot in range(pairs)
        for upload, rows in enumerate(uploads)
        for side, stands in ((LEFT, rows.owner < last), (RIGHT, rows.owner > first))
        if stands and rows.count
    ]


def added(x: Sums, y: Sums) -> Sums:
    """x + y, number by number, modulo 2^(64 L) for L limbs; planners load no kernel for it."""
    total = x + y
    carry = total < x
    for limb in range(1, x.shape[-1]):
        before = carry[..., limb - 1]
        total[..., limb] += before
        carry[..., limb] |= total[..., limb] < before
    return total


@dataclass(slots=True)
class LinkagePlan(Plan):
    """One cloud's state of the job."""

    spec: Spec
    done: int = 0  # blocks whose match bits are in the sums
    output: list[OutputShare] | None = None
    sums: Sums = field(init=False, repr=False)
    uploads: list[schedule.Rows] = field(init=False)
    rounds: list[Round] = field(init=False, repr=False)  # that are still to come

    def __post_init__(self) -> None:
        if len(self.sealed.owners) < 2:
            raise StateError(
                "a linkage needs records of at least two owners. Wait for more uploads."
            )
        self.uploads = schedule.rows_of(self.spec, self.sealed)
        self.sums = self._empty
        self.rounds = self._rounds()

    @property
    def table(self) -> Sequence[PlanStep[Any]]:
        return TABLE

    @property
    def job(self) -> Job:
        return job_of(self.spec)

    @property
    def sealed(self) -> Sealed:
        return self.facts.sealed

    @property
    def _empty(self) -> Sums:
        """Sums before any block is compared."""
        return self.job.output.empty(self.sealed.m)

    def _rounds(self) -> list[Round]:
        return rounds_left(self.spec, self.sealed, self.uploads, self.pairs, self.done)

    @property
    def max_iter(self) -> int:
        return self.iteration + len(self.rounds)

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        sums = checkpoint.arrays.get(_SUMS)
        return sums is not None and sums.shape == self._empty.shape and _DONE in checkpoint.arrays

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        self.iteration = checkpoint.iteration
        self.sums, self.done = checkpoint.arrays[_SUMS], int(checkpoint.arrays[_DONE][0])
        self.rounds = self._rounds()

    def ahead(self, slot: int) -> list[list[Work]]:
        """The portion of a pair in each of the rounds that supplies are to be made for."""
        return [parts[slot] for parts in self.rounds[: self.prepare] if slot < len(parts)]

    @property
    def linking(self) -> "LinkagePlan":
        """The plan is itself the state of its linkage."""
        return self

    @property
    def links(self) -> bool:
        return bool(self.rounds)

    def link(self, act: Callable[[Any], None]) -> None:
        act(self)

    def task(self, place: SlotView) -> Task:
        """The comparisons of a slot in this round."""
        return link_task(self.rounds[0][place.slot], self.uploads, self.done, place)

    def take(self, parts: Sequence[Sums]) -> None:
        """Add what a round has found, and keep it before going on."""
        sums, done = self.sums, self.done + sum(map(len, self.rounds[0]))
        for part in parts:
            sums = added(sums, part)
        arrays = {_SUMS: sums, _DONE: np.array([done])}
        self.facts.save(Checkpoint(self.iteration + 1, False, arrays, event=""))
        self.sums, self.done, self.iteration = sums, done, self.iteration + 1
        self.rounds = self.rounds[1:]

    def result(self) -> ResultShare:
        if self.output is None:
            raise StateError("the job has no output yet.")
        facts: dict[str, Any] = {"owners": len(self.sealed.owners)}
        if self.spec.owners is None:
            facts["names"] = self.sealed.owners
        named = dict(zip(self.job.output_names, self.output, strict=True))
        return (
            ResultShare(facts, {}, named) if self.job.output.by_row else ResultShare(facts, named)
        )


class Output(BaseStep[LinkagePlan]):
    """Fresh halves of what owners learn."""

    name = "output"
    reveals = "each owner, from both halves: the links or flags of its records, or how many links"

    def due(self, plan: LinkagePlan) -> bool:
        return plan.output is None

    def slots(self, plan: LinkagePlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: LinkagePlan, place: SlotView) -> list[Task]:
        return [Task("output", inputs=(plan.sums, tuple(plan.uploads)))]

    def keep(self, plan: LinkagePlan, results: StepResults) -> None:
        plan.output = results.one(LEAD, "output")


TABLE: Sequence[PlanStep[Any]] = (Compare(), Output())
