"""Steps by which rows are linked or joined, alone or ahead of a job's own: compare | home.

`Compare` comes once for each round of portions; `Home` once, where what was found of each row has
to be brought together. A plan with such steps holds the state (`linking`) and moves it by `link`,
which keeps a checkpoint. What a round does, and what becomes of it, the state says.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ppodc.errors import StateError
from ppodc.linkage.schedule import Round
from ppodc.pairs.plan import LEAD, BaseStep, SlotView, StepResults, Task


class Linking(Protocol):
    """The state of a linkage or a join between rounds."""

    rounds: list[Round]  # that are still to come

    @property
    def over(self) -> bool:
        """Whether rows are linked, or joined."""

    def task(self, place: SlotView) -> Task:
        """The comparisons of a slot in this round."""

    def take(self, parts: Sequence[Any]) -> None:
        """Take over the findings of a round."""

    def home_task(self) -> Task:
        """Bring what was found of each row together."""

    def bring_home(self, found: Any) -> None:
        """Take over the result of that task."""

    def ready_task(self, place: SlotView) -> Task:
        """Prepare a worker's records for the job's own steps."""


class LinkingPlan(Protocol):
    """A plan whose records may be linked first."""

    iteration: int
    linking: Any  # a `Linking`, or None

    @property
    def links(self) -> bool:
        """Whether the linkage is not over yet."""

    def link(self, act: Callable[[Any], None]) -> None:
        """A step of it is done, which `act` applies to its state; keep a checkpoint."""


def _state(plan: LinkingPlan) -> Linking:
    if plan.linking is None:
        raise StateError("this job links no records.")
    found: Linking = plan.linking
    return found


class Compare(BaseStep[Any]):
    """Every pair compares a portion of the records of different owners."""

    name, counts_rows = "link", True

    def due(self, plan: LinkingPlan) -> bool:
        return plan.links and bool(_state(plan).rounds)

    def iteration(self, plan: LinkingPlan) -> int:
        return plan.iteration + 1

    def slots(self, plan: LinkingPlan) -> list[int]:
        return list(range(len(_state(plan).rounds[0])))

    def tasks(self, plan: LinkingPlan, place: SlotView) -> list[Task]:
        return [_state(plan).task(place)]

    def keep(self, plan: LinkingPlan, results: StepResults) -> None:
        parts = [results.one(slot, "link") for slot in results.slots]
        plan.link(lambda linking: linking.take(parts))


class Home(BaseStep[Any]):
    """Bring together the findings about each row, of all passes and portions."""

    name = "home"

    def due(self, plan: LinkingPlan) -> bool:
        return plan.links

    def iteration(self, plan: LinkingPlan) -> int:
        return plan.iteration + 1

    def slots(self, plan: LinkingPlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: LinkingPlan, place: SlotView) -> list[Task]:
        return [_state(plan).home_task()]

    def keep(self, plan: LinkingPlan, results: StepResults) -> None:
        plan.link(lambda linking: linking.bring_home(results.one(LEAD, "home")))


def ready(plan: LinkingPlan, place: SlotView) -> list[Task]:
    """Which records count, and joined columns: before a worker first uses its records."""
    if plan.linking is None:
        return []
    task = _state(plan).ready_task(place)
    return [] if task.name in place.done else [task]
