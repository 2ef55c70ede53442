"""The owner's SDK: upload records to the clouds, and open the result.

Who learns what: the dataset's kind says what each cloud gets of an upload (k-means: t + r for cloud
1 and the seed of r for cloud 2, so that neither learns a record). All checks of the data happen
here, before anything is sent. The result comes in halves that only the owner adds up.
"""

import dataclasses
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from client.accepted import AcceptedSpecs, Agreed
from client.both_clouds import Clouds, ListedDataset, parts_of
from client.fetched_result import JobProgress, fetch, progress_of
from client.upload_record import UploadRecord, UploadRecords, data_digest
from ppodc.errors import InputError, RefusedError, WithdrawnError
from ppodc.records.privacy_report import PrivacyReport
from ppodc.records.sharing import SEED_BYTES
from ppodc.records.upload_form import (
    Arranges,
    Cloud,
    NamesPeople,
    RowsPart,
    SpendsPrivacy,
    TellsOfRecords,
)
from ppodc.service.config import OwnerConfig
from ppodc.service.messages import (
    Begin,
    ChunkPlace,
    Named,
    Seed,
    UploadRef,
    UploadState,
)
from ppodc.service.store.ledger import Entry
from ppodc.service.upload import Upload
from ppodc.spec import Spec
from ppodc.transport.wire import Empty

if TYPE_CHECKING:
    import pandas as pd

Outline = NDArray[np.uint32]
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Receipt:
    """A finished upload. `repeated`: it was finished before, and this call changed nothing.

    `privacy`: what it tells of one record, where it tells anything. `before`: this owner's earlier
    uploads, which count beside it unless they were `replaced` by it.
    """

    dataset: str
    upload_id: str
    rows: int
    spec_digest: str
    repeated: bool
    privacy: PrivacyReport | None = None
    before: tuple[Upload, ...] = ()
    replaced: bool = False

    @property
    def rows_before(self) -> int:
        return sum(upload.rows for upload in self.before)


