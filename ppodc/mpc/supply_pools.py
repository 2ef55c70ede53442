"""Precomputed transfers and triples: made offline by both halves, each used once.

A pool holds rows of fixed size in step at both clouds: row i here fits row i there and no other.
`Pool` keeps them in memory for one session. `StoredPool` keeps them in a folder: the cursor is on
disk (fsync) before what it passes over is read, so a process killed at any point loses rows and
never sees one twice. When a session starts, both halves compare names and cursors of their
folders and go on from the larger cursor under a new name; pools of different names are emptied.
A folder that was restored from a copy has the name of an earlier session, so its rows, which may
be of another making than the peer's, are never used.

Folder: one file per field with the rows, and `state`: digest of version and layout (8 bytes), name
(16 bytes), first row in the files, cursor, end (8 bytes each, little endian), check of these (8
bytes). A folder of another version or layout counts as empty.
"""

import fcntl
import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import PoolError

Array = NDArray[Any]
NAME_BYTES = 16
VERSION = 2  # of the folders; raised when rows of the same layout come to mean something else
_STATE = struct.Struct("<8s16sQQQ")
_CHECK_BYTES = 8


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a pool: `width` numbers of `dtype` per row."""

    name: str
    dtype: type[np.generic]
    width: int

    @property
    def nbytes(self) -> int:
        return np.dtype(self.dtype).itemsize * self.width


Layout = tuple[Field, ...]

TRANSFERS: Layout = (
    Field("pair", np.uint64, 4),  # both keys where this cloud is the sender
    Field("key", np.uint64, 2),  # the chosen key where it is the receiver
    Field("choice", np.uint8, 1),
)
PAIRS: Layout = (Field("words", np.uint64, 5),)  # a, b0, b1, c0, c1 of 64 pairs
LEAVES: Layout = (
    Field("table", np.uint32, 1),  # 16 pads of 2 bits where this cloud is the sender
    Field("mine", np.uint8, 1),  # choice (4 bits) and its pad (2 bits) where it is the receiver
)


class Pool:
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
            return tuple(np.empty((0, field.width), field.dtype) for field in self._layout)
        return tuple(np.concatenate(columns) for columns in zip(*taken, strict=True))


class StoredPool:
    """Rows in a folder that one process at a time may open."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._folder, self._layout = folder, layout
        self.name = bytes(NAME_BYTES)
        self._first = self.cursor = self.end = 0
        self._digest = _layout_digest(layout)
        self._open: list[int] = []
        try:
            self._state, *self._files = self._open_files()
            self._lock()
            self._read_state()
        except BaseException:
            self.close()
            raise

    @property
    def available(self) -> int:
        return self.end - self.cursor

    def add(self, columns: Sequence[Array]) -> None:
        """Append rows; they count once all of them are on disk."""
        self._drop_spent()
        for file, field, column in zip(self._files, self._layout, columns, strict=True):
            rows = np.ascontiguousarray(column).reshape(-1, field.width).astype(field.dtype)
            self._write(file, rows.tobytes(), (self.end - self._first) * field.nbytes)
            os.fsync(file)
        self.end += len(columns[0])
        self._write_state()

    def take(self, count: int) -> tuple[Array, ...]:
        """The next `count` rows; the cursor is past them on disk before they are read."""
        if count > self.available:
            raise PoolError(
                f"The pool {self._folder} has {self.available} rows left, {count} are needed."
            )
        start, self.cursor = self.cursor, self.cursor + count
        self._write_state()
        columns = []
        for file, field in zip(self._files, self._layout, strict=True):
            size, at = count * field.nbytes, (start - self._first) * field.nbytes
            data = b"".join(iter(_Reader(file, size, at), b""))
            if len(data) != size:
                raise PoolError(
                    f"The pool {self._folder} is cut short; delete it and prepare anew."
                )
            columns.append(np.frombuffer(data, field.dtype).reshape(count, field.width))
        return tuple(columns)

    def agree(self, old: bytes | None, new: bytes, cursor: int = 0, end: int = 0) -> None:
        """Go on as `new` with the rows that both folders have under the name `old`, or with none.

        The name changes at every agreement: a copy made before it cannot pass for this folder.
        """
        keep = old == self.name and self.cursor <= cursor <= end <= self.end
        self.name = new
        if keep:
            self.cursor, self.end = cursor, end
            self._write_state()
            return
        self._first = self.cursor = self.end = 0
        self._write_state()
        for file in self._files:
            os.ftruncate(file, 0)

    def close(self) -> None:
        """Release the folder."""
        while self._open:
            os.close(self._open.pop())

    def _open_files(self) -> list[int]:
        """Descriptors of `state` and of each field's file."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in ("state", *(field.name for field in self._layout)):
                self._open.append(os.open(self._folder / name, flags, 0o600))
        except OSError as error:
            raise PoolError(f"Cannot open the pool {self._folder}: {error.strerror}.") from None
        return list(self._open)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._state, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PoolError(
                f"{self._folder} is open already, here or in another process; "
                "give each pair its own."
            ) from None

    def _drop_spent(self) -> None:
        """Start the files afresh when all their rows are gone."""
        if self.cursor == self.end and self._first < self.end:
            self._first = self.end
            self._write_state()
            for file in self._files:
                os.ftruncate(file, 0)

    def _read_state(self) -> None:
        data = os.pread(self._state, _STATE.size + _CHECK_BYTES, 0)
        if not data:
            return
        fixed, check = data[: _STATE.size], data[_STATE.size :]
        if check != _check(fixed):
            raise PoolError(
                f"{self._folder} does not know what it has handed out (damaged or cut short);"
                " delete the folder and prepare anew."
            )
        digest, name, first, cursor, end = _STATE.unpack(fixed)
        if digest == self._digest:
            self.name, self._first, self.cursor, self.end = name, first, cursor, end

    def _write_state(self) -> None:
        fixed = _STATE.pack(self._digest, self.name, self._first, self.cursor, self.end)
        self._write(self._state, fixed + _check(fixed), 0)
        os.fsync(self._state)

    def _write(self, file: int, data: bytes, at: int) -> None:
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(file, view, at)
                view, at = view[written:], at + written
        except OSError as error:
            raise PoolError(f"Cannot write to the pool {self._folder}: {error.strerror}.") from None


class _Reader:
    """Parts of a stretch of a file, until it is read or the file ends."""

    def __init__(self, file: int, size: int, at: int) -> None:
        self._file, self._size, self._at = file, size, at

    def __call__(self) -> bytes:
        part = os.pread(self._file, self._size, self._at)
        self._size, self._at = self._size - len(part), self._at + len(part)
        return part


def _layout_digest(layout: Layout) -> bytes:
    fields = [f"{field.name}:{np.dtype(field.dtype).str}:{field.width}" for field in layout]
    text = ",".join([f"version {VERSION}", *fields])
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECK_BYTES).digest()
