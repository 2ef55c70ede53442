"""Rows of an upload as chunks: files, each checked by its digest when it is read, and a table.

A file's name holds the digest of its content: two chunks that contradict never share a file, and
a file without an entry in the database (left by a kill) is never read.
"""

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import StoreError
from ppodc.files import disk_errors, private_folder, write_private

SCHEMA = """
CREATE TABLE chunk (
    upload_id TEXT NOT NULL REFERENCES upload (upload_id),
    first_row INTEGER NOT NULL,
    row_count INTEGER NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (upload_id, first_row)
) STRICT
"""


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


def overlapping(
    sql: sqlite3.Connection, upload_id: str, first: int, rows: int
) -> list[tuple[int, int, str]]:
    """The chunks with any of these rows, in order: (first row, number of rows, digest)."""
    query = (
        "SELECT first_row, row_count, digest FROM chunk WHERE upload_id = ?"
        " AND first_row < ? AND first_row + row_count > ? ORDER BY first_row"
    )
    return [tuple(row) for row in sql.execute(query, (upload_id, first + rows, first))]


def gaps(sql: sqlite3.Connection, upload_id: str, rows: int) -> list[tuple[int, int]]:
    """Rows of the upload's 0..rows-1 that no chunk has, as (first, number of rows)."""
    found, at = [], 0
    for first, count, _ in overlapping(sql, upload_id, 0, rows):
        if first > at:
            found.append((at, first - at))
        at = first + count
    if at < rows:
        found.append((at, rows - at))
    return found
