"""A job on worker pairs as a table of steps: what each is, who does it, what is kept after it.

Both clouds derive the plan from the spec, the number of sealed rows and the number of pairs. The
master only names the step; which rows and shards it touches, C2 works out itself and refuses
whatever does not follow.

A plan holds one cloud's state of a job between steps. Its table is walked from the top: the first
step that is due comes next. Ahead of a kind's own steps every job takes its records in (`Ingest`);
instead of a job, a session may fill the pools of every pair (`Prepare`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.errors import InputError
from ppodc.job_kinds import Kind
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import ResultHalf
from ppodc.records.upload_form import Cloud
from ppodc.service.store import Checkpoint
from ppodc.service.upload import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Body

LEAD = 0  # the slot that does the work that is not spread over records
MAX_ATTEMPTS = 3  # runs of one step on one slot before the job gives up

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
StepName = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z+-]{0,31}$")]
Progress = Callable[[int], None]


class Step(Body, frozen=True):
    """One step; `number` counts the steps of a session from 1, `iteration` those of the job."""

    number: Count
    name: StepName
    iteration: Count


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does in a step. `inputs` are its own cloud's and stay out of every log."""

    name: str
    shards: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    inputs: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Place:
    """A slot as a step sees it: its shards, and when its worker last did each task."""

    slot: int
    shards: tuple[Shard, ...]
    done: Mapping[str, int]  # name of a task -> iteration

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(shard.name for shard in self.shards)


@dataclass(frozen=True, slots=True)
class StepResults:
    """What the slots of a committed step gave, task by task."""

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
        """Whether its progress is told in records."""

    @property
    def uses_records(self) -> bool:
        """Whether a slot must have taken its records in before it."""

    @property
    def reveals(self) -> str:
        """What leaves the protocol in it, and to whom, for the ledger; empty: nothing."""

    def asks(self, plan: P) -> str:
        """A digest of exactly what it reveals; once begun, nothing else is in that iteration.

        Empty: repeated, it reveals the same whatever happens.
        """

    def due(self, plan: P) -> bool:
        """Whether it must come now, if none above it does."""

    def iteration(self, plan: P) -> int:
        """The iteration it belongs to."""

    def slots(self, plan: P) -> list[int]:
        """Who has something to do in it."""

    def tasks(self, plan: P, place: Place) -> list[Task]:
        """What the slot does."""

    def keep(self, plan: P, results: StepResults) -> None:
        """Take the results over; what must survive a kill is saved before the state moves."""


class Plan(Protocol):
    """One cloud's state of a job, and the table of its steps."""

    prepare: int  # iterations to fill pools for; 0: run the job
    ready: bool  # records are taken in (or pools are filled)

    @property
    def table(self) -> Sequence[PlanStep[Any]]:
        """The kind's steps."""

    @property
    def pairs(self) -> int: ...

    @property
    def iteration(self) -> int:
        """The last one that is complete."""

    @property
    def max_iter(self) -> int:
        """At most so many; 0: the job has no iterations."""

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        """Whether the job can go on from here, when both clouds keep these iterations."""

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        """Go back to this iteration."""

    def result(self) -> ResultHalf:
        """This cloud's half, once no step is due."""


@runtime_checkable
class DrawsNoise(Protocol):
    """A plan whose steps add this cloud's own noise, the same whenever a step is repeated."""

    noise_key: bytes  # 32 bytes of this cloud and this job alone


@runtime_checkable
class KnowsAhead(Protocol):
    """A plan that knows more of a pair's work than the sizes of its shards."""

    def ahead(self, slot: int) -> tuple[Any, ...]:
        """What the pair's half is to `expect` before it makes supplies."""


@runtime_checkable
class TakesTurns(Protocol):
    """A plan whose steps do not all work on the same shards."""

    def in_turn(self, shard: Shard) -> bool:
        """Whether the step that comes now, and those like it, work on this shard."""


def shards_at(plan: "Plan", shards: Sequence[Shard], slot: int) -> tuple[Shard, ...]:
    """The shards that a slot holds, as far as the plan works on them now."""
    own = (shard for shard in shards if shard.slot == slot)
    turns = plan if isinstance(plan, TakesTurns) else None
    return tuple(shard for shard in own if turns is None or turns.in_turn(shard))


