"""The steps of k-means with noise: (assign, open) for each iteration | output.

`open` and `output` are cluster-scale and run on one pair, the lead; `assign` runs on every pair.
Both clouds know the centres of every iteration, and compute the next ones each for itself.

Who learns what: both clouds learn what `open` gives, noisy sums and counts, T times in all; owners
learn points and counts of the last iteration. There is no stop bit: T is in the spec.

*Openings are counted as they are sent.* Each draws noise of its own, from a seed that nobody keeps:
the same noise on shares that a cloud has changed meanwhile would cancel. A job has T + SPARE of
them in all sessions together, by the ledger of each cloud, and the proof counts as many
(`noisy_kmeans`). So an opening that is lost on the way is paid for, and may be repeated once.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ppodc.errors import InputError
from ppodc.kmeans.private.kind import POINTS, points_digest
from ppodc.kmeans.private.noisy_kmeans import Integers, NoisePlan, Opened, next_centres
from ppodc.pairs.plan import LEAD, BaseStep, Plan, PlanStep, SlotView, StepResults, Task
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.service.store import Checkpoint

_LEARNT = "both clouds: noisy sums and counts of this iteration; one record is protected by "


@dataclass(slots=True)
class NoisyPlan(Plan):
    """One cloud's state of the job."""

    noise: NoisePlan
    centres: Integers | None = None  # those of the coming iteration; None: the public start
    counts: Integers | None = None  # noisy, of the last iteration
    sums: tuple[Any, ...] = field(default=(), repr=False)  # this cloud's share of each pair's
    output: OutputShare | None = None

    @property
    def table(self) -> Sequence[PlanStep[Any]]:
        return TABLE

    @property
    def max_iter(self) -> int:
        return self.noise.iterations

    @property
    def finished(self) -> bool:
        """Whether no further iteration follows."""
        return self.iteration >= self.noise.iterations

    def public_centres(self) -> Integers:
        """Those of the coming iteration; after the last one the points that owners get."""
        return self.noise.start() if self.centres is None else self.centres

    def asked(self) -> tuple[int, ...]:
        """The coming iteration and its centres as public numbers, which both ends compare."""
        centres = self.public_centres()
        hasher = hashlib.sha256(f"iteration {self.iteration + 1} at {centres.shape} ".encode())
        hasher.update(np.ascontiguousarray(centres, "<i8").tobytes())
        digest = hasher.digest()
        return tuple(int.from_bytes(digest[at : at + 6], "big") for at in range(0, 30, 6))

    def points(self) -> Integers:
        """(K, l + 1): the points of the last iteration and their noisy counts."""
        if self.counts is None:
            raise InputError("the job has no iteration behind it yet.")
        return np.concatenate([self.public_centres(), self.counts[:, None]], axis=1)

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        return True

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        self.iteration = checkpoint.iteration
        table = checkpoint.arrays[POINTS].astype(np.int64)
        self.centres, self.counts = table[:, :-1].copy(), table[:, -1].copy()

    def take_over(self, opened: Opened) -> None:
        """The noisy values of an iteration: where the centres go, on disk before anything else."""
        done = self.iteration + 1
        centres = next_centres(self.public_centres(), opened, self.noise, done)
        table = np.concatenate([centres, opened.counts[:, None]], axis=1)
        learnt = f"{_LEARNT}{float(self.noise.rho):.4g} of concentrated privacy (rho)"
        last = done == self.noise.iterations
        self.facts.save(Checkpoint(done, last, {POINTS: table}, "noisy sums opened", learnt))
        self.iteration, self.centres, self.counts, self.sums = done, centres, opened.counts, ()

    def result(self) -> ResultShare:
        if self.output is None:
            raise InputError("the job has no output yet.")
        facts = {
            "n_iter": self.iteration,
            "epsilon": self.noise.epsilon,
            "delta": self.noise.delta,
            "points": points_digest(self.points()),
        }
        return ResultShare(facts, {POINTS: self.output})


class Assign(BaseStep[NoisyPlan]):
    """Shares of every record's part in the sums of its nearest centre, on each pair."""

    name, counts_rows = "assign", True

    def due(self, plan: NoisyPlan) -> bool:
        return not plan.finished and not plan.sums

    def iteration(self, plan: NoisyPlan) -> int:
        return plan.iteration + 1

    def tasks(self, plan: NoisyPlan, place: SlotView) -> list[Task]:
        return [Task("assign", place.names, plan.asked(), inputs=(plan.public_centres(),))]

    def keep(self, plan: NoisyPlan, results: StepResults) -> None:
        plan.sums = tuple(results.one(slot, "assign") for slot in results.slots)


class Open(BaseStep[NoisyPlan]):
    """Each cloud's noise on its own share of the sums, then both know the noisy values."""

    name, uses_records = "open", False
    reveals = "both clouds: noisy sums and counts"

    def due(self, plan: NoisyPlan) -> bool:
        return not plan.finished

    def iteration(self, plan: NoisyPlan) -> int:
        return plan.iteration + 1

    def slots(self, plan: NoisyPlan) -> list[int]:
        return [LEAD]

    def most(self, plan: NoisyPlan) -> int:
        return plan.noise.openings

    def tasks(self, plan: NoisyPlan, place: SlotView) -> list[Task]:
        return [Task("open", agreed=plan.asked(), inputs=(plan.sums, plan.facts.noise_seed()))]

    def keep(self, plan: NoisyPlan, results: StepResults) -> None:
        plan.take_over(Opened.of(results.one(LEAD, "open")))


class Output(BaseStep[NoisyPlan]):
    """A fresh half of points and noisy counts for the owners."""

    name, uses_records = "output", False
    reveals = "owners, from both halves: points and noisy counts of the last iteration"

    def due(self, plan: NoisyPlan) -> bool:
        return plan.output is None

    def slots(self, plan: NoisyPlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: NoisyPlan, place: SlotView) -> list[Task]:
        return [Task("output", inputs=(plan.points(),))]

    def keep(self, plan: NoisyPlan, results: StepResults) -> None:
        plan.output = results.one(LEAD, "output")


TABLE: Sequence[PlanStep[Any]] = (Assign(), Open(), Output())
