"""Rows of random material made ahead, each of them handed out at most once.

`MemoryPool` keeps rows for one session. `SingleUsePool` keeps them in a folder: the cursor is on
disk (fsync) before what it passes over is read, so a process killed at any point loses rows and
never sees one twice. One process at a time may have a folder open. A pool is as secret as the
values it hides, and must not be copied or restored from a backup.

Two parties may keep pools in step: row i here fits row i there and no other. When they meet, they
compare names and cursors and `agree` to go on from the larger cursor under a new name, or with
none. A folder that was restored from a copy has the name of an earlier meeting, so its rows,
which may be of another making than the peer's, are never used. A pool of one party alone has no
name, and nothing tells a copy of it from itself.

Folder: one file per field with the rows, and `state`: digest of version and layout (8 bytes), name
(16 bytes), first row in the files, cursor, end (8 bytes each, little endian), check of these (8
bytes). A folder of another version or layout counts as empty; the first rows added to it replace
what it held. The rows themselves carry no check: a layout that must notice damaged ones has a
field for it (`randomisers`). Supplies of two parties have none, since a row of them has as few
as 5 bytes: there the disk is trusted to give back what was written.
"""

import contextlib
import fcntl
import hashlib
import os
import struct
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import PoolError
from ppodc.files import disk_errors, private_folder, read_all, sync_folder, write_all

Array = NDArray[Any]
NAME_BYTES = 16
NO_NAME = bytes(NAME_BYTES)
VERSION = 1  # of the folders; raised when rows of the same layout come to mean something else
_STATE = struct.Struct("<8s16sQQQ")
_CHECK_BYTES = 8

# Hears (folder, "added" | "taken" | "emptied", first row, end) of every pool of this process: for
# campaigns that check that no row is ever handed out twice.
Observer = Callable[[Path, str, int, int], None]
observer: Observer | None = None


def in_use(folder: Path) -> bool:
    """Whether any process has a pool in this folder or below it open."""
    for state in folder.rglob("state"):
        with state.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
    return False


def stock(folder: Path) -> dict[str, int]:
    """Rows that the pools below this folder still have, by the names of the pools' folders."""
    rows: Counter[str] = Counter()
    for state in folder.rglob("state"):
        try:
            data = state.read_bytes()
        except FileNotFoundError:  # removed meanwhile
            continue
        fixed, check = data[: _STATE.size], data[_STATE.size :]
        if len(fixed) == _STATE.size and check == _check(fixed):
            *_, cursor, end = _STATE.unpack(fixed)
            rows[state.parent.name] += end - cursor
    return dict(rows)


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a pool: `width` numbers of `dtype` per row."""

    name: str
    dtype: type[np.generic]
    width: int

    @property
    def nbytes(self) -> int:
        """Bytes of this field in a row."""
        return np.dtype(self.dtype).itemsize * self.width


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of a row, and the owner of the rows (a key's fingerprint), if any."""

    fields: tuple[Field, ...]
    belongs_to: str = ""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return sum(field.nbytes for field in self.fields)

    @property
    def digest(self) -> bytes:
        """Tells rows of this version, layout and owner from all others."""
        texts = [f"{f.name}:{np.dtype(f.dtype).str}:{f.width}" for f in self.fields]
        texts += [self.belongs_to] if self.belongs_to else []
        return _check(",".join([f"pool {VERSION}", *texts]).encode())


