"""The tables of a store, and how a store of an older version becomes one of this.

A store is migrated when it is opened, in one transaction: a kill leaves the old store or the new.
Stop the older program first, and keep a copy of the folder if you may want to go back.
"""

import sqlite3
from collections.abc import Sequence
from typing import Literal

from ppodc.errors import StoreError
from ppodc.service.store import (
    chunks,
    datasets,
    figures,
    jobs,
    ledger,
    outlines,
    results,
    uploads,
)
from ppodc.service.store.database import Database

VERSION = 5
Role = Literal["cloud1", "cloud2"]

_ABOUT = "CREATE TABLE about (role TEXT NOT NULL, version INTEGER NOT NULL) STRICT"
_TABLES = (
    _ABOUT,
    ledger.SCHEMA,
    datasets.SCHEMA,
    uploads.SCHEMA,
    chunks.SCHEMA,
    outlines.SCHEMA,
    jobs.SCHEMA,
    results.SCHEMA,
    figures.SCHEMA,
)

# Version 1 knew k-means alone: one array in a checkpoint, one half and the labels in a result.
_FROM_1 = (
    "ALTER TABLE checkpoint RENAME TO checkpoint_1; ALTER TABLE result RENAME TO result_1",
    jobs.SCHEMA,
    results.SCHEMA,
    """
    INSERT INTO checkpoint SELECT dataset, iteration, stop, '' FROM checkpoint_1;
    INSERT INTO checkpoint_array
        SELECT dataset, iteration, 'clusters', dtype, shape, clusters FROM checkpoint_1;
    INSERT INTO result SELECT dataset, '{"converged":' || iif(converged, 'true', 'false')
        || ',"n_iter":' || n_iter || '}', '' FROM result_1;
    INSERT INTO result_half SELECT dataset, 'clusters', modulus, half FROM result_1;
    INSERT INTO row_half SELECT upload_id, 'labels', modulus, half FROM labels;
    DROP TABLE checkpoint_1;
    DROP TABLE result_1;
    DROP TABLE labels
    """,
)
# Version 2 knew neither runs nor removal. What was unfinished then counts as begun now.
_FROM_2 = (
    """
    ALTER TABLE checkpoint ADD COLUMN run TEXT NOT NULL DEFAULT '';
    ALTER TABLE result ADD COLUMN run TEXT NOT NULL DEFAULT ''
    """,
)
_FROM_1_OR_2 = (
    """
    ALTER TABLE dataset ADD COLUMN deleted TEXT NOT NULL DEFAULT '';
    ALTER TABLE upload ADD COLUMN begun TEXT NOT NULL DEFAULT '';
    ALTER TABLE upload ADD COLUMN removed TEXT NOT NULL DEFAULT '';
    UPDATE upload SET begun = strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now');
    CREATE INDEX upload_of_owner ON upload (dataset, owner, number)
    """,
)
# Version 3 counted nothing about itself.
_FROM_3 = (figures.SCHEMA,)
# Version 4 knew no uploads that tell their cells.
_FROM_4 = (
    "ALTER TABLE upload ADD COLUMN outline TEXT NOT NULL DEFAULT ''",
    outlines.SCHEMA,
    "UPDATE about SET version = 5",
)
_OLDER = {
    1: (*_FROM_1, *_FROM_1_OR_2, *_FROM_3, *_FROM_4),
    2: (*_FROM_2, *_FROM_1_OR_2, *_FROM_3, *_FROM_4),
    3: (*_FROM_3, *_FROM_4),
    4: _FROM_4,
}


def prepare(database: Database, role: Role) -> None:
    """Make the tables in a new file, or bring an older one up to date."""
    with database.transaction() as sql:
        query = "SELECT 1 FROM sqlite_schema WHERE name = 'about'"
        if sql.execute(query).fetchone() is None:
            _run(sql, _TABLES)
            sql.execute("INSERT INTO about VALUES (?, ?)", (role, VERSION))
        about = sql.execute("SELECT role, version FROM about").fetchone()
        if about is None:  # version 1 made its tables first: it was killed before this
            about = (role, 1)
            sql.execute("INSERT INTO about VALUES (?, ?)", about)
        _check(database, role, *about)
        _run(sql, _OLDER.get(about[1], ()))


def _check(database: Database, role: Role, whose: str, version: int) -> None:
    folder = database.path.parent
    if whose != role:
        raise StoreError(
            f"{folder} is the store of {whose}, and this is {role}. Name another folder in the "
            "configuration."
        )
    if version > VERSION:
        raise StoreError(
            f"{folder} is a store of version {version}, made by a newer ppodc; this one knows "
            f"versions 1 to {VERSION}. Install the release that made it, or name another folder "
            "in the configuration."
        )


def _run(sql: sqlite3.Connection, scripts: Sequence[str]) -> None:
    for script in scripts:
        for statement in script.split(";"):
            sql.execute(statement)
