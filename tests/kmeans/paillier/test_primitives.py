"""Each primitive against plaintext, on random and on edge values."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.crypto.paillier import Ciphertexts
from ppodc.kmeans.paillier.compare import at_most, sc
from ppodc.kmeans.paillier.ingest import ingest
from ppodc.kmeans.paillier.masking import pack, slot_width, slots
from ppodc.kmeans.paillier.sbd import sbd
from ppodc.kmeans.paillier.smin_k import Contender, one_hot, smin, smin_k
from ppodc.kmeans.paillier.smp import multiply, smp, smp_except_one
from ppodc.kmeans.paillier.ssed_op import scale, ssed, ssed_op
from ppodc.kmeans.paillier.update import Clusters, large, reseed, setc
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.reference import as_taken_in
from ppodc.kmeans.widths import Widths
from tests.kmeans.oracle import scaled_distances, stop_sides
from tests.kmeans.paillier.conftest import make_inline

few = settings(max_examples=15, deadline=None)
signed = st.integers(-(2**20) + 1, 2**20 - 1)


@few
@given(st.lists(st.tuples(signed, signed), min_size=1, max_size=7))
def test_smp_multiplies(pairs):
    both = make_inline()
    a, b = both.encrypt([x for x, _ in pairs]), both.encrypt([y for _, y in pairs])
    assert both.decrypt(both.run(smp(both.c1, a, b, 20))) == [x * y for x, y in pairs]


def test_multiply_adds_products_up_row_by_row_and_in_total(both):
    values = [both.encrypt(v) for v in ([1, -2, 3], [4, 5, -6], [0, 7, 8])]
    outputs = [[(0, 1), (2, 2)], [(1, 2)]]
    by_row = both.run(multiply(both.c1, values, 4, outputs))
    assert [both.decrypt(b) for b in by_row] == [[4, 39, 46], [0, 35, -48]]
    total = both.run(multiply(both.c1, values, 4, outputs, total=True))
    assert [both.decrypt(b) for b in total] == [[89], [-13]]


@pytest.mark.parametrize("factors", [[5], [2, 3], [1, 1, 1], [7, 1, 9, 2, 3]])
def test_products_of_all_but_one(both, factors):
    product = int(np.prod(factors))
    others = both.run(smp_except_one(both.c1, both.encrypt(factors), 12))
    assert both.decrypt(others) == [product // f for f in factors]


def test_packing_fills_every_slot_and_the_last_may_be_short(both):
    slot = slot_width(3)
    width = slots(both.c1.key.bits, slot)
    values = list(range(width + 2))
    packed = both.decrypt(pack(both.c1, both.encrypt(values), slot))
    expected = [
        sum(v << (slot * i) for i, v in enumerate(values[j : j + width])) for j in (0, width)
    ]
    assert packed == expected


def test_ssed_is_the_squared_distance(both):
    x, y = np.array([[0, 5, 2], [9, 9, 9]]), np.array([[3, 1, 2], [9, 9, 9]])
    d = [both.encrypt(column) for column in (x - y).T]
    assert both.decrypt(both.run(ssed(both.c1, d, 8))) == [25, 0]


def test_ssed_op_equals_the_scaled_distances_of_the_reference(both):
    g = np.random.default_rng(3)
    records = g.integers(0, 101, (4, 3))
    sums, sizes = g.integers(0, 300, (3, 3)), np.array([3, 1, 4])
    w = Widths.of(Parameters(8, 3, 3, 100, Fraction(0)))
    columns = [both.encrypt(c) for c in sums.T]
    scaled = both.run(scale(both.c1, columns, both.encrypt(sizes), w))
    t = [both.encrypt(c) for c in records.T]
    found = both.decrypt(both.run(ssed_op(both.c1, t, scaled, w)))
    expected = scaled_distances(records, sums, sizes)
    assert found == [int(x) for x in expected.T.reshape(-1)]


def as_bits(both, values, w):
    return [both.encrypt([v >> i & 1 for v in values]) for i in range(w - 1, -1, -1)]


@pytest.mark.parametrize("w", [1, 2, 7, 40])
def test_sbd_gives_the_bits(both, w):
    g = np.random.default_rng(w)
    values = [0, (1 << w) - 1, *(int(x) for x in g.integers(0, 1 << w, 6))]
    bits = both.run(sbd(both.c1, both.encrypt(values), w))
    found = [both.decrypt(b) for b in bits]
    assert [int("".join(map(str, column)), 2) for column in zip(*found, strict=True)] == values


@few
@given(st.lists(st.tuples(st.integers(0, 31), st.integers(0, 31)), min_size=1, max_size=6))
def test_smin_keeps_the_smaller_and_ties_go_left(pairs):
    both = make_inline()
    u = Contender(as_bits(both, [a for a, _ in pairs], 5), both.encrypt([0] * len(pairs)))
    v = Contender(as_bits(both, [b for _, b in pairs], 5), both.encrypt([1] * len(pairs)))
    winner = both.run(smin(both.c1, u, v))
    assert both.decrypt(winner.index) == [int(b < a) for a, b in pairs]
    rows = zip(*(both.decrypt(b) for b in winner.bits), strict=True)
    assert [int("".join(map(str, row)), 2) for row in rows] == [min(p) for p in pairs]


def test_example_5_3_1(both):
    """SMIN_k of <3, 6, 13, 2, 9> marks the fourth."""
    numbers = [as_bits(both, [v], 4) for v in (3, 6, 13, 2, 9)]
    gamma, index = both.run(smin_k(both.c1, numbers))
    assert [both.decrypt(g) for g in gamma] == [[0], [0], [0], [1], [0]]
    assert both.decrypt(index) == [3]


@pytest.mark.parametrize("k", [1, 2, 3, 6, 7])
def test_smin_k_takes_the_first_of_equals(both, k):
    g = np.random.default_rng(k)
    table = g.integers(0, 4, (5, k))
    numbers = [as_bits(both, [int(x) for x in table[:, h]], 2) for h in range(k)]
    gamma, index = both.run(smin_k(both.c1, numbers))
    assert both.decrypt(index) == table.argmin(axis=1).tolist()
    hot = np.array([both.decrypt(column) for column in gamma]).T
    assert np.array_equal(hot, np.eye(k, dtype=int)[table.argmin(axis=1)])


def test_one_hot_of_an_index_that_is_none_is_refused(both):
    with pytest.raises(Exception, match="exactly one"):
        both.run(one_hot(both.c1, both.encrypt([5]), 3))


@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 1), (1, 0), (6, 7), (7, 7), (7, 6), (7, 0)])
def test_sc_tells_less_or_equal_whatever_the_coin(both, a, b):
    for _ in range(4):
        assert both.run(sc(both.c1, as_bits(both, [a], 3), as_bits(both, [b], 3))) == (a <= b)


@pytest.mark.parametrize("bound", [0, 3, 7])
def test_at_most(both, bound):
    values = [0, 1, 0, 7, 4, 3]
    for _ in range(3):
        found = both.run(at_most(both.c1, as_bits(both, values, 3), bound))
        assert both.decrypt(found) == [int(v <= bound) for v in values]


@pytest.mark.parametrize("least", [1, 2, 3, 4, 100])
def test_large_clusters_stay_and_small_ones_become_zeros(both, least):
    w = Widths.of(Parameters(6, 2, 4, 10, Fraction(0)))
    rows = [[10, 3, 1], [0, 7, 2], [30, 30, 3], [0, 0, 0]]
    given = Clusters.from_flat(both.encrypt(rows), 2)
    (told,) = both.run(large(both.c1, given, least, w))
    found = told.flat()
    expected = [row if row[-1] >= least else [0, 0, 0] for row in rows]
    assert both.decrypt(found) == [value for row in expected for value in row]


@pytest.mark.parametrize("ub", [1, 5, 7, 1000, 1 << 20])
def test_any_two_words_are_taken_in_as_a_value_up_to_ub(both, ub):
    edges = [0, 1, ub, ub + 1, 2 * ub + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    words = np.array(edges, np.uint64)
    ours, theirs = np.meshgrid(words, words)
    both.c2.shares["all"] = theirs
    columns = both.run(ingest(both.c1, "all", 0, ours, ub))
    found = np.array([both.decrypt(column) for column in columns]).T
    assert np.array_equal(found, as_taken_in(ours - theirs, ub))


def clusters(both, sums, sizes):
    return Clusters([both.encrypt(c) for c in np.array(sums).T], both.encrypt(sizes))


def test_reseed_replaces_empty_clusters_only(both):
    w = Widths.of(Parameters(5, 2, 3, 10, Fraction(0)))
    new = clusters(both, [[4, 6], [0, 0], [9, 9]], [2, 0, 3])
    spare = clusters(both, [[1, 2], [3, 4], [5, 6]], [1, 1, 1])
    found = both.run(reseed(both.c1, new, spare, w))
    assert [both.decrypt(c) for c in found.sums] == [[4, 3, 9], [6, 4, 9]]
    assert both.decrypt(found.sizes) == [2, 1, 3]


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1, 3), Fraction(5, 2), Fraction(200)])
def test_setc_agrees_with_the_reference(both, beta):
    g = np.random.default_rng(11)
    w = Widths.of(Parameters(6, 2, 2, 10, beta))
    for case in range(4):
        old, new = g.integers(0, 30, (2, 2)), g.integers(0, 30, (2, 2))
        if case == 0:
            new = old
        sizes = np.array([3, 3])
        left, right = stop_sides(old, sizes, new, sizes, beta)
        step = setc(both.c1, clusters(both, old, sizes), clusters(both, new, sizes), beta, w)
        assert both.run(step) == (left <= right)


def test_empty_batches_do_not_break_anything(both):
    nothing = Ciphertexts(both.c1.key, [])
    assert both.decrypt(both.run(smp(both.c1, nothing, nothing, 3))) == []
