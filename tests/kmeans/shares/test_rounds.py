"""How often the clouds wait for each other in an iteration, and what they do meanwhile."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.reference import kmeans
from ppodc.kmeans.shares import demand as demand_module
from ppodc.kmeans.shares.assignment import Assigner
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.mpc import round_trip
from ppodc.mpc.meter import Cost
from ppodc.records.sharing import mask, split
from tests.harness.together import together
from tests.kmeans.suite_jobs import Job, check, random_job


def iteration(
    m: int, k: int, *, goes_on: bool = False, of: int | None = None
) -> dict[tuple[str, str], Cost]:
    """Costs of C1 in the second iteration: the first has no centres from the one before.

    With `goes_on` an update knows that another iteration follows. With `of` numbers are as wide as
    in a job over that many records.
    """
    l, ub = 3, 1000
    own, seed = split(np.random.default_rng(1).integers(0, ub + 1, (m, l)))
    parts = own, mask(seed, 0, m, l)

    def run(role, channel):
        params = Parameters(of or m, l, k, ub, Fraction(0), products="lattice")
        half = SharesHalf(role, channel, params)
        half.ingest("all", parts[role - 1])
        clusters = candidates = half.records("all", range(k))
        for _ in range(2):
            half.meter.reset()
            if not half._session.slow:
                half.prepare(1)
            sums = half.assign("all", clusters)
            if goes_on:
                half.expect_assign(["all"], more=True)
            clusters, _ = half.update(clusters, sums, candidates)
        costs = dict(half.meter.costs)
        half.close()
        return costs

    return together(lambda c: run(1, c), lambda c: run(2, c))[0]


@pytest.mark.parametrize(
    ("m", "of", "k", "wanted"),
    [(60, 60, 4, 26), (1200, 1200, 4, 27), (1200, 1200, 8, 34), (60, 10_000, 4, 28)],
)
def test_rounds_of_an_iteration(m, of, k, wanted):
    """Those of supplies are 3, the first of which the products share."""
    costs = iteration(m, k, of=of)
    rounds = {step: cost.rounds for (_, step), cost in costs.items()}
    assert sum(rounds.values()) == wanted
    assert rounds["supplies"] + rounds["products"] == 3
    assert rounds["centres"] == rounds["stop test"] == 4


def test_over_a_slow_link_nothing_waits_for_supplies_and_products(monkeypatch):
    monkeypatch.setattr(round_trip, "SLOW_US", 0)
    costs = iteration(1200, 4)
    for step in ("supplies", "products"):
        assert costs["offline", step].bytes_sent > 100_000
        assert costs["offline", step].rounds == 0


def test_over_a_slow_link_the_stop_test_travels_beside_the_next_iteration(monkeypatch):
    """Its rounds cost no wait, and what `assign` gives next was found in the update."""
    monkeypatch.setattr(round_trip, "SLOW_US", 0)
    waited = {goes_on: iteration(1200, 4, goes_on=goes_on) for goes_on in (False, True)}
    rounds = [
        {step: cost.rounds for (phase, step), cost in costs.items() if phase == "online"}
        for costs in waited.values()
    ]
    assert rounds[0]["stop test"] >= 4
    assert rounds[1] == {**rounds[0], "stop test": 0}
    assert waited[True]["online", "stop test"].bytes_sent > 0


@pytest.mark.parametrize("case", range(4))
def test_jobs_over_a_slow_link_equal_the_reference(case, monkeypatch):
    """Chunks so small that a shard has several, also parts of a block of the lattice.

    The last job has iterations that are found beside a stop test, and one that is dropped.
    """
    monkeypatch.setattr(round_trip, "SLOW_US", 0)
    monkeypatch.setattr(demand_module, "CHUNK_ROWS", 8)
    ahead = []
    assign_ahead = Assigner.ahead
    monkeypatch.setattr(Assigner, "ahead", lambda *args: ahead.append(0) or assign_ahead(*args))

    def lattice(role, channel, params):
        return SharesHalf(role, channel, replace(params, products="lattice"))

    records = np.random.default_rng(6).integers(0, 1001, (60, 2))
    job = random_job(case) if case < 3 else Job(records, 3, 1000, max_iter=20)
    check(lattice, job)
    if case == 3:
        steps = kmeans(records, 3, beta=job.beta, max_iter=20, seed=job.seed).n_iter
        assert len(ahead) == 2 * steps >= 6
