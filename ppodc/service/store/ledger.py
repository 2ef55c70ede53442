"""The ledger in a store's database (`ppodc.service.ledger_entries`).

An entry is written in the same transaction as the event that it records.
"""

import json
import logging
from typing import Any

from ppodc.service.ledger_entries import (
    CHANGED,
    NOTED,
    START,
    Entry,
    Head,
    Verification,
    verify,
)
from ppodc.service.store.database import Database, utc_now

log = logging.getLogger(__name__)

SCHEMA = """
CREATE TABLE ledger (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    event TEXT NOT NULL,
    dataset TEXT NOT NULL,
    detail TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT
"""


class Ledger:
    """The chain in a store's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(
        self, event: str, dataset: str, detail: dict[str, Any] | None = None, learnt: str = ""
    ) -> None:
        """Add an entry, inside the caller's transaction if there is one.

        `detail` names an `owner` if it is about one; `learnt` says who learns what by this.
        """
        said = {**(detail or {}), "learnt": learnt} if learnt else detail or {}
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        time = utc_now()
        with self._database.transaction() as sql:
            last = sql.execute("SELECT number, hash FROM ledger ORDER BY number DESC LIMIT 1")
            number, previous = last.fetchone() or (0, START)
            entry = Entry(number + 1, time, event, dataset, text, previous, "")
            sql.execute(
                "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number + 1, time, event, dataset, text, previous, entry.expected_hash()),
            )

    def head(self) -> Head:
        """The last entry."""
        query = "SELECT number, hash FROM ledger ORDER BY number DESC LIMIT 1"
        with self._database.reading() as sql:
            return Head(*(sql.execute(query).fetchone() or (0, START)))

    def note(self, dataset: str, other: Head | None) -> None:
        """Write the head of the other cloud's ledger down; a second time it is harmless.

        An entry says so if that ledger has become shorter, or has changed where it ended before.
        """
        if other is None:
            return
        with self._database.transaction() as sql:
            # of this dataset alone: jobs beside each other may tell theirs in any order
            query = (
                "SELECT detail FROM ledger WHERE event = ? AND dataset = ?"
                " ORDER BY number DESC LIMIT 1"
            )
            row = sql.execute(query, (NOTED, dataset)).fetchone()
            before = Head(**json.loads(row["detail"])) if row is not None else Head(0, START)
            if before == other:
                return
            if other.number <= before.number:
                log.warning("the ledger of the other cloud is not what it was at its last entry")
                said = {"now": other.number, "number": before.number, "hash": before.hash}
                self.append(CHANGED, dataset, said)
            self.append(NOTED, dataset, {"number": other.number, "hash": other.hash})

    def entries(
        self, dataset: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """The entries in order, of one dataset or of all, with numbers above `after`."""
        query = (
            "SELECT * FROM ledger WHERE number > ? AND ? IN (dataset, '*') ORDER BY number LIMIT ?"
        )
        most = -1 if limit is None else limit
        with self._database.reading() as sql:
            return [Entry(*row) for row in sql.execute(query, (after, dataset or "*", most))]

    def verify(self) -> Verification:
        """Walk the whole chain."""
        return verify(iter(self.entries()))
