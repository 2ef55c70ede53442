"""Cloud 1's shares as chunk files, each checked by its digest when it is read.

A file's name holds the digest of its content: two chunks that contradict never share a file, and
a file without an entry in the database (left by a kill) is never read.
"""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, StoreError
from ppodc.files import disk_errors, private_folder, write_private
from ppodc.records.sharing import MAX_VALUE

_MAX_SHARE = (1 << 63) - 1 + MAX_VALUE


def chunk_digest(share: NDArray[np.uint64]) -> str:
    """BLAKE2b-128 of the chunk's bytes, in hex."""
    return hashlib.blake2b(_data(share), digest_size=16).hexdigest()


def save_chunk(folder: Path, first_row: int, share: NDArray[np.uint64], digest: str) -> None:
    """Write the chunk in full, and to the disk, or not at all."""
    private_folder(folder)
    write_private(_path(folder, first_row, digest), _data(share))


def load_chunk(folder: Path, first_row: int, digest: str) -> NDArray[np.uint64]:
    """The numbers of a chunk, one behind the other; StoreError if they are not as they were."""
    path = _path(folder, first_row, digest)
    with disk_errors(path):
        data = path.read_bytes()
    if hashlib.blake2b(data, digest_size=16).hexdigest() != digest:
        raise StoreError(f"{path} is damaged; use your copy of the store.")
    return np.frombuffer(data, "<u8")


def check_share(share: NDArray[np.uint64], first_row: int, rows: int, columns: int) -> None:
    """Refuse what cannot be these rows of a share."""
    if share.dtype != np.uint64 or share.ndim != 2 or share.shape[1] != columns or not len(share):
        raise InputError(f"a chunk must hold rows of {columns} 64-bit unsigned numbers.")
    if first_row < 0 or first_row + len(share) > rows:
        raise InputError(f"a chunk reaches beyond the {rows} rows that were announced.")
    if int(share.max()) > _MAX_SHARE:
        raise InputError("a chunk holds numbers that no share can have.")


def _data(share: NDArray[np.uint64]) -> memoryview:
    return np.ascontiguousarray(share, "<u8").reshape(-1).view(np.uint8).data


def _path(folder: Path, first_row: int, digest: str) -> Path:
    return folder / f"{first_row}-{digest}"
