"""Uploads in a cloud's store: what owners sent, sealing, and the sealed rows.

What this cloud takes of an upload says the form of the dataset's kind: rows, kept in chunk files,
each noted in the database with its digest after the file is on disk in full; or a seed, from which
the rows are worked out; or nothing. An upload counts once it is committed, which needs every row.
Everything an owner repeats is harmless; everything that contradicts what is there is refused.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from ppodc.errors import InputError, WithdrawnError
from ppodc.records.names import Name, UploadId, is_upload_id
from ppodc.records.upload_form import (
    Arranges,
    Cloud,
    Part,
    RowsPart,
    SeedPart,
    TellsOfRecords,
)
from ppodc.service.job_state import JobState, check_transition
from ppodc.service.quotas import Quotas
from ppodc.service.store.chunks import chunk_digest, load_chunk, save_chunk
from ppodc.service.store.database import Database, utc_now
from ppodc.service.store.datasets import Datasets
from ppodc.service.store.ledger import Ledger
from ppodc.transport.wire import Body

Outline = NDArray[np.uint32]
MAX_ROWS = 1 << 40
_TOLD = 5  # upload ids in one entry of the ledger

SCHEMA = """
CREATE TABLE upload (
    number INTEGER PRIMARY KEY,
    upload_id TEXT NOT NULL UNIQUE,
    dataset TEXT NOT NULL REFERENCES dataset (name),
    owner TEXT NOT NULL,
    row_count INTEGER NOT NULL,
    committed INTEGER NOT NULL DEFAULT 0,
    seed BLOB,
    first_sealed_row INTEGER,
    begun TEXT NOT NULL DEFAULT '',
    removed TEXT NOT NULL DEFAULT '',
    outline TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX upload_of_dataset ON upload (dataset, number);
CREATE INDEX upload_of_owner ON upload (dataset, owner, number);
CREATE TABLE chunk (
    upload_id TEXT NOT NULL REFERENCES upload (upload_id),
    first_row INTEGER NOT NULL,
    row_count INTEGER NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (upload_id, first_row)
) STRICT
"""
OUTLINES = """
CREATE TABLE outline (
    upload_id TEXT PRIMARY KEY REFERENCES upload (upload_id) ON DELETE CASCADE,
    columns INTEGER NOT NULL,
    cells BLOB NOT NULL
) STRICT
"""


class Upload(Body, frozen=True):
    """One upload of one owner, as it is kept and as it travels.

    `sealed`: among the records of the job. Its place among them is not told: it would show an
    owner how many rows others have. `removed`: withdrawn by its owner or left out by an operator;
    its data are gone, its id stays taken.
    """

    upload_id: UploadId
    dataset: Name
    owner: Name
    rows: Annotated[int, Meta(ge=1, le=MAX_ROWS)]
    committed: bool
    sealed: bool
    removed: Literal["", "withdrawn", "left out"] = ""
    outline: Annotated[str, Meta(max_length=64)] = ""  # digest of its cells, if it tells any

    @property
    def identity(self) -> tuple[str, str, int, str]:
        """What both clouds must have alike: (id, owner, rows, digest of its cells)."""
        return self.upload_id, self.owner, self.rows, self.outline


@dataclass(frozen=True, slots=True)
class Sealed:
    """The fixed set of records: m rows in the order of the uploads."""

    m: int
    digest: str
    uploads: tuple[Upload, ...]
    outlines: Mapping[str, Outline] = field(default_factory=dict, repr=False)  # by upload

    @property
    def owners(self) -> list[str]:
        """In the order of their first upload; an owner's number is its place."""
        return list(dict.fromkeys(upload.owner for upload in self.uploads))

    @property
    def owned_rows(self) -> list[tuple[int, int]]:
        """(number of the owner, rows) of every upload, in order."""
        numbers = {owner: number for number, owner in enumerate(self.owners)}
        return [(numbers[upload.owner], upload.rows) for upload in self.uploads]

    def places(self) -> Iterator[tuple[int, Upload]]:
        """Each upload with its first sealed row."""
        first = 0
        for upload in self.uploads:
            yield first, upload
            first += upload.rows


def seal_digest(spec_digest: str, uploads: Iterable[Upload]) -> str:
    """SHA-256 over the spec's digest and the ordered (upload id, rows, any outline), in hex."""
    listed = [
        [upload.upload_id, upload.rows, *([upload.outline] if upload.outline else [])]
        for upload in uploads
    ]
    content = json.dumps([spec_digest, listed], separators=(",", ":"))
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def outline_digest(outline: Outline) -> str:
    """SHA-256 of an outline, in hex."""
    data = np.ascontiguousarray(outline, "<u4").tobytes()
    return hashlib.sha256(f"outline {outline.shape} ".encode() + data).hexdigest()


class Uploads:
    """The part of a store that owners fill."""

    def __init__(
        self, database: Database, ledger: Ledger, datasets: Datasets, folder: Path, cloud: Cloud
    ) -> None:
        self._database, self._ledger, self._datasets = database, ledger, datasets
        self.folder, self._cloud = folder, cloud

    def begin(
        self,
        dataset: str,
        owner: str,
        upload_id: str,
        rows: int,
        quotas: Quotas | None = None,
        outline: Outline | None = None,
    ) -> None:
        """Announce an upload; again with the same numbers is harmless, also when it is finished.

        `outline` are its cells, where the form of the dataset's uploads has any.
        """
        if not is_upload_id(upload_id):
            raise InputError("an upload id must have 32 hexadecimal digits.")
        if not 1 <= rows <= MAX_ROWS:
            raise InputError(f"an upload must have 1 to {MAX_ROWS} rows.")
        part = self._part(dataset)
        digest = self._outline(dataset, rows, outline)
        with self._database.transaction() as sql:
            known = find_upload(sql, upload_id)
            if known is not None:
                same = (known.dataset, known.owner, known.rows, known.outline)
                if same != (dataset, owner, rows, digest):
                    raise InputError("this upload id is taken by another upload; use a new one.")
                check_not_removed(known)
                if known.committed:
                    return
            self.check_open(sql, dataset)
            if known is None:
                if quotas is not None:
                    _check_quotas(sql, dataset, owner, rows, part, quotas)
                sql.execute(
                    "INSERT INTO upload (upload_id, dataset, owner, row_count, begun, outline)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    (upload_id, dataset, owner, rows, utc_now(), digest),
                )
                if outline is not None:
                    cells = np.ascontiguousarray(outline, "<u4").tobytes()
                    fields = (upload_id, outline.shape[1], cells)
                    sql.execute("INSERT INTO outline VALUES (?, ?, ?)", fields)

    def _outline(self, dataset: str, rows: int, outline: Outline | None) -> str:
        """The digest of an outline that fits the dataset; InputError for any other."""
        spec = self._datasets.spec(dataset)
        form = spec.kind.upload(spec)
        if isinstance(form, Arranges) != (outline is not None):
            raise InputError(f"uploads to dataset {dataset!r} are announced otherwise.")
        if outline is None or not isinstance(form, Arranges):
            return ""
        form.check_outline(outline, rows)
        return outline_digest(outline)

    def extents(self, dataset: str) -> Outline:
        """The cells, without counts, of the owner whom the others follow."""
        spec = self._datasets.spec(dataset)
        form = spec.kind.upload(spec)
        leader = form.follows if isinstance(form, Arranges) else ""
        own = self.of(dataset, owner=leader, committed=True, limit=1) if leader else []
        if not isinstance(form, Arranges) or not own:
            whom = f"; wait for {leader}" if leader else ""
            raise InputError(f"dataset {dataset!r} has no cells to follow (yet){whom}.")
        with self._database.reading() as sql:
            outline = _cells(sql, own[0].upload_id)
        return form.extents(outline)

    def get(self, upload_id: str) -> Upload:
        """One upload; InputError if it was never begun."""
        with self._database.reading() as sql:
            return known_upload(sql, upload_id)

    def of(
        self,
        dataset: str,
        *,
        owner: str | None = None,
        committed: bool = False,
        skip: int = 0,
        limit: int = -1,
    ) -> list[Upload]:
        """Uploads of a dataset in order of arrival: all, or one owner's, or the committed ones."""
        query = "SELECT * FROM upload WHERE dataset = ?"
        values: list[str | int] = [dataset]
        if owner is not None:
            query, values = f"{query} AND owner = ?", [*values, owner]
        if committed:
            query += " AND committed"
        query += " ORDER BY number LIMIT ? OFFSET ?"
        with self._database.reading() as sql:
            self._datasets.row(sql, dataset)
            return [upload_of(row) for row in sql.execute(query, (*values, limit, skip))]

    def put_chunk(self, upload_id: str, first_row: int, rows: NDArray[Any]) -> None:
        """Keep rows of this cloud's part. The same rows again are harmless, others refused."""
        upload = self.get(upload_id)
        part = self._part(upload.dataset)
        if not isinstance(part, RowsPart):
            raise InputError(f"cloud {self._cloud} takes a seed of an upload, and no rows.")
        part.check(rows, first_row, upload.rows)
        digest = chunk_digest(rows)
        with self._database.reading() as sql:
            if not self._chunk_is_new(sql, upload, first_row, len(rows), digest):
                return
        save_chunk(self.folder / upload_id, first_row, rows, digest)
        with self._database.transaction() as sql:
            if self._chunk_is_new(sql, upload, first_row, len(rows), digest):
                fields = (upload_id, first_row, len(rows), digest)
                sql.execute("INSERT INTO chunk VALUES (?, ?, ?, ?)", fields)

    def put_seed(self, upload_id: str, seed: bytes) -> None:
        """Keep the seed of this cloud's part. The same seed again is harmless."""
        part = self._part(self.get(upload_id).dataset)
        if not isinstance(part, SeedPart):
            raise InputError(f"cloud {self._cloud} takes the rows of an upload, and no seed.")
        part.check(seed)
        with self._database.transaction() as sql:
            upload = known_upload(sql, upload_id)
            check_not_removed(upload)
            kept = _seed(sql, upload_id)
            if kept == seed:
                return
            if kept is not None:
                raise InputError("this upload has another seed already; begin a new upload.")
            self.check_open(sql, upload.dataset)
            sql.execute("UPDATE upload SET seed = ? WHERE upload_id = ?", (seed, upload_id))

    def missing(self, upload_id: str) -> list[tuple[int, int]]:
        """Rows that are not there yet, as (first, number of rows)."""
        with self._database.reading() as sql:
            upload = known_upload(sql, upload_id)
            if isinstance(self._part(upload.dataset), SeedPart):
                return [(0, upload.rows)] if _seed(sql, upload_id) is None else []
            gaps, at = [], 0
            for first, count in sql.execute(
                "SELECT first_row, row_count FROM chunk WHERE upload_id = ? ORDER BY first_row",
                (upload_id,),
            ):
                if first > at:
                    gaps.append((at, first - at))
                at = first + count
            if at < upload.rows:
                gaps.append((at, upload.rows - at))
            return gaps

    def commit(self, upload_id: str) -> None:
        """Count the upload from now on; refused while rows are missing."""
        with self._database.transaction() as sql:
            upload = known_upload(sql, upload_id)
            check_not_removed(upload)
            if upload.committed:
                return
            self.check_open(sql, upload.dataset)
            gaps = self.missing(upload_id)
            if gaps:
                rows = sum(count for _, count in gaps)
                raise InputError(f"{rows} rows of the upload are missing; send them first.")
            sql.execute("UPDATE upload SET committed = 1 WHERE upload_id = ?", (upload_id,))
            detail = {"upload": upload_id, "owner": upload.owner, "rows": upload.rows}
            learnt = "this cloud and its operators: whose upload it is, and its number of records"
            privacy = self._privacy(upload.dataset)
            self._ledger.append("upload committed", upload.dataset, {**detail, **privacy}, learnt)

    def _privacy(self, dataset: str) -> dict[str, str]:
        """What an upload tells of one record, for the ledger; nothing if it tells nothing."""
        spec = self._datasets.spec(dataset)
        form = spec.kind.upload(spec)
        return {"privacy": form.privacy().brief} if isinstance(form, TellsOfRecords) else {}

    def seal(self, dataset: str, upload_ids: Sequence[str]) -> str:
        """Fix the records and their order; the digest that both clouds must agree on.

        The same content again is harmless, other content is refused.
        """
        with self._database.transaction() as sql:
            row = self._datasets.row(sql, dataset)
            uploads = tuple(known_upload(sql, upload_id) for upload_id in upload_ids)
            self._check_sealable(dataset, uploads)
            digest = seal_digest(row["digest"], uploads)
            if row["seal"] is not None:
                if row["seal"] != digest:
                    raise InputError(f"dataset {dataset!r} is sealed with other uploads.")
                return digest
            self.check_open(sql, dataset)
            sealed = Sealed(sum(upload.rows for upload in uploads), digest, uploads)
            for first, upload in sealed.places():
                sql.execute(
                    "UPDATE upload SET first_sealed_row = ? WHERE upload_id = ?",
                    (first, upload.upload_id),
                )
            sql.execute(
                "UPDATE dataset SET seal = ?, state = ?, updated = ? WHERE name = ?",
                (digest, JobState.SEALED, utc_now(), dataset),
            )
            detail = {"seal": digest, "uploads": len(uploads), "rows": sealed.m}
            learnt = "both clouds, operators and owners: the number of all records"
            self._ledger.append("dataset sealed", dataset, detail, learnt)
        return digest

    def reopen(self, dataset: str, missing: Sequence[str]) -> None:
        """Undo a seal that the other cloud does not share, since it lacks these uploads."""
        with self._database.transaction() as sql:
            check_transition(dataset, self._datasets.state(sql, dataset), JobState.CREATED)
            sql.execute("UPDATE upload SET first_sealed_row = NULL WHERE dataset = ?", (dataset,))
            sql.execute(
                "UPDATE dataset SET seal = NULL, state = ?, updated = ? WHERE name = ?",
                (JobState.CREATED, utc_now(), dataset),
            )
            self._ledger.append("seal undone", dataset, {"missing": list(missing)[:_TOLD]})

    def sealed(self, dataset: str) -> Sealed:
        """The sealed set; InputError if the dataset is still open."""
        with self._database.reading() as sql:
            digest = self._datasets.row(sql, dataset)["seal"]
            if digest is None:
                raise InputError(f"dataset {dataset!r} is not sealed yet.")
            query = (
                "SELECT * FROM upload WHERE dataset = ? AND first_sealed_row IS NOT NULL"
                " ORDER BY first_sealed_row"
            )
            uploads = tuple(upload_of(row) for row in sql.execute(query, (dataset,)))
            outlines = self.outlines(uploads)
        return Sealed(sum(upload.rows for upload in uploads), digest, uploads, outlines)

    def outlines(self, uploads: Iterable[Upload]) -> dict[str, Outline]:
        """The cells of those that have told some."""
        with self._database.reading() as sql:
            return {u.upload_id: _cells(sql, u.upload_id) for u in uploads if u.outline}

    def rows(self, dataset: str, first: int, count: int) -> NDArray[Any]:
        """This cloud's part of these sealed rows, in sealed order."""
        sealed, part = self.sealed(dataset), self._part(dataset)
        if first < 0 or count < 0 or first + count > sealed.m:
            raise InputError(f"dataset {dataset!r} has {sealed.m} sealed rows; asked beyond.")
        out = np.empty((count, part.columns), part.dtype)
        for upload_first, upload in sealed.places():
            start = max(first, upload_first)
            stop = min(first + count, upload_first + upload.rows)
            if start < stop:
                self._read(upload, part, start - upload_first, out[start - first : stop - first])
        return out

    def _read(self, upload: Upload, part: Part, first: int, out: NDArray[Any]) -> None:
        """Rows from `first` on of one upload, into `out`."""
        rows = len(out)
        if isinstance(part, SeedPart):
            with self._database.reading() as sql:
                seed = _seed(sql, upload.upload_id)
            out[:] = part.rows(seed or b"", first, rows)
            return
        with self._database.reading() as sql:
            chunks = _overlapping(sql, upload.upload_id, first, rows)
        for at, count, digest in chunks:
            values = load_chunk(self.folder / upload.upload_id, at, digest, out.dtype)
            start, stop = max(first, at), min(first + rows, at + count)
            out[start - first : stop - first] = values.reshape(count, -1)[start - at : stop - at]

    def _part(self, dataset: str) -> Part:
        spec = self._datasets.spec(dataset)
        part = spec.kind.upload(spec).part(self._cloud)
        if part is None:
            raise InputError(f"uploads to dataset {dataset!r} do not concern cloud {self._cloud}.")
        return part

    def check_open(self, sql: sqlite3.Connection, dataset: str) -> None:
        """For the rest of the store, in its transaction: refuse changes once it is sealed."""
        state = self._datasets.state(sql, dataset)
        if state != JobState.CREATED:
            raise InputError(
                f"dataset {dataset!r} is {state}: it takes no more uploads, nor gives any back."
            )

    def _check_sealable(self, dataset: str, uploads: Sequence[Upload]) -> None:
        if not uploads:
            raise InputError(f"dataset {dataset!r} has no uploads that both clouds hold.")
        if len({upload.upload_id for upload in uploads}) != len(uploads):
            raise InputError("an upload is listed twice.")
        for upload in uploads:
            if upload.dataset != dataset or not upload.committed:
                raise InputError(f"upload {upload.upload_id} is not complete in this dataset.")
        members = self._datasets.spec(dataset).owners
        owners = {upload.owner for upload in uploads}
        if members is not None and len(owners) < members.least:
            raise InputError(
                f"the spec of dataset {dataset!r} wants uploads of at least {members.least} "
                f"owners, and {len(owners)} have one at both clouds; wait for the others."
            )

    def _chunk_is_new(
        self, sql: sqlite3.Connection, upload: Upload, first_row: int, rows: int, digest: str
    ) -> bool:
        """False if this very chunk is there; InputError if other rows are or none may be added."""
        check_not_removed(known_upload(sql, upload.upload_id))  # it may have been, meanwhile
        there = _overlapping(sql, upload.upload_id, first_row, rows)
        if there == [(first_row, rows, digest)]:
            return False
        if there:
            raise InputError(f"rows from {there[0][0]} on are there with other content.")
        self.check_open(sql, upload.dataset)
        return True


def _overlapping(
    sql: sqlite3.Connection, upload_id: str, first: int, rows: int
) -> list[tuple[int, int, str]]:
    """The chunks with any of these rows, in order: (first row, number of rows, digest)."""
    query = (
        "SELECT first_row, row_count, digest FROM chunk WHERE upload_id = ?"
        " AND first_row < ? AND first_row + row_count > ? ORDER BY first_row"
    )
    return [tuple(row) for row in sql.execute(query, (upload_id, first + rows, first))]


def find_upload(sql: sqlite3.Connection, upload_id: str) -> Upload | None:
    row = sql.execute("SELECT * FROM upload WHERE upload_id = ?", (upload_id,)).fetchone()
    return None if row is None else upload_of(row)


def known_upload(sql: sqlite3.Connection, upload_id: str) -> Upload:
    upload = find_upload(sql, upload_id)
    if upload is None:
        raise InputError("there is no upload of this id here; begin it first.")
    return upload


def upload_of(row: sqlite3.Row) -> Upload:
    fields = (row["upload_id"], row["dataset"], row["owner"], row["row_count"])
    sealed = row["first_sealed_row"] is not None
    return Upload(*fields, bool(row["committed"]), sealed, row["removed"], row["outline"])


def _cells(sql: sqlite3.Connection, upload_id: str) -> Outline:
    """The outline of an upload; none is left of one whose data are gone."""
    row = sql.execute("SELECT * FROM outline WHERE upload_id = ?", (upload_id,)).fetchone()
    if row is None:
        return np.empty((0, 1), np.uint32)
    cells = np.frombuffer(row["cells"], "<u4").astype(np.uint32)
    return cells.reshape(-1, row["columns"])


def _seed(sql: sqlite3.Connection, upload_id: str) -> bytes | None:
    row = sql.execute("SELECT seed FROM upload WHERE upload_id = ?", (upload_id,)).fetchone()
    seed: bytes | None = row["seed"]
    return seed


def check_not_removed(upload: Upload) -> None:
    """Refuse to go on with an upload whose data are gone."""
    if upload.removed == "withdrawn":
        raise WithdrawnError("this upload was withdrawn; begin a new one.")
    if upload.removed:
        raise InputError(f"upload {upload.upload_id} was left out by an operator; ask them why.")


def _check_quotas(
    sql: sqlite3.Connection, dataset: str, owner: str, rows: int, part: Part, quotas: Quotas
) -> None:
    """Refuse an upload that would be more than one owner may bring."""
    uploads, there = sql.execute(
        "SELECT count(*), coalesce(sum(iif(removed = '', row_count, 0)), 0) FROM upload"
        " WHERE dataset = ? AND owner = ?",
        (dataset, owner),
    ).fetchone()
    is_rows = isinstance(part, RowsPart)
    row_bytes = np.dtype(part.dtype).itemsize * part.columns if is_rows else 0
    for what, count, most in (
        ("uploads", uploads + 1, quotas.uploads),
        ("records", there + rows, quotas.rows),
        ("megabytes", -(-(there + rows) * row_bytes // 10**6), quotas.megabytes),
    ):
        if count > most:
            raise InputError(
                f"an owner may have {most} {what} in a dataset here, and this would make {count}. "
                "Withdraw an upload, or ask the operator for more."
            )
