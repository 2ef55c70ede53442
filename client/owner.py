"""The owner's SDK: upload records as shares to two clouds, and open the result.

Who learns what: cloud 1 gets t + r and cloud 2 the seed of r; neither learns a record. All checks
of the data happen here, before anything is sent. The result comes in two halves that only the
owner adds up.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from client.both_clouds import Clouds
from client.result import Result, centres, open_clusters, open_labels
from client.upload_record import UploadRecord, UploadRecords, data_digest
from ppodc.errors import InputError, JobEndedError
from ppodc.kmeans.job import job_of
from ppodc.records.encode import encode
from ppodc.records.output_half import OutputHalf, modulus_from_bytes
from ppodc.records.sharing import split
from ppodc.service.config import OwnerConfig
from ppodc.service.job_state import JobState
from ppodc.service.messages import (
    Begin,
    ChunkPlace,
    LabelsAsk,
    LabelsReply,
    Named,
    ResultReply,
    Seed,
    UploadEntry,
    UploadList,
    UploadRef,
    UploadsAsk,
    UploadState,
)
from ppodc.spec import Spec
from ppodc.transport.wire import Array

if TYPE_CHECKING:
    import pandas as pd

_CHUNK_BYTES = 4 << 20
_POLL_SECONDS = (0.1, 2.0)  # first and longest pause between two looks at a running job


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset as its owner sees it: `uploads` and `rows` are its own."""

    name: str
    digest: str
    state: JobState
    uploads: int
    rows: int
    agreed: bool  # both clouds present the same spec


@dataclass(frozen=True, slots=True)
class Receipt:
    """A finished upload. `repeated`: it was finished before, and this call changed nothing."""

    dataset: str
    upload_id: str
    rows: int
    spec_digest: str
    repeated: bool


