"""Cells: the parts of the public domain into which owners sort their rows, and which of them meet.

A cell is a box of whole numbers, half-open in every dimension: [low, high). It is cut from the
public domain only, never drawn around data: a bounding box would show the outermost records. The
clouds see of an owner its cells and the padded number of rows in each (`CellCounts`).

Two cells are candidates unless no pair of records in them can match. The gap of [lo1, hi1) and
[lo2, hi2) is max(0, lo2 - (hi1 - 1), lo1 - (hi2 - 1)): neighbours are 1 apart. (With the closed
extents of the chapter neighbours would touch, and next to nothing is pruned at limit 0.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, TableError

Ints = NDArray[np.int64]
Boxes = NDArray[np.int64]  # (cells, dimensions, 2): low and high
Domain = Sequence[Ints]  # the values that can occur in each dimension, rising
_SLAB = 1 << 22  # entries of a table of gaps at a time
_FEW = 8  # cells that are looked at one by one


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Cells of an owner and the rows in each, dummies included: all that is public of them."""

    boxes: Boxes
    counts: Ints

    def __post_init__(self) -> None:
        if self.boxes.ndim != 3 or self.boxes.shape[2] != 2:
            raise InputError("cells need low and high in each dimension.")
        if self.counts.shape != (len(self.boxes),) or (self.counts < 0).any():
            raise InputError("each cell needs a count of at least 0.")

    @property
    def rows(self) -> int:
        """Rows with dummies."""
        return int(self.counts.sum())

    def corner(self, cell: int) -> tuple[int, ...]:
        """The lowest point of a cell: its only one, where each point has a cell."""
        return tuple(self.boxes[cell, :, 0].tolist())


@dataclass(frozen=True, slots=True)
class Partition:
    """An owner's rows sorted into cells: secret, but for its cell counts."""

    boxes: Boxes
    cell: Ints  # of each row
    padding: Ints  # dummies of each cell

    @property
    def cell_counts(self) -> CellCounts:
        counts = np.bincount(self.cell, minlength=len(self.boxes)) + self.padding
        return CellCounts(self.boxes, counts.astype(np.int64))

    def arranged(self) -> Ints:
        """Rows in the order of their cells, -1 for each dummy, which come last in a cell.

        The owner permutes the rows of a cell before it sends them.
        """
        order = np.argsort(self.cell, kind="stable")
        sizes = np.bincount(self.cell, minlength=len(self.boxes))
        parts = np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []
        dummies = [np.full(count, -1, np.int64) for count in self.padding]
        both = [part for pair in zip(parts, dummies, strict=True) for part in pair]
        return np.concatenate(both).astype(np.int64) if both else np.empty(0, np.int64)


def joined(parts: Sequence[Partition]) -> Partition:
    """Cells of several passes over the same rows as one partition, which has every row in each."""
    starts = np.cumsum([0, *(len(part.boxes) for part in parts)])
    return Partition(
        np.concatenate([part.boxes for part in parts]),
        np.concatenate([part.cell + start for part, start in zip(parts, starts, strict=False)]),
        np.concatenate([part.padding for part in parts]),
    )


class Pruning(Protocol):
    """A lower bound of a rule's distance over pairs of boxes."""

    def candidates(self, first: Boxes, second: Boxes) -> NDArray[np.bool_]:
        """Entry (a, b): whether a row in first[a] can match a row in second[b]."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Numbers of encoded rows that bound the distances of a rule from below."""

    pruning: Pruning
    domain: Domain
    of: Callable[[Ints], Ints]  # (rows, columns) to (rows, dimensions)


class NoPruning:
    """Every pair of cells."""

    def candidates(self, first: Boxes, second: Boxes) -> NDArray[np.bool_]:
        return np.ones((len(first), len(second)), np.bool_)


def gaps(first: Ints, second: Ints) -> Ints:
    """Gaps of all pairs of intervals (n, 2) and (m, 2), in one dimension."""
    above = second[None, :, 0] - (first[:, None, 1] - 1)
    below = first[:, None, 0] - (second[None, :, 1] - 1)
    result: Ints = np.maximum(0, np.maximum(above, below))
    return result


def pairs_compared(first: CellCounts, second: CellCounts, pruning: Pruning) -> int:
    """S: rows of one times rows of the other over all candidate cells, dummies included."""
    total = 0
    step = max(1, _SLAB // max(1, len(second.boxes)))
    for start in range(0, len(first.boxes), step):
        part = slice(start, start + step)
        meets = pruning.candidates(first.boxes[part], second.boxes)
        total += int(first.counts[part] @ (meets @ second.counts))
    return total


def whole(rows: int, domain: Boxes) -> Partition:
    """One cell with all rows and no dummies: `blocks = "none"`, which shows nothing but sizes."""
    zeros = np.zeros(rows, np.int64)
    return Partition(domain[None], zeros, np.zeros(1, np.int64))


def locate(values: Ints, boxes: Boxes) -> Ints:
    """The cell of each row; InputError if one lies in none.

    Rows and cells are halved together until few cells are left: a row meets about log2(cells).
    """
    cell = np.full(len(values), -1, np.int64)
    parts = [(np.arange(len(values)), np.arange(len(boxes)))]
    while parts:
        rows, cells = parts.pop()
        cut = _cut(boxes[cells]) if len(rows) and len(cells) > _FEW else None
        if cut is not None:
            dimension, at = cut
            below = values[rows, dimension] < at
            parts.append((rows[below], cells[boxes[cells, dimension, 0] < at]))
            parts.append((rows[~below], cells[boxes[cells, dimension, 1] > at]))
        elif len(rows):
            cell[rows] = _among(values[rows], boxes[cells], cells)
    outside = np.flatnonzero(cell < 0)
    if len(outside):
        raise TableError(f"row {outside[0] + 1} lies in no cell of the public domain.")
    return cell


def _cut(boxes: Boxes) -> tuple[int, int] | None:
    """The dimension and the place at which the larger part has the fewest boxes; None if all."""
    best, found = len(boxes), None
    for dimension in range(boxes.shape[1]):
        lows, highs = boxes[:, dimension, 0], boxes[:, dimension, 1]
        at = int(np.partition(lows, len(lows) // 2)[len(lows) // 2])
        larger = max(int((lows < at).sum()), int((highs > at).sum()))
        if larger < best:
            best, found = larger, (dimension, at)
    return found


def _among(values: Ints, boxes: Boxes, numbers: Ints) -> Ints:
    """Which of a few boxes each row lies in: its number, or -1."""
    cell = np.full(len(values), -1, np.int64)
    for box, number in zip(boxes, numbers, strict=True):
        cell[((values >= box[:, 0]) & (values < box[:, 1])).all(axis=1)] = number
    return cell
