"""One cloud's state of a k-means job between its steps (`steps`), and what is kept of it.

A job is one run of k-means or several: for each start every number of clusters that the spec asks
for. Of runs with the same k the best stays (`Best`), and its sums are the result. Iterations are
counted through all runs. The records that a start by k-means++ has chosen serve all its runs; they
are in no checkpoint, since whoever goes on from one chooses the same again.

Where records that several owners hold count once, a linkage comes first (`linking`), and where the
columns of several sides are clustered, a join. Its rounds count as iterations, and each leaves a
checkpoint, but no result counts them.

What owners get are the sums of a run's last iteration as its records were assigned: a record that
re-seeds an empty cluster is nobody's result. Their labels belong to the clusters that this
iteration began with.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ppodc.errors import InputError
from ppodc.kmeans.half import State
from ppodc.kmeans.job import Job
from ppodc.kmeans.kind import CLUSTERS, LABELS, output_name
from ppodc.kmeans.linked.rounds import Linking
from ppodc.kmeans.row_choice import fraction, initial_rows, reseed_rows
from ppodc.linkage.joined.joining import Joining
from ppodc.linkage.outputs import ROWS
from ppodc.linkage.schedule import is_side
from ppodc.pairs.plan import Plan, PlanStep
from ppodc.pairs.shards import Run, Shard, runs
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.records.schema import Schema
from ppodc.service.store import Checkpoint

Part = State | tuple[State, ...]  # clusters, or states of several pairs that add up to them
Parts = tuple[Part, ...]  # one behind the other
TOGETHER_ROWS = 100_000  # so many records are assigned and their clusters updated in one step
SUMS = "sums"  # beside CLUSTERS in a checkpoint
BEGAN = "began"  # in a checkpoint: the clusters that its iteration began with
_PLACE, _BEST = "place", "best"  # in one of a job of several runs
_LINKED = "linked"  # in one of a job with a linkage: iterations that it took


@dataclass(frozen=True, slots=True)
class Best:
    """The best run of one k so far: sums of its last iteration, clusters that it began with."""

    sums: State
    began: Part


@dataclass(frozen=True, slots=True)
class Iterated:
    """The outcome of `update`."""

    clusters: State  # to go on with
    began: State  # those that the iteration began with
    sums: State  # of all pairs
    stop: bool
    scaled: State | None  # of the clusters, for the next `assign` of other pairs


@dataclass(slots=True)
class KMeansPlan(Plan):
    """One cloud's state of a k-means job. `iteration` counts all runs, `begun` the runs before.

    `shards` are those whose records are clustered.
    """

    job: Job
    schema: Schema
    shards: Sequence[Shard]
    steps: Sequence[PlanStep[Any]]
    linking: Linking | Joining | None = None
    linked: int = 0  # iterations that were rounds of the linkage
    run: int = 0
    begun: int = 0
    cut_short: int = 0  # runs that ended by max_iter
    stop: bool = False
    clusters: Parts = ()
    scaled: State | None = None  # of these clusters, if one pair has computed them for all
    began: Parts = ()  # those that the last iteration began with
    sums: tuple[State, ...] = ()
    counted: State | None = None  # sums of the last iteration, from all pairs
    candidates: Parts = ()
    chosen: Parts = ()  # by k-means++, for the start `chosen_for`
    chosen_for: int | None = None
    totals: tuple[State, ...] = ()  # of squared distances to the chosen, by slot
    best: dict[int, Best] = field(default_factory=dict)
    squares: dict[int, tuple[State, ...]] = field(default_factory=dict)
    members: dict[int, tuple[State, ...]] = field(default_factory=dict)  # of clusters, by owner
    outputs: dict[int, list[OutputShare]] = field(default_factory=dict)  # by owner, or for all
    labels: dict[int, OutputShare] = field(default_factory=dict)
    own_rows: OutputShare | None = None  # which of its owner's each row is, where there are dummies

    @property
    def table(self) -> Sequence[PlanStep[Any]]:
        return self.steps

    @property
    def m(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def slots(self) -> list[int]:
        """The slots that hold records to cluster: all, unless a join leaves fewer than pairs."""
        return sorted({shard.slot for shard in self.shards})

    @property
    def together(self) -> bool:
        """Whether one pair does an iteration in one step: it has all records, and they are few.

        What fails is repeated from its beginning, so a long iteration has two steps.
        """
        return self.pairs == 1 and self.m <= TOGETHER_ROWS

    @property
    def owners(self) -> list[str]:
        """The owners for each of whom it is decided which clusters are told; none: for all.

        A joined row has columns of every side. It is an owner's own if its row of a side that
        several owners share is.
        """
        if isinstance(self.linking, Joining):
            told = self.job.min_size > 1 or self.linking.columns.join.least > 1
            return self.linking.owners if told else []
        return [] if self.job.min_size == 1 else self.facts.sealed.told_apart

    @property
    def runs(self) -> list[tuple[int, int]]:
        """(start, k) of each run, in order."""
        return [(start, k) for start in range(self.job.n_init) for k in self.job.clusters]

    @property
    def max_iter(self) -> int:
        linking = self.linking
        ahead = 0 if linking is None else len(linking.rounds) + (not linking.home)
        return self.linked + ahead + self.job.max_iter * len(self.runs)

    @property
    def links(self) -> bool:
        """Whether the linkage is not over yet."""
        return self.linking is not None and not self.linking.over

    def in_turn(self, shard: Shard) -> bool:
        """Uploads are taken in for comparisons first, then records to cluster."""
        return is_side(shard.name) == (self.links and not self.prepare)

    @property
    def over(self) -> bool:
        """Whether all runs are over, and the best of each k is known."""
        return self.run == len(self.runs)

    @property
    def start(self) -> int:
        return self.runs[self.run][0]

    @property
    def k(self) -> int:
        return self.runs[self.run][1]

    @property
    def run_over(self) -> bool:
        """Whether the current run has done its last iteration."""
        done = self.iteration - self.begun
        return not self.over and done > 0 and (self.stop or done >= self.job.max_iter)

    @property
    def goes_on(self) -> bool:
        """Whether another iteration may follow the one that comes."""
        return self.left > 0 or self.run + 1 < len(self.runs)

    @property
    def left(self) -> int:
        """The number of iterations of the run that may follow the next one."""
        return self.job.max_iter - (self.iteration + 1 - self.begun)

    @property
    def spreads(self) -> bool:
        """Whether the next run waits for k-means++ to choose its records."""
        return self.job.init == "k-means++" and not self.over and not self.clusters

    def initial(self) -> list[Run]:
        """The records of known rows that a run begins with; none if its centres are public."""
        if not self.job.from_records:
            return []
        wanted = 1 if self.job.init == "k-means++" else self.k
        return runs(initial_rows(self.job.seed, self.m, wanted, self.start), self.shards)

    def word(self) -> int:
        """The public fraction by which the next record is chosen, times 2^64."""
        return fraction(self.job.seed, len(self.chosen), self.start)

    def stand_ins(self) -> list[Run]:
        """The records that re-seed clusters which the coming iteration leaves empty."""
        coming = self.iteration - self.begun + 1
        rows = reseed_rows(self.job.seed, coming, self.m, self.k, self.start)
        return runs(rows, self.shards)

    # ----------------------------------------------------------------- moving

    def link(self, act: Callable[[Any], None]) -> None:
        """A step of the linkage is done; after the last, records are taken in to be clustered."""
        if self.linking is None:
            raise InputError("this job links no records.")
        after, count = copy(self.linking), self.iteration + 1
        act(after)
        self.facts.save(Checkpoint(count, False, _of_linking(after, count), event=""))
        self.linking, self.iteration, self.linked, self.begun = after, count, count, count
        self.ready = self.links

    def choose(self, more: Parts) -> None:
        """Records that the start has chosen; the run begins when there are enough."""
        self.chosen, self.chosen_for, self.totals = (*self.chosen, *more), self.start, ()
        self._begin()

    def iterated(self, done: Iterated) -> None:
        """An iteration is done: it is on disk before anything follows.

        All but `scaled`, which every pair can compute itself.
        """
        state = {CLUSTERS: done.clusters, SUMS: done.sums, BEGAN: done.began, **self._of_runs()}
        state |= _of_linking(self.linking, self.linked)
        checkpoint = Checkpoint(self.iteration + 1, done.stop, state)
        if self.job.iterations is not None:  # no stop bit was opened
            checkpoint = replace(checkpoint, event="")
        self.facts.save(checkpoint)
        self.iteration, self.stop, self.counted = self.iteration + 1, done.stop, done.sums
        self.began, self.clusters, self.scaled = (done.began,), (done.clusters,), done.scaled
        self.sums, self.candidates = (), ()
        self._end_first()

    def end_run(self, best: Best) -> None:
        """The run is over, and so is its comparison with those of the same k before."""
        self.best[self.k] = best
        self.cut_short += not self.stop
        self.run, self.begun, self.stop = self.run + 1, self.iteration, False
        self.clusters, self.scaled, self.began, self.counted = (), None, (), None
        self._begin()

    def last(self) -> Best:
        """The outcome of the last iteration."""
        if self.counted is None:
            raise InputError("the job has no sums yet.")
        return Best(self.counted, self.began[0] if self.began else ())

    def _begin(self) -> None:
        """Take the records that are chosen, if they are of this start and all are there."""
        if self.spreads and self.chosen_for == self.start and len(self.chosen) == self.job.k:
            self.clusters = self.chosen[: self.k]

    def _end_first(self) -> None:
        """The first run of a k has nobody to be compared with."""
        if self.run_over and self.k not in self.best:
            self.end_run(self.last())

    # ------------------------------------------------------------ checkpoints

    def _of_runs(self) -> dict[str, State]:
        """The place of a job of several runs, and the best runs so far."""
        if not self.job.several_runs:
            return {}
        arrays: dict[str, State] = {
            _PLACE: np.array([self.run, self.begun, self.cut_short], np.uint64)
        }
        for k, best in self.best.items():
            for name, array in ((SUMS, best.sums), (BEGAN, best.began)):
                if not isinstance(array, tuple):
                    arrays[f"{_BEST}-{k}-{name}"] = array
        return arrays

    def can_go_on_from(self, checkpoint: Checkpoint, kept: set[int]) -> bool:
        """A finished iteration is of use only with its sums and, where records are assigned once
        more, the clusters that it began with: older releases kept those in the checkpoint before,
        or not at all."""
        arrays, linked = checkpoint.arrays, 0
        if self.linking is not None:
            if not self.linking.fits(arrays) or _LINKED not in arrays:
                return False
            linked = int(arrays[_LINKED][0])
        if CLUSTERS not in arrays:
            return self.linking is not None
        final = checkpoint.stop or checkpoint.iteration - linked >= self.job.max_iter
        if not final or self.job.several_runs:
            return True
        again = self.job.labels or self.job.inertia or bool(self.owners)
        has_began = BEGAN in arrays or checkpoint.iteration - 1 in kept
        return (has_began or not again) and SUMS in arrays

    def restore(self, checkpoint: Checkpoint, previous: Checkpoint | None) -> None:
        arrays = checkpoint.arrays
        self.iteration, self.stop = checkpoint.iteration, checkpoint.stop
        if self.linking is not None:
            self.linking.restore(arrays)
            self.linked = self.begun = int(arrays[_LINKED][0])
        if CLUSTERS not in arrays:  # the linkage is not over, or has just ended
            return
        self.clusters, self.counted = (arrays[CLUSTERS],), arrays.get(SUMS)
        if previous is not None and CLUSTERS in previous.arrays:
            self.began = (previous.arrays[CLUSTERS],)
        if BEGAN in arrays:
            self.began = (arrays[BEGAN],)
        if _PLACE in arrays:
            self.run, self.begun, self.cut_short = arrays[_PLACE].tolist()
        for k in self.job.clusters:
            if f"{_BEST}-{k}-{SUMS}" in arrays:
                sums, began = (arrays[f"{_BEST}-{k}-{name}"] for name in (SUMS, BEGAN))
                self.best[k] = Best(sums, began)
        self._end_first()

    def result(self) -> ResultShare:
        if set(self.outputs) != set(self.job.clusters):
            raise InputError("the job has no output yet.")
        converged = None if self.job.iterations is not None else not self.cut_short
        facts = {"n_iter": self.iteration - self.linked, "converged": converged}
        rows = {} if self.own_rows is None else {ROWS: self.own_rows}
        rows |= {output_name(self.job, LABELS, k): half for k, half in self.labels.items()}
        halves = {output_name(self.job, CLUSTERS, k): by for k, by in self.outputs.items()}
        if not self.owners:
            return ResultShare(facts, {name: half for name, (half,) in halves.items()}, rows)
        own = {name: dict(zip(self.owners, by, strict=True)) for name, by in halves.items()}
        return ResultShare(facts, {}, rows, own)


def _of_linking(linking: Linking | Joining | None, linked: int) -> dict[str, State]:
    """A checkpoint's part from linking: its state and its number of iterations."""
    if linking is None:
        return {}
    return {**linking.kept(), _LINKED: np.array([linked], np.uint64)}
