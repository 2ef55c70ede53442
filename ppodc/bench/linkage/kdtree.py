"""DPkdT-basic and DPkdT-GB: the private kd-trees that the chapter compares its own tree with.

A tree of fixed height; each level halves one dimension in turn at a private median, and each leaf
is padded. Every root-to-leaf path spends epsilon / 2.

*basic*: the same budget on each of the height + 1 levels: medians, and at last the leaf's count.
*GB*: 30 % for the medians, in equal parts; counts of level i get shares that grow by the cube root
of 2, of which only the leaf's is used here. These shares agree with what the chapter says of them:
a leaf of GB has more budget than one of basic from height 4 on.

What the chapter leaves open (`READINGS` has all that were tried):

- *Median.* For basic it is "based on the Laplace mechanism", the middle of the noisy counts of
  every value of the domain; for GB the exponential mechanism. What becomes of negative counts is
  not said; here they are 0. A median at the edge of a node leaves it whole.
- *Values.* Attributes are scaled to 0..160 "when instantiating the decision rule"; whether trees
  cut scaled values or the attributes' own (fnlwgt up to 1.6 million) is not said. Two owners cut
  own values at different places, so that a cell of one meets more cells of the other.
- *Height.* Tables 3.6 and 3.7 have the best heights; here every height is shown, and those marked.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ppodc.bench import document
from ppodc.bench.document import Table
from ppodc.linkage.blocks.adtree import (
    Budget,
    Leaf,
    hull,
    inside,
    next_dimension,
    padded_leaves,
    with_interval,
)
from ppodc.linkage.blocks.cells import Domain, Ints, Partition
from ppodc.privacy.cell_noise import Noise

METHODS = ("DPkdT-basic", "DPkdT-GB")
HEIGHTS = range(2, 9)
READINGS = (  # method, values, median
    ("DPkdT-basic", "scaled", "exponential"),
    ("DPkdT-basic", "scaled", "counts"),
    ("DPkdT-basic", "own", "counts"),
    ("DPkdT-GB", "scaled", "exponential"),
    ("DPkdT-GB", "own", "exponential"),
)
MEDIAN = {"DPkdT-basic": "counts", "DPkdT-GB": "exponential"}  # as the chapter has them
# Reduction at epsilon = 1 by method and N: 87.62 h, 289.55 h, 72.22 h, 253.87 h of 38.94 ms a pair
PUBLISHED = {
    ("DPkdT-basic", 6_000): 0.775,
    ("DPkdT-basic", 12_000): 0.814,
    ("DPkdT-GB", 6_000): 0.815,
    ("DPkdT-GB", 12_000): 0.837,
}
HEIGHT = {  # Tables 3.6 and 3.7, at epsilon = 0.2, 0.4, ..., 2
    ("DPkdT-basic", 1_500): (1, 2, 2, 2, 3, 3, 3, 3, 3, 3),
    ("DPkdT-basic", 3_000): (2, 2, 3, 3, 3, 3, 3, 3, 3, 4),
    ("DPkdT-basic", 6_000): (2, 3, 3, 3, 4, 4, 4, 4, 4, 4),
    ("DPkdT-basic", 12_000): (3, 3, 4, 4, 4, 6, 6, 7, 7, 7),
    ("DPkdT-GB", 1_500): (1, 2, 3, 3, 3, 3, 3, 3, 3, 3),
    ("DPkdT-GB", 3_000): (1, 3, 3, 3, 3, 3, 3, 3, 3, 3),
    ("DPkdT-GB", 6_000): (2, 3, 3, 3, 3, 4, 4, 4, 5, 5),
    ("DPkdT-GB", 12_000): (3, 3, 3, 6, 6, 6, 6, 6, 6, 6),
}
_FOR_MEDIANS = Fraction(3, 10)
_GROWTH = 2 ** (1 / 3)


def height(method: str, n: int, epsilon: str) -> int | None:
    """The published height, where the tables have one."""
    place = Fraction(epsilon) * 5 - 1
    known = HEIGHT.get((method, n))
    return known[int(place)] if known and place in range(10) else None


class KdNoise(Noise, Protocol):
    """Noise of the listings, for many values at once."""

    def choose(self, scores: Sequence[int] | Ints, epsilon: Fraction) -> int:
        """Choose by the exponential mechanism, as in `Noise`."""

    def counts(self, true: Ints, epsilon: Fraction) -> NDArray[np.float64]:
        """Noisy counts."""


def build(
    values: Ints,
    domain: Domain,
    budget: Budget,
    method: str,
    levels: int,
    median: str,
    noise: KdNoise,
) -> Partition:
    """The tree over an owner's rows."""
    each, leaf = shares(method, levels)
    path = budget.epsilon / 2
    leaves: list[Leaf] = [(hull(domain), np.arange(len(values)), leaf * path)]
    choose = _middle_count if median == "counts" else _by_score
    for depth in range(levels):
        leaves = [
            part
            for node in leaves
            for part in _halved(node, values, domain, depth, partial(choose, noise, each * path))
        ]
    return padded_leaves(leaves, len(values), budget.delta, noise)