class MemoryPool:
    """Rows in memory, served in the order they were added."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._parts: list[tuple[Array, ...]] = []
        self._at = 0  # rows of the first part that are gone
        self.available = 0

    def add(self, columns: Sequence[Array]) -> None:
        """Append rows: one array (rows, width) per field."""
        rows = len(columns[0])
        if rows:
            self._parts.append(tuple(columns))
            self.available += rows

    def take(self, count: int) -> tuple[Array, ...]:
        """The next `count` rows, which are gone from the pool."""
        if count > self.available:
            raise PoolError(f"a pool has {self.available} rows left and {count} are needed.")
        taken: list[tuple[Array, ...]] = []
        missing = count
        while missing:
            part = self._parts[0]
            end = min(len(part[0]), self._at + missing)
            taken.append(tuple(column[self._at : end] for column in part))
            missing -= end - self._at
            self._at = end
            if end == len(part[0]):
                self._parts.pop(0)
                self._at = 0
        self.available -= count
        if len(taken) == 1:
            return taken[0]
        if not taken:
            return tuple(np.empty((0, f.width), f.dtype) for f in self._layout.fields)
        return tuple(np.concatenate(columns) for columns in zip(*taken, strict=True))


class SingleUsePool:
    """Rows in a folder, opened for this process alone; used by one thread at a time.

    `cursor` is the number of the next row, `end` that of the row behind the last.
    """

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.folder = folder
        self.name = NO_NAME
        self.cursor = self.end = 0
        self._first = 0  # number of the first row in the files
        self._fields, self._digest = layout.fields, layout.digest
        self._process = os.getpid()
        self._descriptors: list[int] = []
        # Closes the files, and with them the lock, also when the pool is dropped without `close`.
        self._release = weakref.finalize(self, _close_all, self._descriptors)
        try:
            self._open_files()
            self._lock()
            self._read_state()
        except BaseException:
            self.close()
            raise

    @property
    def available(self) -> int:
        """Rows that can still be taken."""
        return self.end - self.cursor

    def add(self, columns: Sequence[Array]) -> None:
        """Append rows, one array (rows, width) per field; they count once all are on disk."""
        with self._using():
            if self.cursor == self.end:
                self._start_afresh(self.end)
            place = self.end - self._first
            try:
                for file, field, column in zip(self._files, self._fields, columns, strict=True):
                    rows = np.ascontiguousarray(column, field.dtype).reshape(-1).view(np.uint8)
                    write_all(file, rows.data, place * field.nbytes)
                    os.fsync(file)
            except OSError:  # the disk is full: free the space of the partial batch
                for file, field in zip(self._files, self._fields, strict=True):
                    os.ftruncate(file, place * field.nbytes)
                raise
            self.end += len(columns[0])
            self._write_state()
            self._tell("added", self.end - len(columns[0]), self.end)

    def take(self, count: int) -> tuple[Array, ...]:
        """The next `count` rows; the cursor is past them on disk before they are read."""
        with self._using():
            if count > self.available:
                raise PoolError(
                    f"The pool {self.folder} has {self.available} rows left, {count} are needed."
                )
            start, self.cursor = self.cursor, self.cursor + count
            self._write_state()
            self._tell("taken", start, self.cursor)
            columns = []
            for file, field in zip(self._files, self._fields, strict=True):
                size = count * field.nbytes
                data = read_all(file, size, (start - self._first) * field.nbytes)
                if len(data) != size:
                    raise PoolError(
                        f"The pool {self.folder} is cut short; delete it and prepare anew."
                    )
                columns.append(np.frombuffer(data, field.dtype).reshape(count, field.width))
            return tuple(columns)

    def agree(self, old: bytes | None, new: bytes, cursor: int = 0, end: int = 0) -> None:
        """Go on as `new` with the rows that both folders have under the name `old`, or with none.

        The name changes at every agreement: a copy made before it cannot pass for this folder.
        """
        with self._using():
            keep = old == self.name and self.cursor <= cursor <= end <= self.end
            self.name = new
            if keep:
                self.cursor, self.end = cursor, end
                self._write_state()
            else:
                self._start_afresh(0)
                self._tell("emptied", 0, 0)

    def require_open(self) -> None:
        """Refuse a pool that is closed, or that a parent process opened before it forked."""
        if not self._release.alive:
            raise PoolError(f"The pool {self.folder} is closed; open it again.")
        # A forked child holds the same lock and the same cursor as its parent.
        if self._process != os.getpid():
            raise PoolError(f"The pool {self.folder} was opened by another process; open it here.")

    def close(self) -> None:
        """Release the folder; closing twice is harmless."""
        self._release()

    def __repr__(self) -> str:
        return f"SingleUsePool({self.folder}, {self.available} rows left)"

    def _tell(self, event: str, first: int, end: int) -> None:
        if observer is not None:
            observer(self.folder, event, first, end)

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        self.require_open()
        with disk_errors(self.folder):
            yield

    def _open_files(self) -> None:
        """Open `state` and each field's file; the folder and they are this user's alone."""
        private_folder(self.folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with disk_errors(self.folder):
            for name in ("state", *(field.name for field in self._fields)):
                self._descriptors.append(os.open(self.folder / name, flags, 0o600))
            sync_folder(self.folder)
        self._state, *self._files = self._descriptors

    def _lock(self) -> None:
        try:
            fcntl.flock(self._state, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PoolError(
                f"{self.folder} is open already, here or in another process; "
                "give each process its own pool."
            ) from None

    def _start_afresh(self, at: int) -> None:
        """Empty the files; the next row added is number `at`."""
        self._first = self.cursor = self.end = at
        self._write_state()
        for file in self._files:
            os.ftruncate(file, 0)

    def _read_state(self) -> None:
        with disk_errors(self.folder):
            data = read_all(self._state, _STATE.size + _CHECK_BYTES, 0)
        if not data:
            return
        fixed = data[: _STATE.size]
        if data[_STATE.size :] != _check(fixed):
            raise PoolError(
                f"{self.folder} does not know what it has handed out (damaged or cut short);"
                " delete the folder and prepare anew."
            )
        digest, name, first, cursor, end = _STATE.unpack(fixed)
        if digest == self._digest:
            self.name, self._first, self.cursor, self.end = name, first, cursor, end

    def _write_state(self) -> None:
        fixed = _STATE.pack(self._digest, self.name, self._first, self.cursor, self.end)
        write_all(self._state, fixed + _check(fixed), 0)
        os.fsync(self._state)


def _check(data: bytes | bytearray) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECK_BYTES).digest()


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
