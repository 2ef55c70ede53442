"""Parts of the experiments on cells: samples, published noise, and what cells save and lose."""

import math
import statistics
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.blocks import cells
from ppodc.linkage.blocks.cells import Partition

PUBLISHED_MS = 38.94  # a pair of the chapter's three-party protocol, on its machine


class PublishedNoise:
    """Noise as the listings have it: Laplace in floating point. It protects nobody."""

    def __init__(self, seed: int, *, suppress: bool = False) -> None:
        self._random, self._suppress = np.random.default_rng(seed), suppress

    def count(self, epsilon: Fraction) -> int:
        return round(self._random.laplace(0, 1 / float(epsilon)))

    def padding(self, epsilon: Fraction, delta: Fraction) -> int:
        """Shifted up by ln(1/delta) / epsilon; of mean 0, hence often negative, to suppress."""
        drawn = math.floor(self._random.laplace(0, 1 / float(epsilon)) + 0.5)  # `rpi`
        if self._suppress:
            return drawn
        return max(0, drawn + math.ceil(-math.log(float(delta)) / float(epsilon)))

    def counts(self, true: NDArray[np.int64], epsilon: Fraction) -> NDArray[np.float64]:
        """Counts of many values, each with noise of its own."""
        noisy: NDArray[np.float64] = true + self._random.laplace(0, 1 / float(epsilon), len(true))
        return noisy

    def choose(self, scores: Sequence[int] | NDArray[np.int64], epsilon: Fraction) -> int:
        given = np.asarray(scores)
        reached = np.cumsum(np.exp(float(epsilon) * (given - given.max()) / 2))
        return int(np.searchsorted(reached, self._random.random() * reached[-1], side="right"))


def thirds(count: int, n: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of Alice (d1 + d2) and Bob (d2 + d3), n each."""
    if n + n // 2 > count:
        raise InputError(f"{n} records for each owner need {n + n // 2}; there are {count}.")
    order = np.random.default_rng(seed).permutation(count)
    sample = order[: n + n // 2]
    return sample[:n], sample[n // 2 :]


def outcome(
    first: Partition, second: Partition, pruning: cells.Pruning, common: int
) -> dict[str, float]:
    """Pairs, reduction and recall; the last rows of Alice are the first of Bob."""
    pairs = cells.pairs_compared(first.cell_counts, second.cell_counts, pruning)
    everything = len(first.cell) * len(second.cell)
    meets = pruning.candidates(first.boxes, second.boxes)
    kept = meets[first.cell[len(first.cell) - common :], second.cell[:common]]
    return {
        "pairs": float(pairs),
        "reduction": 1 - pairs / everything,
        "recall": float(kept.mean()),
        "leaves": float(len(first.boxes)),
        "dummies": float(first.padding.clip(0).sum()),
    }


def means(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of every figure, and the scatter of the reduction."""
    mean = {name: statistics.fmean(run[name] for run in runs) for name in runs[0]}
    scatter = statistics.stdev(run["reduction"] for run in runs) if len(runs) > 1 else 0.0
    return {**mean, "reduction_sd": scatter}
