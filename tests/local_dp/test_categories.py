"""LDPK-modes: the published mechanism is response by attribute; counts, cells, modes."""

import itertools
import math

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.local_dp.categories import AttributeResponse, cells_of, values_of
from ppodc.local_dp.frequencies import clip, whole
from ppodc.local_dp.kmodes import WeightedCells, mean_mismatch, nearest_mode, weighted_kmodes
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.chances import WORD, nearest_words


def exact_table(response):
    """Pr[report | record] for all pairs of joint cells."""
    table = np.ones((1, 1))
    for size, other in zip(response.sizes, response.others, strict=True):
        q = other / WORD
        table = np.kron(table, np.full((size, size), q) + np.eye(size) * (1 - size * q))
    return table


def test_the_published_law_is_independent_response():
    """Proportional to e^(eps (m - z)) C(m, z) (k-1)^z in total at distance z; Table 1."""
    response = AttributeResponse.as_published((2, 2), 1.0)
    row = exact_table(response)[0]
    by_distance = [row[0], row[1] + row[2], row[3]]
    assert np.allclose(by_distance, [0.534447, 0.393224, 0.072329], atol=1e-6)


@pytest.mark.parametrize(("sizes", "epsilon"), [((2, 2, 2), 1.0), ((3, 2, 3), 0.5)])
def test_the_guarantee_of_a_record_holds_and_is_tight(sizes, epsilon):
    response = AttributeResponse.as_published(sizes, epsilon)
    table = exact_table(response)
    report = response.guarantee()
    assert math.log((table.max(axis=0) / table.min(axis=0)).max()) == pytest.approx(
        report.guaranteed.epsilon, abs=1e-9
    )
    assert report.guaranteed.epsilon == pytest.approx(len(sizes) * epsilon, abs=1e-6)
    assert not report.claim_holds
    honest = AttributeResponse.of(sizes, epsilon).guarantee()
    assert epsilon - 1e-6 < honest.guaranteed.epsilon <= epsilon
    assert honest.claim_holds


def test_metric_privacy_holds_by_distance():
    response = AttributeResponse.as_published((3, 2), 0.8)
    table, cells = exact_table(response), values_of(np.arange(6), (3, 2))
    for x, y in itertools.permutations(range(6), 2):
        distance = int((cells[x] != cells[y]).sum())
        assert np.log(table[x] / table[y]).max() == pytest.approx(0.8 * distance, abs=1e-6)


def test_the_estimate_inverts_the_expectation():
    response = AttributeResponse.as_published((3, 2, 4), 0.7)
    truth = np.arange(24) * 5.0
    assert np.allclose(response.estimate(truth @ exact_table(response), 0), truth)


def test_the_designs_example_of_counts():
    response = AttributeResponse((2, 2), (nearest_words(1 / 4),) * 2)
    estimate = response.estimate(np.array([40, 30, 20, 10]), 100)
    assert np.allclose(estimate, [55, 35, 15, -5], atol=1e-4)
    assert whole(clip(estimate, 100), 100).tolist() == [53, 33, 14, 0]


def test_the_sampler_follows_the_table():
    response = AttributeResponse.as_published((3, 2), 1.0)
    n = 240_000
    records = np.tile([[2, 1]], (n, 1))
    counts = response.count(response.perturb(records, insecure_streams(n, 3)))
    expected = exact_table(response)[5] * n
    assert ((counts - expected) ** 2 / expected).sum() < 30


def test_cells_and_their_values():
    sizes = (4, 4, 4)
    assert cells_of(np.array([[0, 1, 3]]), sizes).tolist() == [7]  # 1, 2, 4 counted from 1: cell 8
    assert np.array_equal(cells_of(values_of(np.arange(64), sizes), sizes), np.arange(64))


def test_malformed_reports_and_domains_are_refused():
    response = AttributeResponse.as_published((3, 2), 1.0)
    with pytest.raises(InputError, match="categories"):
        response.check(np.array([[0, 2]], np.uint16))
    response.check(np.array([[2, 1]], np.uint16))
    with pytest.raises(InputError, match="cells"):
        AttributeResponse.as_published((2,) * 23, 1.0)
    with pytest.raises(InputError):
        AttributeResponse.as_published((1, 2), 1.0)


def test_modes_of_separate_groups_are_found():
    sizes = (3, 3, 3, 2)
    cells = values_of(np.arange(54), sizes)
    weights = np.zeros(54)
    groups = np.array([[0, 0, 0, 0], [2, 2, 2, 1]])
    for cell, record in enumerate(cells):
        distance = (record != groups).sum(axis=1).min()
        weights[cell] = [100, 10, 0, 0, 0][distance]
    found = weighted_kmodes(
        WeightedCells(cells, weights, sizes), 2, max_iter=20, random=SecureRandom(bytes(32))
    )
    assert sorted(map(tuple, found.modes)) == [(0, 0, 0, 0), (2, 2, 2, 1)]
    records = np.repeat(cells, weights.astype(np.int64), axis=0)
    assert len(records) == weights.sum()
    assert mean_mismatch(records, found.modes) == pytest.approx(
        (weights[weights == 10].size * 10) / weights.sum()
    )


def test_ties_go_to_the_lowest_and_empty_clusters_keep_their_mode():
    modes = np.array([[1, 1], [0, 0], [1, 1]])
    assert nearest_mode(np.array([[0, 1], [1, 1]]), modes).tolist() == [0, 0]
    cells = np.array([[0, 0], [1, 1]])
    weighted = WeightedCells(cells, np.array([5.0, 3.0]), (2, 2))
    found = weighted_kmodes(weighted, 4, max_iter=5, random=SecureRandom(bytes(32)))
    assert len({tuple(mode) for mode in found.modes}) == 4
    with pytest.raises(InputError):
        weighted_kmodes(weighted, 5, max_iter=1, random=SecureRandom(bytes(32)))
