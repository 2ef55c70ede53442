"""Distances in fixed point: never another nearest cluster than with fractions.

Near ties are built at the least possible gap: for sizes n and n' without a common factor there are
B, B' with n'^2 B - n^2 B' = 1; written as sums of squares, they are squared distances of a record
to two centres, times n^2 and n'^2, that differ by 1 / (n n')^2.
"""

import random
from fractions import Fraction
from itertools import product
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.reference import nearest
from ppodc.kmeans.shares.fixed_point import MARGIN, FixedPoint, reciprocals
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.mpc.shares.additive import integers
from ppodc.records.result_shares import open_output
from ppodc.records.sharing import mask, split
from tests.harness.together import together
from tests.mpc.pair import share

ATTRIBUTES = 10
Cluster = tuple[list[int], int]  # sums and size


def squares(number: int) -> list[int]:
    """Ten numbers whose squares add up to `number`."""
    roots = []
    while number:
        roots.append(isqrt(number))
        number -= roots[-1] ** 2
    assert len(roots) <= ATTRIBUTES
    return roots + [0] * (ATTRIBUTES - len(roots))


def near_tie(size: int, other: int, ub: int, seed: int = 1) -> tuple[list[int], Cluster, Cluster]:
    """A record and two clusters of these sizes, the second nearer by as little as can be."""
    g = random.Random(seed)
    record = [g.randint(1, ub) for _ in range(ATTRIBUTES)]
    first = pow(other**2, -1, size**2) if size > 1 else 1
    second = (other**2 * first - 1) // size**2
    clusters = []
    for n, number in ((size, first), (other, second)):
        roots = squares(number)
        g.shuffle(roots)
        clusters.append(([n * x - r for x, r in zip(record, roots, strict=True)], n))
    return record, clusters[0], clusters[1]


def score(record: list[int], cluster: Cluster) -> Fraction:
    sums, n = cluster
    return sum((Fraction(s, n) - x) ** 2 for s, x in zip(sums, record, strict=True))


def dropped(value: int, bits: int, g: random.Random) -> int:
    """A number after `drop_bits`: 1 - (r1 + r2) / 2^bits more or less, its ends too."""
    r1 = g.choice([0, (1 << bits) - 1, g.randrange(1 << bits)])
    r2 = (value - r1) % (1 << bits)
    return (value - r1 - r2 >> bits) + 1


