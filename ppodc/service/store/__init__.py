"""A cloud's store: datasets and uploads, the job's state, its checkpoints and its result.

One folder per cloud, for that cloud's user alone (0700): `store.sqlite` in WAL mode and the chunk
files. The gateway, the master and tools may have it open at the same time. A call that returned is
on disk; a process killed in between leaves the state before or after the call, nothing else.

Who learns what: a store holds its own cloud's shares, states and halves only. Every stop bit, and
every half of a result or of labels that is kept here or handed to an owner, is in the ledger.
"""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ppodc.errors import InputError, StoreError
from ppodc.files import private_folder
from ppodc.kmeans.half import State
from ppodc.records.output_half import (
    OutputHalf,
    half_width,
    modulus_from_bytes,
    modulus_to_bytes,
)
from ppodc.service.job_state import JobState, check_transition
from ppodc.service.store import datasets, ledger, uploads
from ppodc.service.store.database import Database
from ppodc.service.store.datasets import DatasetInfo, Role
from ppodc.service.store.uploads import Sealed, SealedUpload, UploadInfo, Uploads

__all__ = [
    "DatasetInfo",
    "JobInfo",
    "ResultHalf",
    "Sealed",
    "SealedUpload",
    "Store",
    "UploadInfo",
    "UploadLabels",
]

