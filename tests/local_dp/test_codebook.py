"""codebook: its points, its size, its result on groups, and what it promises before the upload."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.local_dp.codebook import Codebook, points_for
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.spread_points import spread_points
from ppodc.privacy.weighted_kmeans import (
    mean_squared_distance,
    nearest,
    squared_distances,
    weighted_kmeans,
)

PINNED = [[702, 718], [237, 219], [245, 720], [747, 232]]


def groups(rows, k=4, seed=5):
    """Round groups in 0..1000, from words."""
    words = insecure_streams(rows, seed).words(9)
    noise = (words[:, :8].reshape(rows, 2, 4) % 101).astype(np.int64).sum(axis=2) - 200
    middles = np.array([[200, 200], [800, 250], [500, 800], [150, 750]])[:k]
    return np.clip(middles[words[:, 8] % k] + noise // 3, 0, 1000)


def test_the_number_of_points():
    found = [points_for(100_000, 15, epsilon) for epsilon in (0.5, 1.0, 2.0)]
    assert found == [120, 132, 297]
    assert points_for(10**9, 3, 4.0) == 4096
    with pytest.raises(InputError):
        points_for(0, 3, 1.0)


def test_points_are_spread_and_the_same_everywhere():
    points = spread_points(64, 2, 1000, 7)
    assert np.array_equal(points, spread_points(64, 2, 1000, 7))
    assert points.min() >= 0
    assert points.max() <= 1000
    distances = squared_distances(points.astype(float), points.astype(float))
    np.fill_diagonal(distances, np.inf)
    step = 1000 / 8
    assert math.sqrt(distances.min()) > step / 2
    uniform = groups(4000, 1).astype(float) * 0 + insecure_streams(4000, 1).words(2) % 1001
    assert np.bincount(nearest(uniform, points.astype(float)), minlength=64).max() < 4000 / 64 * 2


def test_points_are_pinned():
    """Devices of any machine must agree: a changed point is another mechanism."""
    assert spread_points(4, 2, 1000, 1).tolist() == PINNED


def test_weighted_kmeans_is_kmeans_on_repeated_points():
    points = groups(300).astype(float)
    weights = (insecure_streams(300, 2).words(1)[:, 0] % 5).astype(float)
    centres, sizes = weighted_kmeans(points, weights, 4, random=SecureRandom.public(0))
    repeated = np.repeat(points, weights.astype(int), axis=0)
    wanted = KMeans(4, n_init=10, random_state=0).fit(repeated)
    order, other = np.lexsort(centres.T), np.lexsort(wanted.cluster_centers_.T)
    assert np.allclose(centres[order], wanted.cluster_centers_[other])
    assert np.allclose(sizes[order], np.bincount(wanted.labels_)[other])
    assert mean_squared_distance(repeated, centres) == pytest.approx(
        wanted.inertia_ / len(repeated)
    )
    with pytest.raises(InputError, match="different points"):
        weighted_kmeans(points[:3], np.ones(3), 4, random=SecureRandom.public(0))


def test_reports_of_two_owners_give_the_groups():
    records = groups(60_000)
    book = Codebook.of(2, 1000, 2.0, points_for(60_000, 4, 2.0), seed=1)
    counts = np.zeros(book.oracle.counters, np.int64)
    for part in (records[:20_000], records[20_000:]):
        reports = book.perturb(part, insecure_streams(len(part), len(part)))
        book.part.check(reports, 0, len(part))
        counts += book.count(reports)
    centres, sizes = book.centres(counts, len(records), 4, seed=2)
    best = KMeans(4, n_init=5, random_state=0).fit(records).inertia_ / len(records)
    assert mean_squared_distance(records.astype(float), centres) < 1.2 * best
    assert sizes.sum() == pytest.approx(60_000)
    assert book.guarantee().guaranteed.epsilon <= 2.0
    assert book.digest() != Codebook.of(2, 1000, 2.0, 100, seed=1).digest()
    with pytest.raises(InputError):
        book.centres(counts, 3, 4, seed=2)


def test_expectations_before_the_upload():
    """The design's few and many records of s1: k = 15, epsilon 1."""
    few = Codebook.of(2, 1000, 1.0, points_for(5_000, 15, 1.0), seed=1).expectation(5_000, 15)
    assert few.noise == pytest.approx(1.15, abs=0.02)
    assert "too few" in few.verdict()
    many = Codebook.of(2, 1000, 2.0, points_for(10**5, 15, 2.0), seed=1).expectation(10**5, 15)
    assert "enough" in many.verdict()
    assert many.centre_error < few.centre_error < 0.1
    assert few.rows_needed > 50_000
