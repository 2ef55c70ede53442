"""The steps of a job and who does what in them, derived from public facts alone.

Both clouds compute this plan from the spec, the number of sealed rows and the number of pairs.
The master only names the step; which rows and shards it touches, C2 works out itself and
refuses whatever does not follow.

Ahead of a job, `prepare` fills the pools of every pair. A job is: ingest | start | (assign, update)
per iteration | output | labels. `update` and `output` are cluster-scale and run on one pair, the
lead; the other steps run on every pair that holds rows for them.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec

from ppodc.transport.wire import Body

LEAD = 0  # the slot that does cluster-scale work
SHARD_ROWS = 4096  # no shard is cut smaller: each costs its own rounds in every iteration
MAX_ATTEMPTS = 3  # runs of one step on one slot before the job gives up

StepKind = Literal["prepare", "ingest", "start", "assign", "update", "output", "labels"]
TaskKind = Literal[
    "prepare", "ingest", "records", "centres", "assign", "update", "output", "labels"
]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]


class Step(Body, frozen=True):
    """One step; `number` counts the steps of a session from 1, `iteration` those of the job."""

    number: Count
    kind: StepKind
    iteration: Count


@dataclass(frozen=True, slots=True)
class Shard:
    """A contiguous range of sealed rows; `slot` is the place of the pair that holds it."""

    name: str
    first: int
    rows: int
    slot: int


@dataclass(frozen=True, slots=True)
class Run:
    """Clusters next to each other in order whose records lie in one shard; rows within it."""

    shard: Shard
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker does in a step. `inputs` are its own cloud's and stay out of every log."""

    kind: TaskKind
    shards: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    inputs: tuple[Any, ...] = field(default=(), repr=False)


def split(m: int, pairs: int, most_per_pair: int) -> list[Shard]:
    """Rows 0..m-1 as shards of nearly equal size, as many on each slot."""
    per_slot = max(1, min(most_per_pair, m // (pairs * SHARD_ROWS)))
    edges = [i * m // (pairs * per_slot) for i in range(pairs * per_slot + 1)]
    return [
        Shard(f"{first}-{end}", first, end - first, i // per_slot)
        for i, (first, end) in enumerate(itertools.pairwise(edges))
    ]


def usable_pairs(m: int, pairs: int) -> int:
    """No more pairs than rows: every slot must hold at least one."""
    return max(1, min(m, pairs))


def runs(rows: Iterable[int], shards: Sequence[Shard]) -> list[Run]:
    """The rows, in order, as the fewest runs that each lie in one shard."""
    found: list[Run] = []
    for row in rows:
        shard = next(s for s in shards if s.first <= row < s.first + s.rows)
        local = row - shard.first
        if found and found[-1].shard == shard:
            found[-1] = Run(shard, (*found[-1].rows, local))
        else:
            found.append(Run(shard, (local,)))
    return found


def resume_point(
    first: Iterable[int], second: Iterable[int], final: Iterable[int], *, labels: bool
) -> int | None:
    """The latest iteration that both clouds can go on from; None means from the start.

    Labels belong to the clusters that the last iteration began with, so a finished iteration (one
    of `final`) is of use only together with the one before it.
    """
    both = set(first) & set(second)
    ends = set(final)
    usable = [i for i in both if i not in ends or not labels or i - 1 in both]
    return max(usable, default=None)
