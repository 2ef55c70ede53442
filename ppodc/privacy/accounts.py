"""The account of every person, where an owner names the people in its tables.

A person is 128 bits that follow from the name and the owner's report key (`ReportKey.named_ids`):
nobody else can find the name. A drawing is the tag of a record's noise, so the same person with the
same values under the same mechanism has one report and one charge, in whatever table it stands;
changed values are a new report, charged on top.

Amounts are whole multiples of 2^-40 of epsilon and 2^-60 of delta, rounded up: sums never fall
short of what was spent. One transaction charges a whole table or nothing of it, and is on disk when
`charge` returns.
"""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import BudgetError, StoreError
from ppodc.files import disk_errors, private_folder
from ppodc.privacy.guarantee import Guarantee

Ids = NDArray[np.uint64]  # (records, 2)
_EPSILON, _DELTA = 1 << 40, 1 << 60
_SCHEMA = """
CREATE TABLE IF NOT EXISTS charge (
    person BLOB NOT NULL,
    drawing BLOB NOT NULL,
    epsilon INTEGER NOT NULL,
    delta INTEGER NOT NULL,
    PRIMARY KEY (person, drawing)
) STRICT, WITHOUT ROWID
"""
_TOTALS = "SELECT SUM(epsilon) AS total, SUM(delta) AS deltas FROM charge GROUP BY person"


class PersonAccounts:
    """The accounts in one file, which is made with the first charge."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def beside(cls, budget: Path) -> "PersonAccounts":
        """The accounts that belong to the budget in this file."""
        return cls(budget.with_name("people.sqlite"))

    def charge(self, people: Ids, drawings: Ids, cost: Guarantee, limit: Fraction) -> int:
        """Charge each person for the record's drawing; how many charges are new.

        BudgetError, with nothing charged, if anybody would have spent more than `limit`.
        """
        amounts = _units(cost.epsilon, _EPSILON), _units(cost.delta, _DELTA)
        rows = (
            (person.tobytes(), drawing.tobytes(), *amounts)
            for person, drawing in zip(people, drawings, strict=True)
        )
        allowed = math.floor(limit * _EPSILON)
        with self._database() as sql, sql:
            sql.execute("BEGIN IMMEDIATE")
            before = sql.total_changes
            sql.executemany("INSERT OR IGNORE INTO charge VALUES (?, ?, ?, ?)", rows)
            new = sql.total_changes - before
            beyond = f"SELECT COUNT(*), MAX(total) FROM ({_TOTALS}) WHERE total > ?"  # noqa: S608
            count, most = sql.execute(beyond, (allowed,)).fetchone()
            if count:
                raise BudgetError(
                    f"{count} people would have spent more than epsilon {float(limit):.6g}, one "
                    f"of them {most / _EPSILON:.6g}. Nothing was sent or charged. Leave them out, "
                    "or raise the limit if they may bear it."
                )
        return new

    def most(self) -> Guarantee:
        """The most that one person has spent, of epsilon and of delta."""
        if not self._path.exists():
            return Guarantee(0.0)
        with self._database() as sql:
            query = f"SELECT MAX(total), MAX(deltas) FROM ({_TOTALS})"  # noqa: S608
            epsilon, delta = sql.execute(query).fetchone()
        return Guarantee((epsilon or 0) / _EPSILON, (delta or 0) / _DELTA)

    def people(self) -> int:
        """The number of people with an account."""
        if not self._path.exists():
            return 0
        with self._database() as sql:
            found: int = sql.execute("SELECT COUNT(DISTINCT person) FROM charge").fetchone()[0]
        return found

    def forget(self) -> None:
        """Close all accounts, once what they hold stands elsewhere."""
        with self._database() as sql:
            sql.execute("DELETE FROM charge")

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        private_folder(self._path.parent)
        try:
            with disk_errors(self._path):
                self._path.touch(0o600)
            with closing(sqlite3.connect(self._path, timeout=60, isolation_level=None)) as sql:
                sql.execute("PRAGMA synchronous = FULL")
                sql.execute(_SCHEMA)
                yield sql
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"the accounts in {self._path} cannot be used ({error}); without them nobody knows "
                "what people have spent. Restore them from a backup."
            ) from None


def _units(amount: float, one: int) -> int:
    return math.ceil(Fraction(amount) * one)
