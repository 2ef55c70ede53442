"""Rows of an upload as chunk files, each checked by its digest when it is read.

A file's name holds the digest of its content: two chunks that contradict never share a file, and
a file without an entry in the database (left by a kill) is never read.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import StoreError
from ppodc.files import disk_errors, private_folder, write_private


def chunk_digest(rows: NDArray[Any]) -> str:
    """BLAKE2b-128 of the chunk's bytes, in hex."""
    return _digest(_data(rows))


def save_chunk(folder: Path, first_row: int, rows: NDArray[Any], digest: str) -> None:
    """Write the chunk in full, and to the disk, or not at all."""
    private_folder(folder)
    write_private(_path(folder, first_row, digest), _data(rows))


def load_chunk(folder: Path, first_row: int, digest: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers of a chunk, one behind the other; StoreError if they are not as they were."""
    path = _path(folder, first_row, digest)
    with disk_errors(path):
        data = path.read_bytes()
    if _digest(data) != digest:
        raise StoreError(
            f"{path} is damaged. Before the dataset is sealed its owner can withdraw the upload "
            "and repeat it; afterwards put this one file back from a copy, not an old store."
        )
    return np.frombuffer(data, dtype.newbyteorder("<"))


def _data(rows: NDArray[Any]) -> memoryview:
    little = np.ascontiguousarray(rows, rows.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def _digest(data: bytes | memoryview) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _path(folder: Path, first_row: int, digest: str) -> Path:
    return folder / f"{first_row}-{digest}"
