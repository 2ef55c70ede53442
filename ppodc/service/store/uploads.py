"""Uploads in a cloud's store: what owners sent.

The dataset's kind decides which part of an upload this cloud stores: rows in chunk files, each
noted in the database with its digest once the file is on disk in full; a seed, which gives the
rows; or nothing. An upload counts once it is committed, which needs every row. Repeating a
request is harmless. A request that contradicts what is stored is refused.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, NotFoundError, StateError, WithdrawnError
from ppodc.names import is_upload_id
from ppodc.records.upload_form import Cloud, Part, RowsPart, SeedPart
from ppodc.service.job_state import JobState
from ppodc.service.quotas import Quotas
from ppodc.service.sealed_uploads import MAX_ROWS, Outline, Upload, outline_digest
from ppodc.service.store import audits, chunks, outlines
from ppodc.service.store.database import Database, utc_now
from ppodc.service.store.datasets import Datasets
from ppodc.service.store.ledger import Ledger

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
    begun TEXT NOT NULL,
    removed TEXT NOT NULL DEFAULT '',
    outline TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX upload_of_dataset ON upload (dataset, number);
CREATE INDEX upload_of_owner ON upload (dataset, owner, number)
"""


class Uploads:
    """The part of a store that owners fill."""

    def __init__(
        self, database: Database, ledger: Ledger, datasets: Datasets, folder: Path, cloud: Cloud
    ) -> None:
        self._database, self._ledger, self._datasets = database, ledger, datasets
        self.folder, self.cloud = folder, cloud

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
        least = self._datasets.spec(dataset).form.least_rows
        if not least <= rows <= MAX_ROWS:
            raise InputError(f"an upload must have {least} to {MAX_ROWS} rows.")
        part = self.part(dataset)
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
                    outlines.keep(sql, upload_id, outline)

    def room(self, dataset: str, owner: str, quotas: Quotas) -> int:
        """The most rows a new upload of this owner may have; InputError if it may have none."""
        part = self.part(dataset)
        with self._database.reading() as sql:
            self.check_open(sql, dataset)
            _check_quotas(sql, dataset, owner, 0, part, quotas)
            _, there = _brought(sql, dataset, owner)
        size = _row_bytes(part)
        by_size = quotas.megabytes * 10**6 // size if size else MAX_ROWS
        return min(MAX_ROWS, quotas.rows - there, by_size - there)

    def _outline(self, dataset: str, rows: int, outline: Outline | None) -> str:
        """The digest of an outline that fits the dataset; InputError for any other."""
        form = self._datasets.spec(dataset).form
        if form.has_cells != (outline is not None):
            needs = "requires cell counts" if form.has_cells else "does not accept cell counts"
            raise StateError(f"dataset {dataset!r} {needs}.")
        if outline is None:
            return ""
        form.check_outline(outline, rows)
        return outline_digest(outline)

    def extents(self, dataset: str) -> Outline:
        """The cells, without counts, of the owner whom the others follow."""
        form = self._datasets.spec(dataset).form
        leader = form.follows
        own = self.of(dataset, owner=leader, committed=True, limit=1) if leader else []
        if not own:
            whom = f"; wait for {leader}" if leader else ""
            raise StateError(f"dataset {dataset!r} has no cells to follow (yet){whom}.")
        with self._database.reading() as sql:
            outline = outlines.cells(sql, own[0].upload_id)
        return form.extents(outline)

    def outlines(self, uploads: Iterable[Upload]) -> dict[str, Outline]:
        """The cells of those that have told some."""
        with self._database.reading() as sql:
            return {u.upload_id: outlines.cells(sql, u.upload_id) for u in uploads if u.outline}

    def find(self, upload_id: str) -> Upload | None:
        """One upload; None if it was never begun."""
        with self._database.reading() as sql:
            return find_upload(sql, upload_id)

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
        part = self.part(upload.dataset)
        if not isinstance(part, RowsPart):
            raise InputError(f"cloud {self.cloud} takes a seed of an upload, and no rows.")
        part.check(rows, first_row, upload.rows)
        digest = chunks.chunk_digest(rows)
        with self._database.reading() as sql:
            if not self._chunk_is_new(sql, upload, first_row, len(rows), digest):
                return
        chunks.save_chunk(self.folder / upload_id, first_row, rows, digest)
        with self._database.transaction() as sql:
            if self._chunk_is_new(sql, upload, first_row, len(rows), digest):
                fields = (upload_id, first_row, len(rows), digest)
                sql.execute("INSERT INTO chunk VALUES (?, ?, ?, ?)", fields)

    def put_seed(self, upload_id: str, seed: bytes) -> None:
        """Keep the seed of this cloud's part. The same seed again is harmless."""
        part = self.part(self.get(upload_id).dataset)
        if not isinstance(part, SeedPart):
            raise InputError(f"cloud {self.cloud} takes the rows of an upload, and no seed.")
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
            if isinstance(self.part(upload.dataset), SeedPart):
                return [(0, upload.rows)] if _seed(sql, upload_id) is None else []
            return chunks.gaps(sql, upload_id, upload.rows)

    def commit(self, upload_id: str, salt: bytes = b"", other: bytes = b"") -> None:
        """Count the upload from now on; refused while rows are missing.

        Of an audited dataset: the salt of this cloud's part, the digest of the other cloud's.
        """
        with self._database.transaction() as sql:
            upload = known_upload(sql, upload_id)
            check_not_removed(upload)
            if upload.committed:
                return
            self.check_open(sql, upload.dataset)
            gaps = self.missing(upload_id)
            if gaps:
                rows = sum(count for _, count in gaps)
                raise StateError(f"{rows} rows of the upload are missing; send them first.")
            if self._datasets.spec(upload.dataset).audit:
                audits.keep_part(sql, upload_id, salt, other)
            sql.execute("UPDATE upload SET committed = 1 WHERE upload_id = ?", (upload_id,))
            detail = {"upload": upload_id, "owner": upload.owner, "rows": upload.rows}
            learnt = "this cloud and its operators: whose upload it is, and its number of records"
            privacy = self._privacy(upload.dataset)
            self._ledger.append("upload committed", upload.dataset, {**detail, **privacy}, learnt)

    def _privacy(self, dataset: str) -> dict[str, str]:
        """The guarantee for one record of an upload, for the ledger; empty if there is none."""
        privacy = self._datasets.spec(dataset).form.privacy()
        return {} if privacy is None else {"privacy": privacy.brief}

    def read(self, upload: Upload, part: Part, first: int, out: NDArray[Any]) -> None:
        """Rows from `first` on of one upload, into `out`."""
        rows = len(out)
        if isinstance(part, SeedPart):
            with self._database.reading() as sql:
                seed = _seed(sql, upload.upload_id)
            out[:] = part.rows(seed or b"", first, rows)
            return
        with self._database.reading() as sql:
            there = chunks.overlapping(sql, upload.upload_id, first, rows)
        for at, count, digest in there:
            values = chunks.load_chunk(self.folder / upload.upload_id, at, digest, out.dtype)
            start, stop = max(first, at), min(first + rows, at + count)
            out[start - first : stop - first] = values.reshape(count, -1)[start - at : stop - at]

    def seed(self, upload_id: str) -> bytes:
        """The seed that is this cloud's part."""
        with self._database.reading() as sql:
            return _seed(sql, upload_id) or b""

    def part(self, dataset: str) -> Part:
        part = self._datasets.spec(dataset).form.part(self.cloud)
        if part is None:
            raise InputError(f"uploads to dataset {dataset!r} do not concern cloud {self.cloud}.")
        return part

    def check_open(self, sql: sqlite3.Connection, dataset: str) -> None:
        """Refuse changes to a sealed dataset; for the rest of the store, in its transaction."""
        state = self._datasets.state(sql, dataset)
        if state != JobState.CREATED:
            raise StateError(
                f"dataset {dataset!r} is {state}: it takes no more uploads, nor gives any back."
            )

    def _chunk_is_new(
        self, sql: sqlite3.Connection, upload: Upload, first_row: int, rows: int, digest: str
    ) -> bool:
        """False if this very chunk is there; InputError if other rows are or none may be added."""
        check_not_removed(known_upload(sql, upload.upload_id))  # it may have been, meanwhile
        there = chunks.overlapping(sql, upload.upload_id, first_row, rows)
        if there == [(first_row, rows, digest)]:
            return False
        if there:
            raise InputError(f"rows from {there[0][0]} on are there with other content.")
        self.check_open(sql, upload.dataset)
        return True


