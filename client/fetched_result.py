"""An owner's fetching of a result: halves from every cloud, once the job is done, added up here.

Both clouds must speak of the same run; what they send is checked before it is used.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from client.both_clouds import Clouds, parts_of
from ppodc.errors import (
    AccessError,
    JobEndedError,
    ProtocolError,
    RefusedError,
    StateError,
    printable,
)
from ppodc.records.result_shares import (
    OpenedResult,
    OutputShare,
    ResultShare,
    halves_digest,
    modulus_from_bytes,
    open_shares,
    unpack_facts,
)
from ppodc.records.upload_form import Cloud
from ppodc.service.job_state import JobState
from ppodc.service.ledger_entries import HALF_GIVEN
from ppodc.service.messages import Named, ProgressReply, ResultReply, RowsAsk, RowsReply
from ppodc.service.sealed_uploads import Upload
from ppodc.spec import Spec
from ppodc.transport.wire import Array

_POLL_SECONDS = (0.1, 2.0)  # first and longest pause between two looks at a running job


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a dataset's job."""

    state: JobState
    iteration: int
    message: str
    deleted: bool = False
    interrupted: bool = False

    def __str__(self) -> str:
        if self.deleted:
            return "deleted"
        if self.interrupted:
            after = f" after iteration {self.iteration}" if self.iteration else ""
            return f"interrupted{after}"
        return f"{self.state} (iteration {self.iteration})" if self.iteration else str(self.state)

    def waiting(self, dataset: str) -> str:
        """Say what the job waits for, and who must act."""
        text = f"waiting for the job of {dataset}: it is {self}"
        if self.interrupted:
            return f"{text}. The operator of cloud 1 goes on with it: ppodc resume {dataset}"
        if self.deleted or self.state is not JobState.CREATED:
            return text
        return (
            f"{text}. When all owners have uploaded, the operator of cloud 1 must start it with: "
            f"ppodc run {dataset}"
        )


OnWait = Callable[[JobProgress], None] | None
_Given = set[tuple[str, str]]  # what a cloud has handed out: output, digest


def progress_of(clouds: Clouds, dataset: str) -> JobProgress:
    """The progress of a job, as cloud 1 reports it; takes no half of a result.

    Where cloud 1 has lost the dataset, cloud 2 is asked.
    """
    try:
        reply, _ = clouds.at(1).call("progress", Named(dataset), reply=ProgressReply)
    except RefusedError as error:
        if error.code != AccessError.code or len(clouds.numbers) == 1:
            raise
        reply, _ = clouds.at(2).call("progress", Named(dataset), reply=ProgressReply)
    message = printable(reply.message)
    return JobProgress(reply.state, reply.iteration, message, reply.deleted, reply.interrupted)


def fetch(
    clouds: Clouds,
    spec: Spec,
    wait: bool,
    timeout: float | None,
    on_wait: OnWait,
    *,
    rows: bool = True,
) -> OpenedResult:
    """The opened result with this owner's rows, once there is one; JobEndedError if never."""
    clouds_of = sorted(parts_of(spec))
    answers = _answers(clouds, spec, wait, timeout, on_wait)
    if len({(each.session_id, each.facts, frozenset(each.outputs)) for each in answers}) != 1:
        raise ProtocolError("the clouds sent results of two sessions. Ask their operators.")
    uploads = [upload for upload in clouds.uploads(spec.name, 1) if upload.sealed]
    shares = []
    for cloud, answer in zip(clouds_of, answers, strict=True):
        given = {("result", halves_digest(answer.outputs, answer.facts))}
        own = {
            name: _rows(clouds, spec, name, uploads, cloud, given)
            for name in (spec.kind.row_outputs(spec) if rows else ())
        }
        if spec.audit:
            _check_written(clouds, spec, cloud, given)
        shares.append(ResultShare(unpack_facts(answer.facts), answer.outputs, own))
    return open_shares(*shares)


def _check_written(clouds: Clouds, spec: Spec, cloud: Cloud, given: _Given) -> None:
    """Refuse halves of an audited job that are not in the ledger as they came.

    An auditor compares the ledger with the halves that the protocol gives. So a cloud that hands
    out another one is found here or there.
    """
    written = {
        (entry.event, json.loads(entry.detail).get("half"))
        for entry in clouds.ledger(cloud)
        if entry.dataset == spec.name and entry.event.endswith(HALF_GIVEN)
    }
    if {(f"{name} {HALF_GIVEN}", digest) for name, digest in given} - written:
        raise ProtocolError(
            f"cloud {cloud} has given another half of the result of {spec.name!r} than its ledger "
            "says. The result is not to be trusted. Ask for an audit of that cloud."
        )


