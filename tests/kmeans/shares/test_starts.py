"""k-means++ on shares chooses the reference's records, whatever the records and shards are."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.reference import spread_rows
from ppodc.kmeans.row_choice import fraction, initial_rows
from ppodc.kmeans.shares import demand as demand_module
from ppodc.kmeans.shares import spread
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.spread import SpreadBits
from ppodc.mpc import round_trip
from ppodc.records.sharing import mask, split
from ppodc.transport.channel import memory_pair
from tests.harness.together import together
from tests.kmeans.suite_jobs import random_job
from tests.mpc.pair import Recorder, opened, share


def chosen_records(
    records, k, ub, seed, edges=(), start=0, products="auto", channels=None, memory=1 << 20
):
    """The records that both halves choose together, from shards cut at `edges`."""
    m, l = records.shape
    cuts = [0, *edges, m]
    params = Parameters(m, l, k, ub, Fraction(0), products=products)
    own, secret = split(records)
    parts = (own, mask(secret, 0, m, l))

    def run(role, channel):
        half = SharesHalf(role, channel, params, memory=memory)
        names = [str(i) for i in range(len(cuts) - 1)]
        for name, first, end in zip(names, cuts, cuts[1:], strict=False):
            half.ingest(name, parts[role - 1][first:end])
        (row,) = initial_rows(seed, m, 1, start)
        place = next(i for i in range(len(names)) if row < cuts[i + 1])
        chosen = half.records(names[place], [row - cuts[place]])
        while len(chosen) < k:
            totals = half.join([half.spread(name, chosen, start) for name in names])
            word = fraction(seed, len(chosen), start)
            picked = [
                half.pick(name, totals, i, word, last=i == len(names) - 1)
                for i, name in enumerate(names)
            ]
            chosen = half.join([chosen, half.add(picked)])
        half.close()
        return chosen

    first, second = together(lambda c: run(1, c), lambda c: run(2, c), channels)
    return (first + second).astype(np.int64)


def check(records, k, ub, seed, **options):
    found = chosen_records(records, k, ub, seed, **options)
    expected = records[spread_rows(records, seed, k, options.get("start", 0))]
    assert found[:, :-1].tolist() == expected.tolist()
    assert found[:, -1].tolist() == [1] * k


@pytest.mark.parametrize("case", range(12))
def test_the_records_of_the_reference(case):
    """Ties, equal records, all records equal (case 2, 6, 10), any ub, one shard or two."""
    job = random_job(case)
    edges = (len(job.records) // 2,) if case % 3 else ()
    check(job.records, min(job.k, 4), job.ub, case, edges=edges, start=case % 2)


def test_as_many_clusters_as_records():
    check(np.array([[3], [0], [3], [9], [9]]), 5, 9, seed=2, edges=(2,))


@pytest.mark.parametrize("slow_us", [1 << 40, 0])
def test_chunks_lattices_and_several_shards(monkeypatch, slow_us):
    """Also where the link is slow, so that the next record's supplies are made in the waits."""
    monkeypatch.setattr(round_trip, "SLOW_US", slow_us)
    monkeypatch.setattr(demand_module, "CHUNK_ROWS", 50)
    records = np.random.default_rng(3).integers(0, 1001, (130, 3))
    check(records, 3, 1000, 9, edges=(40, 40, 91), products="lattice")


def test_norms_and_distances_on_disk():
    records = np.random.default_rng(4).integers(0, 1001, (70, 3))
    check(records, 4, 1000, 2, edges=(30,), memory=0)


def test_one_record_far_from_all_others_is_found_wherever_it_lies():
    for place in (0, 59):
        records = np.zeros((60, 2), np.int64)
        records[place] = 100
        found = chosen_records(records, 2, 100, 5, edges=(30,))
        assert [100, 100, 1] in found.tolist()


