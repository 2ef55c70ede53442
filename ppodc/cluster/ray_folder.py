"""The folder of a Ray that this program starts: closed to other users, and gone when Ray is.

Ray keeps logs, sockets and objects that did not fit into memory in files, and opens its folders to
everyone. Among the objects are shares. So Ray gets a folder inside one of ours that only this user
may enter, and its processes inherit a umask that makes every file this user's alone.

Whoever uses a folder holds a lock in it. After a kill the lock is free and the folder is still
there; the next start finds it and removes it. A folder whose lock is held is never touched.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "ppodc-ray-"
_LOCK = "lock"
_UNLOCKED_SECONDS = 3600.0  # after which a folder that never had a lock is a leftover

log = logging.getLogger(__name__)


class RayFolder:
    """A folder in use by this process, from `new` or `join` to `remove`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @property
    def for_ray(self) -> Path:
        """The folder for Ray, which opens it to everyone; ours around it stays closed."""
        return self.path / "r"

    @classmethod
    def new(cls) -> "RayFolder":
        """Make a new folder, after removing those of dead processes of this user."""
        remove_leftovers()
        # Ray puts Unix sockets below it, whose path must stay short.
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        unnamed = path / f".{_LOCK}"
        lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)
        unnamed.rename(path / _LOCK)  # held from the moment others can see it
        return cls(path, lock)

    @classmethod
    def join(cls, path: Path) -> "RayFolder":
        """The folder that the process which started this one has made."""
        lock = os.open(path / _LOCK, os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return cls(path, lock)

    def remove(self) -> None:
        """Delete it with everything inside; once is enough, twice is harmless."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_leftovers() -> None:
    """Delete this user's folders whose processes are gone."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another process was faster
            if _is_left_over(path):
                log.warning("removing files of a killed Ray in %s", path)
                shutil.rmtree(path, ignore_errors=True)


def _is_left_over(path: Path) -> bool:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - status.st_mtime > _UNLOCKED_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Files created in this block, here or by child processes, are for this user alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
