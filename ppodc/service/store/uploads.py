"""Uploads in a cloud's store: shares, sealing, and the sealed rows.

Cloud 1 keeps its share of an upload in chunk files, each noted in the database with its digest
after the file is on disk in full; cloud 2 keeps the seed. An upload counts once it is committed,
which needs every row. Everything an owner repeats is harmless; everything that contradicts what
is there is refused.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.records.names import is_upload_id
from ppodc.records.sharing import SEED_BYTES, mask
from ppodc.service.job_state import JobState
from ppodc.service.store.chunks import check_share, chunk_digest, load_chunk, save_chunk
from ppodc.service.store.datasets import Datasets
from ppodc.spec import Spec

MAX_ROWS = 1 << 40

SCHEMA = """
CREATE TABLE IF NOT EXISTS upload (
    number INTEGER PRIMARY KEY,
    upload_id TEXT NOT NULL UNIQUE,
    dataset TEXT NOT NULL REFERENCES dataset (name),
    owner TEXT NOT NULL,
    row_count INTEGER NOT NULL,
    committed INTEGER NOT NULL DEFAULT 0,
    seed BLOB,
    first_sealed_row INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS upload_of_dataset ON upload (dataset, number);
CREATE TABLE IF NOT EXISTS chunk (
    upload_id TEXT NOT NULL REFERENCES upload (upload_id),
    first_row INTEGER NOT NULL,
    row_count INTEGER NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (upload_id, first_row)
) STRICT
"""


@dataclass(frozen=True, slots=True)
class UploadInfo:
    """One upload of one owner."""

    upload_id: str
    dataset: str
    owner: str
    rows: int
    committed: bool
    sealed: bool  # among the records of the job


@dataclass(frozen=True, slots=True)
class SealedUpload:
    """The place of an upload among the sealed rows."""

    upload_id: str
    owner: str
    first_row: int
    rows: int


@dataclass(frozen=True, slots=True)
class Sealed:
    """The fixed set of records: m rows in the order of the uploads."""

    m: int
    digest: str
    uploads: list[SealedUpload]


def seal_digest(spec_digest: str, uploads: Iterable[tuple[str, int]]) -> str:
    """SHA-256 over the spec's digest and the ordered (upload id, rows), in hex."""
    content = json.dumps([spec_digest, list(map(list, uploads))], separators=(",", ":"))
    return hashlib.sha256(content.encode("ascii")).hexdigest()


class Uploads(Datasets):
    """The part of a store that owners fill."""

    def begin_upload(self, dataset: str, owner: str, upload_id: str, rows: int) -> None:
        """Announce an upload; again with the same numbers is harmless, also when it is finished."""
        if not is_upload_id(upload_id):
            raise InputError("an upload id must have 32 hexadecimal digits.")
        if not 1 <= rows <= MAX_ROWS:
            raise InputError(f"an upload must have 1 to {MAX_ROWS} rows.")
        with self._database.transaction() as sql:
            state = JobState(self._row(sql, dataset)["state"])
            known = _find(sql, upload_id)
            if known is not None:
                if (known["dataset"], known["owner"], known["row_count"]) != (dataset, owner, rows):
                    raise InputError("this upload id is taken by another upload; use a new one.")
                if known["committed"]:
                    return
            _check_open(dataset, state)
            if known is None:
                sql.execute(
                    "INSERT INTO upload (upload_id, dataset, owner, row_count) VALUES (?, ?, ?, ?)",
                    (upload_id, dataset, owner, rows),
                )

    def upload(self, upload_id: str) -> UploadInfo:
        """One upload; InputError if it was never begun."""
        with self._database.reading() as sql:
            return _upload_info(_known(sql, upload_id))

    def uploads(self, dataset: str) -> list[UploadInfo]:
        """All uploads of a dataset, finished or not, in order of arrival."""
        with self._database.reading() as sql:
            self._row(sql, dataset)
            query = "SELECT * FROM upload WHERE dataset = ? ORDER BY number"
            return [_upload_info(row) for row in sql.execute(query, (dataset,))]

    def put_chunk(self, upload_id: str, first_row: int, share: NDArray[np.uint64]) -> None:
        """Cloud 1: keep rows of its share. The same rows again are harmless, others refused."""
        if self.role != "cloud1":
            raise InputError("shares go to cloud 1; cloud 2 takes the seed.")
        with self._database.reading() as sql:
            upload = _known(sql, upload_id)
            columns = len(Spec.from_bytes(self._row(sql, upload["dataset"])["spec"]).schema.columns)
        check_share(share, first_row, upload["row_count"], columns)
        digest = chunk_digest(share)
        with self._database.reading() as sql:
            if not self._chunk_is_new(sql, upload_id, first_row, len(share), digest):
                return
        save_chunk(self._chunks(upload_id), first_row, share, digest)
        with self._database.transaction() as sql:
            if self._chunk_is_new(sql, upload_id, first_row, len(share), digest):
                sql.execute(
                    "INSERT INTO chunk VALUES (?, ?, ?, ?)",
                    (upload_id, first_row, len(share), digest),
                )

    def put_seed(self, upload_id: str, seed: bytes) -> None:
        """Cloud 2: keep the seed of its share. The same seed again is harmless."""
        if self.role != "cloud2":
            raise InputError("the seed goes to cloud 2; cloud 1 takes the share.")
        if len(seed) != SEED_BYTES:
            raise InputError(f"the seed of an upload must have {SEED_BYTES} bytes.")
        with self._database.transaction() as sql:
            upload = _known(sql, upload_id)
            if upload["seed"] == seed:
                return
            if upload["seed"] is not None:
                raise InputError("this upload has another seed already; begin a new upload.")
            _check_open(upload["dataset"], self._state(sql, upload["dataset"]))
            sql.execute("UPDATE upload SET seed = ? WHERE upload_id = ?", (seed, upload_id))

    def missing(self, upload_id: str) -> list[tuple[int, int]]:
        """Rows that are not there yet, as (first, number of rows)."""
        with self._database.reading() as sql:
            upload = _known(sql, upload_id)
            if self.role == "cloud2":
                return [] if upload["seed"] is not None else [(0, upload["row_count"])]
            gaps, at = [], 0
            for first, count in sql.execute(
                "SELECT first_row, row_count FROM chunk WHERE upload_id = ? ORDER BY first_row",
                (upload_id,),
            ):
                if first > at:
                    gaps.append((at, first - at))
                at = first + count
            if at < upload["row_count"]:
                gaps.append((at, upload["row_count"] - at))
            return gaps

    def commit_upload(self, upload_id: str) -> None:
        """Count the upload from now on; refused while rows are missing."""
        with self._database.transaction() as sql:
            upload = _known(sql, upload_id)
            if upload["committed"]:
                return
            _check_open(upload["dataset"], self._state(sql, upload["dataset"]))
            gaps = self.missing(upload_id)
            if gaps:
                rows = sum(count for _, count in gaps)
                raise InputError(f"{rows} rows of the upload are missing; send them first.")
            sql.execute("UPDATE upload SET committed = 1 WHERE upload_id = ?", (upload_id,))
            detail = {"upload": upload_id, "owner": upload["owner"], "rows": upload["row_count"]}
            self.ledger.append("upload committed", upload["dataset"], detail)

    def seal(self, dataset: str, upload_ids: Sequence[str]) -> str:
        """Fix the records and their order; the digest that both clouds must agree on.

        The same content again is harmless, other content is refused.
        """
        with self._database.transaction() as sql:
            row = self._row(sql, dataset)
            uploads = [_known(sql, upload_id) for upload_id in upload_ids]
            _check_sealable(dataset, uploads)
            digest = seal_digest(row["digest"], ((u["upload_id"], u["row_count"]) for u in uploads))
            if row["seal"] is not None:
                if row["seal"] != digest:
                    raise InputError(f"dataset {dataset!r} is sealed with other uploads.")
                return digest
            _check_open(dataset, JobState(row["state"]))
            first = 0
            for upload in uploads:
                sql.execute(
                    "UPDATE upload SET first_sealed_row = ? WHERE number = ?",
                    (first, upload["number"]),
                )
                first += upload["row_count"]
            sql.execute(
                "UPDATE dataset SET seal = ?, state = ? WHERE name = ?",
                (digest, JobState.SEALED, dataset),
            )
            detail = {"seal": digest, "uploads": len(uploads), "rows": first}
            self.ledger.append("dataset sealed", dataset, detail)
        return digest

    def sealed(self, dataset: str) -> Sealed:
        """The sealed set; InputError if the dataset is still open."""
        with self._database.reading() as sql:
            digest = self._row(sql, dataset)["seal"]
            if digest is None:
                raise InputError(f"dataset {dataset!r} is not sealed yet.")
            query = (
                "SELECT upload_id, owner, first_sealed_row, row_count FROM upload"
                " WHERE dataset = ? AND first_sealed_row IS NOT NULL ORDER BY first_sealed_row"
            )
            uploads = [SealedUpload(*row) for row in sql.execute(query, (dataset,))]
        return Sealed(sum(upload.rows for upload in uploads), digest, uploads)

    def rows(self, dataset: str, first: int, count: int) -> NDArray[np.uint64]:
        """This cloud's share of these sealed rows, in sealed order."""
        sealed = self.sealed(dataset)
        if first < 0 or count < 0 or first + count > sealed.m:
            raise InputError(f"dataset {dataset!r} has {sealed.m} sealed rows; asked beyond.")
        columns = len(self.spec(dataset).schema.columns)
        out = np.empty((count, columns), np.uint64)
        for upload in sealed.uploads:
            start = max(first, upload.first_row)
            stop = min(first + count, upload.first_row + upload.rows)
            if start < stop:
                part = out[start - first : stop - first]
                self._read(upload.upload_id, start - upload.first_row, part)
        return out

    def _read(self, upload_id: str, first: int, out: NDArray[np.uint64]) -> None:
        """Rows from `first` on of one upload, into `out`."""
        rows, columns = out.shape
        if self.role == "cloud2":
            with self._database.reading() as sql:
                seed = _known(sql, upload_id)["seed"]
            out[:] = mask(seed, first, rows, columns)
            return
        query = (
            "SELECT first_row, row_count, digest FROM chunk WHERE upload_id = ?"
            " AND first_row < ? AND first_row + row_count > ? ORDER BY first_row"
        )
        with self._database.reading() as sql:
            chunks = sql.execute(query, (upload_id, first + rows, first)).fetchall()
        for chunk_first, count, digest in chunks:
            chunk = load_chunk(self._chunks(upload_id), chunk_first, digest).reshape(count, columns)
            start, stop = max(first, chunk_first), min(first + rows, chunk_first + count)
            out[start - first : stop - first] = chunk[start - chunk_first : stop - chunk_first]

    def _chunks(self, upload_id: str) -> Path:
        return self.folder / "uploads" / upload_id

    def _chunk_is_new(
        self, sql: sqlite3.Connection, upload_id: str, first_row: int, rows: int, digest: str
    ) -> bool:
        """False if this very chunk is there; InputError if other rows are or none may be added."""
        there = sql.execute(
            "SELECT first_row, row_count, digest FROM chunk WHERE upload_id = ?"
            " AND first_row < ? AND first_row + row_count > ?",
            (upload_id, first_row + rows, first_row),
        ).fetchall()
        if [tuple(row) for row in there] == [(first_row, rows, digest)]:
            return False
        if there:
            raise InputError(f"rows from {there[0]['first_row']} on are there with other content.")
        dataset = _known(sql, upload_id)["dataset"]
        _check_open(dataset, self._state(sql, dataset))
        return True


def _find(sql: sqlite3.Connection, upload_id: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = sql.execute(
        "SELECT * FROM upload WHERE upload_id = ?", (upload_id,)
    ).fetchone()
    return row


def _known(sql: sqlite3.Connection, upload_id: str) -> sqlite3.Row:
    row = _find(sql, upload_id)
    if row is None:
        raise InputError("there is no upload of this id here; begin it first.")
    return row


def _upload_info(row: sqlite3.Row) -> UploadInfo:
    fields = (row["upload_id"], row["dataset"], row["owner"], row["row_count"])
    return UploadInfo(*fields, bool(row["committed"]), row["first_sealed_row"] is not None)


def _check_open(dataset: str, state: JobState) -> None:
    if state != JobState.CREATED:
        raise InputError(f"dataset {dataset!r} is {state}: it takes no more uploads.")


def _check_sealable(dataset: str, uploads: Sequence[sqlite3.Row]) -> None:
    if not uploads:
        raise InputError(f"dataset {dataset!r} has no uploads that both clouds hold.")
    if len({upload["number"] for upload in uploads}) != len(uploads):
        raise InputError("an upload is listed twice.")
    for upload in uploads:
        if upload["dataset"] != dataset or not upload["committed"]:
            raise InputError(f"upload {upload['upload_id']} is not complete in this dataset.")
