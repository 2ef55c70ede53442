"""One SQLite file (WAL) with its transactions.

Several processes may have the same file open, and several threads the same `Database`. A
transaction is on disk when its block ends (synchronous=FULL) and undone if the block raises.
What the disk or SQLite reports becomes a `StoreError` that says what to do.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from ppodc.errors import StoreError
from ppodc.files import disk_errors, disk_full

_BUSY_SECONDS = 30.0


def utc_now(ago: timedelta = timedelta()) -> str:
    """The time, or that of so long ago, as a store keeps it: it sorts as text."""
    return (datetime.now(UTC) - ago).isoformat(timespec="milliseconds")


class Database:
    """A connection shared by the threads of this process; nested transactions join the outer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._depth = 0
        self._process = os.getpid()
        # SQLite gives its own side files the mode of the main file. A file that is there is not
        # touched: closing it would drop the locks of another connection of this process, and the
        # next process to close the file would then delete its log of changes.
        with disk_errors(path), contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        self._connection = self._connect()

    @property
    def nested(self) -> bool:
        """Whether a transaction is open that another would join."""
        return self._depth > 0

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All changes of the block together, or none."""
        with self._begin("BEGIN IMMEDIATE") as sql:
            yield sql

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view for several queries."""
        with self._begin("BEGIN") as sql:
            yield sql

    def flush_deleted(self) -> None:
        """Empty the log of changes, which still has what was deleted, if nobody is reading it."""
        with self._lock, _database_errors(self.path):
            if not self._depth:
                self._connection.execute("PRAGMA busy_timeout=0")  # nobody shall wait for this
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                self._connection.execute(f"PRAGMA busy_timeout={int(1000 * _BUSY_SECONDS)}")

    @contextlib.contextmanager
    def _begin(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, _database_errors(self.path):
            if self._process != os.getpid():  # a connection must not be used after a fork
                self._process, self._connection = os.getpid(), self._connect()
            if self._depth:
                yield self._connection
                return
            self._connection.execute(begin)
            self._depth += 1
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite may have rolled back by itself
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def _connect(self) -> sqlite3.Connection:
        with _database_errors(self.path):
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA secure_delete=ON")  # what is deleted is overwritten
        return connection


@contextlib.contextmanager
def _database_errors(path: Path) -> Iterator[None]:
    """Turn what the disk or SQLite says inside the block into a StoreError."""
    with disk_errors(path):
        try:
            yield
        except sqlite3.Error as error:
            _raise_sqlite(path, error)


def _raise_sqlite(path: Path, error: sqlite3.Error) -> NoReturn:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        raise disk_full(path) from error
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        raise StoreError(
            f"{path} was held by another process for {_BUSY_SECONDS:g} s; try again."
        ) from error
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        raise StoreError(
            f"{path} is damaged; stop the service. A copy of the store may take its place only if "
            "nothing has changed since it was made."
        ) from error
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        raise StoreError(
            f"{path} cannot be read or written ({error}); is the disk full, or the folder not "
            "this user's own?"
        ) from error
    raise error
