"""One half of a pair as a worker: it meets its peer, then does the tasks of each step.

The same at both clouds but for how it gets its channel and its key. Before each task the two
halves of a pair exchange a header (step, iteration, attempt, task, shards, rows) that must be
equal, so that two clouds out of step end with an error instead of a wrong result.

A worker lives for one job attempt. Its keys and randomness are its own, made where it runs; after
any error it is of no more use and its cloud throws it away.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.crypto.single_use import in_use
from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.pairs.plan import (
    Count,
    Expects,
    Material,
    PairHalf,
    Prepares,
    Step,
    StepName,
    Task,
    pair_kind,
)
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
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
    spec: bytes  # in canonical form
    m: int
    suite: str
    link_timeout: float
    pools: str = ""  # this cloud's folder of supplies made ahead; empty: none are kept

    def hello(self, pair: str) -> dict[str, str]:
        """What both ends of the pair's channel must say alike before anything else."""
        return {"suite": self.suite, "job": self.job, "pair": pair}

    def pools_of(self, pair: str) -> Path | None:
        """The folder of this pair's slot; its supplies outlive a worker, never a use.

        A worker that was given up may still hold that folder (a stopped process does, until its
        cloud has ended it); then the pair has one of its own.
        """
        if not self.pools:
            return None
        folder = pools_of_job(Path(self.pools), self.job)
        slot = folder / pair.partition(".")[0]
        return folder / pair if in_use(slot) else slot


@dataclass(frozen=True, slots=True)
class Effort:
    """What a pair's tasks took: seconds since both halves were there, bytes sent to the other."""

    seconds: float
    sent: int

    def __add__(self, other: "Effort") -> "Effort":
        """One after the other."""
        return Effort(self.seconds + other.seconds, self.sent + other.sent)


class TaskHeader(Body, frozen=True):
    """What both halves of a pair must be about to do."""

    step: Count
    iteration: Count
    attempt: Count
    task: StepName
    shards: tuple[str, ...]
    rows: tuple[Count, ...]


class PairWorker:
    """Base of both clouds' workers; one thread works, another may ask for `progress`."""

    def __init__(self, setup: Setup, role: Cloud, key: PublicKey | SecretKey) -> None:
        self.setup = setup
        self._role, self._key = role, key
        self._spec = Spec.from_bytes(setup.spec)
        self._kind = pair_kind(self._spec)
        self._channel: Channel | None = None
        self._half: PairHalf | None = None
        self._step: Step | None = None
        self._rows_done = 0
        self._met_at: float | None = None

    def open_channel(self) -> tuple[Channel, str]:
        """The channel to the other half, and the name of the pair."""
        raise NotImplementedError

    def progress(self) -> int:
        """Rows taken in or worked on so far in the current step."""
        return self._rows_done

    def run(self, step: Step, attempt: int, tasks: Sequence[Task]) -> tuple[list[Any], Effort]:
        """Do the tasks in order: (what each gives, what all of them took).

        The tasks of a step may come in several calls. The peer is told when they cannot be done.
        """
        if step != self._step:
            self._step, self._rows_done = step, 0
        sent = self._sent()
        self._met_at = None
        try:
            results = [self._do(step, attempt, task) for task in tasks]
            seconds = time.monotonic() - (self._met_at or time.monotonic())
            return results, Effort(seconds, self._sent() - sent)
        except PpodcError as error:
            self._fail(str(error))
            raise
        except Exception as error:
            log.exception("step %s failed", step.name)
            # Only the kind of the error: its words could hold a share.
            self._fail(f"internal error ({type(error).__name__}).")
            raise ChannelError(
                f"internal error in a worker ({type(error).__name__}); its log has the details."
            ) from None

    def cut(self) -> None:
        """Close the channel under whatever is going on."""
        if self._channel is not None:
            self._channel.close()

    def close(self) -> None:
        """Release what the half holds; after `cut`, when nothing goes on any more."""
        if self._half is not None and hasattr(self._half, "close"):
            self._half.close()

    def _meet(self) -> tuple[Channel, PairHalf]:
        if self._channel is None or self._half is None:
            self._channel, pair = self.open_channel()
            material = Material(self._key, self.setup.pools_of(pair))
            self._half = self._kind.open_half(
                self.setup.suite, self._role, self._channel, self._spec, self.setup.m, material
            )
        return self._channel, self._half

    def _do(self, step: Step, attempt: int, task: Task) -> Any:
        channel, half = self._meet()
        ours = TaskHeader(
            step.number, step.iteration, attempt, task.name, tuple(task.shards), tuple(task.rows)
        )
        channel.send(_HEADER, ours)
        theirs = channel.receive(_HEADER, TaskHeader).body
        self._met_at = self._met_at or time.monotonic()
        if theirs != ours:
            raise ChannelError(
                f"the clouds are out of step: here {ours.task} of iteration {ours.iteration}, "
                f"there {theirs.task} of iteration {theirs.iteration}."
            )
        if task.name == "prepare":
            if isinstance(half, Expects):
                half.expect(*task.inputs)
            return self._prepare(half, *task.rows)
        if task.name == "ingest":
            return self._ingest(half, task)
        return self._kind.perform(half, task, self._count)

    def _sent(self) -> int:
        return 0 if self._channel is None else self._channel.traffic.bytes_sent

    def _count(self, rows: int) -> None:
        self._rows_done += rows

    def _ingest(self, half: PairHalf, task: Task) -> None:
        for shard, share in zip(task.shards, task.inputs, strict=True):
            half.ingest(shard, share)
            self._count(len(share))

    def _prepare(self, half: PairHalf, iterations: int, *rows: int) -> None:
        """Fill the pools; progress is told as the rows that the supplies so far would serve."""
        if not isinstance(half, Prepares):
            raise InputError(f"the suite {self.setup.suite!r} makes nothing ahead on disk.")
        work = max(1, half.to_prepare(iterations, rows))
        made = 0

        def count(supplies: int) -> None:
            nonlocal made
            made += supplies
            self._rows_done = min(sum(rows), sum(rows) * made // work)

        half.prepare(iterations, count, rows)
        self._rows_done = sum(rows)

    def _fail(self, text: str) -> None:
        if self._channel is not None:
            self._channel.fail(text)
