"""The steps of a k-means job: link | start | (assign, update) for each iteration | output | labels.

Where one pair has all records, and they are few, `iterate` is both steps of an iteration at once.

`link` is there for each round of a linkage ahead, if entities count once or columns of several
sides are joined. A start by k-means++ has
(spread, pick) for each further record behind its `start`. Of several runs with the same k each but
the first ends with `better`, which leaves the best. `tally` has what the inertia takes, and each
cluster's records by owner. `update`,
`better` and `output` are cluster-scale and run on one pair, the lead: its `update` also computes
the centres that all pairs need next. The other steps run on every pair that holds records for them.
Each cloud keeps its own states; both know which step comes next.

Who learns what: both clouds learn the number of iterations of each run and the stop bit of each
iteration, which `update` opens; not which run is the best. `output` and `labels` give each cloud
halves that only an owner adds up.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ppodc.kmeans.job import Job
from ppodc.kmeans.plan import Best, Iterated, KMeansPlan, Parts
from ppodc.linkage.ahead import Compare, Home, ready
from ppodc.linkage.joined.joining import Joining
from ppodc.pairs.plan import LEAD, BaseStep, PlanStep, SlotView, StepResults, Task
from ppodc.pairs.shards import Run, Shard
from ppodc.records.result_shares import OutputShare

REPEATED = 16  # stop bits of a dataset that may be opened again after a session was lost


class Start(BaseStep[KMeansPlan]):
    """The first clusters: a record each, or the public centres; of k-means++ the first record."""

    name = "start"

    def due(self, plan: KMeansPlan) -> bool:
        begun = plan.spreads and plan.chosen_for == plan.start
        return not plan.over and not plan.clusters and not begun

    def slots(self, plan: KMeansPlan) -> list[int]:
        return sorted({run.shard.slot for run in plan.initial()}) or [LEAD]

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        centres = plan.job.initial_centres(plan.schema)
        if centres is not None:
            return [Task("centres", inputs=(centres,))]
        return [*ready(plan, place), *_fetch(plan.initial(), place)]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        fetched = _fetched(plan.initial(), results)
        if plan.spreads:
            plan.chosen = ()
            plan.choose(fetched)
        else:
            plan.clusters = fetched or (results.one(LEAD, "centres"),)


class OnRecords(BaseStep[KMeansPlan]):
    """A step of every pair that holds records to cluster."""

    def slots(self, plan: KMeansPlan) -> list[int]:
        return plan.slots


class Spread(OnRecords):
    """Every record's distance to the nearest that is chosen, and their sums by shard."""

    name = "spread"

    def due(self, plan: KMeansPlan) -> bool:
        return plan.spreads and not plan.totals

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        public = (plan.start, len(plan.chosen))
        spread = Task("spread", place.names, public, inputs=(plan.start, plan.chosen))
        return [*ready(plan, place), spread]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.totals = tuple(results.one(slot, "spread") for slot in results.slots)


class Pick(OnRecords):
    """The next record: each pair looks among its own, and what all find adds up to it."""

    name = "pick"

    def due(self, plan: KMeansPlan) -> bool:
        return plan.spreads

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        """A worker that is new has the distances made again first; another has them."""
        first = plan.shards.index(place.shards[0])
        last = plan.shards[-1] in place.shards
        spread = Spread().tasks(plan, place)
        where = (*spread[-1].agreed, first, int(last))
        return [*spread, Task("pick", place.names, where, inputs=(plan.word(), plan.totals))]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.choose((tuple(results.one(slot, "pick") for slot in results.slots),))


class Assign(OnRecords):
    """Every record to its nearest cluster, summed on each pair; stand-ins for empty clusters."""

    name, counts_rows = "assign", True

    def due(self, plan: KMeansPlan) -> bool:
        return not plan.over and not plan.run_over and not plan.sums

    def iteration(self, plan: KMeansPlan) -> int:
        return plan.iteration + 1

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        handed_on = int(plan.scaled is not None)
        inputs = (plan.clusters, plan.scaled)
        agreed = (handed_on, int(plan.goes_on))
        assign = Task("assign", place.names, agreed=agreed, inputs=inputs)
        return [*ready(plan, place), *_fetch(plan.stand_ins(), place), assign]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.candidates = _fetched(plan.stand_ins(), results)
        plan.sums = tuple(results.one(slot, "assign") for slot in results.slots)


