"""Whose rows lie where: sealed rows are cut by uploads and by shards, each in its own places."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ppodc.linkage.blocks import Span


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one owner that lie next to each other in one shard."""

    owner: int
    shard: str
    rows: Span  # within the shard
    first: int  # among all sealed rows


def pieces(
    shards: Sequence[tuple[str, int]], uploads: Sequence[tuple[int, int]]
) -> Iterator[Piece]:
    """Where the rows of each owner lie: shards (name, rows) and uploads (owner, rows) in order."""
    at = 0  # first row of the shard
    upload, used = 0, 0  # rows of the current upload that are placed
    for name, size in shards:
        start = 0
        while start < size:
            owner, rows = uploads[upload]
            count = min(size - start, rows - used)
            yield Piece(owner, name, (start, start + count), at + start)
            start, used = start + count, used + count
            if used == rows:
                upload, used = upload + 1, 0
        at += size
