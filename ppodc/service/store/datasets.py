"""Datasets in a cloud's store: which there are, under which spec, and how far each is."""

import sqlite3

from ppodc.errors import NotFoundError, SpecError, StateError
from ppodc.service.job_state import JobState
from ppodc.service.messages import Dataset
from ppodc.service.store.database import Database, utc_now
from ppodc.service.store.ledger import Ledger
from ppodc.spec import Spec

SCHEMA = """
CREATE TABLE dataset (
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
    updated TEXT NOT NULL,
    deleted TEXT NOT NULL DEFAULT ''
) STRICT
"""


MAX_SPEC_BYTES = 60_000  # what one message holds


class Datasets:
    """The part of a store that operators fill."""

    def __init__(self, database: Database, ledger: Ledger) -> None:
        self._database, self._ledger = database, ledger
        self._specs: dict[str, Spec] = {}  # parsed once: a spec never changes

    def create(self, spec: Spec) -> None:
        """Open a dataset for uploads; the same spec again is harmless, another is refused."""
        with self._database.transaction() as sql:
            if self.has(spec):
                return
            sql.execute(
                "INSERT INTO dataset (name, digest, spec, state, updated) VALUES (?, ?, ?, ?, ?)",
                (spec.name, spec.digest, spec.canonical(), JobState.CREATED, utc_now()),
            )
            learnt = "this cloud, its operators and the owners: the spec"
            self._ledger.append("dataset created", spec.name, {"spec": spec.digest}, learnt)

    def has(self, spec: Spec) -> bool:
        """Whether this very dataset is here; InputError if its name is taken, or it cannot be."""
        with self._database.reading() as sql:
            query = "SELECT digest, deleted FROM dataset WHERE name = ?"
            row = sql.execute(query, (spec.name,)).fetchone()
        if row is None:
            _check_new(spec)
            return False
        if row["digest"] != spec.digest or row["deleted"] == "all":
            state = "was deleted" if row["deleted"] else "exists with another spec"
            raise StateError(f"dataset {spec.name!r} {state}; use another name.")
        return True

    def all(self) -> list[Dataset]:
        """All datasets, by name."""
        return [self.get(name) for name in self.names()]

    def names(self, after: str = "", limit: int = -1) -> list[str]:
        """The names behind this one, in order."""
        query = "SELECT name FROM dataset WHERE name > ? ORDER BY name LIMIT ?"
        with self._database.reading() as sql:
            return [row["name"] for row in sql.execute(query, (after, limit))]

    def exists(self, name: str) -> bool:
        """Whether there is, or was, a dataset of this name."""
        with self._database.reading() as sql:
            query = "SELECT 1 FROM dataset WHERE name = ?"
            return sql.execute(query, (name,)).fetchone() is not None

    def deleted(self, name: str) -> bool:
        """Whether all data of the dataset were deleted, its result too."""
        with self._database.reading() as sql:
            return str(self.row(sql, name)["deleted"]) == "all"

    def get(self, name: str, owner: str | None = None) -> Dataset:
        """One dataset, with all uploads counted or one owner's; InputError if there is none."""
        query = (
            "SELECT count(*), coalesce(sum(row_count), 0) FROM upload WHERE dataset = ?"
            " AND committed"
        )
        of_owner = [] if owner is None else [owner]
        with self._database.reading() as sql:
            row = self.row(sql, name)
            count = sql.execute(query + " AND owner = ?" * len(of_owner), (name, *of_owner))
            uploads, rows = count.fetchone()
        deleted = row["deleted"] == "all"
        if deleted:
            uploads = rows = 0
        return Dataset(name, row["digest"], JobState(row["state"]), uploads, rows, deleted)

    def spec(self, name: str) -> Spec:
        """The spec as created."""
        if name not in self._specs:
            with self._database.reading() as sql:
                data = self.row(sql, name)["spec"]
            self._specs[name] = Spec.from_bytes(data)
        return self._specs[name]

    def row(self, sql: sqlite3.Connection, name: str) -> sqlite3.Row:
        """All that is kept of a dataset; for the rest of the store, in its transaction."""
        row: sqlite3.Row | None = sql.execute(
            "SELECT * FROM dataset WHERE name = ?", (name,)
        ).fetchone()
        if row is None:
            raise NotFoundError(f"there is no dataset {name!r} here; create it at both clouds.")
        return row

    def state(self, sql: sqlite3.Connection, name: str) -> JobState:
        """The job's state; for the rest of the store, in its transaction."""
        return JobState(self.row(sql, name)["state"])


def _check_new(spec: Spec) -> None:
    """Reject a spec without owners, or one that does not fit into a message."""
    spec.require_owners()
    if len(spec.canonical()) > MAX_SPEC_BYTES:
        raise SpecError(
            f"the spec of dataset {spec.name!r} has {len(spec.canonical())} bytes and at most "
            f"{MAX_SPEC_BYTES} can be sent; use shorter names, or fewer owners or columns."
        )
