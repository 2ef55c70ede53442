"""DP-adTree and DP-adTree-Lip: cells of strings under differential privacy (Algorithms 4.1, 4.2).

Rows are points: the length of each string attribute, then coordinates of an embedding
(`embedding`). A tree grows over the coordinates as in `linkage.blocks.adtree`, but a
node is cut where the exponential mechanism finds its median: weight exp(eps_med q / 2) with
q = -|left - right|, of sensitivity 1. With s the noisy size, eps_med = 2 ln(xi) / s and
eps_cnt = 2 / (s eta):

- s > 0 and B >= eps_med + eps_cnt: cut, count both parts, go on with what is left of B;
- s > 0 and B >= eps_med: cut, both parts are cells;
- otherwise the node is a cell. Cells are padded with all that is left of their path.

With `buckets`, rows are first cut by the lengths of all attributes, each such part is counted with
the share `length_share`, and a tree grows in each part.

Corrections to the listings: a path spends epsilon / 2 (a replaced record touches two), which is why
the sensitivity of q stays 1; ln(xi) is a fraction, so budgets are exact; intervals of one value
are skipped; nothing is ever suppressed. `lower` is the listing's alpha of AdjustBounds: a guess
that can lose matches, so it is 0 unless somebody asks for it. The upper bound is safe as long as
every length up to the longest occurs among the references: then a string is at most its own length
away from one of them, an empty one 1.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from ppodc.errors import SpecError
from ppodc.linkage.blocks.adtree import Box, Leaf, inside, padded_leaves, with_interval
from ppodc.linkage.blocks.cells import Boxes, Ints, Partition
from ppodc.privacy.cell_noise import Noise

Interval = tuple[int, int]
PUBLISHED_EDGES = (11, 13, 14, 15, 16, 17, 19)  # of the lengths of full names


@dataclass(frozen=True, slots=True)
class StringTree:
    """Settings by which a partition of strings is grown. Shares are of epsilon."""

    epsilon: Fraction
    delta: Fraction
    longest: tuple[int, ...]  # signs of each string attribute
    attribute: tuple[int, ...]  # to which string attribute each coordinate belongs
    tree_share: Fraction = Fraction(13, 20)
    length_share: Fraction = Fraction(0)
    buckets: tuple[tuple[Interval, ...], ...] = ()  # of the lengths of each attribute
    adjust: bool = False
    lower: Fraction = Fraction(0)
    eta: Fraction = Fraction(1, 10)
    ln_xi: Fraction = Fraction(2_302_585, 1_000_000)  # xi = 10

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or not 0 < self.delta < 1 or self.eta <= 0 or self.ln_xi <= 0:
            raise SpecError("a string tree needs epsilon, eta, ln(xi) > 0 and 0 < delta < 1.")
        if bool(self.buckets) != (self.length_share > 0):
            raise SpecError("cutting by length needs buckets and a share of the budget.")
        if self.tree_share < 0 or self.tree_share + self.length_share >= 1:
            raise SpecError("the leaves need a share of the budget of their own.")

    @property
    def attributes(self) -> int:
        """The number of string attributes."""
        return len(self.longest)

    @property
    def domain(self) -> tuple[Interval, ...]:
        """The public interval of each dimension."""
        return tuple((0, max(1, self.longest[attribute]) + 1) for attribute in self.dimensions)

    @property
    def leaf(self) -> Fraction:
        """The part of a path's budget that its leaf keeps."""
        return self.epsilon * (1 - self.tree_share - self.length_share) / 2

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The attribute of each dimension of a cell: lengths first, then coordinates."""
        return (*range(self.attributes), *self.attribute)


@dataclass(frozen=True, slots=True)
class _Node:
    rows: Ints
    box: Box
    depth: int
    size: int  # noisy
    left: Fraction  # of the path's budget for the tree


def build(points: Ints, tree: StringTree, noise: Noise) -> Partition:
    """The owner's partition of its rows (m, attributes + coordinates)."""
    leaves: list[Leaf] = []
    for root in _roots(points, tree, noise):
        leaves += _grow(root, points, tree, noise)
    return padded_leaves(leaves, len(points), tree.delta, noise)


