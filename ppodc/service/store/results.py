"""Results in a cloud's store: this cloud's half, as bytes, until owners fetch it.

Who learns what: a half alone is random. Halves of the whole result are for every owner of records
in the dataset, but for those that are made for one owner; of a row half an owner may get the rows
of its own uploads, and only halves that the spec offers are ever kept.
"""

import sqlite3

import numpy as np

from ppodc.errors import InputError, StateError
from ppodc.records.result_shares import (
    OutputShare,
    ResultShare,
    half_width,
    modulus_from_bytes,
    modulus_to_bytes,
    pack_facts,
    unpack_facts,
)
from ppodc.service.job_state import JobState
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store.database import Database
from ppodc.service.store.datasets import Datasets
from ppodc.service.store.ledger import Ledger
from ppodc.service.store.seals import Seals

SCHEMA = """
CREATE TABLE result (
    dataset TEXT PRIMARY KEY REFERENCES dataset (name),
    facts TEXT NOT NULL,
    session_id TEXT NOT NULL
) STRICT;
CREATE TABLE result_half (
    dataset TEXT NOT NULL REFERENCES result (dataset) ON DELETE CASCADE,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    modulus BLOB NOT NULL,
    half BLOB NOT NULL,
    PRIMARY KEY (dataset, name, owner)
) STRICT;
CREATE TABLE row_half (
    upload_id TEXT NOT NULL REFERENCES upload (upload_id),
    name TEXT NOT NULL,
    modulus BLOB NOT NULL,
    half BLOB NOT NULL,
    PRIMARY KEY (upload_id, name)
) STRICT
"""

_EVERY_OWNER = ""  # no owner has this name


