"""adTree-NDR: cells that adapt to the data under differential privacy (Algorithm 3.1, corrected).

A record that is replaced touches two paths from the root to a leaf, so each path may spend
epsilon / 2, whatever the counts turn out to be; the number of rows is public. A path starts with
B = (epsilon - eps_leaf) / 2 for probing and eps_leaf / 2 for its leaf:

1. A node with noisy size s would count its halves with eps_x = 2 / (s eta): the expected noise is
   then at most eta of a half's size. If s > 0 and eps_x <= B, it is halved in dimension
   depth mod d, each half gets count + noise of budget eps_x, and B - eps_x is handed on.
2. Otherwise it is cut into at most W = max(1, floor(s eps_u eta)) cells, eps_u = B + eps_leaf / 2,
   by halving one dimension after the other (the listing's floor(W^(1/d)) cuts are 1 for d = 5 and
   do not give the published figures), and each cell gets padding of budget eps_u.

What the guarantee needs beside the budget: cells are halves of the public domain, never drawn
around data, and whether a dimension can be halved is decided by the values of the *domain* in it,
not, as the listing has it, by those that occur.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ppodc.errors import SpecError
from ppodc.linkage.blocks.cells import Boxes, Domain, Ints, Partition, locate
from ppodc.privacy.cell_noise import Noise

Box = tuple[tuple[int, int], ...]
Leaf = tuple[Box, Ints, Fraction]  # with its rows and its budget


@dataclass(frozen=True, slots=True)
class Budget:
    """The privacy budget of a partition. `eps_leaf` is epsilon / 2 by default."""

    epsilon: Fraction
    delta: Fraction
    eta: Fraction = Fraction(1, 10)
    leaf_share: Fraction = Fraction(1, 2)  # eps_leaf / epsilon

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise SpecError("epsilon must be more than 0.")
        if not 0 < self.delta < 1:
            raise SpecError("delta must lie between 0 and 1.")
        if self.eta <= 0 or not 0 < self.leaf_share <= 1:
            raise SpecError("eta must be more than 0, and the leaves' share in (0, 1].")

    def check_rows(self, rows: int) -> None:
        """Refuse a delta under which a whole record might be shown."""
        if rows and self.delta * rows >= 1:
            raise SpecError(f"delta must be below 1/{rows}, one over the number of rows.")

    @property
    def probing(self) -> Fraction:
        """B of the root."""
        return self.epsilon * (1 - self.leaf_share) / 2

    @property
    def leaf(self) -> Fraction:
        """eps_leaf / 2."""
        return self.epsilon * self.leaf_share / 2


@dataclass(frozen=True, slots=True)
class _Node:
    rows: Ints
    box: Box
    depth: int
    size: int  # noisy
    probing: Fraction


def build(values: Ints, domain: Domain, budget: Budget, noise: Noise) -> Partition:
    """The owner's own tree over its rows (m, d)."""
    leaves: list[Leaf] = []
    root = _Node(np.arange(len(values)), hull(domain), 0, len(values), budget.probing)
    queue = deque([root])
    while queue:
        node = queue.popleft()
        dimension = next_dimension(node.box, domain, node.depth)
        eps_x = Fraction(2) / (node.size * budget.eta) if node.size > 0 else None
        if dimension is not None and eps_x is not None and eps_x <= node.probing:
            queue.extend(_halved(node, values, dimension, eps_x, noise))
        else:
            eps_u = node.probing + budget.leaf
            most = max(1, int(node.size * eps_u * budget.eta // 1))
            boxes = grid(node.box, domain, node.depth, most)
            own = values[node.rows]
            leaves += [(box, node.rows[inside(own, box)], eps_u) for box in boxes]
    return padded_leaves(leaves, len(values), budget.delta, noise)


def count_cells(values: Ints, boxes: Boxes, budget: Budget, noise: Noise) -> Partition:
    """Another owner's rows in cells that are public already: all of epsilon / 2 for the counts."""
    padding = [noise.padding(budget.epsilon / 2, budget.delta) for _ in boxes]
    return Partition(boxes, locate(values, boxes), np.array(padding, np.int64))


def hull(domain: Domain) -> Box:
    """The box of a whole domain."""
    return tuple((int(axis[0]), int(axis[-1]) + 1) for axis in domain)


def next_dimension(box: Box, domain: Domain, depth: int) -> int | None:
    """The dimension to halve at this depth: in turn, skipping those with a single value left."""
    for step in range(len(box)):
        dimension = (depth + step) % len(box)
        if _values_in(domain[dimension], box[dimension]) > 1:
            return dimension
    return None


def halves(box: Box, dimension: int) -> tuple[Box, Box]:
    """[low, middle) and [middle, high) in one dimension."""
    low, high = box[dimension]
    middle = (low + high) // 2
    return with_interval(box, dimension, (low, middle)), with_interval(
        box, dimension, (middle, high)
    )


def with_interval(box: Box, dimension: int, interval: tuple[int, int]) -> Box:
    """The box with another interval in one dimension."""
    return (*box[:dimension], interval, *box[dimension + 1 :])


def grid(box: Box, domain: Domain, depth: int, most: int) -> list[Box]:
    """At most `most` cells: dimensions halved in turn, all cells at once, while the number fits."""
    cells, idle = [box], 0
    while idle < len(box):
        dimension = depth % len(box)
        depth += 1
        cut = [
            part
            for cell in cells
            for part in (
                halves(cell, dimension)
                if _values_in(domain[dimension], cell[dimension]) > 1
                else (cell,)
            )
        ]
        if len(cut) == len(cells):
            idle += 1
            continue
        if len(cut) > most:
            break
        cells, idle = cut, 0
    return cells


def inside(values: Ints, box: Box) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows lie in the box."""
    within = np.ones(len(values), np.bool_)
    for i, (low, high) in enumerate(box):
        within &= (values[:, i] >= low) & (values[:, i] < high)
    return within


def _halved(
    node: _Node, values: Ints, dimension: int, eps_x: Fraction, noise: Noise
) -> list[_Node]:
    children = []
    for box in halves(node.box, dimension):
        rows = node.rows[inside(values[node.rows], box)]
        size = len(rows) + noise.count(eps_x)
        children.append(_Node(rows, box, node.depth + 1, size, node.probing - eps_x))
    return children


def padded_leaves(leaves: Sequence[Leaf], rows: int, delta: Fraction, noise: Noise) -> Partition:
    """The partition of these leaves, each padded with its own budget."""
    cell = np.full(rows, -1, np.int64)
    for number, (_, members, _) in enumerate(leaves):
        cell[members] = number
    padding = [noise.padding(eps_u, delta) for _, _, eps_u in leaves]
    boxes = np.array([box for box, _, _ in leaves], np.int64)
    return Partition(boxes, cell, np.array(padding, np.int64))


def _values_in(axis: Ints, interval: tuple[int, int]) -> int:
    """The number of values of the domain in the interval."""
    low, high = np.searchsorted(axis, interval)
    return int(high - low)
