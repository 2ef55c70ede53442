"""Rows of numbers that belong to a session: in memory up to a budget, beyond it in a file.

The file has no name (it vanishes with the process) and is read in stretches, so that the memory
of a worker stays bounded however many records it holds.
"""

import mmap
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import PoolError
from ppodc.files import write_all

Array = NDArray[Any]


class Budget:
    """Bytes that the spools of one session may still keep in memory."""

    def __init__(self, limit: int, folder: Path | None = None) -> None:
        self.left = limit
        self.folder = folder

    def grant(self, size: int) -> bool:
        """Whether `size` more bytes may stay in memory; counts them if so."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        """So many bytes that were granted are free again."""
        self.left += size


class Spool:
    """A table of `rows` rows of `width` numbers, written from the start and read anywhere."""

    def __init__(self, rows: int, width: int, dtype: type[np.generic], budget: Budget) -> None:
        self._dtype, self._width = np.dtype(dtype), width
        self._row_bytes = self._dtype.itemsize * width
        self._end = 0
        self._budget = budget
        self._memory: Array | None = None
        self._file: IO[bytes] | None = None
        if budget.grant(rows * self._row_bytes):
            self._memory = np.empty((rows, width), dtype)
        else:
            # TemporaryFile removes the name at once and lets only this user read.
            self._file = tempfile.TemporaryFile(dir=budget.folder)  # noqa: SIM115 - kept open

    def append(self, rows: Array) -> None:
        """Write the next rows."""
        start, self._end = self._end, self._end + len(rows)
        if self._memory is not None:
            self._memory[start : self._end] = rows
            return
        data = np.ascontiguousarray(rows, self._dtype).reshape(-1).view(np.uint8).data
        try:
            write_all(self._descriptor(), data, start * self._row_bytes)
        except OSError as error:
            raise PoolError(
                f"Cannot keep the session's keys on disk: {error.strerror}. "
                "Free some space in the folder for temporary files, or use more pairs."
            ) from None

    def read(self, start: int, end: int) -> Array:
        """Rows start..end-1: a view in memory, or of the file, whose pages are not copied."""
        if self._memory is not None:
            return self._memory[start:end]
        size, place = (end - start) * self._row_bytes, start * self._row_bytes
        if not size:
            return np.empty((end - start, self._width), self._dtype)
        before = place % mmap.ALLOCATIONGRANULARITY
        try:
            pages = mmap.mmap(
                self._descriptor(), size + before, access=mmap.ACCESS_READ, offset=place - before
            )
        except (OSError, ValueError):  # beyond the end
            raise PoolError("the session's keys on disk are cut short; start a new pair.") from None
        count = size // self._dtype.itemsize
        return np.frombuffer(pages, self._dtype, count, before).reshape(-1, self._width)

    def close(self) -> None:
        """Forget the rows."""
        if self._memory is not None:
            self._budget.give_back(self._memory.nbytes)
        self._memory = None
        if self._file is not None:
            self._file.close()

    def _descriptor(self) -> int:
        if self._file is None:
            raise PoolError("this session is closed.")
        return self._file.fileno()