def test_sums_of_more_than_a_limb():
    """2^40 per value and 2^24 records, say: the ring of sums has two limbs."""
    records = np.random.default_rng(1).integers(0, (1 << 20) + 1, (40, 3))
    m, l = records.shape
    params = Parameters(1 << 25, l, 3, 1 << 20, Fraction(0), products="transfers")
    assert SpreadBits.of(params).limbs == 2
    own, secret = split(records)
    parts = (own, mask(secret, 0, m, l))

    def run(role, channel):
        half = SharesHalf(role, channel, params)
        half.ingest("all", parts[role - 1])
        chosen = half.records("all", initial_rows(1, m, 1))
        for number in (1, 2):
            totals = half.spread("all", chosen, 0)
            picked = half.pick("all", totals, 0, fraction(1, number), last=True)
            chosen = half.join([chosen, picked])
        return chosen

    first, second = together(lambda c: run(1, c), lambda c: run(2, c))
    assert (first + second)[:, :-1].tolist() == records[spread_rows(records, 1, 3)].tolist()


@pytest.mark.parametrize("total", [0, 1, 2, 1000, (1 << 38) - 1])
@pytest.mark.parametrize("word", [0, 1, 1 << 63, (1 << 64) - 1])
def test_the_threshold_is_the_exact_floor(pair, total, word):
    bits = SpreadBits(24, 38)
    values = share([total + (3 << 39)], 1)  # bits above those of a sum and its sign mean nothing
    found = pair.run(lambda session, own: spread.threshold(session, own, word, bits), values)
    assert opened(found)[0] % (1 << 39) == (word * total) >> 64


def test_products_have_the_bits_of_a_sum():
    for m in (1, 2, 7, 100, 10_000, 1 << 24):
        for l in (1, 3, 50):
            for ub in (1, 100, 1 << 20):
                for k in (2, 64):
                    p = Parameters(m, l, k, ub, Fraction(0))
                    assert Rings.of(p).point.product_bits > SpreadBits.of(p).total


def sent(records, seed=1):
    """The messages of both clouds while three records were chosen."""
    ends = memory_pair()
    channels = (Recorder(ends[0]), Recorder(ends[1]))
    chosen_records(records, 3, 1000, seed, products="transfers", channels=channels)
    return channels


@pytest.fixture(scope="module")
def views():
    """All records equal, and records of all kinds: choices at other places, other distances."""
    varied = np.random.default_rng(8).integers(0, 1001, (300, 4))
    return sent(np.zeros((300, 4), np.int64)), sent(varied, seed=2)


def test_sizes_of_messages_tell_nothing_of_records_or_choices(views):
    for one, other in zip(*views, strict=True):
        assert one.shape() == other.shape()


MASKED = ("shares.centres", "shares.digits", "shares.tables", "shares.and", "shares.correlated")


@pytest.mark.parametrize("kind", MASKED)
def test_what_is_sent_looks_uniform_on_constant_data(views, kind):
    for recorder in views[0]:
        bits = np.unpackbits(recorder.bytes_of(kind))
        assert abs(bits.mean() - 0.5) < 8 * 0.5 / np.sqrt(len(bits))


def test_the_halves_of_what_is_chosen_are_no_shares_that_were_there_before():
    """A cloud that knew its share of the chosen record among its own would know the row."""
    records = np.random.default_rng(4).integers(0, 101, (50, 2))
    params = Parameters(50, 2, 2, 100, Fraction(0))
    own, secret = split(records)
    parts = (own, mask(secret, 0, 50, 2))

    def run(role, channel):
        half = SharesHalf(role, channel, params)
        half.ingest("all", parts[role - 1])
        totals = half.spread("all", half.records("all", initial_rows(1, 50, 1)), 0)
        picked = half.pick("all", totals, 0, fraction(1, 1), last=True)
        return picked, half.records("all", range(50))

    for picked, held in together(lambda c: run(1, c), lambda c: run(2, c)):
        assert not set(picked.reshape(-1).tolist()) & set(held[:, :-1].reshape(-1).tolist())
