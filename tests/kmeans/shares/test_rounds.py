"""How often the clouds wait for each other in an iteration whose supplies are there."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.records.sharing import mask, split
from tests.harness.together import together


def online_rounds(m: int, k: int) -> dict[str, int]:
    """Of C1 by step, in the second iteration: the first has no centres from the one before."""
    l, ub = 3, 1000
    own, seed = split(np.random.default_rng(1).integers(0, ub + 1, (m, l)))
    parts = own, mask(seed, 0, m, l)

    def run(role, channel):
        params = Parameters(m, l, k, ub, Fraction(0), products="lattice")
        half = SharesHalf(role, channel, params)
        half.ingest("all", parts[role - 1])
        clusters = candidates = half.records("all", range(k))
        for _ in range(2):
            half.prepare(1)
            half.meter.reset()
            clusters, _ = half.update(clusters, half.assign("all", clusters), candidates)
        costs = half.meter.costs.items()
        half.close()
        return {step: cost.rounds for (phase, step), cost in costs if phase == "online"}

    return together(lambda c: run(1, c), lambda c: run(2, c))[0]


@pytest.mark.parametrize(("m", "k", "most"), [(60, 4, 24), (1200, 4, 24), (1200, 8, 32)])
def test_rounds_of_an_iteration(m, k, most):
    rounds = online_rounds(m, k)
    assert sum(rounds.values()) <= most
    assert rounds["centres"] <= 4
    assert rounds["stop test"] <= 5
