"""The steps of a k-means job: start | (assign, update) for each iteration | output | labels.

`update` and `output` are cluster-scale and run on one pair, the lead; the other steps run on every
pair that holds records for them. Each cloud keeps its own states; both know which step comes next.

Who learns what: both clouds learn the number of iterations and the stop bit of each, which `update`
opens. `output` and `labels` give each cloud a half that only an owner adds up. What owners get are
the sums of the last iteration as its records were assigned: a record that re-seeds an empty cluster
is nobody's result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ppodc.errors import InputError
from ppodc.kmeans.half import DropsDuplicates, Half, State
from ppodc.kmeans.job import Job
from ppodc.kmeans.result import CLUSTERS, LABELS, SUMS
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.pairs.plan import LEAD, BaseStep, Place, PlanStep, Progress, StepResults, Task
from ppodc.pairs.shards import Run, Shard, runs
from ppodc.records.output_half import OutputHalf, ResultHalf
from ppodc.records.schema import Schema
from ppodc.service.store import Checkpoint
from ppodc.service.store.uploads import Sealed

Parts = tuple[State, ...]  # states of clusters, one behind the other


@dataclass(slots=True)
class KMeansPlan:
    """One cloud's state of the job."""

    job: Job
    schema: Schema
    sealed: Sealed
    shards: Sequence[Shard]
    pairs: int
    save: Callable[[Checkpoint], None]
    prepare: int = 0
    ready: bool = False
    iteration: int = 0
    stop: bool = False
    clusters: Parts = ()
    previous: Parts = ()  # those that the last iteration began with; labels belong to them
    sums: Parts = ()
    counted: State | None = None  # sums of the last iteration, from all pairs
    candidates: Parts = ()
    output: OutputHalf | None = None
    labels: OutputHalf | None = None
    table: Sequence[PlanStep[Any]] = field(default_factory=lambda: TABLE)

    @property
    def m(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def max_iter(self) -> int:
        return self.job.max_iter

    @property
    def finished(self) -> bool:
        """Whether no further iteration follows."""
        return self.iteration > 0 and (self.stop or self.iteration >= self.max_iter)

    def initial(self) -> list[Run]:
        """The records that the clusters start from; none if the centres are public."""
        if not self.job.from_records:
            return []
        return runs(initial_rows(self.job.seed, self.m, self.job.k), self.shards)

    def stand_ins(self) -> list[Run]:
        """The records that re-seed clusters which the coming iteration leaves empty."""
        rows = reseed_rows(self.job.seed, self.iteration + 1, self.m, self.job.k)
        return runs(rows, self.shards)

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        """A finished iteration is of use only with its sums, which older releases did not keep,
        and, for labels, with the clusters that it began with, which the one before it has."""
        final = checkpoint.stop or checkpoint.iteration >= self.max_iter
        has_labels = not self.job.labels or checkpoint.iteration - 1 in kept
        return not final or (has_labels and SUMS in checkpoint.arrays)

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        self.iteration, self.stop = checkpoint.iteration, checkpoint.stop
        self.clusters = (checkpoint.arrays[CLUSTERS],)
        self.counted = checkpoint.arrays.get(SUMS)
        self.previous = () if previous is None else (previous.arrays[CLUSTERS],)

    def result(self) -> ResultHalf:
        if self.output is None:
            raise InputError("the job has no output yet.")
        facts = {"n_iter": self.iteration, "converged": self.stop}
        rows = {} if self.labels is None else {LABELS: self.labels}
        return ResultHalf(facts, {CLUSTERS: self.output}, rows)


class Start(BaseStep[KMeansPlan]):
    """The first clusters: one record each, or the public centres."""

    name = "start"

    def due(self, plan: KMeansPlan) -> bool:
        return not plan.clusters

    def slots(self, plan: KMeansPlan) -> list[int]:
        return sorted({run.shard.slot for run in plan.initial()}) or [LEAD]

    def tasks(self, plan: KMeansPlan, place: Place) -> list[Task]:
        centres = plan.job.initial_centres(plan.schema)
        if centres is not None:
            return [Task("centres", inputs=(centres,))]
        return _fetch(plan.initial(), place)

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.clusters = _fetched(plan.initial(), results) or (results.one(LEAD, "centres"),)


class Assign(BaseStep[KMeansPlan]):
    """Every record to its nearest cluster, summed on each pair; stand-ins for empty clusters."""

    name, counts_rows = "assign", True

    def due(self, plan: KMeansPlan) -> bool:
        return not plan.finished and not plan.sums

    def iteration(self, plan: KMeansPlan) -> int:
        return plan.iteration + 1

    def tasks(self, plan: KMeansPlan, place: Place) -> list[Task]:
        fetch = _fetch(plan.stand_ins(), place)
        if plan.job.dedup is not None and "dedup" not in place.done:  # once for each worker
            flat = tuple(number for upload in plan.sealed.owned_rows for number in upload)
            fetch.append(Task("dedup", place.names, rows=flat, inputs=(plan.job.dedup,)))
        return [*fetch, Task("assign", place.names, inputs=plan.clusters)]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.candidates = _fetched(plan.stand_ins(), results)
        plan.sums = tuple(results.one(slot, "assign") for slot in results.slots)


class Update(BaseStep[KMeansPlan]):
    """New clusters from the sums of all pairs, and the public stop bit; then a checkpoint."""

    name, uses_records = "update", False
    reveals = "both clouds: the stop bit"

    def due(self, plan: KMeansPlan) -> bool:
        return not plan.finished

    def iteration(self, plan: KMeansPlan) -> int:
        return plan.iteration + 1

    def slots(self, plan: KMeansPlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: KMeansPlan, place: Place) -> list[Task]:
        return [Task("update", inputs=(plan.clusters, plan.sums, plan.candidates))]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        clusters, plan.counted, stop = results.one(LEAD, "update")
        state = {CLUSTERS: clusters, SUMS: plan.counted}
        plan.save(Checkpoint(plan.iteration + 1, stop, state))
        plan.iteration, plan.stop = plan.iteration + 1, stop
        plan.previous, plan.clusters = plan.clusters, (clusters,)
        plan.sums = plan.candidates = ()


class Output(BaseStep[KMeansPlan]):
    """A fresh half of sums and sizes for the owners."""

    name, uses_records = "output", False
    reveals = "owners, from both halves: sums and sizes"

    def due(self, plan: KMeansPlan) -> bool:
        return plan.output is None

    def slots(self, plan: KMeansPlan) -> list[int]:
        return [LEAD]

    def tasks(self, plan: KMeansPlan, place: Place) -> list[Task]:
        return [Task("output", inputs=(plan.counted,))]

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        plan.output = results.one(LEAD, "output")


class Labels(BaseStep[KMeansPlan]):
    """A half of every record's label, if the spec offers labels."""

    name, counts_rows = "labels", True
    reveals = "each owner, from both halves: the labels of its records"

    def due(self, plan: KMeansPlan) -> bool:
        return plan.job.labels and plan.labels is None

    def tasks(self, plan: KMeansPlan, place: Place) -> list[Task]:
        tasks = [Task("labels", place.names)]
        if place.done.get("assign") != plan.iteration:  # its worker is new: assign again
            tasks.insert(0, Task("assign", place.names, inputs=plan.previous))
        return tasks

    def keep(self, plan: KMeansPlan, results: StepResults) -> None:
        halves = [half for slot in results.slots for half in results.one(slot, "labels")]
        plan.labels = OutputHalf.joined(halves)


TABLE: Sequence[PlanStep[Any]] = (Start(), Assign(), Update(), Output(), Labels())


def _fetch(wanted: Sequence[Run], place: Place) -> list[Task]:
    """Tasks for those of the records that the slot holds."""
    own = [run for run in wanted if run.shard.slot == place.slot]
    return [Task("records", (run.shard.name,), run.rows) for run in own]


def _fetched(wanted: Sequence[Run], results: StepResults) -> Parts:
    """The states of the records, back in cluster order."""
    waiting = {slot: iter(results.all(slot, "records")) for slot in results.slots}
    return tuple(next(waiting[run.shard.slot]) for run in wanted)


# ------------------------------------------------------------------------- at a worker


def perform(half: Half, task: Task, progress: Progress) -> Any:
    """What a worker's half does for each task of the plan."""
    return _PERFORM[task.name](half, task, progress)


def _assign(half: Half, task: Task, progress: Progress) -> State:
    clusters = _joined(half, task.inputs)
    return half.add([half.assign(shard, clusters, progress) for shard in task.shards])


def _update(half: Half, task: Task, _progress: Progress) -> tuple[State, State, bool]:
    """(clusters to go on with, sums of all pairs, stop bit)."""
    clusters, parts, candidates = task.inputs
    sums = half.add(parts)
    new, stop = half.update(_joined(half, clusters), sums, _joined(half, candidates))
    return new, sums, stop


def _dedup(half: Half, task: Task, _progress: Progress) -> None:
    if not isinstance(half, DropsDuplicates):
        raise InputError("only the shares suite drops duplicates.")
    uploads = list(zip(task.rows[0::2], task.rows[1::2], strict=True))
    half.drop_duplicates(task.inputs[0], task.shards, uploads)


_PERFORM: dict[str, Callable[[Half, Task, Progress], Any]] = {
    "records": lambda half, task, _: half.records(task.shards[0], task.rows),
    "dedup": _dedup,
    "centres": lambda half, task, _: half.centres(task.inputs[0]),
    "assign": _assign,
    "update": _update,
    "output": lambda half, task, _: half.output(task.inputs[0]),
    "labels": lambda half, task, _: [half.labels(shard) for shard in task.shards],
}


def _joined(half: Half, parts: Sequence[State]) -> State:
    if not parts:
        raise InputError("a step came without clusters.")
    return parts[0] if len(parts) == 1 else half.join(parts)
