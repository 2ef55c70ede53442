"""DPkdT-basic and DPkdT-GB: the private kd-trees that the chapter compares its own tree with.

A tree of fixed height; each level halves one dimension in turn, at a median drawn by the
exponential mechanism, and each leaf is padded. Every root-to-leaf path spends epsilon / 2.

*basic*: the same budget on each of the height + 1 levels: medians, and at last the leaf's count.
*GB*: 30 % for the medians, in equal parts; counts of level i get shares that grow by the cube root
of 2, of which only the leaf's is used here. The best height is looked for, as published (Tables 3.6
and 3.7 have theirs). How the published ones treat ties and categories is not told.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ppodc.linkage.adtree import (
    Budget,
    Domain,
    Leaf,
    hull,
    inside,
    next_dimension,
    padded_leaves,
    with_interval,
)
from ppodc.linkage.cells import Ints, Partition
from ppodc.linkage.noise import Noise

METHODS = ("DPkdT-basic", "DPkdT-GB")
HEIGHTS = range(2, 9)
PUBLISHED = {"DPkdT-basic": 0.775, "DPkdT-GB": 0.815}  # N = 6,000, epsilon = 1: 87.62 h, 72.22 h
_FOR_MEDIANS = Fraction(3, 10)
_GROWTH = 2 ** (1 / 3)


def build(
    values: Ints, domain: Domain, budget: Budget, method: str, height: int, noise: Noise
) -> Partition:
    """The tree over an owner's rows."""
    median, leaf = shares(method, height)
    path = budget.epsilon / 2
    leaves: list[Leaf] = [(hull(domain), np.arange(len(values)), leaf * path)]
    for depth in range(height):
        leaves = [
            part
            for node in leaves
            for part in _halved(node, values, domain, depth, median * path, noise)
        ]
    return padded_leaves(leaves, len(values), budget.delta, noise)


def shares(method: str, height: int) -> tuple[Fraction, Fraction]:
    """What of a path's budget one median gets, and what the leaf's count."""
    if method == "DPkdT-basic":
        return Fraction(1, height + 1), Fraction(1, height + 1)
    weights = [_GROWTH**level for level in range(height + 1)]
    leaf = Fraction(weights[-1] / sum(weights)).limit_denominator(1000)
    return _FOR_MEDIANS / height, (1 - _FOR_MEDIANS) * leaf


def _halved(
    node: Leaf, values: Ints, domain: Domain, depth: int, epsilon: Fraction, noise: Noise
) -> Sequence[Leaf]:
    """Both halves at a private median; the node itself if no dimension can be cut."""
    box, rows, budget = node
    dimension = next_dimension(box, domain, depth)
    if dimension is None:
        return [node]
    low, high = box[dimension]
    cuts = [int(cut) for cut in domain[dimension] if low < cut < high]
    own = np.sort(values[rows, dimension])
    left = np.searchsorted(own, cuts)
    scores = [-abs(2 * int(below) - len(own)) for below in left]
    cut = cuts[noise.choose(scores, epsilon)]
    halves = [with_interval(box, dimension, part) for part in ((low, cut), (cut, high))]
    return [(half, rows[inside(values[rows], half)], budget) for half in halves]
