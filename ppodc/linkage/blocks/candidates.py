"""The pairs that are compared, as blocks of rows, in an order that both clouds derive alike.

Rows of an owner stand cell by cell, as its cell counts say. For each cell of the first owner all
candidate cells of the second make one block: a stretch of rows against a few stretches of rows.
Blocks are cut so that none has more pairs than fit in memory. All of it follows from the cell
counts, which both clouds have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks.cells import CellCounts, Pruning

BATCH_PAIRS = 1 << 17  # compared at a time: what fits in memory, and waits for a slow link once
_WIDEST = 1 << 13  # rows of the second owner in one block
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows `xs` of the first owner against the rows in all spans `ys` of the second."""

    xs: Span
    ys: tuple[Span, ...]

    @property
    def height(self) -> int:
        """Rows of the first owner."""
        return self.xs[1] - self.xs[0]

    @property
    def width(self) -> int:
        """Rows of the second owner."""
        return sum(end - start for start, end in self.ys)

    @property
    def pairs(self) -> int:
        return self.height * self.width

    @property
    def columns(self) -> NDArray[np.intp]:
        """The rows of the second owner, one by one."""
        return np.concatenate([np.arange(start, end) for start, end in self.ys])


@dataclass(frozen=True, slots=True)
class Work:
    """A block of the rows of two uploads; the lengths of its texts where cells fix them.

    `earlier` is the number of passes before the one that it belongs to.
    """

    x: int
    y: int
    block: Block
    x_lengths: tuple[int, ...] = ()
    y_lengths: tuple[int, ...] = ()
    earlier: int = 0


def pairs_of(work: Sequence[Work]) -> int:
    """Number of pairs in all blocks."""
    return sum(each.block.pairs for each in work)


def blocks(
    first: CellCounts, second: CellCounts, pruning: Pruning, most: int = BATCH_PAIRS
) -> Iterator[Block]:
    """All candidate pairs, cell by cell of the first owner."""
    for _, xs, meets in _meetings(first, second, pruning):
        yield from rectangle(xs, _merged([span for _, span in meets]), most)


def cell_blocks(
    first: CellCounts, second: CellCounts, pruning: Pruning, most: int = BATCH_PAIRS
) -> Iterator[tuple[int, int, Block]]:
    """All candidate pairs, by (cell of the first, cell of the second): none spans two cells."""
    for cell, xs, meets in _meetings(first, second, pruning):
        for other, ys in meets:
            for block in rectangle(xs, [ys], most):
                yield cell, other, block


def _meetings(
    first: CellCounts, second: CellCounts, pruning: Pruning
) -> Iterator[tuple[int, Span, list[tuple[int, Span]]]]:
    """Each cell of the first owner with its rows, and the cells of the second that it meets."""
    spans, there = _spans(second.counts), np.flatnonzero(second.counts)
    boxes = second.boxes[there]
    for cell, xs in enumerate(_spans(first.counts)):
        if xs[0] < xs[1]:
            meets = there[pruning.candidates(first.boxes[cell : cell + 1], boxes)[0]]
            yield cell, xs, [(other, spans[other]) for other in meets.tolist()]


def rectangle(xs: Span, ys: Sequence[Span], most: int = BATCH_PAIRS) -> Iterator[Block]:
    """All rows of one stretch against all rows of some others, in blocks."""
    for part in _cut(ys, min(_WIDEST, most)):
        width = sum(end - start for start, end in part)
        step = max(1, most // width)
        for start in range(xs[0], xs[1], step):
            yield Block((start, min(start + step, xs[1])), part)


def _spans(counts: NDArray[np.int64]) -> list[Span]:
    """The places of each cell's rows."""
    ends = np.cumsum(counts).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Neighbouring stretches as one."""
    merged: list[Span] = []
    for start, end in spans:
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def _cut(spans: Sequence[Span], most: int) -> Iterator[tuple[Span, ...]]:
    """Stretches in groups of at most `most` rows."""
    group: list[Span] = []
    room = most
    for start, end in spans:
        at = start
        while at < end:
            to = min(end, at + room)
            group.append((at, to))
            room -= to - at
            at = to
            if room == 0:
                yield tuple(group)
                group, room = [], most
    if group:
        yield tuple(group)