@dataclass(frozen=True, slots=True)
class _Answer:
    """One cloud's half of a result, as received."""

    session_id: str
    facts: bytes
    outputs: Mapping[str, OutputShare]


def _answer(cloud: Cloud, reply: ResultReply, arrays: tuple[Array, ...]) -> _Answer:
    if len(arrays) != len(reply.halves):
        raise ProtocolError(f"cloud {cloud} sent no half of the result; ask its operator.")
    outputs = {
        half.name: OutputShare(modulus_from_bytes(half.modulus), array)
        for half, array in zip(reply.halves, arrays, strict=True)
    }
    return _Answer(reply.session_id, reply.facts, outputs)


def _check_alive(dataset: str, cloud: Cloud, reply: ResultReply) -> None:
    reason = f" {printable(reply.message)}" if reply.message else ""
    if reply.state == JobState.FAILED:
        raise JobEndedError(
            f"the job of dataset {dataset!r} failed at cloud {cloud}; its operator can go on with "
            f"`ppodc resume {dataset}`.{reason}"
        )
    if reply.state == JobState.CANCELLED:
        raise JobEndedError(f"the job of dataset {dataset!r} was cancelled.{reason}")


def _answers(
    clouds: Clouds,
    spec: Spec,
    wait: bool,
    timeout: float | None,
    on_wait: OnWait,
) -> list[_Answer]:
    """Each cloud's share of the result, once all have it."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pause, longest = _POLL_SECONDS
    while True:
        answers = []
        # Cloud 1 first: it says done only when both have their halves.
        for cloud in sorted(parts_of(spec)):
            at = clouds.at(cloud)
            reply, arrays = at.call("result", Named(spec.name), reply=ResultReply)
            if not reply.ready:
                _check_alive(spec.name, cloud, reply)
                break
            answers.append(_answer(cloud, reply, arrays))
        else:
            return answers
        progress = JobProgress(
            reply.state,
            reply.iteration,
            printable(reply.message),
            interrupted=reply.interrupted,
        )
        late = deadline is not None and time.monotonic() + pause > deadline
        if late or not wait:
            raise StateError(
                f"dataset {spec.name!r} has no result yet: it is {progress}. "
                + _advice(spec, answers)
            )
        if on_wait is not None:
            on_wait(progress)
        time.sleep(pause)
        pause = min(2 * pause, longest)


def _advice(spec: Spec, answers: Sequence[_Answer]) -> str:
    if answers:
        return (
            "Cloud 1 is done, and cloud 2 has not heard of it yet. Ask again in a moment. If it "
            f"stays so, the operator of cloud 1 tells cloud 2 with `ppodc resume {spec.name}`."
        )
    return "Ask later."


def _rows(
    clouds: Clouds, spec: Spec, name: str, uploads: Sequence[Upload], cloud: Cloud, given: _Given
) -> OutputShare:
    """This cloud's half of a row output for all of the owner's rows, in order of upload."""
    parts = [_row_half(clouds, spec, name, upload, cloud, given) for upload in uploads]
    return OutputShare.joined(parts) if parts else OutputShare.of(2, [])


def _row_half(
    clouds: Clouds, spec: Spec, name: str, upload: Upload, cloud: Cloud, given: _Given
) -> OutputShare:
    """This cloud's share of the rows of one upload, fetched piece by piece."""
    pieces: list[NDArray[np.uint8]] = []
    have = 0
    while have < upload.rows or not pieces:
        ask = RowsAsk(spec.name, upload.upload_id, name, have)
        reply, arrays = clouds.at(cloud).call("rows", ask, reply=RowsReply)
        count = len(arrays[0]) if len(arrays) == 1 and arrays[0].ndim == 2 else 0
        if not min(1, upload.rows) <= count <= upload.rows - have:
            raise ProtocolError(f"cloud {cloud} sent {name} of other rows; ask its operator.")
        pieces.append(arrays[0])
        if spec.audit:
            piece = OutputShare(modulus_from_bytes(reply.modulus), arrays[0])
            given.add((name, halves_digest({name: piece})))
        have += count
    return OutputShare(modulus_from_bytes(reply.modulus), np.concatenate(pieces))
