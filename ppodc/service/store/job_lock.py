"""One process for each job: a lock in the store's folder, which ends with whoever holds it.

Its file goes when it is released; a killed process leaves it, and the next holder takes it over.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ppodc.errors import BusyError
from ppodc.files import disk_errors


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


def _locked(path: Path, dataset: str) -> int:
    with disk_errors(path):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise BusyError(f"another process is running the job of {dataset!r}.") from error
    return file


def _is_at(path: Path, file: int) -> bool:
    """Whether this is the file that others find."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file))
    return False