class Results:
    """The part of a store that a finished job fills and owners read."""

    def __init__(
        self, database: Database, ledger: Ledger, datasets: Datasets, seals: Seals
    ) -> None:
        self._database, self._ledger = database, ledger
        self._datasets, self._seals = datasets, seals

    def save(self, dataset: str, result: ResultShare, session_id: str = "") -> None:
        """Keep this cloud's halves for the owners; row halves are of all sealed rows in order.

        `session_id` names the session that made them at both clouds; a cloud alone has none.

        May be repeated until the job is done: halves of both clouds must be of one session, so
        cloud 1 goes to `done` only after both have saved.
        """
        facts = pack_facts(result.facts).decode("ascii")
        with self._database.transaction() as sql:
            if self._datasets.state(sql, dataset) == JobState.DONE:
                raise StateError(f"dataset {dataset!r} is done; its result stays as it is.")
            self._check_offered(dataset, result)
            sealed = self._seals.sealed(dataset)
            for name, half in result.row_halves.items():
                self._save_rows(sql, dataset, sealed, name, half)
            sql.execute("DELETE FROM result WHERE dataset = ?", (dataset,))
            sql.execute("INSERT INTO result VALUES (?, ?, ?)", (dataset, facts, session_id))
            kept = [(name, _EVERY_OWNER, half) for name, half in result.halves.items()]
            for name, by_owner in result.own_halves.items():
                kept += [(name, owner, half) for owner, half in by_owner.items()]
            for name, owner, half in kept:
                fields = (name, owner, modulus_to_bytes(half.modulus), half.data.tobytes())
                sql.execute("INSERT INTO result_half VALUES (?, ?, ?, ?, ?)", (dataset, *fields))
            values = {name: len(half) for name, _, half in kept}
            detail = {"facts": dict(result.facts), "values": values}
            learnt = "this cloud: the facts; a half alone tells nothing"
            self._ledger.append("result half stored", dataset, detail, learnt)

    def _check_offered(self, dataset: str, result: ResultShare) -> None:
        spec = self._datasets.spec(dataset)
        offered = set(spec.kind.row_outputs(spec))
        for name in result.row_halves.keys() - offered:
            raise InputError(f"the owners of {dataset!r} did not agree to {name}; keep none.")
        for name in offered - result.row_halves.keys():
            raise InputError(f"the result of {dataset!r} lacks the {name} that its spec offers.")

    def _save_rows(
        self, sql: sqlite3.Connection, dataset: str, sealed: Sealed, name: str, half: OutputShare
    ) -> None:
        if len(half) != sealed.m:
            raise InputError(f"{len(half)} {name} do not fit {sealed.m} sealed rows.")
        modulus = modulus_to_bytes(half.modulus)
        for first_row, upload in sealed.places():
            rows = half.rows(first_row, upload.rows).data.tobytes()
            sql.execute(
                "INSERT OR REPLACE INTO row_half VALUES (?, ?, ?, ?)",
                (upload.upload_id, name, modulus, rows),
            )
        learnt = "nobody: a half alone tells nothing"
        self._ledger.append(f"{name} half stored", dataset, {"rows": sealed.m}, learnt)

    def has(self, dataset: str) -> bool:
        """Whether `save` was called for this dataset."""
        with self._database.reading() as sql:
            self._datasets.row(sql, dataset)
            query = "SELECT 1 FROM result WHERE dataset = ?"
            return sql.execute(query, (dataset,)).fetchone() is not None

    def session_id(self, dataset: str) -> str:
        """The session of both clouds that made the result; empty if there is none."""
        with self._database.reading() as sql:
            query = "SELECT session_id FROM result WHERE dataset = ?"
            row = sql.execute(query, (dataset,)).fetchone()
        return "" if row is None else str(row["session_id"])

    def half(self, dataset: str, owner: str = _EVERY_OWNER) -> ResultShare:
        """The facts and the halves for this owner; InputError if there is no result yet.

        Without an owner there are only the halves that all owners get.
        """
        with self._database.reading() as sql:
            state = self._datasets.state(sql, dataset)
            row = sql.execute("SELECT facts FROM result WHERE dataset = ?", (dataset,)).fetchone()
            query = "SELECT * FROM result_half WHERE dataset = ? AND owner IN (?, ?) ORDER BY name"
            kept = sql.execute(query, (dataset, _EVERY_OWNER, owner)).fetchall()
        if row is None:
            raise StateError(f"dataset {dataset!r} has no result yet; it is {state}.")
        facts = unpack_facts(row["facts"].encode("ascii"))
        return ResultShare(facts, {half["name"]: _half(half) for half in kept})

    def own_rows(
        self,
        dataset: str,
        name: str,
        upload_id: str,
        first_row: int = 0,
        most_bytes: int | None = None,
    ) -> OutputShare:
        """This cloud's half of a row output for the rows of one upload, as its owner sent them.

        From a row on and at most so many bytes of it, as they stand in the table: only that piece
        is read.
        """
        query = (
            "SELECT row_half.rowid, modulus, length(half) AS size"
            " FROM row_half JOIN upload USING (upload_id)"
            " WHERE dataset = ? AND upload_id = ? AND name = ?"
        )
        with self._database.reading() as sql:
            self._datasets.row(sql, dataset)
            row = sql.execute(query, (dataset, upload_id, name)).fetchone()
            if row is None:
                raise StateError(f"dataset {dataset!r} has no {name} for this upload (yet).")
            modulus = modulus_from_bytes(row["modulus"])
            width = half_width(modulus)
            most = row["size"] if most_bytes is None else max(1, most_bytes // width) * width
            with sql.blobopen("row_half", "half", row["rowid"], readonly=True) as half:
                half.seek(min(first_row * width, row["size"]))
                data = np.frombuffer(half.read(most), np.uint8)
        return OutputShare(modulus, data.reshape(-1, width))


def _half(row: sqlite3.Row) -> OutputShare:
    modulus = modulus_from_bytes(row["modulus"])
    data = np.frombuffer(row["half"], np.uint8)
    return OutputShare(modulus, data.reshape(-1, half_width(modulus)))
