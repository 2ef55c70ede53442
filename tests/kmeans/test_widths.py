"""Bounds hold on every clustering of small jobs, and the checks say what would fit."""

import itertools
import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.errors import InputError, WidthError
from ppodc.kmeans import widths
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.reference import movement
from ppodc.kmeans.widths import Widths, check_paillier, clamp_beta
from tests.kmeans.oracle import scaled_distances, stop_sides

PUBLISHED = Parameters(6000, 10, 4, 1000, Fraction(0))
LARGE = Parameters(63_608, 27, 64, 1000, Fraction(0))


def test_widths_are_those_of_the_chapter():
    """108 bits for m = 6,000, l = 10, k = 4 and ub = 1,000; re-seeding adds less than a bit."""
    ours = Widths.of(PUBLISHED)
    assert (ours.distance, ours.stop) == (108, 195)


@given(st.integers(1, 30), st.integers(1, 4))
@settings(deadline=None)
def test_alpha_max_bounds_every_product_of_sizes(m, k):
    bound = widths.alpha_max(m, k)
    products = (
        math.prod(sizes)
        for sizes in itertools.product(range(1, m + k + 1), repeat=k)
        if sum(sizes) <= m + k
    )
    if (m + k) ** k < 50_000:
        assert max(products) <= bound
    if (m + k) % k == 0:
        assert bound == ((m + k) // k) ** k  # reached by equal sizes


def test_alpha_max_is_exact_where_doubles_are_not():
    m, k = 10**6, 64
    assert widths.alpha_max(m, k) * k**k <= (m + k) ** k < (widths.alpha_max(m, k) + 1) * k**k


@st.composite
def extreme_clusters(draw):
    """Two clusterings with values at the ends of 0..ub and sizes that add up to m + k at most."""
    k, width, ub = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 7]))
    m = draw(st.integers(k, 12))
    parts = []
    for _ in range(2):
        sizes, left = [], m + k
        for h in range(k):
            sizes.append(draw(st.integers(1, left - (k - 1 - h))))
            left -= sizes[-1]
        ends = st.lists(st.sampled_from([0, ub]), min_size=width, max_size=width)
        centres = draw(st.lists(ends, min_size=k, max_size=k))
        parts += [np.array(centres) * np.array(sizes)[:, None], np.array(sizes)]
    beta = draw(st.fractions(0, 10**6, max_denominator=99))
    return Parameters(m, width, k, ub, beta), parts


@given(extreme_clusters())
@settings(max_examples=200, deadline=None)
def test_no_value_exceeds_its_width(case):
    p, clusters = case
    bits = Widths.of(p)
    corners = np.array(list(itertools.product((0, p.ub), repeat=p.l)))
    sums, sizes = clusters[0], clusters[1]
    assert int(scaled_distances(corners, sums, sizes).max()).bit_length() <= bits.distance
    beta = clamp_beta(p)
    left, right = stop_sides(*clusters, beta)
    assert max(left, right).bit_length() <= bits.stop
    assert (left <= right) == (movement(*clusters) <= p.beta)  # clamping keeps the stop bit
    alpha = math.prod(sizes.tolist())
    assert alpha.bit_length() <= bits.alpha
    assert (alpha // int(sizes.min())).bit_length() <= bits.alpha
    assert int(sums.max()).bit_length() <= bits.sums
    assert int(sizes.max()).bit_length() <= bits.counts
    assert p.ub.bit_length() <= bits.value


def test_the_distance_bound_is_reached():
    """Equal sizes of (m + k) / k, a record at ub and all centres at 0."""
    p = Parameters(4, 2, 2, 5, Fraction(0))
    sizes, sums = np.array([3, 3]), np.zeros((2, 2), np.int64)
    assert scaled_distances(np.array([[5, 5]]), sums, sizes).max() == widths.distance_max(p)


def test_beta_widens_the_stop_test_only_by_its_denominator():
    plain = Widths.of(PUBLISHED)
    assert Widths.of(replace(PUBLISHED, beta=Fraction(10**30))) == plain
    assert clamp_beta(replace(PUBLISHED, beta=Fraction(10**30))) == 4 * 10 * 1000**2
    assert clamp_beta(replace(PUBLISHED, beta=Fraction(1, 3))) == Fraction(1, 3)
    thin = Widths.of(replace(PUBLISHED, beta=Fraction(1, 1 << 20)))
    assert thin.stop == plain.stop + 20
    assert thin.distance == plain.distance


def test_limbs_hold_the_width_and_a_sign():
    for m in range(1, 3000, 7):
        p = replace(PUBLISHED, m=m, k=2)
        bits = Widths.of(p)
        assert 64 * (widths.stop_limbs(p) - 1) < bits.stop + 1 <= 64 * widths.stop_limbs(p)
    assert widths.stop_limbs(PUBLISHED) == 4


def test_a_key_that_holds_the_job():
    assert check_paillier(PUBLISHED, 1024) == Widths.of(PUBLISHED)


def test_a_key_on_the_edge():
    needed = Widths.of(PUBLISHED).stop + widths.STATISTICAL + 2
    check_paillier(PUBLISHED, needed + 1)
    with pytest.raises(WidthError):
        check_paillier(PUBLISHED, needed)


def test_the_error_names_the_largest_jobs_that_fit():
    with pytest.raises(WidthError) as caught:
        check_paillier(LARGE, 2048)
    text = str(caught.value)
    found = re.search(r"at most (\d+) clusters .* at most (\d+) records", text)
    assert found is not None
    k, m = int(found[1]), int(found[2])
    check_paillier(replace(LARGE, k=k), 2048)
    check_paillier(replace(LARGE, m=m), 2048)
    for too_large in (replace(LARGE, k=k + 1), replace(LARGE, m=m + 1)):
        with pytest.raises(WidthError):
            check_paillier(too_large, 2048)
    assert "a key of 3072 bits fits" in text
    check_paillier(LARGE, 3072)


def test_the_error_when_nothing_fits():
    huge = replace(LARGE, beta=Fraction(1, 1 << 4000))
    with pytest.raises(WidthError, match="no number of records or clusters") as caught:
        check_paillier(huge, 2048)
    assert "no offered key fits" in str(caught.value)


@pytest.mark.parametrize(
    "change", [{"m": 0}, {"l": 0}, {"k": 0}, {"ub": 0}, {"beta": Fraction(-1)}]
)
def test_refused_parameters(change):
    with pytest.raises(InputError, match="at least"):
        Widths.of(replace(PUBLISHED, **change))