def approximate(record: list[int], cluster: Cluster, p: FixedPoint, g: random.Random) -> int:
    """z_h, with dropped bits as unlucky as they come."""
    sums, n = cluster
    inverse = 2 * (((1 << p.reciprocal) + n) // (2 * n)) + (n == 1 and g.randrange(2))
    a = [dropped(s * inverse, p.reciprocal - p.centre, g) for s in sums]
    b = dropped(sum(x * x for x in a), p.centre, g)
    return b - 2 * sum(x * y for x, y in zip(record, a, strict=True))


def second_wins(record, first: Cluster, second: Cluster, p: FixedPoint, g) -> bool:
    """[v_j - v_i + 2 < 0] for clusters i < j behind a cluster 0, whose score drops out."""
    zero = g.randrange(1 << p.compared)
    v = [
        dropped(approximate(record, cluster, p, g) - zero, p.dropped, g)
        for cluster in (first, second)
    ]
    difference = v[1] - v[0] + MARGIN
    assert abs(difference) < 1 << p.compared
    return difference < 0


@pytest.mark.parametrize("ub", [1, 3, 1023, (1 << 20) - 1, (1 << 21) - 1])
@pytest.mark.parametrize("m", [2, 9, 100, 10_001, 1_000_001])
@pytest.mark.parametrize("k", [2, 64])
def test_the_least_gap_is_told_from_a_tie(m, k, ub):
    p, g = FixedPoint.of(m, ATTRIBUTES, k, ub), random.Random(ub)
    half = (m + k) // 2
    sizes = [(half, half - 1), (half - 1, half), (1, m), (m, 1), (2, 1), (m // 2, 1)]
    for size, other in sizes:
        if min(size, other) < 1 or size == other:
            continue
        record, far, near = near_tie(size, other, ub)
        assert score(record, far) - score(record, near) == Fraction(1, (size * other) ** 2)
        for _ in range(4):
            assert second_wins(record, far, near, p, g)
            assert not second_wins(record, near, far, p, g)
            # The same place with another size, and the same distance in another direction.
            assert not second_wins(record, near, near, p, g)
            mirrored = [2 * near[1] * x - s for x, s in zip(record, near[0], strict=True)]
            if max(mirrored) <= near[1] * ub:
                assert not second_wins(record, near, (mirrored, near[1]), p, g)


@st.composite
def two_clusters(draw):
    """A record and two clusters, often ties or nearly so."""
    l, ub = draw(st.integers(1, 12)), draw(st.sampled_from([1, 2, 7, 1023, (1 << 20) - 1]))
    k, m = draw(st.integers(2, 64)), draw(st.sampled_from([1, 2, 5, 30, 10_000, 1_000_000]))
    sizes = [draw(st.integers(1, max(1, (m + k) // 2))) for _ in range(2)]
    values = st.integers(0, ub)
    record = draw(st.lists(values, min_size=l, max_size=l))
    centres = [draw(st.lists(values, min_size=l, max_size=l)) for _ in range(2)]
    if draw(st.booleans()):
        centres[1] = draw(st.permutations(centres[0]))
    clusters = []
    for n, centre in zip(sizes, centres, strict=True):
        shift = draw(st.integers(-2, 2))
        clusters.append(([min(n * ub, max(0, n * c + shift)) for c in centre], n))
    return FixedPoint.of(m, l, k, ub), record, clusters, draw(st.integers(0, 1 << 30))


@given(two_clusters())
@settings(max_examples=400, deadline=None)
def test_any_two_clusters_compare_as_fractions_do(case):
    p, record, (first, second), seed = case
    expected = score(record, second) < score(record, first)
    assert second_wins(record, first, second, p, random.Random(seed)) == expected


@pytest.mark.parametrize(("m", "l", "ub"), [(1, 1, 1), (2, 1, 3), (3, 1, 2), (4, 1, 1), (1, 2, 1)])
def test_all_clusters_of_few_records_compare_as_fractions_do(m, l, ub):
    """Every record against every two clusters that k = 2 can have, where gaps are least."""
    p, g = FixedPoint.of(m, l, 2, ub), random.Random(m)
    values = list(product(range(ub + 1), repeat=l))
    clusters = [
        (list(sums), n) for n in range(1, m + 2) for sums in product(range(n * ub + 1), repeat=l)
    ]
    met = 0
    for first, second in product(clusters, repeat=2):
        if first[1] + second[1] > p.most:
            continue
        for record in map(list, values):
            expected = score(record, second) < score(record, first)
            assert second_wins(record, first, second, p, g) == expected
            met += 1
    assert met > 20


def test_reciprocals_are_rounded():
    for m, ub in ((10, 1), (10_000, 1023), (1_000_000, (1 << 21) - 1)):
        p = FixedPoint.of(m, 10, 4, ub)
        limbs = -(-p.wide_bits // 64)
        for first in (0, max(0, p.most - 49)):  # up to T[M]
            for n, value in enumerate(integers(reciprocals(p, limbs, first, 50)), first):
                assert abs(value - Fraction(1 << p.reciprocal, max(n, 1))) <= 1
                assert value % 2 == (n == 0)


def labels(records: np.ndarray, sums: np.ndarray, sizes: np.ndarray, p: Parameters) -> list[int]:
    """Labels of the records by both clouds together, from shares of these clusters."""
    state = np.hstack([sums, sizes[:, None]])
    parts = [part.limbs[:, 0].reshape(state.shape) for part in share(state.reshape(-1).tolist(), 1)]
    own, seed = split(records)
    tables = (own, mask(seed, 0, *records.shape))

    def run(role):
        def work(channel):
            half = SharesHalf(role, channel, p)
            half.ingest("all", tables[role - 1])
            half.assign("all", parts[role - 1])
            return half.labels("all")

        return work

    return open_output(*together(run(1), run(2)))


@pytest.mark.parametrize(
    ("m", "k", "ub"), [(3, 2, 1), (1000, 64, 1023), (1_000_001, 4, 1 << 20), (10_001, 7, 1000)]
)
def test_clouds_assign_near_ties_and_ties_as_the_reference_does(m, k, ub):
    """Records at the least gap and at ties between clusters of any size."""
    g, half = np.random.default_rng(m), (m + 2) // 2
    full = (1 << ub.bit_length()) - 1
    sizes = np.array([half, half - 1, 1, 2, *g.integers(1, half, 64)])[:k]
    records, sums = (
        g.integers(0, ub + 1, (min(m, 40), ATTRIBUTES)),
        np.zeros((k, ATTRIBUTES), np.int64),
    )
    for h in range(k):
        sums[h] = records[h % min(m, 7)] * sizes[h]
    record, far, near = near_tie(half, half - 1, min(ub, full))
    sums[0], sums[1] = far[0], near[0]
    records[0] = record
    sums[k - 1], sizes[k - 1] = near[0], near[1]  # a tie with cluster 1
    found = labels(records, sums, sizes, Parameters(m, ATTRIBUTES, k, ub, Fraction(0)))
    assert found == nearest(records, sums, sizes).tolist()
