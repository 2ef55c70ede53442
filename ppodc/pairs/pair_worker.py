"""One half of a pair as a worker: it meets its peer, then does the tasks of each step.

The same at both clouds but for how it gets its channel and its key.

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
from ppodc.crypto.split_paillier import KeyShare
from ppodc.errors import ChannelError, PpodcError
from ppodc.kinds import cloud_side
from ppodc.pairs.cloud_side import Material, PairHalf
from ppodc.pairs.plan import Step, Task
from ppodc.pairs.recording import Recorder, Recording
from ppodc.pairs.tasks import agreed, do_task
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.transport.channel import Channel
from ppodc.transport.message_log import Heads

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
        """The hello of a pair's channel, which both ends must send alike."""
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
class StepCost:
    """The cost of a pair's tasks: seconds without the wait for the other half to come, bytes sent.

    `heads` are the running digests after them, if the pair keeps a record.
    """

    seconds: float
    sent: int
    heads: Heads | None = None

    def __add__(self, other: "StepCost") -> "StepCost":
        """The cost of two pieces of work, one after the other."""
        return StepCost(self.seconds + other.seconds, self.sent + other.sent, other.heads)


class PairWorker:
    """Base of both clouds' workers; one thread works, another may ask for `progress`."""

    def __init__(
        self, setup: Setup, role: Cloud, key: PublicKey | SecretKey | KeyShare | None
    ) -> None:
        self.setup = setup
        self._role, self._key = role, key
        self._side = cloud_side(Spec.from_bytes(setup.spec))
        self._channel: Channel | None = None
        self._half: PairHalf | None = None
        self._step: Step | None = None
        self._rows_done = 0
        self._began: float | None = None  # when it began to work, less the wait for the other half
        self._recorder: Recorder | None = None
        self._is_cut = False

    def open_channel(self) -> tuple[Channel, str]:
        """The channel to the other half, and the name of the pair."""
        raise NotImplementedError

    def keep_record(self, recording: Recording | None) -> None:
        """Draw from this seed alone and keep a record, if there is a recording to make."""
        self._recorder = None if recording is None else Recorder(recording)

    def progress(self) -> int:
        """Rows taken in or worked on so far in the current step."""
        return self._rows_done

    def run(self, step: Step, attempt: int, tasks: Sequence[Task]) -> tuple[list[Any], StepCost]:
        """Do the tasks in order: (what each gives, what all of them took).

        The tasks of a step may come in several calls. The other half hears of a failure.
        """
        if step != self._step:
            self._step, self._rows_done = step, 0
        sent = self._sent()
        self._began = None
        try:
            if self._recorder is not None:
                self._recorder.begin(step.number, attempt)
            results = self._do(step, attempt, tasks) if tasks else []
            seconds = 0.0 if self._began is None else time.monotonic() - self._began
            heads = None if self._recorder is None else self._recorder.flush()
            return results, StepCost(seconds, self._sent() - sent, heads)
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
        """Close the channel under whatever is going on, or as soon as it is open."""
        self._is_cut = True
        if self._channel is not None:
            self._channel.close()

    def close(self) -> None:
        """Release what the half holds; after `cut`, when nothing goes on any more."""
        if self._half is not None:
            self._half.close()
        if self._recorder is not None:
            self._recorder.close()

    def _meet(self) -> tuple[Channel, PairHalf]:
        if self._channel is None or self._half is None:
            self._channel, pair = self.open_channel()
            if self._is_cut:
                self._channel.close()
            secrets = None if self._recorder is None else self._recorder.attach(self._channel)
            material = Material(self._key, self.setup.pools_of(pair), secrets)
            self._half = self._side.open_half(
                self.setup.suite, self._role, self._channel, self.setup.m, material
            )
        return self._channel, self._half

    def _do(self, step: Step, attempt: int, tasks: Sequence[Task]) -> list[Any]:
        channel, half = self._meet()
        began = self._began = time.monotonic()

        def met(waited: float) -> None:
            self._began = began + waited

        with agreed(channel, step, attempt, tasks, met):
            return [do_task(self._side, half, task, self._count) for task in tasks]

    def _sent(self) -> int:
        return 0 if self._channel is None else self._channel.traffic.bytes_sent

    def _count(self, rows: int) -> None:
        self._rows_done += rows

    def _fail(self, text: str) -> None:
        if self._channel is not None:
            self._channel.fail(text)
