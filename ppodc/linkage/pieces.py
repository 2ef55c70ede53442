"""Whose rows lie where: sealed rows are cut by uploads and by shards, each in its own places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks import Span
from ppodc.linkage.outcome import OWNER_BITS


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one owner that lie next to each other in one shard."""

    owner: int
    shard: str
    rows: Span  # within the shard
    first: int  # among all sealed rows
    token: int  # of the first row; the others follow

    @property
    def sealed(self) -> NDArray[np.intp]:
        """The rows' places among all sealed rows."""
        return np.arange(self.first, self.first + self.rows[1] - self.rows[0])


def pieces(
    shards: Sequence[tuple[str, int]], uploads: Sequence[tuple[int, int]]
) -> Iterator[Piece]:
    """Where the rows of each owner lie: shards (name, rows) and uploads (owner, rows) in order."""
    seen: dict[int, int] = {}
    at = 0  # first row of the shard
    upload, used = 0, 0  # rows of the current upload that are placed
    for name, size in shards:
        start = 0
        while start < size:
            owner, rows = uploads[upload]
            count = min(size - start, rows - used)
            token = owner << OWNER_BITS | seen.get(owner, 0)
            yield Piece(owner, name, (start, start + count), at + start, token)
            seen[owner] = seen.get(owner, 0) + count
            start, used = start + count, used + count
            if used == rows:
                upload, used = upload + 1, 0
        at += size
