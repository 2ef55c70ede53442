"""Tasks of a step on one half of a pair: both halves agree on each before they do it.

The halves exchange headers (step, iteration, attempt, task, shards, agreed integers) that must be
equal, so that two clouds out of step end with an error instead of a wrong result. A header is
public to both clouds and holds no value of a record.

Nobody waits for a header: a half begins at once, and compares before it uses the first thing that
the peer sends. By then it has sent what its task begins with, which is masked whatever the peer is
at. So a task costs no wait of its own over a slow link.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
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


class Headers(Body, frozen=True):
    """The tasks that one half of a pair is about to do, in order."""

    tasks: Annotated[tuple[TaskHeader, ...], msgspec.Meta(min_length=1)]


@contextmanager
def agreed(
    channel: Channel,
    step: Step,
    attempt: int,
    tasks: Sequence[Task],
    met: Callable[[float], None] = lambda _: None,
) -> Iterator[None]:
    """Inside, these tasks may be done; ChannelError if they are not the other half's.

    `met` is called when the other half is there with the same tasks, with the seconds that this one
    has waited for it. No tasks, no header.
    """
    if not tasks:
        yield
        return
    ours = Headers(
        tuple(
            TaskHeader(
                step.number,
                step.iteration,
                attempt,
                task.name,
                tuple(task.shards),
                tuple(task.agreed),
            )
            for task in tasks
        )
    )

    def compare(theirs: Headers, waited: float) -> None:
        if theirs != ours:
            raise ChannelError(
                f"the clouds are out of step: here {_text(ours)}, there {_text(theirs)}."
            )
        met(waited)

    channel.send(_HEADER, ours)
    channel.check_first(_HEADER, Headers, compare)
    yield
    channel.settle()  # tasks that receive nothing


def _text(headers: Headers) -> str:
    names = ", ".join(header.task for header in headers.tasks)
    return f"{names} of iteration {headers.tasks[0].iteration}"


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
