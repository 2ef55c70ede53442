"""Files that are there in full or not at all, for this user's eyes only.

What the disk reports becomes a `StoreError` that says what to do.
"""

import contextlib
import errno
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from ppodc.errors import DiskFullError, StoreError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

log = logging.getLogger(__name__)


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the disk says inside the block into a StoreError."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise disk_full(path) from error
        raise StoreError(f"{path} cannot be used: {error.strerror or error}.") from error


def disk_full(path: Path) -> DiskFullError:
    """What to raise when the disk of this file is full."""
    log.error("the disk of %s is full", path.parent)
    return DiskFullError(
        "the disk is full; nothing half-written was kept. Free some space and try again: "
        "what was there before is still there."
    )


def private_folder(path: Path) -> Path:
    """The folder, made if it is not there, and closed to all other users."""
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
    """Write a file with mode 0600 that is there in full, and on disk, or not at all."""
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


def sync_folder(path: Path) -> None:
    """Make new names in the folder survive a power cut."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_all(descriptor: int, data: bytes | memoryview, at: int) -> None:
    """Write all of the data at this place of an open file."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def read_all(descriptor: int, size: int, at: int) -> bytearray:
    """`size` bytes from this place of an open file; fewer only where the file ends."""
    data = bytearray(size)
    done = 0
    while done < size:
        count = os.preadv(descriptor, [memoryview(data)[done:]], at + done)
        if not count:
            del data[done:]
            break
        done += count
    return data
