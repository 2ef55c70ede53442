"""Paillier randomisers made offline and kept on disk, each handed out at most once.

The file is a header, a cursor and records of fixed size. The cursor is on disk before what it
passes over is read, so a process killed at any point loses the block it had reserved and never
sees one of its randomisers again. One process at a time may have the pool open. A pool is as
secret as the values it hides and must not be copied or restored from a backup: a copy would hand
out the same randomisers again.

File: "PPODCRAN", then little endian: version (4 bytes), ciphertext width (4), key fingerprint
(16), check of these (8) | cursor (8), check of the cursor (8) | records, each a number of `width`
bytes with the CRC-32 of its place and value (4).
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import struct
import threading
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path

from gmpy2 import mpz

from ppodc.crypto.paillier import PublicKey, RandomiserSource
from ppodc.errors import PoolError

_MAGIC = b"PPODCRAN"
_VERSION = 1
_HEADER = struct.Struct("<8sII16s")
_CHECK_BYTES = 8
_CURSOR_AT = _HEADER.size + _CHECK_BYTES
_RECORDS_AT = _CURSOR_AT + 8 + _CHECK_BYTES
_FILL_CHUNK = 256
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RandomiserPool:
    """A pool file opened for this process alone; a `RandomiserSource`.

    `take` reserves `block` randomisers at a time, so that one write to the disk serves them all;
    a kill loses at most what is left of a block. When the pool runs out, `take` refuses, or makes
    the missing ones with `fallback` and counts them in `late`. With `erase`, records are
    overwritten once reserved. Records whose CRC is wrong are passed over and counted in `damaged`.
    """

    def __init__(
        self,
        path: str | Path,
        key: PublicKey,
        *,
        fallback: RandomiserSource | None = None,
        block: int = 1024,
        erase: bool = False,
    ) -> None:
        self.path = Path(path)
        self.randomisers = self.late = self.damaged = 0
        self._key, self._fallback = key, fallback
        self._block, self._erase = block, erase
        self._record = key.ciphertext_bytes + 4
        self._ready: list[mpz] = []
        self._lock, self._process = threading.Lock(), os.getpid()
        self._file = _open(self.path)
        # Closes the file, and with it the lock, also when the pool is dropped without `close`.
        self._release = weakref.finalize(self, os.close, self._file)
        try:
            self._read_header()
        except BaseException:
            self._release()
            raise

    @classmethod
    def create(
        cls,
        path: str | Path,
        key: PublicKey,
        *,
        fallback: RandomiserSource | None = None,
        block: int = 1024,
        erase: bool = False,
    ) -> "RandomiserPool":
        """Make a new, empty pool for this key, for its owner's eyes only, and open it."""
        header = _HEADER.pack(
            _MAGIC, _VERSION, key.ciphertext_bytes, bytes.fromhex(key.fingerprint)
        )
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise PoolError(f"{path} exists already; open it, or choose another name.") from None
        except OSError as error:
            raise PoolError(f"Cannot make the pool {path}: {error.strerror}.") from None
        try:
            _write(file, header + _check(header) + _cursor(0), 0)
            os.fsync(file)
        finally:
            os.close(file)
        _sync_folder(Path(path).parent)
        return cls(path, key, fallback=fallback, block=block, erase=erase)

    @classmethod
    def open(
        cls,
        path: str | Path,
        key: PublicKey,
        *,
        fallback: RandomiserSource | None = None,
        block: int = 1024,
        erase: bool = False,
    ) -> "RandomiserPool":
        """Open an existing pool; the same as calling the class."""
        return cls(path, key, fallback=fallback, block=block, erase=erase)

    @property
    def remaining(self) -> int:
        """How many can still be taken before the pool is spent."""
        return len(self._ready) + self._records - self._cursor

    def take(self, count: int) -> list[mpz]:
        """`count` randomisers that have never been handed out."""
        with self._lock:
            self._require_open()
            while len(self._ready) < count and self._cursor < self._records:
                if self._fallback is None and self.remaining < count:
                    break
                self._reserve(max(count - len(self._ready), self._block))
            late = max(count - len(self._ready), 0)
            if late and self._fallback is None:
                raise PoolError(
                    f"The pool {self.path} has {self.remaining} randomisers left, {count} are"
                    " needed; fill it, or let missing ones be made when needed."
                )
            taken, self._ready = self._ready[:count], self._ready[count:]
            if late and self._fallback is not None:
                taken += self._fallback.take(late)
                self.late += late
            self.randomisers += count
            return taken

    def fill(
        self,
        source: RandomiserSource,
        count: int,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Append `count` randomisers from `source`; `progress` hears how many are on disk.

        They are written in chunks: what a killed fill has written in full stays usable.
        """
        with self._lock:
            self._require_open()
            done = 0
            while done < count:
                chunk = source.take(min(_FILL_CHUNK, count - done))
                self._append(chunk, done)
                done += len(chunk)
                if progress is not None:
                    progress(done)

    def close(self) -> None:
        """Release the pool; what was reserved and not taken is lost."""
        with self._lock:
            self._release()
            self._ready.clear()

    def __enter__(self) -> "RandomiserPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RandomiserPool({self.path}, {self.remaining} left)"

    def _require_open(self) -> None:
        if not self._release.alive:
            raise PoolError(f"The pool {self.path} is closed; open it again.")
        # A forked child holds the same lock and the same reserved block as its parent.
        if self._process != os.getpid():
            raise PoolError(f"The pool {self.path} was opened by another process; open it here.")

    def _read_header(self) -> None:
        head = os.pread(self._file, _RECORDS_AT, 0)
        fixed, check = head[: _HEADER.size], head[_HEADER.size : _CURSOR_AT]
        if len(head) < _RECORDS_AT or fixed[:8] != _MAGIC or check != _check(fixed):
            raise PoolError(f"{self.path} is no randomiser pool, or damaged; make a new one.")
        _, version, width, fingerprint = _HEADER.unpack(fixed)
        if version != _VERSION:
            raise PoolError(
                f"{self.path} is a pool of version {version}, this program reads {_VERSION};"
                " make a new one."
            )
        if fingerprint.hex() != self._key.fingerprint or width != self._key.ciphertext_bytes:
            raise PoolError(
                f"{self.path} is for the key {fingerprint.hex()}, not for"
                f" {self._key.fingerprint}; use that key's pool or make a new one."
            )
        self._cursor = int.from_bytes(head[_CURSOR_AT : _CURSOR_AT + 8], "little")
        # A tail that is no whole record is what a killed fill leaves: the next one overwrites it.
        self._records = (os.fstat(self._file).st_size - _RECORDS_AT) // self._record
        if head[_CURSOR_AT:] != _cursor(self._cursor) or self._cursor > self._records:
            raise PoolError(
                f"{self.path} does not know what it has handed out (damaged or cut short);"
                " delete it and make a new one."
            )

    def _reserve(self, count: int) -> None:
        """Move the cursor on disk, and only then read what it passed over."""
        start, end = self._cursor, min(self._cursor + count, self._records)
        at, size = _RECORDS_AT + start * self._record, (end - start) * self._record
        try:
            _write(self._file, _cursor(end), _CURSOR_AT)
            os.fsync(self._file)
            self._cursor = end
            data = _read(self._file, size, at)
            if self._erase:
                _write(self._file, bytes(size), at)
        except OSError as error:
            raise PoolError(f"Cannot use the pool {self.path}: {error.strerror}.") from None
        width, n2 = self._key.ciphertext_bytes, self._key.n2
        for i, offset in enumerate(range(0, len(data), self._record), start):
            number = data[offset : offset + width]
            value = mpz.from_bytes(number, "little")
            if _crc(i, number) == data[offset + width : offset + width + 4] and 0 < value < n2:
                self._ready.append(value)
            else:
                self.damaged += 1

    def _append(self, values: list[mpz], done: int) -> None:
        width = self._key.ciphertext_bytes
        numbers = [value.to_bytes(width, "little") for value in values]
        data = b"".join([x + _crc(i, x) for i, x in enumerate(numbers, self._records)])
        end = _RECORDS_AT + self._records * self._record
        try:
            _write(self._file, data, end)
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, end)
            if error.errno not in _DISK_FULL:
                raise PoolError(f"Cannot fill {self.path}: {error.strerror}.") from None
            raise PoolError(
                f"The disk is full: {done} randomisers were added to {self.path} and can be used."
                f" A randomiser takes {self._record} bytes; free some space, then fill again."
            ) from None
        self._records += len(values)


def _open(path: Path) -> int:
    """Open and lock the file; it must be its owner's alone and open nowhere else."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise PoolError(f"Cannot open the pool {path}: {error.strerror}.") from None
    if os.fstat(file).st_mode & 0o077:
        os.close(file)
        raise PoolError(f"Others may read {path}, a secret; run: chmod 600 {path}")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise PoolError(
            f"{path} is open already, here or in another process; give each process its own pool."
        ) from None
    return file


def _write(file: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _read(file: int, size: int, at: int) -> bytes:
    parts = []
    while size and (part := os.pread(file, size, at)):
        parts.append(part)
        size, at = size - len(part), at + len(part)
    return b"".join(parts)


def _sync_folder(folder: Path) -> None:
    """Make a new name in the folder survive a power cut."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _check(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECK_BYTES).digest()


def _cursor(at: int) -> bytes:
    number = at.to_bytes(8, "little")
    return number + _check(number)


def _crc(place: int, number: bytes) -> bytes:
    return zlib.crc32(number, place & 0xFFFFFFFF).to_bytes(4, "little")