def length_boxes(buckets: Sequence[Interval], attributes: int) -> Boxes:
    """Public cells: one for each combination of length buckets."""
    return np.array(list(product(buckets, repeat=attributes)), np.int64)


def cut_lengths(edges: Sequence[int], longest: int) -> tuple[Interval, ...]:
    """Buckets of the lengths 0..longest that begin at these edges, and at 0."""
    starts = [0, *(edge for edge in edges if edge <= longest)]
    return tuple(zip(starts, [*starts[1:], max(1, longest) + 1], strict=True))


def exact_lengths(shortest: int, longest: int, most: int) -> tuple[Interval, ...]:
    """A bucket for each length shortest..longest; shorter and longer ones (up to `most`) at the
    ends share a bucket each."""
    inner = [(n, n + 1) for n in range(shortest, longest + 1)]
    first = [(0, shortest)] if shortest > 0 else []
    last = [(longest + 1, most + 1)] if longest < most else []
    return (*first, *inner, *last)


def _roots(points: Ints, tree: StringTree, noise: Noise) -> list[_Node]:
    """One for each combination of length buckets; one for all if there are none."""
    left = tree.epsilon * tree.tree_share / 2
    if not tree.buckets:
        return [_Node(np.arange(len(points)), tree.domain, 0, len(points), left)]
    roots = []
    for lengths in product(*tree.buckets):
        coordinates = [_bounds(tree, lengths, attribute) for attribute in tree.attribute]
        # by the lengths alone: what AdjustBounds guesses about coordinates must lose no row
        known = (*lengths, *tree.domain[tree.attributes :])
        rows = np.flatnonzero(inside(points, known))
        size = len(rows) + noise.count(tree.epsilon * tree.length_share / 2)
        roots.append(_Node(rows, (*lengths, *coordinates), 0, size, left))
    return roots


def _bounds(tree: StringTree, lengths: Sequence[Interval], attribute: int) -> Interval:
    """AdjustBounds: where the coordinates of strings of these lengths lie."""
    if not tree.adjust:
        return tree.domain[attribute]
    low, high = lengths[attribute]
    return (int(tree.lower * low // 1), max(2, high))


def _grow(root: _Node, points: Ints, tree: StringTree, noise: Noise) -> list[Leaf]:
    leaves: list[Leaf] = []
    queue = deque([root])
    while queue:
        node = queue.popleft()
        dimension = _next_dimension(node, tree)
        if node.size <= 0 or dimension is None:
            leaves.append((node.box, node.rows, node.left + tree.leaf))
            continue
        eps_med = 2 * tree.ln_xi / node.size
        eps_cnt = Fraction(2) / (node.size * tree.eta)
        if node.left < eps_med:
            leaves.append((node.box, node.rows, node.left + tree.leaf))
            continue
        parts = _cut(node, points, dimension, eps_med, noise)
        left = node.left - eps_med
        if left < eps_cnt:
            leaves += [(box, rows, left + tree.leaf) for box, rows in parts]
            continue
        for box, rows in parts:
            size = len(rows) + noise.count(eps_cnt)
            queue.append(_Node(rows, box, node.depth + 1, size, left - eps_cnt))
    return leaves


def _next_dimension(node: _Node, tree: StringTree) -> int | None:
    """The coordinate to cut at this depth, in turn, skipping intervals of one value."""
    count = len(tree.attribute)
    for step in range(count):
        dimension = tree.attributes + (node.depth + step) % count
        low, high = node.box[dimension]
        if high - low > 1:
            return dimension
    return None


def _cut(
    node: _Node, points: Ints, dimension: int, epsilon: Fraction, noise: Noise
) -> list[tuple[Box, Ints]]:
    """[low, at) and [at, high), `at` by the exponential mechanism."""
    low, high = node.box[dimension]
    values = points[node.rows, dimension]
    left = [int(np.count_nonzero(values < at)) for at in range(low + 1, high)]
    scores = [-abs(2 * count - len(values)) for count in left]
    at = low + 1 + noise.choose(scores, epsilon)
    first = with_interval(node.box, dimension, (low, at))
    second = with_interval(node.box, dimension, (at, high))
    return [(first, node.rows[values < at]), (second, node.rows[values >= at])]
