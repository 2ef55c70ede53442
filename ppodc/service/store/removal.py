"""Removal from a cloud's store: withdrawn, left-out or unfinished uploads, data of a past job.

Entries go first, in one transaction with the ledger's; then the files of chunks. A kill in between
leaves files that nothing refers to, and `sweep` removes them. Deleted content is overwritten in the
database, and leaves its log of changes at once, or with a later removal if somebody reads just now;
what a disk or a backup keeps of it is beyond this program.
"""

import shutil
import sqlite3
from collections.abc import Sequence
from datetime import timedelta

from ppodc.errors import NotFoundError, StateError
from ppodc.files import disk_errors
from ppodc.service.job_state import JobState
from ppodc.service.sealed_uploads import Upload
from ppodc.service.store import audits
from ppodc.service.store.database import Database, utc_now
from ppodc.service.store.datasets import Datasets
from ppodc.service.store.ledger import Ledger
from ppodc.service.store.uploads import Uploads, find_upload, known_upload

_AT_WORK = (JobState.PREPARING, JobState.RUNNING)


class Removal:
    """The part of a store that forgets."""

    def __init__(
        self, database: Database, ledger: Ledger, datasets: Datasets, uploads: Uploads
    ) -> None:
        self._database, self._ledger = database, ledger
        self._datasets, self._uploads = datasets, uploads

    def withdraw(self, upload_id: str) -> None:
        """The owner takes an upload back, before it is sealed; again is harmless."""
        with self._database.transaction() as sql:
            upload = find_upload(sql, upload_id)
            if upload is None or upload.removed:
                return
            self._uploads.check_open(sql, upload.dataset)
            detail = {"upload": upload_id, "owner": upload.owner}
            self._remove(sql, upload, "withdrawn", detail)
        self._clear([upload_id])

    def leave_out(self, dataset: str, upload_id: str, operator: str) -> None:
        """An operator takes an upload out, before it is sealed; again is harmless."""
        with self._database.transaction() as sql:
            upload = known_upload(sql, upload_id)
            if upload.dataset != dataset:
                raise NotFoundError(f"dataset {dataset!r} has no such upload.")
            if upload.removed:
                return
            self._uploads.check_open(sql, dataset)
            detail = {"upload": upload_id, "owner": upload.owner, "operator": operator}
            self._remove(sql, upload, "left out", detail)
        self._clear([upload_id])

    def expire(self, age: timedelta) -> list[str]:
        """Delete uploads that were begun so long ago and never committed; their ids."""
        query = "SELECT upload_id FROM upload WHERE NOT committed AND removed = '' AND begun < ?"
        with self._database.reading() as sql:
            old = [row["upload_id"] for row in sql.execute(query, (utc_now(age),))]
        return [upload_id for upload_id in old if self._expire(upload_id)]

    def _expire(self, upload_id: str) -> bool:
        with self._database.transaction() as sql:
            upload = find_upload(sql, upload_id)
            if upload is None or upload.committed or upload.removed:  # meanwhile
                return False
            _forget_data(sql, upload_id)
            sql.execute("DELETE FROM upload WHERE upload_id = ?", (upload_id,))
            detail = {"upload": upload_id, "owner": upload.owner}
            self._ledger.append("upload expired", upload.dataset, detail)
        self._clear([upload_id])
        return True

    def past_jobs(self, age: timedelta) -> list[str]:
        """Datasets whose job ended so long ago and whose records are still here."""
        query = (
            "SELECT name FROM dataset WHERE state IN (?, ?) AND updated < ? AND deleted = ''"
            " ORDER BY name"
        )
        final = (JobState.DONE, JobState.CANCELLED)
        with self._database.reading() as sql:
            return [row["name"] for row in sql.execute(query, (*final, utc_now(age)))]

    def records(self, dataset: str) -> None:
        """Delete shares, seeds and checkpoints of a job that is over; its result stays."""
        with self._database.transaction() as sql:
            row = self._datasets.row(sql, dataset)
            if row["deleted"]:
                return
            if not JobState(row["state"]).final:
                raise StateError(f"dataset {dataset!r} is {row['state']}; its job is not over.")
            ids = self._forget_records(sql, dataset, "records")
            self._ledger.append("records deleted", dataset, {"uploads": len(ids)})
        audits.erase(self._database, self._ledger, dataset)
        self._clear(ids)

    def dataset(self, name: str, operator: str) -> None:
        """Delete all data of a dataset, its result too; name, spec and ledger stay.

        A job that has not run never will. Again is harmless.
        """
        with self._database.transaction() as sql:
            row = self._datasets.row(sql, name)
            if row["deleted"] == "all":
                return
            state = JobState(row["state"])
            if state in _AT_WORK:
                raise StateError(f"the job of {name!r} is {state}; first: ppodc cancel {name}")
            ids = self._forget_records(sql, name, "all")
            sql.execute("DELETE FROM result WHERE dataset = ?", (name,))
            sql.execute(
                "DELETE FROM row_half WHERE upload_id IN (SELECT upload_id FROM upload"
                " WHERE dataset = ?)",
                (name,),
            )
            if not state.final:
                sql.execute(
                    "UPDATE dataset SET state = ?, updated = ?, message = ? WHERE name = ?",
                    (JobState.CANCELLED, utc_now(), "the dataset was deleted", name),
                )
            detail = {"spec": row["digest"], "operator": operator}
            self._ledger.append("dataset deleted", name, detail)
        audits.erase(self._database, self._ledger, name)
        self._clear(ids)

    def sweep(self) -> None:
        """Remove files of uploads that are not here any more: a kill has left them."""
        if not self._uploads.folder.is_dir():
            return
        with disk_errors(self._uploads.folder):
            folders = [path.name for path in self._uploads.folder.iterdir()]
        with self._database.reading() as sql:
            gone = [name for name in folders if not _has_data(sql, name)]
        self._clear(gone)

    def _remove(
        self, sql: sqlite3.Connection, upload: Upload, reason: str, detail: dict[str, str]
    ) -> None:
        """Its id stays taken, unless its owner took back what was never finished."""
        _forget_data(sql, upload.upload_id)
        place = (upload.upload_id,)
        if upload.committed or reason == "left out":
            query = "UPDATE upload SET committed = 0, removed = ? WHERE upload_id = ?"
            sql.execute(query, (reason, *place))
        else:
            sql.execute("DELETE FROM upload WHERE upload_id = ?", place)
        self._ledger.append(f"upload {reason}", upload.dataset, detail)

    def _forget_records(self, sql: sqlite3.Connection, dataset: str, what: str) -> list[str]:
        """Shares, seeds and checkpoints; the ids of the uploads whose files may go."""
        query = "SELECT upload_id FROM upload WHERE dataset = ?"
        ids = [row["upload_id"] for row in sql.execute(query, (dataset,))]
        for upload_id in ids:
            _forget_data(sql, upload_id)
        sql.execute("DELETE FROM checkpoint WHERE dataset = ?", (dataset,))
        sql.execute("UPDATE dataset SET deleted = ? WHERE name = ?", (what, dataset))
        return ids

    def _clear(self, ids: Sequence[str]) -> None:
        """Delete the files of these uploads, which no entry names any more."""
        for upload_id in ids:
            shutil.rmtree(self._uploads.folder / upload_id, ignore_errors=True)
        if ids:
            self._database.flush_deleted()


def _forget_data(sql: sqlite3.Connection, upload_id: str) -> None:
    sql.execute("DELETE FROM chunk WHERE upload_id = ?", (upload_id,))
    sql.execute("DELETE FROM outline WHERE upload_id = ?", (upload_id,))
    sql.execute("DELETE FROM audit_part WHERE upload_id = ?", (upload_id,))
    sql.execute("UPDATE upload SET seed = NULL WHERE upload_id = ?", (upload_id,))


def _has_data(sql: sqlite3.Connection, upload_id: str) -> bool:
    """Whether the upload may have chunk files: those it has, or is being sent."""
    query = (
        "SELECT 1 FROM upload JOIN dataset ON dataset = name WHERE upload_id = ?"
        " AND removed = '' AND deleted = ''"
    )
    return sql.execute(query, (upload_id,)).fetchone() is not None
