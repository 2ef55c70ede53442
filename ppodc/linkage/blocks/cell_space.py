"""Cells of a job: the public domain that rows are sorted in, and what an upload says of them.

`OneCell`: no blocks. `FixedCells`: the same cells for everybody, in one pass or in several.
`TreeCells`: cells of an owner's tree, which an upload brings along.

An upload brings its cells as an array, a row for each: the number of its rows, dummies included,
then low and high of each dimension where cells are not fixed. It comes from an owner, so it is
checked before anything relies on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage.blocks import adtree
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.blocks.cells import (
    Boxes,
    CellCounts,
    Domain,
    Ints,
    NoPruning,
    Partition,
    Pruning,
    joined,
    whole,
)
from ppodc.linkage.blocks.covering import check_leaves
from ppodc.privacy.cell_noise import Noise, padding_shift
from ppodc.records.upload_form import Outline

MAX_CELLS = 1 << 14  # of one upload; both clouds look at every pair of cells
_MOST_EDGES = 1 << 19  # of all cells and dimensions: seconds for a gateway that checks them
_BOX = np.array([[0, 1]])  # of a single cell


class CellSpace(ABC):
    """The public domain of rows, and which of its cells meet."""

    __slots__ = ()
    pruning: Pruning

    @abstractmethod
    def counts(self, rows: int, outline: Outline | None) -> CellCounts:
        """Cells of an upload of this many rows; InputError if it cannot have them."""

    def outline(self, counts: CellCounts) -> Outline:
        """The array that `counts` reads."""
        return counts.counts[:, None].astype(np.uint32)

    def check_cover(self, boxes: Boxes) -> None:  # noqa: B027 - fixed cells do
        """Refuse cells unless every row of the public domain lies in exactly one."""

    def followed(self, edges: Outline) -> Boxes:
        """Cells of another owner, from low and high of each dimension, for one that follows it."""
        raise InputError("the cells of an upload do not fit the job.")

    @property
    def pass_count(self) -> int:
        """Number of times that the rows of an upload are sorted into cells."""
        return 1

    def rows_of_passes(self, counts: CellCounts) -> tuple[int, ...]:
        """Rows of an upload in the cells of each pass; empty if there is one pass."""
        return ()

    @abstractmethod
    def partition(self, values: Ints, boxes: Boxes | None, noise: Noise) -> Partition:
        """Sort an owner's encoded rows into cells; `boxes` are those of the owner it follows.

        With several passes each row is in one cell of each: row i of pass p is row p * rows + i of
        the partition.
        """

    @abstractmethod
    def usual(self, rows: int, number: int) -> CellCounts:
        """Cells of rows that are spread evenly, with the usual padding, for owner `number`."""


@dataclass(frozen=True, slots=True)
class OneCell(CellSpace):
    """All rows in one cell, which shows nothing but their number."""

    pruning: Pruning = field(default_factory=NoPruning)

    def counts(self, rows: int, outline: Outline | None) -> CellCounts:
        return whole(rows, _BOX).cell_counts

    def partition(self, values: Ints, boxes: Boxes | None, noise: Noise) -> Partition:
        return whole(len(values), _BOX)

    def usual(self, rows: int, number: int) -> CellCounts:
        return whole(rows, _BOX).cell_counts


@dataclass(frozen=True, slots=True)
class FixedCells(CellSpace):
    """Cells that are equal for all owners. Those of each pass follow one another."""

    pruning: Pruning
    passes: tuple[Boxes, ...]
    budgets: tuple[Budget, ...]  # of each pass
    points: Callable[[Ints], Sequence[Ints]]  # encoded rows to their points in each pass

    @property
    def _boxes(self) -> Boxes:
        return np.concatenate(self.passes)

    def counts(self, rows: int, outline: Outline | None) -> CellCounts:
        boxes = self._boxes
        table = _checked(outline, 1, boxes.shape[1])
        if len(table) != len(boxes):
            raise InputError(f"an upload needs counts of {len(boxes)} cells.")
        return _adding_up(CellCounts(boxes, table[:, 0]), rows)

    @property
    def pass_count(self) -> int:
        return len(self.passes)

    def rows_of_passes(self, counts: CellCounts) -> tuple[int, ...]:
        ends = np.cumsum([len(boxes) for boxes in self.passes])[:-1]
        parts = np.split(counts.counts, ends)
        return tuple(int(part.sum()) for part in parts) if len(parts) > 1 else ()

    def partition(self, values: Ints, boxes: Boxes | None, noise: Noise) -> Partition:
        each = zip(self.points(values), self.passes, self.budgets, strict=True)
        return joined([adtree.count_cells(*cells, noise) for cells in each])

    def usual(self, rows: int, number: int) -> CellCounts:
        counts = [
            rows // len(boxes)
            + (np.arange(len(boxes)) < rows % len(boxes))
            + padding_shift(budget.epsilon / 2, budget.delta)
            for boxes, budget in zip(self.passes, self.budgets, strict=True)
        ]
        return CellCounts(self._boxes, np.concatenate(counts))


@dataclass(frozen=True, slots=True)
class TreeCells(CellSpace):
    """Leaves of a tree over the coordinates of a rule."""

    pruning: Pruning
    domain: Domain
    points: Callable[[Ints], Ints]  # encoded rows to their coordinates
    budget: Budget

    def counts(self, rows: int, outline: Outline | None) -> CellCounts:
        table = _checked(outline, 1 + 2 * len(self.domain), len(self.domain))
        return _adding_up(CellCounts(self._boxes(table[:, 1:]), table[:, 0]), rows)

    def _boxes(self, edges: Ints) -> Boxes:
        """Boxes from low and high of each dimension."""
        boxes = edges.reshape(-1, len(self.domain), 2)
        lowest = np.array([axis[0] for axis in self.domain])
        highest = np.array([axis[-1] + 1 for axis in self.domain])
        low, high = boxes[..., 0], boxes[..., 1]
        if (low < lowest).any() or (high > highest).any() or (low >= high).any():
            raise InputError("a cell of an upload lies outside the public domain.")
        return boxes

    def outline(self, counts: CellCounts) -> Outline:
        edges = counts.boxes.reshape(len(counts.boxes), -1)
        return np.concatenate([counts.counts[:, None], edges], axis=1).astype(np.uint32)

    def check_cover(self, boxes: Boxes) -> None:
        check_leaves(boxes, np.array(adtree.hull(self.domain)))

    def followed(self, edges: Outline) -> Boxes:
        boxes = self._boxes(_checked(edges, 2 * len(self.domain), len(self.domain)))
        self.check_cover(boxes)
        return boxes

    def partition(self, values: Ints, boxes: Boxes | None, noise: Noise) -> Partition:
        points = self.points(values)
        if boxes is not None:
            return adtree.count_cells(points, boxes, self.budget, noise)
        found = adtree.build(points, self.domain, self.budget, noise)
        check_number(len(found.boxes), _most_cells(len(self.domain)))
        return found

    def usual(self, rows: int, number: int) -> CellCounts:
        random = SecureRandom(bytes([number]) * 32)
        size = rows, len(self.domain)
        points = (random.uint64(size) % np.uint64(len(self.domain[0]))).astype(np.int64)
        return adtree.build(points, self.domain, self.budget, UsualNoise()).cell_counts


class UsualNoise:
    """Noise at its most likely value: it is not drawn."""

    def count(self, epsilon: Fraction) -> int:
        return 0

    def padding(self, epsilon: Fraction, delta: Fraction) -> int:
        return padding_shift(epsilon, delta)

    def choose(self, scores: Sequence[int], epsilon: Fraction) -> int:
        return max(range(len(scores)), key=lambda place: scores[place])


def _checked(cells: Outline | None, width: int, dimensions: int) -> Ints:
    """Rows of `width` numbers, one for each cell."""
    if cells is None:
        raise InputError("an upload came without its cells.")
    if cells.ndim != 2 or cells.shape[1] != width or cells.dtype != np.uint32:
        raise InputError("the cells of an upload do not fit the job.")
    check_number(len(cells), _most_cells(dimensions))
    return cells.astype(np.int64)


def _most_cells(dimensions: int) -> int:
    """As many as clouds can look at in reasonable time."""
    return min(MAX_CELLS, _MOST_EDGES // max(1, dimensions))


def check_number(count: int, most: int, advice: str = "") -> None:
    """Refuse more cells than this, or none."""
    if not 1 <= count <= most:
        raise InputError(
            f"an upload may have 1 to {most} cells, not {count}: agree on a smaller eta or "
            f"epsilon, {advice}or on other blocks."
        )


def _adding_up(counts: CellCounts, rows: int) -> CellCounts:
    if counts.rows != rows:
        raise InputError("the cells of an upload do not add up to its rows.")
    return counts
