"""PrivTree and a uniform grid: cells of other authors beside the chapter's, which asks for that.

Every root-to-leaf path spends epsilon / 2 and each leaf is padded, as for all trees here.

*PrivTree* (Zhang, Xiao, Xie, SIGMOD 2016), halving dimensions in turn: a node of depth i with c
rows is halved if max(c - i t, -t) + Lap(lambda) > 0. With lambda = 3 / e and t = lambda ln 2 all
decisions of a path spend e together, however deep it is. e is half of what a path has, as the
chapter describes it; the other half counts the leaf.

*Uniform grid* (He et al., CCS 2017): the domain is halved in turn into at most N eta epsilon / 2
cells, of which the expected noise is eta of the mean size. It follows from public facts, so counts
have all of epsilon / 2.
"""

import math
from collections import deque

import numpy as np

from ppodc.bench.linkage.kdtree import KdNoise
from ppodc.linkage.blocks.adtree import (
    Box,
    Budget,
    Leaf,
    grid,
    halves,
    hull,
    inside,
    next_dimension,
    padded_leaves,
)
from ppodc.linkage.blocks.cells import Domain, Ints, Partition

METHODS = ("PrivTree", "uniform grid")


def build(values: Ints, domain: Domain, budget: Budget, method: str, noise: KdNoise) -> Partition:
    """An owner's cells by one of the methods."""
    leaves = (_priv_tree if method == METHODS[0] else _uniform)(values, domain, budget, noise)
    return padded_leaves(leaves, len(values), budget.delta, noise)


def _priv_tree(values: Ints, domain: Domain, budget: Budget, noise: KdNoise) -> list[Leaf]:
    half = budget.epsilon / 4
    step = math.log(2) * 3 / float(half)
    leaves: list[Leaf] = []
    queue: deque[tuple[Box, Ints, int]] = deque([(hull(domain), np.arange(len(values)), 0)])
    while queue:
        box, rows, depth = queue.popleft()
        dimension = next_dimension(box, domain, depth)
        biased = max(len(rows) - depth * step, -step)
        if dimension is None or biased + noise.counts(np.zeros(1, np.int64), half / 3)[0] <= 0:
            leaves.append((box, rows, half))
            continue
        for part in halves(box, dimension):
            queue.append((part, rows[inside(values[rows], part)], depth + 1))
    return leaves


def _uniform(values: Ints, domain: Domain, budget: Budget, noise: KdNoise) -> list[Leaf]:
    most = max(1, int(len(values) * budget.eta * budget.epsilon / 2))
    boxes = grid(hull(domain), domain, 0, most)
    return [(box, np.flatnonzero(inside(values, box)), budget.epsilon / 2) for box in boxes]