_VERSION = 1
_KEPT_CHECKPOINTS = 2

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS about (role TEXT NOT NULL, version INTEGER NOT NULL) STRICT;
{ledger.SCHEMA};
{datasets.SCHEMA};
{uploads.SCHEMA};
CREATE TABLE IF NOT EXISTS checkpoint (
    dataset TEXT NOT NULL REFERENCES dataset (name),
    iteration INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    clusters BLOB NOT NULL,
    PRIMARY KEY (dataset, iteration)
) STRICT;
CREATE TABLE IF NOT EXISTS result (
    dataset TEXT PRIMARY KEY REFERENCES dataset (name),
    n_iter INTEGER NOT NULL,
    converged INTEGER NOT NULL,
    has_labels INTEGER NOT NULL,
    modulus BLOB NOT NULL,
    half BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS labels (
    upload_id TEXT PRIMARY KEY REFERENCES upload (upload_id),
    modulus BLOB NOT NULL,
    half BLOB NOT NULL
) STRICT
"""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """Where the job of a dataset stands at this cloud. `updated` is UTC in ISO format."""

    state: JobState
    iteration: int
    suite: str
    pairs: int
    message: str
    cancel_requested: bool
    updated: str


@dataclass(frozen=True, slots=True)
class ResultHalf:
    """This cloud's half of the k * (l + 1) sums and counts, and the public facts of the run."""

    n_iter: int
    converged: bool
    values: OutputHalf
    has_labels: bool


@dataclass(frozen=True, slots=True)
class UploadLabels:
    """This cloud's half of the labels of one upload's rows."""

    upload_id: str
    half: OutputHalf


class Store(Uploads):
    """See the module; datasets, uploads and sealing are in `Uploads`."""

    @classmethod
    def open(cls, folder: str | Path, role: Role) -> "Store":
        """The store in this folder, made if it is not there; refused if of the other cloud."""
        path = private_folder(Path(folder))
        database = Database(path / "store.sqlite", _SCHEMA)
        with database.transaction() as sql:
            about = sql.execute("SELECT role, version FROM about").fetchone()
            if about is None:
                about = (role, _VERSION)
                sql.execute("INSERT INTO about VALUES (?, ?)", about)
        if tuple(about) != (role, _VERSION):
            database.close()
            raise StoreError(
                f"{path} is the store of {about[0]}, version {about[1]}; this is {role}, version "
                f"{_VERSION}. Name another folder in the configuration."
            )
        return cls(path, role, database)

    def close(self) -> None:
        """Close the store; closing twice is harmless."""
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def job(self, dataset: str) -> JobInfo:
        """The job's state as last written by any process."""
        with self._database.reading() as sql:
            row = self._row(sql, dataset)
        return JobInfo(
            JobState(row["state"]),
            row["iteration"],
            row["suite"],
            row["pairs"],
            row["message"],
            bool(row["cancel_requested"]),
            row["updated"],
        )

    def transition(
        self,
        dataset: str,
        state: JobState,
        *,
        iteration: int | None = None,
        suite: str | None = None,
        pairs: int | None = None,
        message: str = "",
    ) -> JobInfo:
        """Write the next state before acting on it; what is None stays as it was.

        Resuming a failed job forgets an old wish to cancel.
        """
        with self._database.transaction() as sql:
            row = self._row(sql, dataset)
            old = JobState(row["state"])
            check_transition(dataset, old, state)
            cancel = row["cancel_requested"] and old != JobState.FAILED
            sql.execute(
                "UPDATE dataset SET state = ?, iteration = coalesce(?, iteration),"
                " suite = coalesce(?, suite), pairs = coalesce(?, pairs), message = ?,"
                " cancel_requested = ?, updated = ? WHERE name = ?",
                (state, iteration, suite, pairs, message, int(cancel), _now(), dataset),
            )
        return self.job(dataset)

    def request_cancel(self, dataset: str) -> None:
        """Ask whoever runs the job to stop it; refused when the job is over."""
        with self._database.transaction() as sql:
            state = self._state(sql, dataset)
            if state.final:
                raise InputError(f"dataset {dataset!r} is {state} already.")
            sql.execute("UPDATE dataset SET cancel_requested = 1 WHERE name = ?", (dataset,))

    def save_checkpoint(self, dataset: str, iteration: int, clusters: State, stop: bool) -> None:
        """Keep this cloud's state after an iteration (the last two stay); notes the stop bit."""
        shape = ",".join(map(str, clusters.shape))
        data = np.ascontiguousarray(clusters).tobytes()
        with self._database.transaction() as sql:
            self._row(sql, dataset)
            sql.execute(
                "INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?, ?)",
                (dataset, iteration, int(stop), clusters.dtype.str, shape, data),
            )
            sql.execute(
                "DELETE FROM checkpoint WHERE dataset = ? AND iteration NOT IN (SELECT iteration"
                " FROM checkpoint WHERE dataset = ? ORDER BY iteration DESC LIMIT ?)",
                (dataset, dataset, _KEPT_CHECKPOINTS),
            )
            detail = {"iteration": iteration, "stop": stop}
            self.ledger.append("stop bit revealed", dataset, detail)

    def checkpoints(self, dataset: str) -> list[int]:
        """The iterations that can be continued from, oldest first."""
        query = "SELECT iteration FROM checkpoint WHERE dataset = ? ORDER BY iteration"
        with self._database.reading() as sql:
            self._row(sql, dataset)
            return [row["iteration"] for row in sql.execute(query, (dataset,))]

    def load_checkpoint(self, dataset: str, iteration: int) -> tuple[State, bool]:
        """(state, stop bit) after this iteration."""
        query = "SELECT * FROM checkpoint WHERE dataset = ? AND iteration = ?"
        with self._database.reading() as sql:
            row = sql.execute(query, (dataset, iteration)).fetchone()
        if row is None:
            raise InputError(f"dataset {dataset!r} has no checkpoint of iteration {iteration}.")
        shape = tuple(int(size) for size in row["shape"].split(","))
        clusters = np.frombuffer(row["clusters"], np.dtype(row["dtype"])).reshape(shape).copy()
        return clusters, bool(row["stop"])

    def drop_checkpoints_after(self, dataset: str, iteration: int) -> None:
        """Forget later checkpoints, before a resumed job repeats these iterations.

        Both clouds must do this before either goes on: otherwise a second kill could leave halves
        of two different attempts under the same iteration number.
        """
        with self._database.transaction() as sql:
            sql.execute(
                "DELETE FROM checkpoint WHERE dataset = ? AND iteration > ?", (dataset, iteration)
            )

    def save_result(
        self,
        dataset: str,
        n_iter: int,
        converged: bool,
        values: OutputHalf,
        labels: OutputHalf | None = None,
    ) -> None:
        """Keep this cloud's halves for the owners; `labels` are of all sealed rows in order.

        May be repeated until the job is done: halves of both clouds must be of the same run, so
        cloud 1 goes to `done` only after both have saved.
        """
        sealed = self.sealed(dataset)
        with self._database.transaction() as sql:
            if self._state(sql, dataset) == JobState.DONE:
                raise InputError(f"dataset {dataset!r} is done; its result stays as it is.")
            if labels is not None:
                self._save_labels(sql, dataset, sealed, labels)
            half = values.data.tobytes()
            modulus = modulus_to_bytes(values.modulus)
            fields = (dataset, n_iter, int(converged), int(labels is not None), modulus, half)
            sql.execute("INSERT OR REPLACE INTO result VALUES (?, ?, ?, ?, ?, ?)", fields)
            detail = {"iterations": n_iter, "converged": converged, "values": len(values)}
            self.ledger.append("result half stored", dataset, detail)

    def _save_labels(
        self, sql: sqlite3.Connection, dataset: str, sealed: Sealed, labels: OutputHalf
    ) -> None:
        if not self.spec(dataset).job.to_dict()["labels"]:
            raise InputError(f"the owners of {dataset!r} did not agree to labels; keep none.")
        if len(labels) != sealed.m:
            raise InputError(f"{len(labels)} labels do not fit {sealed.m} sealed rows.")
        modulus = modulus_to_bytes(labels.modulus)
        halves = labels.data
        for upload in sealed.uploads:
            part = halves[upload.first_row : upload.first_row + upload.rows]
            sql.execute(
                "INSERT OR REPLACE INTO labels VALUES (?, ?, ?)",
                (upload.upload_id, modulus, part.tobytes()),
            )
        self.ledger.append("labels half stored", dataset, {"rows": sealed.m})

    def has_result(self, dataset: str) -> bool:
        """Whether `save_result` was called for this dataset."""
        with self._database.reading() as sql:
            self._row(sql, dataset)
            query = "SELECT 1 FROM result WHERE dataset = ?"
            return sql.execute(query, (dataset,)).fetchone() is not None

    def result(self, dataset: str) -> ResultHalf:
        """This cloud's half of the result; InputError if there is none yet."""
        with self._database.reading() as sql:
            state = self._state(sql, dataset)
            row = sql.execute("SELECT * FROM result WHERE dataset = ?", (dataset,)).fetchone()
        if row is None:
            raise InputError(f"dataset {dataset!r} has no result yet; it is {state}.")
        values = _half(row)
        return ResultHalf(row["n_iter"], bool(row["converged"]), values, bool(row["has_labels"]))

    def labels_of(self, dataset: str, owner: str) -> list[UploadLabels]:
        """This cloud's half of the labels of this owner's uploads, in order of arrival."""
        query = (
            "SELECT upload_id, modulus, half FROM labels JOIN upload USING (upload_id)"
            " WHERE dataset = ? AND owner = ? ORDER BY number"
        )
        with self._database.reading() as sql:
            self._row(sql, dataset)
            rows = sql.execute(query, (dataset, owner)).fetchall()
        return [UploadLabels(row["upload_id"], _half(row)) for row in rows]


def _half(row: sqlite3.Row) -> OutputHalf:
    modulus = modulus_from_bytes(row["modulus"])
    values = np.frombuffer(row["half"], np.uint8)
    return OutputHalf(modulus, values.reshape(-1, half_width(modulus)))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
