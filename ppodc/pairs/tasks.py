"""Tasks of a step on one half of a pair: both halves agree on each before they do it.

The halves exchange a header (step, iteration, attempt, task, shards, agreed integers) that must be
equal, so that two clouds out of step end with an error instead of a wrong result. A header is
public to both clouds and holds no value of a record.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import ChannelError
from ppodc.pairs.cloud_side import CloudSide, PairHalf
from ppodc.pairs.plan import Count, Progress, Step, StepName, Task
from ppodc.pairs.shards import Shard
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Body

_HEADER = "task"


class TaskHeader(Body, frozen=True):
    """The task that one half of a pair is about to do."""

    step: Count
    iteration: Count
    attempt: Count
    task: StepName
    shards: tuple[str, ...]
    agreed: tuple[Count, ...]


def agree(channel: Channel, step: Step, attempt: int, task: Task) -> None:
    """Compare the task with the other half's; ChannelError if they differ."""
    ours = TaskHeader(
        step.number, step.iteration, attempt, task.name, tuple(task.shards), tuple(task.agreed)
    )
    channel.send(_HEADER, ours)
    theirs = channel.receive(_HEADER, TaskHeader).body
    if theirs != ours:
        raise ChannelError(
            f"the clouds are out of step: here {ours.task} of iteration {ours.iteration}, "
            f"there {theirs.task} of iteration {theirs.iteration}."
        )


def ingest(shard: Shard, rows: NDArray[np.uint64]) -> Task:
    """The task of taking in a shard: this cloud's share of its rows."""
    return Task("ingest", (shard.name,), inputs=(rows,))


def do_task(side: CloudSide, half: PairHalf, task: Task, progress: Progress) -> Any:
    """Do a task of any step; `progress` counts records."""
    if task.name == "prepare":
        half.expect(*task.inputs)
        return _prepare(half, *task.agreed, progress=progress)
    if task.name == "ingest":
        for shard, share in zip(task.shards, task.inputs, strict=True):
            half.ingest(shard, share)
            progress(len(share))
        return None
    return side.perform(half, task, progress)


def _prepare(half: PairHalf, iterations: int, *rows: int, progress: Progress) -> None:
    """Fill the pools; progress is the rows that the supplies made so far would serve."""
    work, whole = max(1, half.to_prepare(iterations, rows)), sum(rows)
    made = served = 0

    def count(supplies: int) -> None:
        nonlocal made, served
        made += supplies
        before, served = served, min(whole, whole * made // work)
        progress(served - before)

    half.prepare(iterations, count, rows)
    progress(whole - served)
