"""How often the clouds wait for each other in an iteration, and what they do meanwhile."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares import demand as demand_module
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.mpc import round_trip
from ppodc.mpc.meter import Cost
from ppodc.records.sharing import mask, split
from tests.harness.together import together
from tests.kmeans.suite_jobs import check, random_job


def iteration(m: int, k: int) -> dict[tuple[str, str], Cost]:
    """Costs of C1 in the second iteration: the first has no centres from the one before."""
    l, ub = 3, 1000
    own, seed = split(np.random.default_rng(1).integers(0, ub + 1, (m, l)))
    parts = own, mask(seed, 0, m, l)

    def run(role, channel):
        params = Parameters(m, l, k, ub, Fraction(0), products="lattice")
        half = SharesHalf(role, channel, params)
        half.ingest("all", parts[role - 1])
        clusters = candidates = half.records("all", range(k))
        for _ in range(2):
            if not half._session.slow:
                half.prepare(1)
            half.meter.reset()
            clusters, _ = half.update(clusters, half.assign("all", clusters), candidates)
        costs = dict(half.meter.costs)
        half.close()
        return costs

    return together(lambda c: run(1, c), lambda c: run(2, c))[0]


@pytest.mark.parametrize(("m", "k", "most"), [(60, 4, 24), (1200, 4, 24), (1200, 8, 32)])
def test_rounds_of_an_iteration(m, k, most):
    costs = iteration(m, k)
    rounds = {step: cost.rounds for (phase, step), cost in costs.items() if phase == "online"}
    assert sum(rounds.values()) <= most
    assert rounds["centres"] <= 4
    assert rounds["stop test"] <= 5


def test_over_a_slow_link_nothing_waits_for_supplies_and_products(monkeypatch):
    monkeypatch.setattr(round_trip, "SLOW_US", 0)
    costs = iteration(1200, 4)
    for step in ("supplies", "products"):
        assert costs["offline", step].bytes_sent > 100_000
        assert costs["offline", step].rounds == 0


@pytest.mark.parametrize("case", range(3))
def test_jobs_over_a_slow_link_equal_the_reference(case, monkeypatch):
    """Chunks so small that a shard has several, also parts of a block of the lattice."""
    monkeypatch.setattr(round_trip, "SLOW_US", 0)
    monkeypatch.setattr(demand_module, "CHUNK_ROWS", 8)

    def lattice(role, channel, params):
        return SharesHalf(role, channel, replace(params, products="lattice"))

    check(lattice, random_job(case))
