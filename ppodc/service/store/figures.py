"""A cloud's figures for its operator: sums over all datasets and owners.

Jobs add to it from their own processes, the gateway reads it. No counter is of one dataset, owner
or record; what is counted, the cloud knows anyway (bytes, seconds, rows, states). `disk` alone
is of a dataset: operators, who know its number of records, get it with their list.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from ppodc.service.store.database import Database

SCHEMA = "CREATE TABLE figure (name TEXT PRIMARY KEY, value REAL NOT NULL) STRICT"


@dataclass(frozen=True, slots=True)
class Overview:
    """The contents of the store now; deleted datasets and removed uploads do not count."""

    jobs: dict[str, int]  # datasets by the state of their job
    uploads: int
    unfinished: int
    rows: int  # of finished uploads


class Figures:
    """Counters of a cloud's store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, **amounts: float) -> None:
        """Count these on top of what was counted before."""
        self._write(
            "INSERT INTO figure VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
            amounts,
        )

    def put(self, **values: float) -> None:
        """Note these in place of what was noted before."""
        self._write("INSERT OR REPLACE INTO figure VALUES (?, ?)", values)

    def all(self) -> dict[str, float]:
        """Everything counted or noted so far, by name."""
        with self._database.reading() as sql:
            return {row["name"]: row["value"] for row in sql.execute("SELECT * FROM figure")}

    def overview(self) -> Overview:
        """The contents of the store now."""
        states = "SELECT state, count(*) FROM dataset WHERE deleted = '' GROUP BY state"
        uploads = (
            "SELECT committed, count(*), sum(row_count) FROM upload WHERE removed = ''"
            " GROUP BY committed"
        )
        with self._database.reading() as sql:
            jobs = {row[0]: row[1] for row in sql.execute(states)}
            counts = {bool(row[0]): (row[1], row[2]) for row in sql.execute(uploads)}
        finished, rows = counts.get(True, (0, 0))
        return Overview(jobs, finished, counts.get(False, (0, 0))[0], rows)

    def disk(self, dataset: str, folder: Path) -> int:
        """Bytes that the data of one dataset take: chunk files, halves of results, checkpoints."""
        uploads = "SELECT upload_id FROM upload WHERE dataset = :name AND removed = ''"
        stored = (
            "SELECT (SELECT coalesce(sum(length(half)), 0) FROM result_half WHERE dataset = :name)"
            " + (SELECT coalesce(sum(length(half)), 0) FROM row_half JOIN upload"
            " USING (upload_id) WHERE dataset = :name)"
            " + (SELECT coalesce(sum(length(data)), 0) FROM checkpoint_array WHERE dataset = :name)"
        )
        with self._database.reading() as sql:
            ids = [row["upload_id"] for row in sql.execute(uploads, {"name": dataset})]
            found: int = sql.execute(stored, {"name": dataset}).fetchone()[0]
        return found + sum(_folder_bytes(folder / upload_id) for upload_id in ids)

    def _write(self, command: str, figures: dict[str, float]) -> None:
        with self._database.transaction() as sql:
            sql.executemany(command, figures.items())


def _folder_bytes(folder: Path) -> int:
    """Bytes of the files in one folder; 0 if it is not there."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as files:
        return sum(file.stat().st_size for file in files)
    return 0
