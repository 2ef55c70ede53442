"""k-modes on cells with weights: what the collector does with estimated counts of categories.

A cell is a record of categories, its weight how many such records there are estimated to be. The
mode of a cluster has in each attribute the value of the largest weight; distance is the number of
attributes that differ. O(iterations k m cells).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import SpecError

Modes = NDArray[np.int64]
_BATCH_CELLS = 1 << 16
_STARTS = 8
MAX_ITERATIONS = 50


@dataclass(frozen=True, slots=True)
class WeightedCells:
    """Cells (n, m), their weights, and how many values each of the m attributes has."""

    values: NDArray[np.int64]
    weights: NDArray[np.float64]
    sizes: Sequence[int]


@dataclass(frozen=True, slots=True)
class ModesResult:
    """Modes (k, m), how many iterations they took, and the cluster of every cell with weight."""

    modes: Modes
    n_iter: int
    kept: NDArray[np.bool_]  # which cells have weight
    labels: NDArray[np.int64]  # of these


def mismatches(records: NDArray[Any], modes: Modes) -> NDArray[np.int64]:
    """Hamming distance of every record to every mode."""
    distances = np.zeros((len(records), len(modes)), np.int64)
    for j in range(records.shape[1]):
        distances += records[:, j, None] != modes[None, :, j]
    return distances


def nearest_mode(records: NDArray[Any], modes: Modes) -> NDArray[np.int64]:
    """The nearest mode of each record, the lowest on ties."""
    labels = np.empty(len(records), np.int64)
    for start in range(0, len(records), _BATCH_CELLS):
        part = slice(start, start + _BATCH_CELLS)
        labels[part] = mismatches(records[part], modes).argmin(axis=1)
    return labels


def mean_mismatch(records: NDArray[Any], modes: Modes) -> float:
    """NIVC: mean distance to the nearest mode."""
    return float(mismatches(records, modes).min(axis=1).mean())


def weighted_kmodes(
    cells: WeightedCells, k: int, *, max_iter: int, random: SecureRandom
) -> ModesResult:
    """k modes of the cells; an empty cluster keeps its mode."""
    kept = cells.weights > 0
    cells = WeightedCells(cells.values[kept], cells.weights[kept], cells.sizes)
    modes = _first_modes(cells, k, random)
    n_iter, settled = 0, False
    while not settled and n_iter < max_iter:
        new = _modes(cells, nearest_mode(cells.values, modes), modes)
        settled, modes, n_iter = np.array_equal(new, modes), new, n_iter + 1
    return ModesResult(modes, n_iter, kept, nearest_mode(cells.values, modes))


def best_kmodes(
    cells: WeightedCells, k: int, *, max_iter: int, random: SecureRandom
) -> ModesResult:
    """The best of several starts, by the weighted distance to the nearest mode."""
    starts = _STARTS if np.count_nonzero(cells.weights) <= _BATCH_CELLS else 1
    found = [weighted_kmodes(cells, k, max_iter=max_iter, random=random) for _ in range(starts)]
    return min(found, key=lambda result: _objective(cells, result))


def _objective(cells: WeightedCells, result: ModesResult) -> float:
    apart = (cells.values[result.kept] != result.modes[result.labels]).sum(axis=1)
    return float(cells.weights[result.kept] @ apart)


def _modes(cells: WeightedCells, labels: NDArray[np.int64], old: Modes) -> Modes:
    """The heaviest value of every attribute in every cluster, the lowest on ties."""
    k, new = len(old), old.copy()
    occupied = np.bincount(labels, cells.weights, minlength=k) > 0
    for j, size in enumerate(cells.sizes):
        pairs = labels * size + cells.values[:, j]
        table = np.bincount(pairs, cells.weights, minlength=k * size)
        new[occupied, j] = table.reshape(k, size).argmax(axis=1)[occupied]
    return new


def _first_modes(cells: WeightedCells, k: int, random: SecureRandom) -> Modes:
    """k distinct candidates from the most frequent values of each attribute.

    f values of each attribute are in play, f the smallest number that leaves at least k
    combinations; the published floor(k^(1/n)) is 1 for most data and never finds a second one.
    """
    reach = 1
    while math.prod(min(reach, size) for size in cells.sizes) < k:
        if reach >= max(cells.sizes):
            raise SpecError(f"{k} modes need more combinations of values than there are")
        reach += 1
    ranked = []
    for j, size in enumerate(cells.sizes):
        frequency = np.bincount(cells.values[:, j], cells.weights, minlength=size)
        ranked.append(np.argsort(-frequency, kind="stable")[:reach])
    chosen: list[tuple[int, ...]] = []
    while len(chosen) < k:
        mode = tuple(int(values[int(random.below(len(values), 1)[0])]) for values in ranked)
        if mode not in chosen:
            chosen.append(mode)
    return np.array(chosen, np.int64)
