"""The dependence of a local job's centres on its noise: the noise is drawn again and compared.

The collector knows how large the noise of a count is. It adds as much noise once more to the counts
that it found, clusters those, and looks at what the new centres cost on the counts it found. Where
noise has little say, they cost hardly more; where the centres are made of noise, much more. How far
a centre moves from draw to draw is part of its standard error. All of it follows from what is
released, so it costs no privacy.

Noise is not all that is lost: a record is known only by its nearest point. Where clusters are
hardly wider than the cells of the points, nobody can tell where in a cell records are. `grain` is
the variance of a cell in parts of that of a cluster; the loss counts it three times. A standard
error has 1.5 times the movement by noise, and a cell's deviation.

The limit and these numbers were chosen on 20 sets (SIPU, KEGG, Auto MPG, digits and made-up ones;
epsilon 0.5 to 8; 600 runs): of those within the limit 99 in 100 cost less than `FACTOR` times
k-means without privacy, and 97 of 100 intervals of two standard errors held the centre of k-means.
`ppodc bench ldp usable` measures six other sets (docs/privacy.md has its table).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.local_dp.frequencies import possible
from ppodc.local_dp.kmodes import (
    MAX_ITERATIONS,
    Modes,
    WeightedCells,
    best_kmodes,
    nearest_mode,
)
from ppodc.privacy.weighted_kmeans import Settle, nearest, weighted_kmeans

FACTOR = 2.0  # times the cost of k-means that a usable result should stay below in nine runs of ten
_MOST_LOSS = 1.75  # by noise drawn again and by the grain of the points
_GRAIN = 3.0  # how often the grain counts in the loss
SPREAD = 1.5  # standard errors by noise, over the movement of a draw
_MOST_NOISE = 1.0  # of an even cluster: centres are no better than ones placed without data
_DRAWS, _STARTS = 8, 10
UNKNOWN = (
    "nothing tells how much of these centres is noise: the mechanism is a published one, there for "
    "comparison. The default mechanism tells."
)
_MANY = 100  # times that nobody needs to know better
_BEYOND = 1e6  # a loss of clusters without any width, of which nothing can be said

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Stability:
    """`loss`: what noise and coarse points may cost, 1 for nothing; `errors` (k, l) in 0..ub."""

    loss: float
    errors: Reals


def usable(loss: float | None, noise: float | None) -> bool:
    """Whether centres follow from the records rather than from the noise; no if nothing tells."""
    if loss is None and noise is None:
        return False
    return (loss is None or loss <= _MOST_LOSS) and (noise is None or noise <= _MOST_NOISE)


def warning(loss: float | None, noise: float | None) -> str:
    """Why a result should not be used, and what helps; empty if it may be used."""
    if usable(loss, noise):
        return ""
    if loss is None and noise is None:
        return UNKNOWN
    again = ""
    if loss is not None:
        times = f"{loss:.2g}" if loss < _MANY else f"more than {_MANY}"
        again = f" (noise and coarse points may make them cost {times} times as much)"
    return (
        f"too few records for this epsilon: the centres are largely made of noise{again}, and will "
        f"often cost more than {FACTOR:g} times what k-means does. More records, a larger epsilon "
        "or fewer clusters or columns help."
    )


def shaken(
    points: Reals,
    weights: Reals,
    deviation: float | Reals,
    centres: Reals,
    seed: int,
    settle: Settle | None = None,
    cell: Reals | None = None,
) -> Stability:
    """Of centres of points with these weights, whose counts have this standard deviation each.

    `cell`: deviation of a record from its point by coordinate, if points are not spread evenly.
    """
    noise, k = SecureRandom.public(seed), len(centres)
    before = _cost(points, weights, centres)
    losses, moved = [], []
    for draw in range(_DRAWS):
        counts = possible(weights + deviation * _normal(noise, len(weights)), weights.sum())
        if np.count_nonzero(counts) < k:
            counts = counts + 1.0
        stream = SecureRandom.public(draw)
        found, _ = weighted_kmeans(points, counts, k, random=stream, starts=_STARTS, settle=settle)
        losses.append(_cost(points, weights, found) / before if before else _BEYOND)
        moved.append(found[nearest(centres, found)] - centres)
    spread = np.sqrt(np.mean(np.square(moved), axis=0))
    if cell is None:
        span = points.max(axis=0) - points.min(axis=0)
        cell = span * len(points) ** (-1 / points.shape[1]) / math.sqrt(12)
    within = before / weights.sum()
    grain = float((cell**2).sum() / within) if within else _BEYOND
    loss = float(np.median(losses)) * (1 + _GRAIN * grain)
    return Stability(loss, np.hypot(SPREAD * spread, cell))


def shaken_modes(
    cells: WeightedCells, deviations: float | Reals, modes: Modes, seed: int
) -> Stability:
    """Of modes of these cells; `errors` is how often noise drawn again chooses another value."""
    noise, before, total = SecureRandom.public(seed), _apart(cells, modes), cells.weights.sum()
    losses, changed = [], []
    for draw in range(_DRAWS):
        counts = possible(cells.weights + deviations * _normal(noise, len(cells.weights)), total)
        drawn, stream = replace(cells, weights=counts), SecureRandom.public(draw)
        again = best_kmodes(drawn, len(modes), max_iter=MAX_ITERATIONS, random=stream).modes
        after = _apart(cells, again)
        losses.append(after / before if before else 1.0 if not after else _BEYOND)
        changed.append(again[nearest_mode(modes, again)] != modes)
    return Stability(float(np.median(losses)), np.mean(changed, axis=0))


def _apart(cells: WeightedCells, modes: Modes) -> float:
    own = modes[nearest_mode(cells.values, modes)]
    return float((cells.values != own).sum(axis=1) @ cells.weights)


def _cost(points: Reals, weights: Reals, centres: Reals) -> float:
    apart = ((points - centres[nearest(points, centres)]) ** 2).sum(axis=1)
    return float((apart * weights).sum())


def _normal(random: SecureRandom, count: int) -> Reals:
    """Standard normal numbers (Box and Muller)."""
    length, angle = ((random.uint64((2, count)) >> np.uint64(11)) + 0.5) / 2.0**53
    drawn: Reals = np.sqrt(-2 * np.log(length)) * np.cos(2 * np.pi * angle)
    return drawn
