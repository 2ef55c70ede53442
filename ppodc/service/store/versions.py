"""The tables of a store, and the check that a store on disk has them.

A program reads one version of the format. A store of any other is refused and left as it is.
"""

import sqlite3
from typing import Literal

from ppodc.errors import StoreError
from ppodc.service.store import (
    audits,
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

VERSION = 3
Role = Literal["cloud1", "cloud2"]

_FORMAT = "CREATE TABLE format (role TEXT NOT NULL, version INTEGER NOT NULL) STRICT"
_TABLES = (
    _FORMAT,
    ledger.SCHEMA,
    datasets.SCHEMA,
    uploads.SCHEMA,
    chunks.SCHEMA,
    outlines.SCHEMA,
    jobs.SCHEMA,
    results.SCHEMA,
    figures.SCHEMA,
    audits.SCHEMA,
)


def prepare(database: Database, role: Role) -> None:
    """Create the tables in a new file, or check those of an existing one."""
    folder = database.path.parent
    with database.transaction() as sql:
        tables = {row["name"] for row in sql.execute("SELECT name FROM sqlite_schema")}
        if not tables:
            _create(sql, role)
        elif "format" not in tables:
            raise StoreError(
                f"{folder} holds a store from before the first release. This program cannot read "
                "it. End its jobs with the program that made it. Then name an empty folder in the "
                "configuration, create the datasets again and let the owners upload again."
            )
        whose, version = sql.execute("SELECT role, version FROM format").fetchone()
    if whose != role:
        raise StoreError(
            f"{folder} is the store of {whose}, and this is {role}. Name another folder in the "
            "configuration."
        )
    if version != VERSION:
        raise StoreError(
            f"{folder} is a store of version {version}. This program reads version {VERSION}. "
            "Install the release that made it, or name another folder in the configuration."
        )


def _create(sql: sqlite3.Connection, role: Role) -> None:
    for script in _TABLES:
        for statement in script.split(";"):
            sql.execute(statement)
    sql.execute("INSERT INTO format VALUES (?, ?)", (role, VERSION))