def find_upload(sql: sqlite3.Connection, upload_id: str) -> Upload | None:
    row = sql.execute("SELECT * FROM upload WHERE upload_id = ?", (upload_id,)).fetchone()
    return None if row is None else upload_of(row)


def known_upload(sql: sqlite3.Connection, upload_id: str) -> Upload:
    upload = find_upload(sql, upload_id)
    if upload is None:
        raise no_upload()
    return upload


def no_upload() -> InputError:
    return NotFoundError("there is no upload of this id here. Begin it first.")


def upload_of(row: sqlite3.Row) -> Upload:
    fields = (row["upload_id"], row["dataset"], row["owner"], row["row_count"])
    sealed = row["first_sealed_row"] is not None
    return Upload(*fields, bool(row["committed"]), sealed, row["removed"], row["outline"])


def _seed(sql: sqlite3.Connection, upload_id: str) -> bytes | None:
    row = sql.execute("SELECT seed FROM upload WHERE upload_id = ?", (upload_id,)).fetchone()
    seed: bytes | None = row["seed"]
    return seed


def check_not_removed(upload: Upload) -> None:
    """Refuse to go on with an upload whose data are gone."""
    if upload.removed == "withdrawn":
        raise WithdrawnError("this upload was withdrawn; begin a new one.")
    if upload.removed:
        raise StateError(f"upload {upload.upload_id} was left out by an operator; ask them why.")


def _check_quotas(
    sql: sqlite3.Connection, dataset: str, owner: str, rows: int, part: Part, quotas: Quotas
) -> None:
    """Refuse an upload that would be more than one owner may bring."""
    uploads, there = _brought(sql, dataset, owner)
    for what, count, most in (
        ("uploads", uploads + 1, quotas.uploads),
        ("records", there + rows, quotas.rows),
        ("megabytes", -(-(there + rows) * _row_bytes(part) // 10**6), quotas.megabytes),
    ):
        if count > most:
            raise InputError(
                f"an owner may have {most} {what} in a dataset here, and this would make {count}. "
                "Withdraw an upload, or ask the operator for more."
            )


def _brought(sql: sqlite3.Connection, dataset: str, owner: str) -> tuple[int, int]:
    """(uploads, rows that are still there) of an owner."""
    row = sql.execute(
        "SELECT count(*), coalesce(sum(iif(removed = '', row_count, 0)), 0) FROM upload"
        " WHERE dataset = ? AND owner = ?",
        (dataset, owner),
    ).fetchone()
    return int(row[0]), int(row[1])


def _row_bytes(part: Part) -> int:
    """Bytes of a row on disk; none where a seed stands for all."""
    if isinstance(part, SeedPart):
        return 0
    return int(np.dtype(part.dtype).itemsize * part.columns)
