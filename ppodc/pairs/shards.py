"""Which rows lie on which pair, derived from public facts alone, so that both clouds agree."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHARD_ROWS = 1 << 14  # none is cut smaller: each has its own rounds and encrypted blocks
SHARD_VALUES = 1 << 21  # nor is one larger: workers are handed one at a time, 8 bytes a value


@dataclass(frozen=True, slots=True)
class Shard:
    """A contiguous range of sealed rows; `slot` is the place of the pair that holds it."""

    name: str
    first: int
    rows: int
    slot: int


@dataclass(frozen=True, slots=True)
class Run:
    """Rows next to each other in a list of rows that lie in one shard; numbered within it."""

    shard: Shard
    rows: tuple[int, ...]


def split(m: int, pairs: int, most_per_pair: int, columns: int = 1) -> list[Shard]:
    """Rows 0..m-1 as shards of nearly equal size, as many on each slot.

    There are more than `most_per_pair` only where one would have over SHARD_VALUES numbers.
    """
    least = -(-m // (pairs * max(SHARD_ROWS, SHARD_VALUES // max(1, columns))))
    per_slot = max(1, least, min(most_per_pair, m // (pairs * SHARD_ROWS)))
    edges = [i * m // (pairs * per_slot) for i in range(pairs * per_slot + 1)]
    return [
        Shard(f"{first}-{end}", first, end - first, i // per_slot)
        for i, (first, end) in enumerate(itertools.pairwise(edges))
    ]


def cut(rows: NDArray[np.uint64], shard: Shard) -> NDArray[np.uint64]:
    """The rows of a shard from those of all sealed uploads."""
    return rows[shard.first : shard.first + shard.rows]


def usable_pairs(m: int, pairs: int) -> int:
    """No more pairs than rows: every slot must hold at least one."""
    return max(1, min(m, pairs))


def runs(rows: Iterable[int], shards: Sequence[Shard]) -> list[Run]:
    """The rows, in order, as the fewest runs that each lie in one shard.

    Rows are counted through all shards, wherever these lie among the sealed rows.
    """
    listed: list[Run] = []
    starts = [0, *itertools.accumulate(shard.rows for shard in shards)]
    for row in rows:
        shard, first = next(
            (shard, first)
            for shard, first in zip(shards, starts, strict=False)
            if first <= row < first + shard.rows
        )
        local = row - first
        if listed and listed[-1].shard == shard:
            listed[-1] = Run(shard, (*listed[-1].rows, local))
        else:
            listed.append(Run(shard, (local,)))
    return listed
