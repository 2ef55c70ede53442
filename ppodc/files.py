"""Private files: written in full or not at all, and readable by this user only.

Errors of the disk become a `StoreError` that says what to do.
"""

import contextlib
import errno
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from ppodc.errors import DiskFullError, KeyFileError, StoreError

KEY_BYTES = 32
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Elsewhere (Windows) a file is private by the access list of its folder: the user's own profile.
POSIX = hasattr(os, "getuid")

log = logging.getLogger(__name__)


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError inside the block into a StoreError."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise disk_full(path) from error
        raise StoreError(f"{path} cannot be used: {error.strerror or error}.") from error


def disk_full(path: Path) -> DiskFullError:
    """The error to raise when the disk of this file is full; it is logged here."""
    log.error("the disk of %s is full", path.parent)
    return DiskFullError(
        "the disk is full. Nothing half-written was kept, and nothing was lost. Free some space "
        "and try again."
    )


def private_folder(path: Path) -> Path:
    """Create the folder if it does not exist, and close it to all other users."""
    with disk_errors(path):
        if not path.is_dir():
            if not path.parent.is_dir():
                private_folder(path.parent)
            path.mkdir(mode=0o700, exist_ok=True)
            sync_folder(path.parent)
        elif path.stat().st_mode & 0o077:
            path.chmod(0o700)
    return path


def write_private(path: Path, data: bytes | memoryview) -> None:
    """Replace a file by these bytes, mode 0600, in full and flushed to disk, or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with disk_errors(path):
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold this lock file for the block; other processes wait. The file stays."""
    from filelock import FileLock  # 50 ms that few commands need

    lock = FileLock(path, mode=0o600)
    with disk_errors(path):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def key_file(path: Path) -> bytes:
    """Return the random key in this file, which is created at its first use.

    KeyFileError if the file has another length than a key. Processes may share the file.
    """
    if not path.exists():
        with locked(path.with_name(f"{path.name}.lock")):  # or two processes would make two keys
            if not path.exists():
                write_private(path, secrets.token_bytes(KEY_BYTES))
    with disk_errors(path):
        key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"{path} is damaged. Put it back from your copy.")
    return key


def sync_folder(path: Path) -> None:
    """Flush the folder's entries to disk, so that new names survive a power cut.

    Windows cannot flush a folder: there a power cut may take a new name back.
    """
    if not POSIX:
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_all(descriptor: int, data: bytes | memoryview, at: int) -> None:
    """Write all of the data at this offset of an open file."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def read_all(descriptor: int, size: int, at: int) -> bytearray:
    """Read `size` bytes from this offset of an open file; fewer only where the file ends."""
    data = bytearray(size)
    done = 0
    while done < size:
        count = os.preadv(descriptor, [memoryview(data)[done:]], at + done)
        if not count:
            del data[done:]
            break
        done += count
    return data
