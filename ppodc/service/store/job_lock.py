"""One process for each job: a lock in the store's folder, which ends with whoever holds it.

Its file goes when it is released; a killed process leaves it, and the next holder takes it over.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ppodc.errors import BusyError
from ppodc.files import disk_errors

_TRIES, _PAUSE_SECONDS = 5, 0.02


@contextlib.contextmanager
def job_lock(folder: Path, dataset: str) -> Iterator[None]:
    """Hold the job of a dataset of this store; BusyError while another does."""
    path = folder / f"{dataset}.lock"
    file = _locked(path, dataset)
    while not _is_at(path, file):  # removed by its holder after we had opened it
        os.close(file)
        file = _locked(path, dataset)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def held(folder: Path, dataset: str) -> bool:
    """Whether a process holds the job. Asking takes the lock for an instant (see `_locked`)."""
    try:
        file = os.open(folder / f"{dataset}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _locked(path: Path, dataset: str) -> int:
    with disk_errors(path):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for attempt in range(_TRIES):  # whoever only asks (`held`) is gone by the next
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_PAUSE_SECONDS if attempt < _TRIES - 1 else 0)
        else:
            return file
    os.close(file)
    raise BusyError(f"another process is running the job of {dataset!r}.")


def _is_at(path: Path, file: int) -> bool:
    """Whether this is the file that others find."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file))
    return False
