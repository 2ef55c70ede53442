"""kmeans against a deliberately naive Fraction version, and the chapter's worked examples."""

import math
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.errors import InputError
from ppodc.kmeans.reference import (
    as_taken_in,
    centres,
    chosen_rows,
    kmeans,
    movement,
    nearest,
    spread_rows,
)
from ppodc.kmeans.row_choice import MAX_SEED, fraction, initial_rows, reseed_rows
from tests.kmeans.oracle import scaled_distances, stop_sides

KNOWN_INITIAL = [145, 950, 333, 468]
KNOWN_RESEED = [26, 399, 296, 277]


def test_the_protocol_and_the_oracle_choose_the_same_rows():
    """Written twice on purpose: a fault in either shows here and in every comparison of a job."""
    for seed, m in ((0, 1), (1, 7), (99, 1000), (MAX_SEED, 1 << 40)):
        stream = chosen_rows("initial rows", seed, m)
        k = min(m, 5)
        assert initial_rows(seed, m, k) == list(dict.fromkeys(islice(stream, 50)))[:k]
        for i in (1, 3):
            again = [next(chosen_rows("reseed row", seed, m, i, h)) for h in range(4)]
            assert reseed_rows(seed, i, m, 4) == again
        for start in (1, 2):
            stream = chosen_rows("initial rows", seed, m, start)
            assert initial_rows(seed, m, 1, start) == [next(stream)]
            later = [next(chosen_rows("reseed row", seed, m, 3, h, start)) for h in range(4)]
            assert reseed_rows(seed, 3, m, 4, start) == later
            for number in (1, 2):
                word = next(chosen_rows("k-means++", seed, 1 << 64, number, start))
                assert fraction(seed, number, start) == word


@pytest.mark.parametrize("case", range(20))
def test_k_means_plus_plus_word_by_word(case):
    g = np.random.default_rng(case)
    records = g.integers(0, 3 if case % 2 else 1000, (int(g.integers(1, 20)), 2))
    k = int(g.integers(1, len(records) + 1))
    chosen = initial_rows(case, len(records), 1)
    while len(chosen) < k:
        nearest_one = [
            min(sum(int(a - b) ** 2 for a, b in zip(x, records[c], strict=True)) for c in chosen)
            for x in records
        ]
        target = Fraction(fraction(case, len(chosen)), 1 << 64) * sum(nearest_one)
        so_far, row = 0, 0
        for row, distance in enumerate(nearest_one):  # noqa: B007 - the last one if none is above
            so_far += distance
            if so_far > target:
                break
        chosen.append(row)
    assert spread_rows(records, case, k) == chosen


def test_far_records_are_chosen_as_often_as_they_should_be():
    """Beside record 0, at distance 1 and 3: with chances 1/10 and 9/10."""
    records = np.array([[0], [1], [3]])
    seeds = [seed for seed in range(2000) if initial_rows(seed, 3, 1) == [0]]
    far = sum(spread_rows(records, seed, 2)[1] == 2 for seed in seeds)
    assert abs(far / len(seeds) - 0.9) < 0.05


def test_inertia_is_the_sum_of_squared_distances_to_the_centres():
    records = np.random.default_rng(3).integers(0, 50, (40, 3))
    last = kmeans(records, 4, beta=0, max_iter=3, seed=1, init="k-means++").iterations[-1]
    means = centres(last.sums, last.sizes)
    naive = sum(
        (Fraction(int(v)) - mean) ** 2
        for x, h in zip(records, last.labels, strict=True)
        for v, mean in zip(x, means[h], strict=True)
    )
    assert last.inertia() == naive
    assert last.inertia(min_size=41) == 0


def naive_distance(record, sums, size):
    return sum((Fraction(t) - Fraction(v, size)) ** 2 for t, v in zip(record, sums, strict=True))


def naive_kmeans(records, k, beta, max_iter, seed, centres=None):
    """Algorithm 5.1, word by word, on lists and Fractions."""
    m, width = len(records), len(records[0])
    start = centres or [records[row] for row in initial_rows(seed, m, k)]
    clusters = [(list(centre), 1) for centre in start]
    out = []
    for i in range(1, max_iter + 1):
        labels = []
        new = [([0] * width, 0) for _ in range(k)]
        for record in records:
            distances = [naive_distance(record, *cluster) for cluster in clusters]
            h = distances.index(min(distances))
            labels.append(h)
            new[h] = ([a + b for a, b in zip(new[h][0], record, strict=True)], new[h][1] + 1)
        counted = list(new)
        for h, row in enumerate(reseed_rows(seed, i, m, k)):
            if new[h][1] == 0:
                new[h] = (list(records[row]), 1)
        moved = sum(
            naive_distance([Fraction(v, old_size) for v in old], sums, size)
            for (old, old_size), (sums, size) in zip(clusters, new, strict=True)
        )
        clusters = new
        both = [[c[part] for c in clusters] for clusters in (counted, new) for part in (0, 1)]
        out.append((labels, *both, moved <= beta))
        if moved <= beta:
            break
    return out


