"""A job on worker pairs as a table of steps: what each is, who does it, what is kept after it.

Both clouds derive the plan from the spec, the number of sealed rows and the number of pairs. The
master only names the step; which rows and shards it touches, C2 works out itself and refuses
whatever does not follow.

A plan holds one cloud's state of a job between steps. Its table is walked from the top: the first
step that is due comes next. Ahead of a kind's own steps every job takes its records in (`Ingest`);
instead of a job, a session may fill the pools of every pair (`Prepare`).
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec

from ppodc.errors import StateError
from ppodc.pairs.shards import Shard
from ppodc.records.result_shares import ResultShare
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store import Checkpoint
from ppodc.transport.wire import Body

LEAD = 0  # the slot that does the work that is not spread over records
MAX_ATTEMPTS = 3  # runs of one step on one slot before the job gives up

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
StepName = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z+-]{0,31}$")]
Progress = Callable[[int], None]


def keep_nothing(checkpoint: Checkpoint) -> None:
    """Keep no checkpoint: a job that is killed starts anew."""


def fresh_seed() -> bytes:
    """32 random bytes."""
    return secrets.token_bytes(32)


class Step(Body, frozen=True):
    """One step; `number` counts the steps of a session from 1, `iteration` those of the job."""

    number: Count
    name: StepName
    iteration: Count


@dataclass(frozen=True, slots=True)
class Task:
    """A worker's task in a step. `inputs` are its own cloud's and stay out of every log."""

    name: str
    shards: tuple[str, ...] = ()
    agreed: tuple[int, ...] = ()  # public integers that both halves compare
    inputs: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot as a step sees it: its shards, and when its worker last did each task."""

    slot: int
    shards: tuple[Shard, ...]
    done: Mapping[str, int]  # name of a task -> iteration

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(shard.name for shard in self.shards)


@dataclass(frozen=True, slots=True)
class StepResults:
    """The results of the slots of a committed step, task by task."""

    step: Step
    tasks: Mapping[int, Sequence[Task]]
    results: Mapping[int, Sequence[Any]]

    @property
    def slots(self) -> list[int]:
        return sorted(self.results)

    def all(self, slot: int, task: str) -> list[Any]:
        """The results of every task of this name on the slot."""
        both = zip(self.tasks[slot], self.results[slot], strict=True)
        return [result for done, result in both if done.name == task]

    def one(self, slot: int, task: str) -> Any:
        """The result of the last task of this name on the slot."""
        return self.all(slot, task)[-1]


P = TypeVar("P", bound="Plan", contravariant=True)
Q = TypeVar("Q", bound="Plan")


class PlanStep(Protocol[P]):
    """One line of a plan's table."""

    @property
    def name(self) -> str: ...

    @property
    def counts_rows(self) -> bool:
        """Whether its progress is counted in records."""

    @property
    def uses_records(self) -> bool:
        """Whether a slot must have taken its records in before it."""

    @property
    def reveals(self) -> str:
        """The values that it reveals, and to whom, for the ledger; empty: none."""

    @property
    def alike(self) -> tuple[str, ...]:
        """Names of other steps that open the same; `most` counts their beginnings as well."""

    def most(self, plan: P) -> int:
        """The most times it may begin in all sessions of a dataset together; 0: any number.

        Every time it opens something to the other cloud, which may have altered its own shares.
        """

    def due(self, plan: P) -> bool:
        """Whether it must come now, if none above it does."""

    def iteration(self, plan: P) -> int:
        """The iteration it belongs to."""

    def slots(self, plan: P) -> list[int]:
        """Slots that take part in this step."""

    def tasks(self, plan: P, place: SlotView) -> list[Task]:
        """The tasks of the slot."""

    def keep(self, plan: P, results: StepResults) -> None:
        """Take the results over; what must survive a kill is saved before the state moves."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job's facts at its start; both clouds have the same but for the last two.

    `noise_seed` draws 32 bytes that nobody keeps.
    """

    sealed: Sealed
    shards: Sequence[Shard] = ()
    pairs: int = 1
    prepare: int = 0  # iterations to fill pools for; 0: run the job
    save: Callable[[Checkpoint], None] = keep_nothing  # puts a checkpoint on disk
    noise_seed: Callable[[], bytes] = field(default=fresh_seed, repr=False)  # new at each call


@dataclass(slots=True)
class Plan(ABC):
    """One cloud's state of a job, and the table of its steps."""

    facts: JobFacts
    ready: bool = field(default=False, init=False)  # records are taken in, or pools are filled
    iteration: int = field(default=0, init=False)  # the last one that is complete

    @property
    @abstractmethod
    def table(self) -> Sequence[PlanStep[Any]]:
        """The kind's steps."""

    @property
    def pairs(self) -> int:
        return self.facts.pairs

    @property
    def prepare(self) -> int:
        """Iterations to fill pools for, no more than the job can have; 0: run the job."""
        return min(self.facts.prepare, max(1, self.max_iter))

    @property
    def max_iter(self) -> int:
        """The most iterations that the job can have; 0: it has no iterations."""
        return 0

    def in_turn(self, shard: Shard) -> bool:
        """Whether the step that comes now, and those like it, work on this shard."""
        return True

    def ahead(self, slot: int) -> Any:
        """The work that the pair's half is to `expect` before it makes supplies; None: no more."""
        return None

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        """Whether the job can go on from here, when both clouds keep these iterations."""
        return False

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        """Go back to this iteration."""
        raise StateError("this job has no iterations to go back to.")

    @abstractmethod
    def result(self) -> ResultShare:
        """This cloud's share, once no step is due."""

    def shards_at(self, slot: int) -> tuple[Shard, ...]:
        """The shards that a slot holds, as far as the job works on them now."""
        own = (shard for shard in self.facts.shards if shard.slot == slot)
        return tuple(shard for shard in own if self.in_turn(shard))


class BaseStep(Generic[Q]):
    """A step with the usual answers; a subclass overrides what differs."""

    counts_rows = False
    uses_records = True
    reveals = ""
    alike: tuple[str, ...] = ()

    def most(self, plan: Q) -> int:
        return 0

    def iteration(self, plan: Q) -> int:
        return plan.iteration

    def slots(self, plan: Q) -> list[int]:
        return list(range(plan.pairs))

    def tasks(self, plan: Q, place: SlotView) -> list[Task]:
        return []


class Prepare(BaseStep[Plan]):
    """Every pair makes the supplies of later iterations ahead, into its pools on disk."""

    name, counts_rows, uses_records = "prepare", True, False

    def due(self, plan: Plan) -> bool:
        return bool(plan.prepare) and not plan.ready

    def tasks(self, plan: Plan, place: SlotView) -> list[Task]:
        sizes = (shard.rows for shard in place.shards)
        return [Task("prepare", agreed=(plan.prepare, *sizes), inputs=(plan.ahead(place.slot),))]

    def keep(self, plan: Plan, results: StepResults) -> None:
        plan.ready = True


class Ingest(BaseStep[Plan]):
    """Every pair takes in its shards; the tasks for that come by themselves."""

    name, counts_rows = "ingest", True

    def due(self, plan: Plan) -> bool:
        return not plan.ready

    def keep(self, plan: Plan, results: StepResults) -> None:
        plan.ready = True


def due_step(plan: Plan) -> PlanStep[Any] | None:
    """The step that must come now; None when all is done."""
    if plan.prepare:
        general: list[PlanStep[Any]] = [Prepare()]
    else:
        general = [Ingest(), *plan.table]
    return next((step for step in general if step.due(plan)), None)
