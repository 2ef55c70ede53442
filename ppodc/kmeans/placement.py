"""The places of records among the clusters that were revealed to their owner.

Computed at the owner, on its own records, from the sums and sizes of a result; nobody else learns
of it. Everything is in units of the grid 0..ub, the space in which the job measured distances, and
exact: a record of a job that has converged gets the label that the job gave it.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.reference import nearest

Integers = NDArray[np.int64]


def labels(records: Integers, sums: Integers, sizes: Integers) -> Integers:
    """The nearest cluster of each record, among those with a centre."""
    revealed = _revealed(sizes)
    return revealed[nearest(records, sums[revealed], sizes[revealed])]


def distances(records: Integers, sums: Integers, sizes: Integers) -> NDArray[np.float64]:
    """From each record to each centre, (m, k); NaN where nobody knows the centre."""
    out = np.full((len(records), len(sizes)), np.nan)
    for h in _revealed(sizes).tolist():
        out[:, h] = np.linalg.norm(records - sums[h] / sizes[h], axis=1)
    return out


def inertia(records: Integers, sums: Integers, sizes: Integers) -> Fraction:
    """The sum of squared distances to the nearest centre, exact.

    Of the records t of cluster h, whose centre is lambda / n:
    sum ||t||^2 - 2 (sum t).lambda / n + (number of them) ||lambda||^2 / n^2.
    """
    nearest_of = labels(records, sums, sizes)
    total = Fraction(0)
    for h in np.unique(nearest_of).tolist():
        own = records[nearest_of == h].astype(object)
        centre, size = sums[h].astype(object), int(sizes[h])
        total += int((own * own).sum())
        total -= Fraction(2 * int(own.sum(axis=0) @ centre), size)
        total += Fraction(len(own) * int(centre @ centre), size * size)
    return total


def _revealed(sizes: Integers) -> Integers:
    revealed = np.flatnonzero(sizes)
    if not len(revealed):
        raise InputError(
            "no cluster has a centre: all are empty or have fewer records than min_size, where "
            "those of other owners count. Use fewer clusters, or agree to a smaller min_size."
        )
    return revealed