def listed(trace):
    names = ("labels", "sums", "sizes", "next_sums", "next_sizes")
    return [(*(getattr(i, name).tolist() for name in names), i.stop) for i in trace.iterations]


@st.composite
def problems(draw):
    """Small tables; low values make ties, duplicates and empty clusters common."""
    ub = draw(st.sampled_from([1, 2, 5, 1000, 1 << 20]))
    width = draw(st.integers(1, 4))
    row = st.lists(st.integers(0, ub), min_size=width, max_size=width)
    records = draw(st.lists(row, min_size=1, max_size=14))
    public = draw(st.booleans())
    k = draw(st.integers(1, 5 if public else len(records)))
    centres = draw(st.lists(row, min_size=k, max_size=k)) if public else None
    beta = draw(st.fractions(0, width * ub * ub, max_denominator=50) | st.just(Fraction(0)))
    return records, k, beta, draw(st.integers(0, MAX_SEED)), centres


@given(problems())
@settings(max_examples=150, deadline=None)
def test_kmeans_equals_the_naive_version(problem):
    records, k, beta, seed, centres = problem
    trace = kmeans(
        np.array(records),
        k,
        beta=beta,
        max_iter=6,
        seed=seed,
        centres=None if centres is None else np.array(centres),
    )
    assert listed(trace) == naive_kmeans(records, k, beta, 6, seed, centres)


@st.composite
def clusterings(draw):
    """Records and two sets of clusters as arbitrary sums and sizes."""
    k, width = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    grid = st.lists(st.integers(0, 1 << 20), min_size=width, max_size=width)
    sizes = st.lists(st.integers(1, 1000), min_size=k, max_size=k)
    tables = [draw(st.lists(grid, min_size=k, max_size=k)) for _ in range(2)]
    records = draw(st.lists(grid, min_size=1, max_size=5))
    return [np.array(x) for x in (records, tables[0], draw(sizes), tables[1], draw(sizes))]


@given(clusterings())
@settings(max_examples=100, deadline=None)
def test_scaled_distances_are_alpha_squared_times_the_distance(clustering):
    records, sums, sizes, _, _ = clustering
    alpha = math.prod(sizes.tolist())
    scaled = scaled_distances(records, sums, sizes)
    for i, record in enumerate(records.tolist()):
        for h, row in enumerate(sums.tolist()):
            assert scaled[i, h] == alpha**2 * naive_distance(record, row, int(sizes[h]))
    assert np.array_equal(np.argmin(scaled, axis=1), nearest(records, sums, sizes))


@given(clusterings(), st.fractions(0, 10**14, max_denominator=1000), st.booleans())
@settings(max_examples=100, deadline=None)
def test_stop_sides_agree_with_the_movement(clustering, beta, on_the_edge):
    _, *clusters = clustering
    moved = movement(*clusters)
    if on_the_edge:
        beta = moved
    left, right = stop_sides(*clusters, beta)
    f = math.prod(clusters[1].tolist()) * math.prod(clusters[3].tolist())
    assert left == moved * f**2 * beta.denominator
    assert (left <= right) == (moved <= beta)
    old, old_sizes, new, new_sizes = (part.tolist() for part in clusters)
    assert moved == sum(
        naive_distance([Fraction(v, size) for v in row], new[h], new_sizes[h])
        for h, (row, size) in enumerate(zip(old, old_sizes, strict=True))
    )


def test_example_5_1_1_centre_of_three_records():
    records = np.array([[0, 2, 1, 0, 3], [1, 1, 3, 4, 2], [0, 1, 0, 2, 0]])
    trace = kmeans(records, 1, beta=0, max_iter=5, seed=0)
    third = Fraction(1, 3)
    assert centres(trace.sums, trace.sizes) == [[third, 4 * third, 4 * third, 2, 5 * third]]
    assert trace.sizes.tolist() == [3]
    assert trace.converged


def test_example_5_1_2_distance_to_the_centre():
    records = np.array([[0, 2, 1, 0, 3], [1, 1, 3, 4, 2], [0, 1, 0, 2, 0]])
    scaled = scaled_distances(np.array([[0, 1, 1, 3, 2]]), records.sum(axis=0)[None], np.array([3]))
    assert scaled[0, 0] == 13  # 9 * 13/9
    # the exact distance is sqrt(13/9) = 1.20185; the chapter cuts it to 1.201
    assert math.floor(1000 * math.sqrt(Fraction(scaled[0, 0], 9))) == 1201


def test_centres_closer_than_a_double_can_tell():
    size = 1 << 44
    sums = np.array([[size << 10] * 5, [(size << 10) + 1] * 5])
    records = np.array([[1 << 20] * 5, [0] * 5])
    assert nearest(records, sums, np.array([size, size])).tolist() == [1, 0]


