"""k-means on points with weights: the last step of `codebook` and of noise in the two clouds.

It sees only what is already released, so it costs no privacy. Several k-means++ starts from a
public seed, the best of them counts.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError

Points = NDArray[np.float64]
Settle = Callable[[Points], Points]  # moves means to the nearest centres that are possible
_BATCH = 1 << 22
_SETTLED = 1e-9  # of the objective: no start gains more than this any longer


def squared_distances(points: Points, centres: Points) -> Points:
    """Squared distance of every point to every centre; exact for whole numbers below 2^26."""
    squares = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T
    return np.asarray(np.maximum(squares + (centres**2).sum(axis=1), 0.0))


def nearest(points: Points, centres: Points) -> NDArray[np.int64]:
    """The nearest centre of every point, the lowest on ties; a batch of rows at a time."""
    labels = np.empty(len(points), np.int64)
    half = (centres**2).sum(axis=1) / 2
    step = max(1, _BATCH // len(centres))
    for start in range(0, len(points), step):
        part = points[start : start + step]
        labels[start : start + step] = (half - part @ centres.T).argmin(axis=1)
    return labels


def mean_squared_distance(points: Points, centres: Points) -> float:
    """NICV: mean squared distance to the nearest centre."""
    return float(((points - centres[nearest(points, centres)]) ** 2).sum(axis=1).mean())


def weighted_kmeans(
    points: Points,
    weights: NDArray[np.float64],
    k: int,
    *,
    random: SecureRandom,
    starts: int = 50,
    max_iter: int = 100,
    settle: Settle | None = None,
) -> tuple[Points, NDArray[np.float64]]:
    """(centres, their weights) with the least weighted squared distance of all starts."""
    kept = weights > 0
    points, weights = points[kept], weights[kept]
    if len(points) < k:
        raise InputError(
            f"{k} clusters need as many different points, and only {len(points)} hold "
            "records: use more points, or a larger epsilon"
        )
    runs = [
        _lloyd(points, weights, _plus_plus(points, weights, k, random), max_iter, settle)
        for _ in range(starts)
    ]
    _, centres, sizes = min(runs, key=lambda run: run[0])
    return centres, sizes


def _lloyd(
    points: Points,
    weights: NDArray[np.float64],
    centres: Points,
    max_iter: int,
    settle: Settle | None,
) -> tuple[float, Points, NDArray[np.float64]]:
    before = np.inf
    for _ in range(max_iter):
        distances = squared_distances(points, centres)
        labels = distances.argmin(axis=1)
        objective = float((weights * distances.min(axis=1)).sum())
        if objective >= before * (1 - _SETTLED):
            break
        before = objective
        sizes = np.bincount(labels, weights, minlength=len(centres))
        sums = np.stack(
            [np.bincount(labels, weights * x, minlength=len(centres)) for x in points.T], axis=1
        )
        filled = sizes > 0
        centres = np.where(filled[:, None], sums / np.where(filled, sizes, 1)[:, None], centres)
        centres = centres if settle is None else settle(centres)
    distances = squared_distances(points, centres)
    labels = distances.argmin(axis=1)
    objective = float((weights * distances.min(axis=1)).sum())
    totals = np.bincount(labels, weights, minlength=len(centres)).astype(np.float64)
    return objective, centres, totals


def _plus_plus(
    points: Points, weights: NDArray[np.float64], k: int, random: SecureRandom
) -> Points:
    """k-means++: each next centre with probability weight times squared distance."""
    distances = np.ones(len(points))
    chosen: list[int] = []
    for _ in range(k):
        mass = np.cumsum(weights * distances)
        if mass[-1] <= 0:
            mass = np.cumsum(weights)
        draw = float(random.uint64(1)[0]) / 2.0**64 * float(mass[-1])
        chosen.append(min(int(np.searchsorted(mass, draw, side="right")), len(points) - 1))
        new = squared_distances(points, points[chosen[-1:]])[:, 0]
        distances = np.minimum(distances, new) if len(chosen) > 1 else new
    return points[chosen].copy()