def shares(method: str, levels: int) -> tuple[Fraction, Fraction]:
    """Return the shares of a path's budget for each median and for the leaf's count."""
    if method == "DPkdT-basic":
        return Fraction(1, levels + 1), Fraction(1, levels + 1)
    weights = [_GROWTH**level for level in range(levels + 1)]
    leaf = Fraction(weights[-1] / sum(weights)).limit_denominator(1000)
    return _FOR_MEDIANS / levels, (1 - _FOR_MEDIANS) * leaf


def _by_score(noise: KdNoise, epsilon: Fraction, own: Ints, axis: Ints) -> int:
    """The exponential mechanism over the values of an axis, by how evenly each would cut."""
    cuts = axis[1:]
    scores = -np.abs(2 * np.searchsorted(own, cuts) - len(own))
    return int(cuts[noise.choose(scores, epsilon)])


def _middle_count(noise: KdNoise, epsilon: Fraction, own: Ints, axis: Ints) -> int:
    """The value at which the noisy counts of all values of an axis reach half of their sum."""
    ends = np.searchsorted(own, axis, side="right")
    found = np.cumsum(np.maximum(0, noise.counts(np.diff(ends, prepend=0), epsilon)))
    return int(axis[np.argmax(found >= found[-1] / 2)])


def _halved(
    node: Leaf, values: Ints, domain: Domain, depth: int, median: Callable[[Ints, Ints], int]
) -> Sequence[Leaf]:
    """Both halves at a private median; the node itself if it leaves one of them empty of values."""
    box, rows, budget = node
    dimension = next_dimension(box, domain, depth)
    if dimension is None:
        return [node]
    low, high = box[dimension]
    start, end = np.searchsorted(domain[dimension], (low, high))
    cut = median(np.sort(values[rows, dimension]), domain[dimension][start:end])
    if cut <= low:
        return [node]
    halves = [with_interval(box, dimension, part) for part in ((low, cut), (cut, high))]
    return [(half, rows[inside(values[rows], half)], budget) for half in halves]


# ------------------------------------------------------------- the tables


def by_height(points: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], dict[int, float]]:
    """Reductions over the height, of each (method, N, epsilon, values, median)."""
    found: dict[tuple[str, ...], dict[int, float]] = {}
    for point in points:
        if point["height"]:
            epsilon = f"{float(Fraction(point['epsilon'])):g}"
            names = point["method"], f"{point['n']}", epsilon, point["values"], point["median"]
            found.setdefault(names, {})[point["height"]] = point["reduction"]
    return found


def tables(points: Sequence[Mapping[str, Any]]) -> list[Table]:
    """A line for each tree: every height, the best one, and the published reduction."""
    columns = ["tree", "N", "epsilon", "values", "median", *map(str, HEIGHTS), "best", "published"]
    found = by_height(points)
    longest = max(map(len, found.values()), default=0)
    rows = [_line(names, row) for names, row in found.items() if len(row) == longest]
    title = "Adult: reduction of kd-trees over height"
    return [document.table(title, columns, rows)] if rows else []


def _line(names: tuple[str, ...], row: Mapping[int, float]) -> list[str]:
    method, n, epsilon, *_ = names
    published = PUBLISHED.get((method, int(n))) if epsilon == "1" else None
    marked = height(method, int(n), epsilon)
    cells = [f"{row[h]:.3f}{'*' * (h == marked)}" if h in row else "-" for h in HEIGHTS]
    best = max(row, key=lambda levels: row[levels])
    return [*names, *cells, str(best), "-" if published is None else f"{published:.3f}"]