class Owner:
    """One owner and its connections to both clouds."""

    def __init__(self, clouds: Clouds, config: OwnerConfig) -> None:
        self.name = config.name
        self._clouds = clouds
        self._records = UploadRecords(config.uploads)
        self._privacy, self._max_epsilon = config.privacy, Fraction(config.max_epsilon)
        self._accepted = AcceptedSpecs(config.uploads / "accepted")

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

    def datasets(self) -> list[ListedDataset]:
        """The datasets that this owner takes part in; `uploads` and `rows` are its own."""
        return self._clouds.datasets()

    def spec(self, dataset: str) -> Spec:
        """The spec that both clouds present; `in_words` says what it means."""
        return self._clouds.spec(dataset)

    def accept(self, dataset: str, spec: Agreed, accept_epsilon: float | None = None) -> Spec:
        """Agree to this spec of a dataset: a Spec, the Path of its file, or its digest.

        Remembered in the owner's folder; refused if the clouds present another. A spec whose
        published claim does not hold needs `accept_epsilon`: what a record really spends.
        """
        shown = self._clouds.spec(dataset)
        self._accepted.accept(shown, spec, accept_epsilon)
        return shown

    def upload(
        self,
        dataset: str,
        data: "pd.DataFrame | NDArray[Any] | str | Path",
        *,
        spec: Agreed | None = None,
        accept_epsilon: float | None = None,
        id_column: str = "",
        header: bool = True,
        progress: bool = True,
        replace: bool = False,
    ) -> Receipt:
        """Give the clouds their parts of the records; the same data again go on or change nothing.

        `spec` is what this owner agrees to (see `accept`); without it, it must have accepted the
        dataset's spec before. `header=False` is for a CSV file without a line of names. Other data
        than before add to them; with `replace` the earlier are withdrawn once these are there.
        `id_column` (local jobs) names people: each is charged by itself; the names do not leave.
        """
        shown = self._clouds.spec(dataset)
        if spec is not None:
            self._accepted.accept(shown, spec, accept_epsilon)
        self._accepted.check(shown)
        earlier = self.uploads(dataset)
        receipt = self._upload(shown, self._encoded(shown, data, header, id_column), progress)
        before = tuple(upload for upload in earlier if upload.upload_id != receipt.upload_id)
        if replace:
            for upload in before:
                self._withdraw(shown, upload.upload_id)
        else:
            before = tuple(upload for upload in before if upload.committed)
        return dataclasses.replace(receipt, before=before, replaced=replace and bool(before))

    def _encoded(self, spec: Spec, data: Any, header: bool, id_column: str) -> NDArray[np.int64]:
        form = spec.kind.upload(spec)
        if not id_column:
            return form.encode(data, header=header)
        if not isinstance(form, NamesPeople):
            raise InputError("an id column is for jobs that spend privacy; leave it out here.")
        return form.encode_people(data, id_column, self._privacy, header=header)

    def _upload(self, spec: Spec, values: NDArray[np.int64], progress: bool) -> Receipt:
        own, extents = len(values), self._extents(spec)
        with self._records.alone():
            values, outline = self._arranged(spec, values, extents)
            digest = data_digest(spec, values)  # of what is sent: a seed never serves two tables
            record = self._records.find(spec, digest)
            if record is not None and record.finished and self._committed(spec, record):
                return _receipt(spec, record, own, repeated=True)
            if record is None or record.finished:  # it was withdrawn, or the clouds started anew
                record = self._begin(spec, digest, values, self._besides(spec, record))
        try:
            self._send(spec, record, values, outline, progress)
        except RefusedError as error:
            if error.code != WithdrawnError.code:
                raise
            record = self._begin(spec, digest, values)  # a new id and a new secret
            self._send(spec, record, values, outline, progress)
        self._records.finish(spec, record)
        return _receipt(spec, record, own, repeated=False)

    def _extents(self, spec: Spec) -> Outline | None:
        """The cells of the owner whom this one follows, as both clouds have them."""
        form = spec.kind.upload(spec)
        if not isinstance(form, Arranges) or form.follows in ("", self.name):
            return None
        ask = Named(spec.name)
        shown = [cloud.call("extents", ask, reply=Empty)[1] for cloud in self._clouds.all()]
        first, *others = (arrays[0] if len(arrays) == 1 else None for arrays in shown)
        if first is None or any(o is None or not np.array_equal(first, o) for o in others):
            raise InputError(
                f"the clouds present different cells of {form.follows}; nothing was sent. Ask "
                "their operators."
            )
        return first

    def _arranged(
        self, spec: Spec, values: NDArray[np.int64], extents: Outline | None
    ) -> tuple[NDArray[np.int64], Outline | None]:
        """The rows to send, and their cells if both clouds are told; charged before."""
        form = spec.kind.upload(spec)
        if not isinstance(form, Arranges):
            return values, None
        return form.arrange(values, extents, self._privacy, self._max_epsilon)

    def uploads(self, dataset: str) -> list[Upload]:
        """This owner's uploads that either cloud has and that were not removed there."""
        spec = self._clouds.spec(dataset)
        listed = {
            upload.upload_id: upload
            for cloud in parts_of(spec)
            for upload in self._clouds.uploads(dataset, cloud)
            if not upload.removed
        }
        return list(listed.values())

    def withdraw(self, dataset: str, upload_id: str | None = None) -> list[str]:
        """Take back one upload or all of this owner's, before sealing; their ids.

        Both clouds delete what they have of it. Interrupted, it can be repeated; an upload that one
        cloud has withdrawn does not count.
        """
        spec = self._clouds.spec(dataset)
        known = [upload.upload_id for upload in self.uploads(dataset)]
        if upload_id is not None and upload_id not in known:
            raise InputError(f"dataset {dataset!r} has no upload {upload_id} of yours.")
        ids = known if upload_id is None else [upload_id]
        for each in ids:
            self._withdraw(spec, each)
        return ids

    def _withdraw(self, spec: Spec, upload_id: str) -> None:
        for cloud in sorted(parts_of(spec)):  # cloud 1 first: it says no once it is sealed
            self._clouds.at(cloud).tell("withdraw", UploadRef(upload_id))

    def ledger(self, cloud: int) -> list[Entry]:
        """What a cloud has written down about this owner's datasets; the rest as hashes."""
        return self._clouds.ledger(cloud)

    def _begin(
        self, spec: Spec, digest: str, values: NDArray[np.int64], besides: bool = False
    ) -> UploadRecord:
        """A new upload with a new secret; what it tells of the records is charged before."""
        form, secret = spec.kind.upload(spec), secrets.token_bytes(SEED_BYTES)
        if isinstance(form, SpendsPrivacy):
            secret = form.charge(values, self._privacy, self._max_epsilon, besides=besides)
        return self._records.begin(spec, digest, len(values), secret)

    def _besides(self, spec: Spec, record: UploadRecord | None) -> bool:
        """Whether an earlier upload of the same data may count, or have counted, besides a new one.

        `record` is that of a finished one, if there is any: withdrawn or left out at every cloud it
        never counts. Without a record any upload that counts may be of the same data.
        """
        listed = [list(self._clouds.uploads(spec.name, cloud)) for cloud in parts_of(spec)]
        if record is None:
            return any(not upload.removed for uploads in listed for upload in uploads)
        gone = [[upload.upload_id for upload in uploads if upload.removed] for uploads in listed]
        return not all(record.upload_id in ids for ids in gone)

    def _committed(self, spec: Spec, record: UploadRecord) -> bool:
        ref = UploadRef(record.upload_id)
        return all(
            self._clouds.at(cloud).call("missing", ref, reply=UploadState)[0].committed
            for cloud in parts_of(spec)
        )

    def _send(
        self,
        spec: Spec,
        record: UploadRecord,
        values: NDArray[np.int64],
        outline: Outline | None,
        progress: bool,
    ) -> None:
        """Bring the clouds to `committed`, from wherever an earlier attempt has left them."""
        parts = parts_of(spec)
        begin = Begin(spec.name, spec.digest, record.upload_id, record.rows)
        told = () if outline is None else (outline,)
        states = {
            cloud: self._clouds.at(cloud).call("begin", begin, told, reply=UploadState)[0]
            for cloud in parts
        }
        rows = len(values) * sum(isinstance(part, RowsPart) for part in parts.values())
        with _bar(f"{self.name} to {spec.name}", rows, progress) as advance:
            for cloud, part in parts.items():
                if isinstance(part, RowsPart):
                    self._send_chunks(spec, record, values, cloud, part, states[cloud], advance)
                elif states[cloud].missing:
                    self._clouds.at(cloud).tell("seed", Seed(record.upload_id, record.seed))
        for cloud in parts:
            self._clouds.at(cloud).tell("commit", UploadRef(record.upload_id))

    def _send_chunks(
        self,
        spec: Spec,
        record: UploadRecord,
        values: NDArray[np.int64],
        cloud: Cloud,
        part: RowsPart,
        state: UploadState,
        advance: Callable[[int], None],
    ) -> None:
        to, form = self._clouds.at(cloud), spec.kind.upload(spec)
        size = max(1, _CHUNK_BYTES // (np.dtype(part.dtype).itemsize * part.columns))
        sent = 0
        while state.missing:
            for gap, count in state.missing:
                for start in range(gap, gap + count, size):
                    stop = min(start + size, gap + count)
                    chunk = form.chunk(values[start:stop], record.seed, start, cloud)
                    to.tell("chunk", ChunkPlace(record.upload_id, start), [chunk])
                    sent += stop - start
                    advance(stop - start)
            state = to.call("missing", UploadRef(record.upload_id), reply=UploadState)[0]
        advance(len(values) - sent)  # what an earlier attempt had sent

    def progress(self, dataset: str) -> JobProgress:
        """How far the job of a dataset is, as cloud 1 tells it."""
        return progress_of(self._clouds, dataset)

    def result(
        self,
        dataset: str,
        wait: bool = True,
        timeout: float | None = None,
        on_wait: Callable[[JobProgress], None] | None = None,
    ) -> Any:
        """The result as the dataset's kind opens it, with this owner's rows if they are offered.

        Waits until the job is done, at most `timeout` seconds, and tells `on_wait` now and then
        how far it is; a job that failed or was cancelled is a JobEndedError.
        """
        spec = self._clouds.spec(dataset)
        opened = fetch(self._clouds, spec, wait, timeout, on_wait)
        return spec.kind.open_result(spec, opened)

    def labels(
        self,
        dataset: str,
        data: "pd.DataFrame | NDArray[Any] | str | Path",
        *,
        id_column: str = "",
        header: bool = True,
    ) -> NDArray[np.int64]:
        """The cluster of each of these rows, found here from the result: nothing of them is sent.

        For jobs whose clusters are public to owners; others offer labels with the result.
        """
        spec = self._clouds.spec(dataset)
        values = self._encoded(spec, data, header, id_column)[:, : len(spec.schema.columns)]
        result = self.result(dataset)
        if not hasattr(result, "label"):
            raise InputError(
                f"labels of a job of the kind {spec.job.kind} come with its result, if the spec "
                f"offers them: `ppodc result {dataset} --labels FILE`."
            )
        labels: NDArray[np.int64] = result.label(values)
        return labels


def _receipt(spec: Spec, record: UploadRecord, rows: int, *, repeated: bool) -> Receipt:
    form = spec.kind.upload(spec)
    privacy = form.privacy() if isinstance(form, TellsOfRecords) else None
    return Receipt(spec.name, record.upload_id, rows, spec.digest, repeated, privacy)


@contextmanager
def _bar(title: str, rows: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on the terminal, if there is one."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not (shown and console.is_terminal)) as progress:
        task = progress.add_task(title, total=rows)
        yield lambda count: progress.update(task, advance=count)
