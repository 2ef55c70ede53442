"""A table of records on its way from an owner to the clouds, whatever interrupts it.

What is charged and drawn for an upload is on disk before its first byte leaves, so that the same
data sent again go on where an earlier attempt ended, with the same secret, and never count twice.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from rich.console import Console
from rich.progress import Progress

from client.both_clouds import Clouds, parts_of
from client.upload_record import UploadRecord, UploadRecords, data_digest
from ppodc.errors import ProtocolError, RefusedError, TableError, WithdrawnError
from ppodc.kinds import owner_side
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.records.owner_side import Ints, OwnerSide
from ppodc.records.part_digest import SALT_BYTES, PartDigest
from ppodc.records.prepared_upload import PreparedUpload
from ppodc.records.upload_form import Cloud, RowsPart
from ppodc.service.config import OwnerConfig
from ppodc.service.messages import (
    Begin,
    ChunkPlace,
    Commit,
    Named,
    Room,
    Seed,
    UploadRef,
    UploadState,
)
from ppodc.service.sealed_uploads import Outline, Upload
from ppodc.spec import Spec
from ppodc.transport.wire import Empty

_CHUNK_BYTES = 4 << 20
_AUDIT_ROWS = 1 << 16  # of a part that are hashed at a time


@dataclass(frozen=True, slots=True)
class Lost:
    """An earlier upload that one cloud has and this one has not: it does not count."""

    upload_id: str
    cloud: Cloud


@dataclass(frozen=True, slots=True)
class Receipt:
    """A finished upload. `repeated`: it was finished before, and this call changed nothing.

    `privacy`: what it reveals of one record, if anything. `before`: this owner's earlier
    uploads, which count beside it unless they were `replaced` by it. `lost`: earlier ones that a
    cloud does not have any more, since it was restored from an older copy; they do not count.
    """

    dataset: str
    upload_id: str
    rows: int
    spec_digest: str
    repeated: bool
    privacy: PrivacyReport | None = None
    before: tuple[Upload, ...] = ()
    replaced: bool = False
    left_out: int = 0  # rows of the table that lack a value
    lost: tuple[Lost, ...] = ()

    @property
    def rows_before(self) -> int:
        return sum(upload.rows for upload in self.before)


@dataclass(frozen=True, slots=True)
class Sent:
    """The number of rows of an upload that one cloud has. A seed stands for all of them."""

    cloud: Cloud
    sent: int
    rows: int


OnSent = Callable[[Sent], None]  # an exception of it stops the upload, which can go on later


class Sender:
    """One owner's way to the clouds."""

    def __init__(self, clouds: Clouds, config: OwnerConfig) -> None:
        self._name, self._clouds = config.name, clouds
        self._records = UploadRecords(config.uploads)
        self._privacy, self._max_epsilon = config.privacy, Fraction(config.max_epsilon)

    def send(
        self,
        spec: Spec,
        values: Ints,
        *,
        progress: bool,
        on_sent: OnSent | None = None,
    ) -> Receipt:
        """The encoded records, to the end; the same again go on or change nothing."""
        own, extents, side = len(values), self._extents(spec), owner_side(spec)
        with self._records.alone():
            values, outline = self._arranged(side, values, extents)
            digest = data_digest(spec, values)  # of what is sent: a seed never serves two tables
            record = self._records.find(spec, digest)
            if record is not None and record.finished and self._committed(spec, record):
                return _receipt(spec, record, own, repeated=True)
            if record is None or record.finished:  # it was withdrawn, or the clouds started anew
                record = self._begin(side, digest, values, self._besides(spec, record))
        upload = PreparedUpload(side, values, outline, record.seed)
        try:
            self._send(record, upload, progress, on_sent)
        except RefusedError as error:
            if error.code != WithdrawnError.code:
                raise
            record = self._begin(side, digest, values)  # a new id and a new secret
            upload = replace(upload, secret=record.seed)
            self._send(record, upload, progress, on_sent)
        self._records.finish(spec, record)
        return _receipt(spec, record, own, repeated=False)

    def _extents(self, spec: Spec) -> Outline | None:
        """The cells of the owner whom this one follows, as both clouds have them."""
        form = spec.form
        if form.follows in ("", self._name):
            return None
        ask = Named(spec.name)
        shown = [cloud.call("extents", ask, reply=Empty)[1] for cloud in self._clouds.all()]
        first, *others = (arrays[0] if len(arrays) == 1 else None for arrays in shown)
        if first is None or any(o is None or not np.array_equal(first, o) for o in others):
            raise ProtocolError(
                f"the clouds present different cells of {form.follows}; nothing was sent. Ask "
                "their operators."
            )
        return first

    def _arranged(
        self, side: OwnerSide, values: Ints, extents: Outline | None
    ) -> tuple[Ints, Outline | None]:
        """The rows to send, and their cells if both clouds get them; charged before."""
        return side.arrange(
            values,
            extents,
            self._privacy,
            self._max_epsilon,
            lambda rows: self._check_room(side.spec, rows),
        )

    def _check_room(self, spec: Spec, rows: int) -> None:
        """Refuse what a cloud would refuse later, before anything is charged for it.

        The clouds learn that this owner asks, not how many rows it has.
        """
        for cloud in parts_of(spec):
            room = self._clouds.at(cloud).call("room", Named(spec.name), reply=Room)[0].rows
            if rows > room:
                raise TableError(
                    f"cloud {cloud} takes at most {room} more rows of this owner in dataset "
                    f"{spec.name!r}, and this upload has {rows}; nothing was charged. Withdraw an "
                    "upload, or ask the operator for more."
                )

    def _begin(
        self, side: OwnerSide, digest: str, values: Ints, besides: bool = False
    ) -> UploadRecord:
        """A new upload with a new secret; what it reveals of the records is charged before."""
        secret = side.charge(
            values,
            self._privacy,
            self._max_epsilon,
            lambda rows: self._check_room(side.spec, rows),
            besides=besides,
        )
        return self._records.begin(side.spec, digest, len(values), secret)

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
        self, record: UploadRecord, upload: PreparedUpload, progress: bool, on_sent: OnSent | None
    ) -> None:
        """Bring the clouds to `committed`, from wherever an earlier attempt has left them."""
        spec, m, upload_id = upload.side.spec, len(upload.values), record.upload_id
        parts = parts_of(spec)
        begin = Begin(spec.name, spec.digest, upload_id, m)
        cells = () if upload.outline is None else (upload.outline,)
        states = {
            cloud: self._clouds.at(cloud).call("begin", begin, cells, reply=UploadState)[0]
            for cloud in parts
        }
        rows = m * sum(isinstance(part, RowsPart) for part in parts.values())
        with _bar(f"{self._name} to {spec.name}", rows, progress) as advance:
            for cloud, part in parts.items():
                if isinstance(part, RowsPart):
                    size = max(1, _CHUNK_BYTES // (np.dtype(part.dtype).itemsize * part.columns))
                    counted = _counting(Sent(cloud, 0, m), advance, on_sent)
                    self._send_chunks(upload_id, upload, cloud, size, states[cloud], counted)
                    continue
                if states[cloud].missing:
                    self._clouds.at(cloud).tell("seed", Seed(upload_id, upload.secret))
                if on_sent is not None:
                    on_sent(Sent(cloud, m, m))
        audited = _audited(record, upload) if spec.audit else {}
        for cloud in parts:
            self._clouds.at(cloud).tell("commit", audited.get(cloud, Commit(upload_id)))

    def _send_chunks(
        self,
        upload_id: str,
        upload: PreparedUpload,
        cloud: Cloud,
        size: int,
        state: UploadState,
        advance: Callable[[int], None],
    ) -> None:
        """Send the rows that a cloud lacks, `size` of them at a time."""
        to, sent = self._clouds.at(cloud), 0
        while state.missing:
            for gap, count in state.missing:
                for start in range(gap, gap + count, size):
                    stop = min(start + size, gap + count)
                    chunk = upload.share(cloud, start, stop)
                    to.tell("chunk", ChunkPlace(upload_id, start), [chunk])
                    sent += stop - start
                    advance(stop - start)
            state = to.call("missing", UploadRef(upload_id), reply=UploadState)[0]
        advance(len(upload.values) - sent)  # sent by an earlier attempt


def _audited(record: UploadRecord, upload: PreparedUpload) -> dict[Cloud, Commit]:
    """Each cloud's salt and the digest of the other cloud's part, for an audit."""
    salts: dict[Cloud, bytes] = {1: record.salts[:SALT_BYTES], 2: record.salts[SALT_BYTES:]}
    digests: dict[Cloud, bytes] = {}
    for cloud, part in parts_of(upload.side.spec).items():
        digest = PartDigest(salts[cloud])
        if not isinstance(part, RowsPart):
            digests[cloud] = digest.of_seed(upload.secret)
            continue
        for first in range(0, len(upload.values), _AUDIT_ROWS):
            digest.add(upload.share(cloud, first, first + _AUDIT_ROWS))
        digests[cloud] = digest.value()
    return {
        1: Commit(record.upload_id, salts[1], digests[2]),
        2: Commit(record.upload_id, salts[2], digests[1]),
    }


def _receipt(spec: Spec, record: UploadRecord, rows: int, *, repeated: bool) -> Receipt:
    privacy = spec.form.privacy()
    return Receipt(spec.name, record.upload_id, rows, spec.digest, repeated, privacy)


def _counting(
    none: Sent, advance: Callable[[int], None], on_sent: OnSent | None
) -> Callable[[int], None]:
    """Counts the rows that one cloud gets, for the bar and for whoever watches."""
    sent = none.sent

    def count(rows: int) -> None:
        nonlocal sent
        sent += rows
        advance(rows)
        if on_sent is not None:
            on_sent(replace(none, sent=sent))

    return count


@contextmanager
def _bar(title: str, rows: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on the terminal, if there is one."""
    console = Console(stderr=True)
    with Progress(console=console, disable=not (shown and console.is_terminal)) as progress:
        task = progress.add_task(title, total=rows)
        yield lambda count: progress.update(task, advance=count)
