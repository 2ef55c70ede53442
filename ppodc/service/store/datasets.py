"""Datasets in a cloud's store: which there are, under which spec, and how far each is."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ppodc.errors import InputError
from ppodc.service.job_state import JobState
from ppodc.service.store.database import Database
from ppodc.service.store.ledger import Ledger
from ppodc.spec import Spec

Role = Literal["cloud1", "cloud2"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS dataset (
    name TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    spec BLOB NOT NULL,
    seal TEXT,
    state TEXT NOT NULL,
    iteration INTEGER NOT NULL DEFAULT 0,
    suite TEXT NOT NULL DEFAULT '',
    pairs INTEGER NOT NULL DEFAULT 0,
    message TEXT NOT NULL DEFAULT '',
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    updated TEXT NOT NULL DEFAULT ''
) STRICT
"""


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A dataset; `uploads` and `rows` count what is committed."""

    name: str
    digest: str
    state: JobState
    uploads: int
    rows: int


class Datasets:
    """The part of a store that operators fill."""

    def __init__(self, folder: Path, role: Role, database: Database) -> None:
        self.folder = folder
        self.role = role
        self.ledger = Ledger(database)
        self._database = database

    def create_dataset(self, spec: Spec) -> None:
        """Open a dataset for uploads; the same spec again is harmless, another is refused."""
        with self._database.transaction() as sql:
            row = sql.execute("SELECT digest FROM dataset WHERE name = ?", (spec.name,)).fetchone()
            if row is not None:
                if row["digest"] != spec.digest:
                    raise InputError(
                        f"dataset {spec.name!r} exists with another spec; use another name."
                    )
                return
            sql.execute(
                "INSERT INTO dataset (name, digest, spec, state) VALUES (?, ?, ?, ?)",
                (spec.name, spec.digest, spec.canonical(), JobState.CREATED),
            )
            self.ledger.append("dataset created", spec.name, {"spec": spec.digest})

    def datasets(self) -> list[DatasetInfo]:
        """All datasets, by name."""
        with self._database.reading() as sql:
            names = [row["name"] for row in sql.execute("SELECT name FROM dataset ORDER BY name")]
            return [self.dataset(name) for name in names]

    def dataset(self, name: str) -> DatasetInfo:
        """One dataset; InputError if there is none of this name."""
        with self._database.reading() as sql:
            row = self._row(sql, name)
            counts = sql.execute(
                "SELECT count(*), coalesce(sum(row_count), 0) FROM upload"
                " WHERE dataset = ? AND committed",
                (name,),
            ).fetchone()
        return DatasetInfo(name, row["digest"], JobState(row["state"]), counts[0], counts[1])

    def spec(self, name: str) -> Spec:
        """The spec as created."""
        with self._database.reading() as sql:
            return Spec.from_bytes(self._row(sql, name)["spec"])

    def _row(self, sql: sqlite3.Connection, dataset: str) -> sqlite3.Row:
        row: sqlite3.Row | None = sql.execute(
            "SELECT * FROM dataset WHERE name = ?", (dataset,)
        ).fetchone()
        if row is None:
            raise InputError(f"there is no dataset {dataset!r} here; create it at both clouds.")
        return row

    def _state(self, sql: sqlite3.Connection, dataset: str) -> JobState:
        return JobState(self._row(sql, dataset)["state"])
