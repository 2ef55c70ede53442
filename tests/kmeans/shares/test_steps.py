"""Scaling, SMIN_k, taking in records and their products against plaintext."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares import new_centres, scaling, smin_k, stop_test
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.ingest import ingest
from ppodc.kmeans.shares.products import TransferProducts
from ppodc.kmeans.shares.ring_sizes import Rings, cut
from ppodc.mpc.spill import Budget
from ppodc.records.sharing import mask, split
from tests.harness.together import together
from tests.mpc.pair import opened, share


@pytest.mark.parametrize("k", range(1, 9))
def test_products_of_all_and_of_all_others(pair, k):
    counts = [random.Random(k).randrange(1, 1000) for _ in range(k)]
    first, second = pair.run(stop_test.products, share(counts, 2))
    whole = 1
    for count in counts:
        whole *= count
    assert opened((first[0], second[0])) == [whole]
    assert opened((first[1], second[1])) == [whole // count for count in counts]


@pytest.mark.parametrize("k", [2, 3, 4, 5, 7, 8, 13])
def test_smin_k_is_argmin_with_ties_to_the_lowest(pair, k):
    g = np.random.default_rng(k)
    columns = g.integers(-2, 3, (150, k - 1))  # few values: many ties
    columns[0] = 0
    values = share(columns.reshape(-1).tolist(), 2, (150, k - 1))
    needs = smin_k.needs(150, k, 70)
    pair.run(lambda session: session.supplies.reserve(needs))
    before = pair.sessions[0].supplies.available()
    first, second = pair.run(smin_k.smin_k, values, (70, 70))
    hot = np.stack([(a ^ b).unpack(150) for a, b in zip(first, second, strict=True)])
    expected = np.argmin(np.hstack([np.zeros((150, 1), int), columns]), axis=1)
    assert np.array_equal(hot, np.eye(k, dtype=np.uint8)[expected].T)
    left = pair.sessions[0].supplies.available()
    assert before - left == needs, "needs() must be what is used"


@pytest.mark.parametrize(("ub", "limbs", "top"), [(1, 1, 4), (1000, 2, 8), (1023, 3, 1)])
def test_ingest_and_products(pair, ub, limbs, top):
    records = np.random.default_rng(ub).integers(0, ub + 1, (70, 3))
    records[0], records[1] = 0, ub
    own, seed = split(records)
    rings = replace(
        Rings.of(Parameters(70, 3, 2, ub, Fraction(0))), distance=limbs, distance_top=top
    )
    shards = pair.run(
        lambda session, part: ingest(session, part, ub, rings, Budget(1 << 30)),
        (own, mask(seed, 0, 70, 3)),
    )
    modulus = 1 << (64 * (limbs - 1) + (64 if limbs == 1 else 8 * top))
    values = opened(tuple(shard.table.additive(0, 70) for shard in shards))
    assert [x % modulus for x in values] == records.reshape(-1).tolist()
    made = pair.run(
        lambda session, shard: TransferProducts().take_in(session, shard).make(session, 10, 60, 4),
        shards,
    )
    matrix = np.array(opened((made[0].matrix, made[1].matrix)), object).reshape(3, 4)
    products = np.array(opened((made[0].products, made[1].products)), object).reshape(50, 4)
    modulus = 1 << (64 * (limbs - 1) + 8 * top)
    assert np.array_equal(products % modulus, (records[10:60].astype(object) @ matrix) % modulus)


@pytest.mark.parametrize(("m", "bits"), [(2046, 32), (2047, 64)])
def test_sums_on_both_sides_of_half_a_narrow_ring(m, bits):
    """(m + k) ub just below and above 2^31; a cluster of nearly all that are as large as can be."""
    ub, l, k = (1 << 20) - 1, 1, 2
    records = np.full((m, l), ub)
    records[:3] = 0
    own, seed = split(records)
    parts = own, mask(seed, 0, m, l)
    centres = np.array([[0], [ub]])

    def run(role):
        def work(channel):
            half = SharesHalf(role, channel, Parameters(m, l, k, ub, Fraction(0)))
            half.ingest("all", parts[role - 1])
            clusters = half.centres(centres)
            sums = half.assign("all", clusters)
            new, stop = half.update(clusters, sums, clusters)
            found = sums, new, stop, *half.output(new)
            half.close()
            return found

        return work

    first, second = together(run(1), run(2))
    expected = [[0, 3], [(m - 3) * ub, m - 3]]
    for place in (0, 1):
        assert max(int(first[place].max()), int(second[place].max())) < 1 << bits
        total = (first[place] + second[place]) & np.uint64((1 << bits) - 1)
        assert total.tolist() == expected
    assert first[2] is second[2] is True
    words = [share.values for share in (first[3], second[3])]
    assert [(int(a) + int(b)) % 2**64 for a, b in zip(*words, strict=True)] == [
        x for row in expected for x in row
    ]
    assert Rings.of(Parameters(m, l, k, ub, Fraction(0))).sum_bits == bits


@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("ub", [100, (1 << 20) - 1])  # sums modulo 2^32 and 2^64
def test_an_update_re_seeds_finds_the_centres_and_how_far_they_moved(pair, moved, ub):
    p = Parameters(5000, 2, 4, ub, Fraction(0))
    rings = Rings.of(p)
    assert rings.sum_bits == (32 if ub == 100 else 64)
    # the second cluster stays, the third and fourth are empty and get the old centre, another one
    old = np.array([[30, 50, 10], [7, 8, 2], [2 * ub, 18, 2], [4, 4, 1]])
    sums = np.array([[33, 50, 11], [7 * 2, 8 * 2, 4], [0, 0, 0], [0, 0, 0]])
    candidates = np.array([[1, 1, 1], [2, 2, 1], [ub, 9, 1], [5, 4, 1]])
    new = sums + (sums[:, 2:] == 0) * candidates
    states = [
        [
            cut(part.limbs[..., 0], rings.sum_bits)
            for part in share(x.reshape(-1).tolist(), 1, (4, 3))
        ]
        for x in (old, sums, candidates)
    ]

    def work(session, role):
        before, counted, spare = (parts[role - 1] for parts in states)
        session.supplies.reserve(scaling.widen_needs(4, 2, rings))
        wide = scaling.widened(session, before, rings) if moved else None
        needs = new_centres.needs(4, 2, rings, moved=moved)
        session.supplies.reserve(needs)
        there = session.supplies.available()
        found = new_centres.update(session, counted, spare, wide, rings)
        assert there - session.supplies.available() == needs, "needs() must be what is used"
        return found, scaling.centres(session, found.wide, rings)

    (first, again1), (second, again2) = pair.run(work, (1, 2))
    assert np.array_equal(cut(first.clusters + second.clusters, rings.sum_bits), new)
    assert opened((first.wide.sums, second.wide.sums)) == new[:, :2].reshape(-1).tolist()
    assert opened((first.wide.counts, second.wide.counts)) == new[:, 2].tolist()
    # the centres are those of the new clusters, up to the rounding that both ways have
    for name, most in (("directions", 2 * 2 * 3), ("constants", 64 * ub)):
        gaps = [
            getattr(found.centres, name) - getattr(again, name)
            for found, again in ((first, again1), (second, again2))
        ]
        ring = 1 << rings.point.product_bits  # bits above mean nothing
        assert max(min(x % ring, -x % ring) for x in opened(tuple(gaps))) <= most
    if moved:
        gaps = new[:, 2:] * old[:, :2] - old[:, 2:] * new[:, :2]
        movements = opened((first.movements, second.movements))
        assert movements == [sum(int(x) ** 2 for x in row) for row in gaps]
        assert [x == 0 for x in movements] == [False, True, True, False]