def test_inner_products_above_64_bits():
    """Modulo 2^64 the inner product with the first cluster would be 0 and the second nearest."""
    ub, size = 1 << 20, 1 << 44
    sums = np.array([[size << 10] * 5, [0] * 5])
    assert 5 * ub * int(sums.max()) % (1 << 64) == 0
    assert nearest(np.full((1, 5), ub), sums, np.array([size, 1])).tolist() == [0]


def test_ties_go_to_the_lowest_index():
    records = np.array([[1], [1], [0], [2]])
    trace = kmeans(records, 2, beta=0, max_iter=1, seed=0, centres=np.array([[2], [0]]))
    assert trace.labels.tolist() == [0, 0, 1, 0]


def test_an_empty_cluster_becomes_the_record_of_the_seed():
    records = np.array([[5, 1], [5, 2], [5, 3]])
    trace = kmeans(records, 2, beta=0, max_iter=1, seed=7, centres=np.array([[5, 2], [900, 900]]))
    assert trace.labels.tolist() == [0, 0, 0]
    last = trace.iterations[-1]
    assert last.next_sizes.tolist() == [3, 1]
    assert last.next_sums[1].tolist() == records[reseed_rows(7, 1, 3, 2)[1]].tolist()
    assert (trace.sizes.tolist(), trace.sums.tolist()) == ([3, 0], [[15, 6], [0, 0]])


@pytest.mark.parametrize(("min_size", "sizes"), [(1, [2, 1]), (2, [2, 0]), (3, [0, 0])])
def test_small_clusters_are_not_told_of(min_size, sizes):
    trace = kmeans(
        np.array([[0], [1], [9]]),
        2,
        beta=0,
        max_iter=3,
        seed=1,
        centres=np.array([[0], [9]]),
        min_size=min_size,
    )
    assert trace.sizes.tolist() == sizes
    assert trace.sums.tolist() == [[1 if sizes[0] else 0], [9 if sizes[1] else 0]]
    assert trace.labels.tolist() == [0, 0, 1]


def test_what_records_count_as():
    values = np.array([[0, 9, 10], [15, 16, 25], [26, (1 << 64) - 1, 1 << 63]], np.uint64)
    assert as_taken_in(values, 9).tolist() == [[0, 9, 9], [9, 0, 9], [9, 9, 0]]


def test_all_records_equal_and_k_equal_m():
    trace = kmeans(np.full((4, 2), 9), 4, beta=0, max_iter=9, seed=1)
    assert trace.labels.tolist() == [0, 0, 0, 0]
    assert trace.sizes.tolist() == [4, 0, 0, 0]
    assert trace.converged
    assert trace.n_iter == 1


def test_max_iter_ends_a_run_that_has_not_converged():
    records = np.arange(40).reshape(40, 1)
    short = kmeans(records, 3, beta=0, max_iter=2, seed=5)
    long = kmeans(records, 3, beta=0, max_iter=200, seed=5)
    assert (short.n_iter, short.converged) == (2, False)
    assert long.converged
    assert listed(short) == listed(long)[:2]


def test_rows_follow_from_the_seed_alone():
    """Known answers: changing them would change every result ever computed."""
    assert initial_rows(0, 1000, 4) == KNOWN_INITIAL
    assert reseed_rows(0, 1, 1000, 4) == KNOWN_RESEED
    assert sorted(initial_rows(3, 20, 20)) == list(range(20))
    assert reseed_rows(0, 2, 1000, 4) != reseed_rows(0, 1, 1000, 4)
    assert reseed_rows(1, 1, 1000, 4) != reseed_rows(0, 1, 1000, 4)


def test_rows_are_spread_evenly():
    counts = np.bincount([row for seed in range(2000) for row in initial_rows(seed, 5, 2)])
    assert counts.tolist() == pytest.approx([800] * 5, rel=0.12)  # more than 4 deviations


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 4}, "at most as many"),
        ({"k": 0}, "at most as many"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 63}, "seed"),
        ({"max_iter": 0}, "max_iter"),
        ({"beta": Fraction(-1, 2)}, "beta"),
        ({"records": np.array([[0.5]])}, "integers"),
        ({"records": np.array([1, 2, 3])}, "two-dimensional"),
        ({"records": np.array([[-1]])}, "0.."),
        ({"records": np.array([[(1 << 20) + 1]])}, "0.."),
        ({"records": np.empty((0, 2), np.int64)}, "non-empty"),
        ({"centres": np.array([[1, 2], [3, 4]])}, "shape"),
    ],
)
def test_refused_inputs(change, words):
    arguments = {"records": np.array([[1], [2], [3]]), "k": 2, "beta": 0, "max_iter": 3, "seed": 0}
    arguments.update(change)
    with pytest.raises(InputError, match=words):
        kmeans(arguments.pop("records"), arguments.pop("k"), **arguments)