class Update(BaseStep[KMeansPlan]):
    """New clusters from the sums of all pairs, and the public stop bit; then a checkpoint."""

    name, uses_records = "update", False
    reveals = "both clouds: the stop bit"
    alike: tuple[str, ...] = ("iterate",)

    def most(self, plan: KMeansPlan) -> int:
        """Stop bits of a job that runs through, and a few for iterations that are repeated.

        With each bit a cloud that alters its own shares learns one of its choice.
        """
        return plan.job.max_iter * len(plan.runs) + REPEATED

    def due(self, plan: KMeansPlan) -> bool:
        return not plan.over and not plan.run_over

    def iteration(self, plan: KMeansPlan) -> int:
        return plan.iteration + 1

    def slots(self, plan: KMeansPlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        others = int(plan.pairs > 1 and plan.k > 1)
        following = min(2, plan.left) if plan.pairs == 1 else 0
        inputs = (plan.clusters, plan.sums, plan.candidates)
        return [Task("update", place.names, (others, following), inputs)]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.iterated(Iterated(*results.one(LEAD, "update")))


class UpdateWithoutTest(Update):
    """New clusters alone, where the spec fixes the number of iterations: no bit is opened."""

    reveals = ""

    def most(self, plan: KMeansPlan) -> int:
        return 0


class Iterate(Update):
    """An iteration at one go, where one pair has all records: `assign`, then `update`."""

    name, counts_rows, uses_records = "iterate", True, True
    alike = ("update",)

    def due(self, plan: KMeansPlan) -> bool:
        return plan.together and super().due(plan)

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        stand_ins = tuple((run.shard.name, run.rows) for run in plan.stand_ins())
        rows = (row for _, own in stand_ins for row in own)
        agreed = (int(plan.goes_on), min(2, plan.left), *rows)
        iterate = Task("iterate", place.names, agreed, inputs=(plan.clusters, stand_ins))
        return [*ready(plan, place), iterate]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.iterated(Iterated(*results.one(LEAD, "iterate")))


class IterateWithoutTest(Iterate):
    """An iteration at one go, where the spec fixes the number of iterations: no bit is opened."""

    reveals = ""

    def most(self, plan: KMeansPlan) -> int:
        return 0


class Better(BaseStep[KMeansPlan]):
    """Of two runs with the same k the one of less inertia; nobody learns which."""

    name, uses_records = "better", False

    def due(self, plan: KMeansPlan) -> bool:
        return plan.run_over

    def slots(self, plan: KMeansPlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        old, new = plan.best[plan.k], plan.last()
        return [Task("better", inputs=((old.sums, old.began), (new.sums, new.began)))]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.end_run(Best(*results.one(LEAD, "better")))


class Tally(OnRecords):
    """Figures that the output of one k takes besides its sums, from its last assignment.

    Sums of ||x||^2, if the spec offers the inertia; sizes by owner, if owners are told apart.
    """

    name = "tally"

    def due(self, plan: KMeansPlan) -> bool:
        """Labels of a k come before the tally of the next: they need no assignment then."""
        left = _untallied(plan)
        labelled = not plan.job.labels or len(plan.labels) == len(plan.job.clusters) - len(left)
        return bool(left) and labelled

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        again = _again(plan, place, _untallied(plan)[0])
        tasks = [*(ready(plan, place) if again else []), *again]
        if plan.job.inertia:
            tasks.append(Task("squares", place.names))
        if plan.owners:
            partners, runs = _whose(plan, place)
            tasks.append(Task("members", place.names, (len(plan.owners), *partners), runs))
        return tasks

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        k = _untallied(plan)[0]
        if plan.job.inertia:
            plan.squares[k] = tuple(results.one(slot, "squares") for slot in results.slots)
        if plan.owners:
            plan.members[k] = tuple(results.one(slot, "members") for slot in results.slots)


class Output(BaseStep[KMeansPlan]):
    """Fresh halves of sums and sizes for the owners, and of the squares that inertia takes.

    Where two owners or more have records, each has halves of its own.
    """

    name, uses_records = "output", False
    reveals = "owners, from both halves: sums and sizes"

    def due(self, plan: KMeansPlan) -> bool:
        return not _untallied(plan) and bool(_left(plan, plan.outputs))

    def slots(self, plan: KMeansPlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        owners = (max(1, len(plan.owners)),)
        parts = {k: (plan.squares.get(k, ()), plan.members.get(k, ())) for k in plan.job.clusters}
        return [
            Task("output", agreed=owners, inputs=(plan.best[k].sums, *also))
            for k, also in parts.items()
        ]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        halves = results.all(LEAD, "output")
        plan.outputs = dict(zip(plan.job.clusters, halves, strict=True))


class OutputOfJoined(Output):
    """A fresh half of sums and sizes over the rows that are joined."""

    reveals = "owners, from both halves: sums and sizes of the joined records"


class Labels(OnRecords):
    """A half of every record's label among the clusters of one k, if the spec offers labels."""

    name, counts_rows = "labels", True
    reveals = "each owner, from both halves: the labels of its records"

    def due(self, plan: KMeansPlan) -> bool:
        return plan.job.labels and bool(_left(plan, plan.labels))

    def tasks(self, plan: KMeansPlan, place: SlotView) -> list[Task]:
        # A worker that did the last tally did it on the assignment that is asked for.
        tallied = "squares" if plan.job.inertia else "members"
        at_hand = place.done.get(tallied) == plan.iteration
        again = [] if at_hand else _again(plan, place, _left(plan, plan.labels)[0])
        first = ready(plan, place) if again else []
        return [*first, *again, self._labels(plan, place), *_own_rows(plan, place)]

    def _labels(self, plan: KMeansPlan, place: SlotView) -> Task:
        return Task("labels", place.names)

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        halves = [half for slot in results.slots for half in results.one(slot, "labels")]
        shards = [shard for slot in results.slots for shard in plan.shards if shard.slot == slot]
        plan.labels[_left(plan, plan.labels)[0]] = self._of_all_rows(plan, shards, halves)
        own = [part for slot in results.slots for part in results.all(slot, "own-rows")]
        if own:
            numbers = [half for part in own for half in part]
            plan.own_rows = self._of_all_rows(plan, shards, numbers)

    def _of_all_rows(
        self, plan: KMeansPlan, shards: Sequence[Shard], halves: Sequence[OutputShare]
    ) -> OutputShare:
        """Halves for all sealed rows, from those of each shard."""
        return OutputShare.joined(halves)


class LabelsOfJoined(Labels):
    """A half of the label of every row of the anchor, and of whether it is joined."""

    reveals = "owners of the anchor: which of their rows are joined, and the labels of these"

    def _labels(self, plan: KMeansPlan, place: SlotView) -> Task:
        k = _left(plan, plan.labels)[0]
        return Task("labels", place.names, inputs=(plan.best[k].sums,))

    def _of_all_rows(
        self, plan: KMeansPlan, shards: Sequence[Shard], halves: Sequence[OutputShare]
    ) -> OutputShare:
        """Zeros for rows of other sides, and of later passes."""
        first = halves[0]
        data = np.zeros((plan.facts.sealed.m, first.data.shape[1]), np.uint8)
        for shard, half in zip(shards, halves, strict=True):
            data[shard.first : shard.first + shard.rows] = half.data
        return OutputShare(first.modulus, data)


class OutputWithoutSizes(Output):
    """A fresh half of centres in whole steps, of the rows that are joined."""

    reveals = "owners, from both halves: centres in whole steps, no sizes"


def table(job: Job) -> Sequence[PlanStep[Any]]:
    """The steps of a job, in the order in which they are due."""
    tested = job.iterations is None
    iterate = Iterate() if tested else IterateWithoutTest()
    update = Update() if tested else UpdateWithoutTest()
    output = Output() if job.join is None else OutputOfJoined()
    output = output if job.sizes else OutputWithoutSizes()
    labels = Labels() if job.join is None else LabelsOfJoined()
    return (
        Compare(), Home(), Start(), Spread(), Pick(), iterate, Assign(), update, Better(), Tally(),
        output, labels,
    )  # fmt: skip


def _whose(plan: KMeansPlan, place: SlotView) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Of joined rows numbers of owners of partners; and of each shard whose its rows are."""
    if isinstance(plan.linking, Joining):
        return plan.linking.whose(place.shards)
    sealed = plan.facts.sealed
    return (), tuple(sealed.owners_of(shard.first, shard.rows) for shard in place.shards)


def _untallied(plan: KMeansPlan) -> list[int]:
    """Those k whose output still lacks something besides its sums."""
    if plan.job.inertia:
        return _left(plan, plan.squares)
    return _left(plan, plan.members) if plan.owners else []


def _left(plan: KMeansPlan, there: Mapping[int, Any]) -> list[int]:
    """Those k that are not there yet."""
    return [k for k in plan.job.clusters if k not in there]


def _own_rows(plan: KMeansPlan, place: SlotView) -> list[Task]:
    """Where there are dummies, owners must find their rows among those that have labels."""
    linking = plan.linking
    if linking is None or not linking.rearranged or plan.own_rows:
        return []
    inputs = tuple((linking.uploads_of(s), linking.first_pass(s)) for s in place.shards)
    return [Task("own-rows", place.names, inputs=inputs)]


def _again(plan: KMeansPlan, place: SlotView, k: int) -> list[Task]:
    """Assign the records once more as the best run of this k did, where that was not the last
    that the worker did."""
    last = (place.done.get(name) for name in ("assign", "iterate"))
    if not plan.job.several_runs and plan.iteration in last:
        return []
    return [Task("assign", place.names, agreed=(0, 0), inputs=((plan.best[k].began,), None))]


def _fetch(wanted: Sequence[Run], place: SlotView) -> list[Task]:
    """Tasks for those of the records that the slot holds."""
    own = [run for run in wanted if run.shard.slot == place.slot]
    return [Task("records", (run.shard.name,), run.rows) for run in own]


def _fetched(wanted: Sequence[Run], results: StepResults) -> Parts:
    """The states of the records, back in cluster order."""
    waiting = {slot: iter(results.all(slot, "records")) for slot in results.slots}
    return tuple(next(waiting[run.shard.slot]) for run in wanted)
