"""An owner's fetching of a result: halves from every cloud, once the job is done, added up here.

Both clouds must speak of the same run; what they send is checked before it is used.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from client.both_clouds import Clouds, parts_of
from ppodc.errors import InputError, JobEndedError, printable
from ppodc.records.output_half import (
    OpenedResult,
    OutputHalf,
    modulus_from_bytes,
    open_output,
    unpack_facts,
)
from ppodc.records.upload_form import Cloud
from ppodc.service.job_state import JobState
from ppodc.service.messages import Named, ProgressReply, ResultReply, RowsAsk, RowsReply
from ppodc.service.upload import Upload
from ppodc.spec import Spec
from ppodc.transport.wire import Array

_POLL_SECONDS = (0.1, 2.0)  # first and longest pause between two looks at a running job


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far the job of a dataset is."""

    state: JobState
    iteration: int
    message: str
    deleted: bool = False

    def __str__(self) -> str:
        if self.deleted:
            return "deleted"
        return f"{self.state} (iteration {self.iteration})" if self.iteration else str(self.state)


OnWait = Callable[[JobProgress], None] | None


def progress_of(clouds: Clouds, dataset: str) -> JobProgress:
    """How far a job is, as cloud 1 tells it; takes no half of a result."""
    reply, _ = clouds.at(1).call("progress", Named(dataset), reply=ProgressReply)
    return JobProgress(reply.state, reply.iteration, printable(reply.message), reply.deleted)


def fetch(
    clouds: Clouds, spec: Spec, wait: bool, timeout: float | None, on_wait: OnWait
) -> OpenedResult:
    """The opened result with this owner's rows, once there is one; JobEndedError if never."""
    halves = _halves(clouds, spec, wait, timeout, on_wait)
    if len({(half.run, half.facts, frozenset(half.outputs)) for half in halves}) != 1:
        raise InputError("the clouds report results of different runs; ask their operators.")
    values = {
        name: open_output(*(half.outputs[name] for half in halves)) for name in halves[0].outputs
    }
    rows = {name: _rows(clouds, spec, name) for name in spec.kind.row_outputs(spec)}
    return OpenedResult(unpack_facts(halves[0].facts), values, rows)


@dataclass(frozen=True, slots=True)
class _Half:
    """One cloud's half of a result, as received."""

    run: str
    facts: bytes
    outputs: Mapping[str, OutputHalf]


def _half(cloud: Cloud, reply: ResultReply, arrays: tuple[Array, ...]) -> _Half:
    if len(arrays) != len(reply.halves):
        raise InputError(f"cloud {cloud} sent no half of the result; ask its operator.")
    outputs = {
        half.name: OutputHalf(modulus_from_bytes(half.modulus), array)
        for half, array in zip(reply.halves, arrays, strict=True)
    }
    return _Half(reply.run, reply.facts, outputs)


def _check_alive(dataset: str, cloud: Cloud, reply: ResultReply) -> None:
    reason = f" {printable(reply.message)}" if reply.message else ""
    if reply.state == JobState.FAILED:
        raise JobEndedError(
            f"the job of dataset {dataset!r} failed at cloud {cloud}; its operator can go on with "
            f"`ppodc resume {dataset}`.{reason}"
        )
    if reply.state == JobState.CANCELLED:
        raise JobEndedError(f"the job of dataset {dataset!r} was cancelled.{reason}")


def _halves(
    clouds: Clouds,
    spec: Spec,
    wait: bool,
    timeout: float | None,
    on_wait: OnWait,
) -> list[_Half]:
    """What each cloud has of the result, once all have it."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pause, longest = _POLL_SECONDS
    while True:
        halves = []
        # Cloud 1 first: it says done only when both have their halves.
        for cloud in sorted(parts_of(spec)):
            at = clouds.at(cloud)
            reply, arrays = at.call("result", Named(spec.name), reply=ResultReply)
            if not reply.ready:
                _check_alive(spec.name, cloud, reply)
                break
            halves.append(_half(cloud, reply, arrays))
        else:
            return halves
        progress = JobProgress(reply.state, reply.iteration, printable(reply.message))
        late = deadline is not None and time.monotonic() + pause > deadline
        if late or not wait:
            raise InputError(
                f"dataset {spec.name!r} has no result yet: it is {progress}. Ask later."
            )
        if on_wait is not None:
            on_wait(progress)
        time.sleep(pause)
        pause = min(2 * pause, longest)


def _rows(clouds: Clouds, spec: Spec, name: str) -> list[int]:
    """This owner's rows of a row output, in the order in which it uploaded."""
    rows: list[int] = []
    for upload in clouds.uploads(spec.name, 1):
        if not upload.sealed:
            continue
        rows += open_output(
            *(_row_half(clouds, spec, name, upload, cloud) for cloud in sorted(parts_of(spec)))
        )
    return rows


def _row_half(clouds: Clouds, spec: Spec, name: str, upload: Upload, cloud: Cloud) -> OutputHalf:
    """What this cloud has of the rows of one upload, fetched piece by piece."""
    pieces: list[NDArray[np.uint8]] = []
    have = 0
    while have < upload.rows or not pieces:
        ask = RowsAsk(spec.name, upload.upload_id, name, have)
        reply, arrays = clouds.at(cloud).call("rows", ask, reply=RowsReply)
        count = len(arrays[0]) if len(arrays) == 1 and arrays[0].ndim == 2 else 0
        if not min(1, upload.rows) <= count <= upload.rows - have:
            raise InputError(f"cloud {cloud} sent {name} of other rows; ask its operator.")
        pieces.append(arrays[0])
        have += count
    return OutputHalf(modulus_from_bytes(reply.modulus), np.concatenate(pieces))
