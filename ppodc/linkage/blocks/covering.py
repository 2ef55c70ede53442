"""Whether cells that came from another party are leaves of a tree over the public domain.

Every tree here halves boxes, one dimension after the other. So its leaves can be told from anything
else without knowing it: wherever the middle of a region is crossed by no cell, cutting there leaves
the leaves of two smaller trees (two such cuts can be made in either order). What is never cut must
be one cell that fills its region. Then the cells are disjoint and cover the domain: each row lies
in exactly one, which an owner that follows them is sure of before it is charged.

All regions are cut at once, a dimension at a time: O(cells) numbers a pass, and at most some twenty
halvings of each dimension.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.blocks.cells import Boxes, Ints

Marks = NDArray[np.bool_]


def check_leaves(boxes: Boxes, domain: Ints) -> None:
    """InputError unless these boxes are the leaves of some tree over the domain (dimensions, 2)."""
    dimensions = len(domain)
    region = np.broadcast_to(domain, boxes.shape).copy()  # that each box is to help to fill
    node = np.zeros(len(boxes), np.int64)  # the number of its region; rising
    depth = idle = 0
    while True:
        boxes, region, node = _undecided(boxes, region, node)
        if not len(boxes):
            return
        if idle == dimensions:
            raise InputError("the cells of an upload do not cut the public domain into halves.")
        dimension = depth % dimensions
        depth += 1
        cut, upper = _cut(boxes, region, node, dimension)
        if not cut.any():
            idle += 1
            continue
        _narrow(region, cut, upper, dimension)
        node, idle = 2 * node + (cut & upper), 0
        order = np.argsort(node, kind="stable")
        boxes, region, node = boxes[order], region[order], node[order]


def _undecided(boxes: Boxes, region: Boxes, node: Ints) -> tuple[Boxes, Boxes, Ints]:
    """Without the boxes that fill their region alone; regions are numbered anew."""
    _, number, sizes = np.unique(node, return_inverse=True, return_counts=True)
    alone = sizes[number] == 1
    if (boxes[alone] != region[alone]).any():
        raise InputError("the cells of an upload leave a part of the public domain out.")
    return boxes[~alone], region[~alone], number[~alone]


def _cut(boxes: Boxes, region: Boxes, node: Ints, dimension: int) -> tuple[Marks, Marks]:
    """Of each box: whether its region is cut in this dimension, and whether it is above the cut."""
    middle = region[:, dimension].sum(axis=1) // 2
    low, high = boxes[:, dimension, 0], boxes[:, dimension, 1]
    upper = low >= middle
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    crossed = np.logical_or.reduceat((low < middle) & (middle < high), starts)
    some, every = np.logical_or.reduceat(upper, starts), np.logical_and.reduceat(upper, starts)
    sizes = np.diff(starts, append=len(node))
    return np.repeat(~crossed & some & ~every, sizes), upper


def _narrow(region: Boxes, cut: Marks, upper: Marks, dimension: int) -> None:
    """Regions that are cut become the half that each box is in."""
    middle = region[:, dimension].sum(axis=1) // 2
    for side, end in ((cut & ~upper, 1), (cut & upper, 0)):
        region[side, dimension, end] = middle[side]


def check_cuts(boxes: Boxes, domain: Ints) -> None:
    """InputError unless these boxes are the leaves of a tree that cuts the domain anywhere.

    A region is cut wherever no box crosses, in the first dimension that has such a place; what has
    none must be one box that fills it. Any order of cuts finds the same leaves. Each cut takes at
    least one value off an axis: passes are bounded by the lengths of the axes.
    """
    regions = [(boxes, domain)]
    while regions:
        inner, region = regions.pop()
        if len(inner) == 1:
            if (inner[0] != region).any():
                raise InputError("the cells of an upload leave a part of the public domain out.")
            continue
        regions += _parts(inner, region)


def _parts(boxes: Boxes, region: Ints) -> list[tuple[Boxes, Ints]]:
    """The region between all its cuts in one dimension; InputError if it has none."""
    for dimension in range(len(region)):
        order = np.argsort(boxes[:, dimension, 0], kind="stable")
        low, high = boxes[order, dimension].T
        reached = np.maximum.accumulate(high)
        starts = np.flatnonzero(low[1:] >= reached[:-1]) + 1
        if len(starts):
            edges = [region[dimension, 0], *low[starts], region[dimension, 1]]
            parts = []
            for number, some in enumerate(np.split(order, starts)):
                part = region.copy()
                part[dimension] = edges[number : number + 2]
                parts.append((boxes[some], part))
            return parts
    raise InputError("the cells of an upload do not cut the public domain into parts.")
