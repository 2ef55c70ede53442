"""Costs per stage stay at or below Tables 5.1 and 5.2, and demand foresees the randomisers."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.bench.kmeans.published import stage2, stage3
from ppodc.crypto.paillier import Ciphertexts
from ppodc.kmeans.paillier import demand
from ppodc.kmeans.paillier.assign import assign
from ppodc.kmeans.paillier.ingest import ingest
from ppodc.kmeans.paillier.ssed_op import scale
from ppodc.kmeans.paillier.update import Clusters, setc
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.widths import Widths

# (m, l, k): the published setting, and the corners of the published sweeps
SETTINGS = [(6000, 10, 4), (2000, 5, 2), (10_000, 20, 3), (6000, 3, 8)]


@pytest.fixture
def costs(make_both):
    """Runs a step and tells exponentiations (with all that the tables count), products, bits."""
    from ppodc.crypto.paillier import generate_insecure

    key = generate_insecure(1024)
    both = make_both(key)

    def measure(step):
        before = [both.c1.cipher.tally.snapshot(), both.c2.cipher.tally.snapshot()]
        asked = len(both.asked)
        answers = []
        original = both.run

        def watch(generator):
            from ppodc.kmeans.paillier import exchange

            def counting(*question, _answer=exchange.answer):
                reply = _answer(*question)
                answers.extend(a.nbytes for a in reply)
                return reply

            exchange.answer, kept = counting, exchange.answer
            try:
                return original(generator)
            finally:
                exchange.answer = kept

        result = watch(step)
        spent = both.c1.cipher.tally - before[0] + (both.c2.cipher.tally - before[1])
        sent = sum(a.nbytes for ask in both.asked[asked:] for a in ask.arrays)
        exponentiations = (
            spent.exponentiations + spent.inversions + spent.decryptions + spent.randomisers
        )
        return result, exponentiations, spent.multiplications, 8 * (sent + sum(answers))

    measure.both = both
    return measure


def encrypted(both, table):
    return [both.encrypt(column) for column in np.asarray(table).T]


@pytest.mark.parametrize(("m", "l", "k"), SETTINGS)
def test_a_record_costs_at_most_what_the_tables_say(costs, m, l, k):
    both = costs.both
    params = Parameters(m, l, k, 1000, Fraction(0))
    w = Widths.of(params)
    g = np.random.default_rng(k)
    rows = 2
    sizes = np.full(k, m // k)
    old = Clusters(encrypted(both, g.integers(0, 1000, (k, l)) * (m // k)), both.encrypt(sizes))
    scaled = both.run(scale(both.c1, old.sums, old.sizes, w))
    records = encrypted(both, g.integers(0, 1001, (rows, l)))
    _, exponentiations, multiplications, bits = costs(assign(both.c1, records, scaled, w))
    published = stage2(rows, l, k, w.distance, 1024)
    assert exponentiations <= published.exponentiations
    assert multiplications <= published.multiplications
    assert bits <= published.bits


@pytest.mark.parametrize(("m", "l", "k"), SETTINGS[:2])
def test_the_stop_test_costs_at_most_what_the_tables_say(costs, m, l, k):
    both = costs.both
    w = Widths.of(Parameters(m, l, k, 1000, Fraction(0)))
    clusters = Clusters(encrypted(both, np.ones((k, l), dtype=int)), both.encrypt([1] * k))
    step = setc(both.c1, clusters, clusters, Fraction(0), w)
    stop, exponentiations, multiplications, bits = costs(step)
    published = stage3(l, k, w.stop, 1024)
    assert stop
    assert exponentiations <= published.exponentiations
    assert multiplications <= published.multiplications
    assert bits <= published.bits


def test_taking_a_record_in_costs_less_than_a_quarter_of_an_iteration(costs):
    """The published system trusts owners; SBD of 10 bits and a comparison are the price."""
    both = costs.both
    both.c2.shares["all"] = np.full((5, 10), 4, dtype=np.uint64)
    share = np.full((5, 10), 9, dtype=np.uint64)
    step = ingest(both.c1, "all", 0, share, 1000)
    records, exponentiations, multiplications, bits = costs(step)
    assert both.decrypt(Ciphertexts.concat(records)) == [5] * 50
    w = Widths.of(Parameters(6000, 10, 4, 1000, Fraction(0)))
    iteration = stage2(5, 10, 4, w.distance, 1024)
    assert exponentiations < iteration.exponentiations / 4
    assert multiplications < iteration.multiplications / 4
    assert bits < iteration.bits / 4


@pytest.mark.parametrize(("ub", "rows"), [(1, 3), (10, 4), (1023, 2), (1000, 5)])
def test_demand_foresees_what_taking_in_takes(both, ub, rows):
    both.c2.shares["all"] = np.zeros((rows, 2), dtype=np.uint64)
    share = np.full((rows, 2), 1, dtype=np.uint64)
    tallies = both.c1.cipher.tally, both.c2.cipher.tally
    both.run(ingest(both.c1, "all", 0, share, ub))
    taken = demand.Demand(*(tally.randomisers for tally in tallies))
    params = Parameters(rows, 2, 1, ub, Fraction(0))
    assert taken == demand.ingest(params, both.c1.key.bits, [rows], 8)


@pytest.mark.parametrize(("m", "l", "k", "rows"), [(20, 2, 3, 4), (9, 1, 1, 3), (40, 3, 2, 5)])
def test_demand_foresees_what_a_batch_takes(both, m, l, k, rows):
    params = Parameters(m, l, k, 100, Fraction(0))
    w = Widths.of(params)
    old = Clusters(encrypted(both, np.ones((k, l), dtype=int)), both.encrypt([1] * k))
    scaled = both.run(scale(both.c1, old.sums, old.sizes, w))
    records = encrypted(both, np.full((rows, l), 50))
    before = both.c1.cipher.tally.randomisers, both.c2.cipher.tally.randomisers
    both.run(assign(both.c1, records, scaled, w))
    taken = demand.Demand(
        both.c1.cipher.tally.randomisers - before[0], both.c2.cipher.tally.randomisers - before[1]
    )
    assert taken == demand.batch(params, both.c1.key.bits, rows)


def test_demand_of_an_iteration_is_enough(both):
    from ppodc.kmeans.paillier.update import reseed

    params = Parameters(20, 2, 3, 100, Fraction(0))
    w = Widths.of(params)
    old = Clusters(encrypted(both, np.ones((3, 2), dtype=int)), both.encrypt([1] * 3))
    before = both.c1.cipher.tally.randomisers, both.c2.cipher.tally.randomisers
    both.run(scale(both.c1, old.sums, old.sizes, w))
    both.run(reseed(both.c1, old, old, w))
    both.run(setc(both.c1, old, old, Fraction(0), w))
    needed = demand.iteration(params, both.c1.key.bits, [0], 4)
    assert both.c1.cipher.tally.randomisers - before[0] <= needed.c1
    assert both.c2.cipher.tally.randomisers - before[1] <= needed.c2