class BaseStep(Generic[Q]):
    """What most steps have in common; a step says what differs."""

    counts_rows = False
    uses_records = True
    reveals = ""

    def asks(self, plan: Q) -> str:
        return ""

    def iteration(self, plan: Q) -> int:
        return plan.iteration

    def slots(self, plan: Q) -> list[int]:
        return list(range(plan.pairs))

    def tasks(self, plan: Q, place: Place) -> list[Task]:
        return []


class Prepare(BaseStep[Plan]):
    """Every pair makes the supplies of later iterations ahead, into its pools on disk."""

    name, counts_rows, uses_records = "prepare", True, False

    def due(self, plan: Plan) -> bool:
        return bool(plan.prepare) and not plan.ready

    def tasks(self, plan: Plan, place: Place) -> list[Task]:
        sizes = (shard.rows for shard in place.shards)
        inputs = plan.ahead(place.slot) if isinstance(plan, KnowsAhead) else ()
        return [Task("prepare", rows=(plan.prepare, *sizes), inputs=inputs)]

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


# --------------------------------------------------------------------------- a kind, on pairs


@runtime_checkable
class PairHalf(Protocol):
    """One cloud's half of a pair; the rest of it is between a kind's plan and its halves."""

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in a shard's rows of this cloud's share."""


@runtime_checkable
class Prepares(Protocol):
    """A half that can make the supplies of later iterations ahead and keep them on disk."""

    def to_prepare(self, iterations: int, rows: Sequence[int] | None = None) -> int:
        """How much work `prepare` would be now, in units that its `progress` counts."""

    def prepare(
        self,
        iterations: int,
        progress: Progress | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Make what is missing for so many iterations over shards of these sizes."""


@runtime_checkable
class Expects(Prepares, Protocol):
    """A half whose supplies follow from work that its plan tells (`KnowsAhead`)."""

    def expect(self, work: Any) -> None:
        """What it will be given to do."""


@dataclass(frozen=True, slots=True)
class Material:
    """What a half is made from besides its channel; the key is public at C1, secret at C2."""

    key: PublicKey | SecretKey = field(repr=False)
    pools: Path | None = None  # this pair's folder of supplies made ahead


@runtime_checkable
class PairKind(Kind, Protocol):
    """A kind of job that runs on worker pairs."""

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites of protocols that it has; the first is the default."""

    def check(self, spec: Spec, m: int, suite: str, key_bits: int) -> None:
        """Refuse, before anything runs, a job whose numbers the suite cannot hold."""

    def most_pairs(self, spec: Spec) -> int | None:
        """The pairs that the job can use at most; None: any number."""

    def plan(
        self,
        spec: Spec,
        sealed: Sealed,
        shards: Sequence[Shard],
        pairs: int,
        save: Callable[[Checkpoint], None],
    ) -> Plan:
        """One cloud's plan at its start; `save` puts a checkpoint on disk."""

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> PairHalf:
        """One cloud's half of a pair; both clouds call it at the same time."""

    def perform(self, half: Any, task: Task, progress: Progress) -> Any:
        """Do a task of this kind's plan; `progress` counts records."""

    def describe(self, facts: Mapping[str, Any]) -> str:
        """The public facts of a result, in words."""


@runtime_checkable
class PlacesRows(Protocol):
    """A kind that says itself which rows lie on which pair; they may lie on several."""

    def shards(
        self, spec: Spec, sealed: Sealed, pairs: int, usual: Sequence[Shard]
    ) -> Sequence[Shard]:
        """From public facts alone, so that both clouds agree; `usual` has every row once."""


def pair_kind(spec: Spec) -> PairKind:
    """The kind of a spec; InputError if it does not run on pairs."""
    kind = spec.kind
    if not isinstance(kind, PairKind):
        raise InputError(f"a job of the kind {kind.name!r} does not run on worker pairs.")
    return kind


def suite_of(kind: PairKind, name: str | None) -> str:
    """The suite of this name, or the kind's default; InputError if the kind has none such."""
    if name is None:
        return kind.suites[0]
    if name not in kind.suites:
        known = ", ".join(kind.suites)
        raise InputError(f"there is no suite {name!r} for {kind.name}; choose one of {known}.")
    return name
