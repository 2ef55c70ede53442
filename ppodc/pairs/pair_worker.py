"""One half of a pair as a worker process: it meets its peer, then does the tasks of each step.

The same at both clouds but for how it gets its channel and its key. Before each task the two
halves of a pair exchange a header (step, iteration, attempt, task, shards, rows) that must be
equal, so that two clouds out of step end with an error instead of a wrong result.

A worker lives for one job attempt. Its keys and randomness are its own, made in its process; after
any error it is of no more use and its cloud throws it away.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.kmeans.half import Half, Parameters, Prepares, State
from ppodc.kmeans.suites import Suite
from ppodc.pairs.shards import Count, Step, Task, TaskKind
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Body

_HEADER = "task"
LINK_TIMEOUT = 120.0  # seconds without a message after which a pair is given up

log = logging.getLogger(__name__)


def pools_of_job(pools: Path, job: str) -> Path:
    """The folder of all slots of a job."""
    return pools / job.replace("/", "-")


@dataclass(frozen=True, slots=True)
class Setup:
    """The public facts of a job that a worker needs; `job` names it at both clouds."""

    job: str
    suite: Suite
    m: int
    l: int
    k: int
    ub: int
    beta: str
    link_timeout: float
    pool: int = 0
    pools: str = ""  # this cloud's folder of supplies made ahead; empty: none are kept

    @property
    def params(self) -> Parameters:
        return Parameters(self.m, self.l, self.k, self.ub, Fraction(self.beta))

    def hello(self, pair: str) -> dict[str, str]:
        """What both ends of the pair's channel must say alike before anything else."""
        return {"suite": self.suite, "job": self.job, "pair": pair}

    def pools_of(self, pair: str) -> Path | None:
        """The folder of this pair's slot; its supplies outlive a worker, never a use."""
        if not self.pools:
            return None
        return pools_of_job(Path(self.pools), self.job) / pair.partition(".")[0]


class TaskHeader(Body, frozen=True):
    """What both halves of a pair must be about to do."""

    step: Count
    iteration: Count
    attempt: Count
    kind: TaskKind
    shards: tuple[str, ...]
    rows: tuple[Count, ...]


class PairWorker:
    """Base of both clouds' workers; one thread works, another may ask for `progress`."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._channel: Channel | None = None
        self._half: Half | None = None
        self._rows_done = 0
        self._met_at: float | None = None
        self._sizes: dict[str, int] = {}

    def meet(self) -> tuple[Channel, Half]:
        """Open the channel to the other half, and this half over it."""
        raise NotImplementedError

    def progress(self) -> int:
        """Rows taken in or assigned so far in the current step."""
        return self._rows_done

    def run(self, step: Step, attempt: int, tasks: Sequence[Task]) -> tuple[list[Any], float]:
        """Do the tasks in order: (what each gives, seconds since both halves were there).

        The peer is told when they cannot be done.
        """
        self._rows_done = 0
        self._met_at = None
        try:
            if self._channel is None or self._half is None:
                self._channel, self._half = self.meet()
            pair = (self._channel, self._half)
            results = [self._do(*pair, step, attempt, task) for task in tasks]
            return results, time.monotonic() - (self._met_at or time.monotonic())
        except PpodcError as error:
            self._fail(str(error))
            raise
        except Exception as error:
            log.exception("step %s failed", step.kind)
            # Only the kind of the error: its words could hold a share.
            self._fail(f"internal error ({type(error).__name__}).")
            raise ChannelError(
                f"internal error in a worker ({type(error).__name__}); its log has the details."
            ) from None

    def _do(self, channel: Channel, half: Half, step: Step, attempt: int, task: Task) -> Any:
        own = TaskHeader(
            step.number, step.iteration, attempt, task.kind, tuple(task.shards), tuple(task.rows)
        )
        channel.send(_HEADER, own)
        other = channel.receive(_HEADER, TaskHeader).body
        self._met_at = self._met_at or time.monotonic()
        if other != own:
            raise ChannelError(
                f"the clouds are out of step: here {own.kind} of iteration {own.iteration}, "
                f"there {other.kind} of iteration {other.iteration}."
            )
        return self._perform(half, task)

    def _perform(self, half: Half, task: Task) -> Any:
        if task.kind == "prepare":
            self._prepare(half, *task.rows)
            return None
        if task.kind == "ingest":
            for shard, share in zip(task.shards, task.inputs, strict=True):
                half.ingest(shard, share)
                self._sizes[shard] = len(share)
                self._rows_done += len(share)
            return None
        if task.kind == "records":
            return half.records(task.shards[0], task.rows)
        if task.kind == "centres":
            return half.centres(task.inputs[0])
        if task.kind == "assign":
            clusters = _joined(half, task.inputs)
            return half.add([self._assign(half, shard, clusters) for shard in task.shards])
        if task.kind == "labels":
            return [half.labels(shard) for shard in task.shards]
        if task.kind == "output":
            return half.output(_joined(half, task.inputs))
        clusters, sums, candidates = task.inputs
        return half.update(_joined(half, clusters), half.add(sums), _joined(half, candidates))

    def _prepare(self, half: Half, iterations: int, *rows: int) -> None:
        """Fill the pools; progress is told as the rows that the supplies so far would serve."""
        if not isinstance(half, Prepares):
            raise InputError(f"the suite {self.setup.suite!r} makes nothing ahead on disk.")
        work = max(1, half.to_prepare(iterations, rows))
        made = 0

        def count(transfers: int) -> None:
            nonlocal made
            made += transfers
            self._rows_done = min(sum(rows), sum(rows) * made // work)

        half.prepare(iterations, count, rows)
        self._rows_done = sum(rows)

    def _assign(self, half: Half, shard: str, clusters: State) -> State:
        end = self._rows_done + self._sizes[shard]

        def count(rows: int) -> None:
            self._rows_done = min(self._rows_done + rows, end)

        sums = half.assign(shard, clusters, count)
        self._rows_done = end
        return sums

    def _fail(self, text: str) -> None:
        if self._channel is not None:
            self._channel.fail(text)


def _joined(half: Half, parts: Sequence[State]) -> State:
    if not parts:
        raise InputError("a step came without clusters.")
    return parts[0] if len(parts) == 1 else half.join(parts)