class Owner:
    """One owner and its connections to both clouds."""

    def __init__(self, clouds: Clouds, config: OwnerConfig) -> None:
        self.name = config.name
        self._clouds = clouds
        self._records = UploadRecords(config.uploads)

    @classmethod
    def connect(cls, config: str | Path) -> "Owner":
        """The owner of this configuration file; the clouds are reached at the first call."""
        return cls(*Clouds.from_file(config, "owner"))

    def __enter__(self) -> "Owner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the connections; closing twice is harmless."""
        self._clouds.close()

    def datasets(self) -> list[Dataset]:
        """The datasets that this owner may upload to or has uploaded to."""
        return [
            Dataset(
                mine.name,
                mine.digest,
                mine.state,
                mine.uploads,
                mine.rows,
                theirs is not None and theirs.digest == mine.digest,
            )
            for mine, theirs in self._clouds.datasets()
        ]

    def upload(
        self,
        dataset: str,
        data: "pd.DataFrame | NDArray[Any] | str | Path",
        *,
        header: bool = True,
        progress: bool = True,
    ) -> Receipt:
        """Share the records with both clouds; the same data again go on or change nothing.

        `header=False` is for a CSV file without a line of names.
        """
        spec = self._clouds.spec(dataset)
        values = encode(data, spec.schema, header=header)
        digest = data_digest(spec, values)
        with self._records.alone():
            record = self._records.find(spec, digest)
            if record is not None and record.finished:
                if self._both_committed(record):
                    return Receipt(dataset, record.upload_id, len(values), spec.digest, True)
                record = None  # the clouds have started anew since
            record = record or self._records.begin(spec, digest, len(values))
        self._send(spec, record, values, progress)
        self._records.finish(spec, record)
        return Receipt(dataset, record.upload_id, len(values), spec.digest, False)

    def _both_committed(self, record: UploadRecord) -> bool:
        ref = UploadRef(record.upload_id)
        clouds = (self._clouds.first, self._clouds.second)
        return all(cloud.call("missing", ref, reply=UploadState)[0].committed for cloud in clouds)

    def _send(
        self, spec: Spec, record: UploadRecord, values: NDArray[np.int64], progress: bool
    ) -> None:
        """Bring both clouds to `committed`, from wherever an earlier attempt has left them."""
        first, second = self._clouds.first, self._clouds.second
        begin = Begin(spec.name, spec.digest, record.upload_id, record.rows)
        theirs = second.call("begin", begin, reply=UploadState)[0]
        mine = first.call("begin", begin, reply=UploadState)[0]
        if theirs.missing:
            second.tell("seed", Seed(record.upload_id, record.seed))
        with _bar(f"{self.name} to {spec.name}", len(values), progress) as advance:
            self._send_chunks(record, values, mine, advance)
        ref = UploadRef(record.upload_id)
        second.tell("commit", ref)
        first.tell("commit", ref)

    def _send_chunks(
        self,
        record: UploadRecord,
        values: NDArray[np.int64],
        state: UploadState,
        advance: Callable[[int], None],
    ) -> None:
        rows, columns = values.shape
        size = max(1, _CHUNK_BYTES // (8 * columns))
        sent = 0
        while state.missing:
            for gap, count in state.missing:
                for start in range(gap, gap + count, size):
                    stop = min(start + size, gap + count)
                    share, _ = split(values[start:stop], record.seed, first_row=start)
                    place = ChunkPlace(record.upload_id, start)
                    self._clouds.first.tell("chunk", place, [share])
                    sent += stop - start
                    advance(stop - start)
            ref = UploadRef(record.upload_id)
            state = self._clouds.first.call("missing", ref, reply=UploadState)[0]
        advance(rows - sent)  # what an earlier attempt had sent

    def result(self, dataset: str, wait: bool = True, timeout: float | None = None) -> Result:
        """The centres and, if offered, the labels of this owner's rows.

        Waits until the job is done, at most `timeout` seconds; a job that failed or was cancelled
        is a JobEndedError.
        """
        spec = self._clouds.spec(dataset)
        first, second = self._halves(dataset, wait, timeout)
        if (first[0].n_iter, first[0].converged) != (second[0].n_iter, second[0].converged):
            raise InputError("the clouds report results of different runs; ask their operators.")
        sums, sizes = open_clusters(spec, _half(*first), _half(*second))
        return Result(
            cluster_centers_=centres(spec, sums, sizes),
            sizes_=sizes,
            sums_=sums,
            n_iter_=first[0].n_iter,
            converged_=first[0].converged,
            labels_=self._labels(spec) if job_of(spec).labels else None,
            columns=tuple(spec.schema.names),
        )

    def _halves(
        self, dataset: str, wait: bool, timeout: float | None
    ) -> list[tuple[ResultReply, Array]]:
        deadline = None if timeout is None else time.monotonic() + timeout
        pause, longest = _POLL_SECONDS
        while True:
            halves = []
            # Cloud 1 first: it says done only when both have their halves.
            for name, cloud in (("cloud 1", self._clouds.first), ("cloud 2", self._clouds.second)):
                reply, arrays = cloud.call("result", Named(dataset), reply=ResultReply)
                if not reply.ready:
                    _check_alive(dataset, name, reply)
                    break
                if len(arrays) != 1:
                    raise InputError(f"{name} sent no half of the result; ask its operator.")
                halves.append((reply, arrays[0]))
            if len(halves) == 2:
                return halves
            late = deadline is not None and time.monotonic() + pause > deadline
            if late or not wait:
                raise InputError(
                    f"dataset {dataset!r} has no result yet: it is {reply.state}"
                    f"{f' (iteration {reply.iteration})' if reply.iteration else ''}. Ask later."
                )
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def _labels(self, spec: Spec) -> NDArray[np.int64]:
        parts = [np.empty(0, np.int64)]
        for upload in self._uploads(spec.name):
            if not upload.sealed:
                continue
            ask = LabelsAsk(spec.name, upload.upload_id)
            halves = []
            for cloud in (self._clouds.first, self._clouds.second):
                reply, arrays = cloud.call("labels", ask, reply=LabelsReply)
                if len(arrays) != 1 or len(arrays[0]) != upload.rows:
                    raise InputError("a cloud sent labels of other rows; ask its operator.")
                halves.append(_half(reply, arrays[0]))
            parts.append(open_labels(spec, *halves))
        return np.concatenate(parts)

    def _uploads(self, dataset: str) -> Iterator[UploadEntry]:
        """This owner's uploads, in the order in which it began them."""
        seen = 0
        while True:
            ask = UploadsAsk(dataset, seen)
            page = self._clouds.first.call("uploads", ask, reply=UploadList)[0].uploads
            if not page:
                return
            yield from page
            seen += len(page)


def _half(reply: ResultReply | LabelsReply, array: Array) -> OutputHalf:
    return OutputHalf(modulus_from_bytes(reply.modulus), array)


def _check_alive(dataset: str, cloud: str, reply: ResultReply) -> None:
    reason = f" {reply.message}" if reply.message else ""
    if reply.state == JobState.FAILED:
        raise JobEndedError(
            f"the job of dataset {dataset!r} failed at {cloud}; its operator can go on with "
            f"`ppodc resume {dataset}`.{reason}"
        )
    if reply.state == JobState.CANCELLED:
        raise JobEndedError(f"the job of dataset {dataset!r} was cancelled.{reason}")


@contextmanager
def _bar(title: str, rows: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on the terminal, if there is one."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not (shown and console.is_terminal)) as progress:
        task = progress.add_task(title, total=rows)
        yield lambda count: progress.update(task, advance=count)
