"""Distances, adjusting, kCluster and DBSCAN against definitions and scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.cluster import DBSCAN

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.local_dp.published.bit_codes import bit_vector, random_centres
from ppodc.local_dp.published.bit_estimates import DistanceScale, attribute_bits
from ppodc.local_dp.published.bit_reports import BitReports, privbv_as_published
from ppodc.local_dp.published.distances import (
    adjusted,
    distance_matrix,
    hamming_matrix,
    published_limit,
    signed_distances,
)
from ppodc.local_dp.published.flips import Flips
from ppodc.local_dp.published.groupings import average_linkage
from ppodc.local_dp.published.kcluster import dbscan, kcluster_linear, kcluster_matrix, matches
from ppodc.local_dp.report_streams import insecure_streams


def values(rows, columns, ub, seed=1):
    return (insecure_streams(rows, seed).words(columns) % (ub + 1)).astype(np.int64)


def groups(rows=60, seed=2):
    spread = values(rows, 2, 8, seed)
    return spread + np.array([[2, 2], [40, 5], [20, 40]])[np.arange(rows) % 3], np.arange(rows) % 3


def test_the_scale_of_the_worked_example():
    plain = DistanceScale.of(None, 6, 10, 3)
    assert plain.distances(2) == pytest.approx(2.6667, abs=1e-4)
    flipped = DistanceScale.of(Flips.symmetric(1, 6), 6, 10, 3)
    wanted = [4.0, -2.2436, -14.7308, 22.7308]
    assert np.allclose(flipped.distances(np.array([3, 2, 0, 6])), wanted, atol=1e-3)
    for b, slope, offset, expected, noise in [
        (1, 0.234135, 92.0674, 435.934, 3.6166),
        (2, 0.0862031, 18.1015, 325.992, 1.1103),
    ]:
        scale = DistanceScale.of(Flips.symmetric(b, 1000), 1000, 50, 25)
        assert (scale.slope, scale.offset) == pytest.approx((slope, offset), rel=1e-5)
        assert scale.hamming(10) == pytest.approx(expected, abs=1e-3)
        assert scale.noise == pytest.approx(noise, abs=1e-4)


def test_distances_are_unbiased_and_scatter_as_stated():
    mechanism = privbv_as_published(1, 1000, b=2, bits=500, t=500, random=SecureRandom.public(0))
    scale = DistanceScale.of(mechanism.flips, 500, 1000, 500)
    records = np.tile([[200], [700]], (150, 1))
    matrix = signed_distances(mechanism.perturb(records, insecure_streams(300, 4)), scale)
    plain = DistanceScale.of(None, 500, 1000, 500)
    exact = float(signed_distances(mechanism.encode(records[:2]), plain)[0, 1])
    across = matrix[::2, 1::2]
    assert across.mean() == pytest.approx(exact, abs=0.3 * scale.noise)
    assert across.std() == pytest.approx(scale.noise, rel=0.1)


def test_the_matrix_is_its_definition():
    mechanism = privbv_as_published(3, 100, b=1, bits=70, t=50, random=SecureRandom.public(0))
    scale = DistanceScale.of(mechanism.flips, 70, 100, 50)
    reports = mechanism.perturb(values(9, 3, 100), insecure_streams(9, 1))
    bits = attribute_bits(reports, mechanism).astype(int)
    hamming = (bits[:, None] != bits[None]).sum(axis=3)
    squares = (scale.distances(hamming) ** 2).sum(axis=2)
    raw = distance_matrix(reports, 3, scale, self_zero=False)
    assert np.allclose(raw, np.sqrt(squares), rtol=1e-4)
    assert raw[0, 0] == pytest.approx(math.sqrt(3) * scale.offset, rel=1e-4)
    corrected = distance_matrix(reports, 3, scale, debias=True)
    wanted = np.sqrt(np.maximum(squares - 3 * scale.noise**2, 0))
    np.fill_diagonal(wanted, 0)
    assert np.allclose(corrected, wanted, rtol=1e-3, atol=1e-2)
    one = privbv_as_published(1, 100, b=1, bits=70, t=50, random=SecureRandom.public(0))
    single = one.perturb(values(9, 1, 100), insecure_streams(9, 1))
    flat = attribute_bits(single, one)[:, 0].astype(int)
    assert np.array_equal(hamming_matrix(single), (flat[:, None] != flat[None]).sum(axis=2))


def test_too_many_records_are_refused_with_advice():
    with pytest.raises(InputError, match="manhattan"):
        hamming_matrix(np.zeros((20_001, 1), np.uint64))


def test_adjusting_mends_saturated_distances():
    """Uniform values, t far below the range: T = 2t - 3 sigma mends what line 3 does not."""
    ub, t, bits = 2500, 300, 1000
    code = bit_vector(ub, random_centres(ub, t, bits, SecureRandom.public(0)), t)
    mechanism = BitReports(code, Flips.symmetric(1, bits), 1)
    records = values(100, 1, ub)
    exact = np.abs(records - records.T)
    scale = DistanceScale.of(None, bits, ub, t)
    raw = signed_distances(mechanism.encode(records), scale)
    raw_error = np.abs(raw - exact).mean()
    mended = np.abs(adjusted(raw, scale.saturation(4)) - exact).mean()
    assert mended < raw_error / 10
    by_line_3 = np.abs(adjusted(raw, published_limit(raw)) - exact).mean()
    assert by_line_3 > 5 * mended


@pytest.mark.parametrize("draw", range(3))
def test_theorem_1_and_figure_2_of_privbv(draw):
    """Values 4 to 9 of a range of 20, t = 1.2, 1,000 bits, in hundredths: the published example."""
    ub, t, bits = 2000, 120, 1000
    code = bit_vector(ub, random_centres(ub, t, bits, SecureRandom.public(draw)), t)
    mechanism = BitReports(code, Flips.symmetric(1, bits), 1)
    records = np.arange(400, 1000, 100)[:, None]
    exact = np.abs(records - records.T)
    scale = DistanceScale.of(None, bits, ub, t)
    raw = signed_distances(mechanism.encode(records), scale)
    for x, z in zip(*np.nonzero((exact <= 2 * t) & (records < records.T)), strict=True):
        for y in range(x + 1, z):
            assert raw[x, z] == pytest.approx(raw[x, y] + raw[y, z], abs=1e-3), "Theorem 1"
    far = exact > 2 * t
    assert (np.abs(raw - 2 * t)[far] < 60).all(), "published: 2.51 to 2.64 for distances of 3 to 5"
    mended = adjusted(raw, scale.saturation(4))
    assert (np.abs(mended - exact) < 100).all()
    assert np.abs(mended - exact)[far].max() < np.abs(raw - exact)[far].max() / 3
    assert mended[1, 4] == pytest.approx(raw[1, 3] + raw[3, 4], abs=1e-3), "5 to 8 by way of 7"
    assert mended[1, 4] == pytest.approx(raw[1, 2] + raw[2, 4], abs=1e-3), "or of 6: unique"


def test_adjusting_is_exact_on_a_chain_and_leaves_what_it_cannot_reach():
    places = np.array([0.0, 2.0, 4.0, 6.0, 100.0])
    exact = np.abs(places[:, None] - places)
    saturated = np.minimum(exact, 3.0)
    mended = adjusted(saturated, 2.5)
    assert np.allclose(mended[:4, :4], exact[:4, :4])
    assert np.allclose(mended[4, :4], 3.0)


def test_average_linkage_is_scipys():
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    points = insecure_streams(80, 5).words(3) / 2.0**32
    matrix = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    for k in (1, 2, 7, 80):
        found = average_linkage(matrix, k)
        theirs = fcluster(linkage(squareform(matrix), "average"), k, "maxclust")
        assert len(set(found)) == len(set(theirs)) == k
        assert len(set(zip(found, theirs, strict=True))) == k


def test_kcluster_finds_groups_in_both_forms():
    records, truth = groups()
    mechanism = privbv_as_published(2, 50, b=3, bits=400, t=25, random=SecureRandom.public(0))
    reports = mechanism.perturb(records, insecure_streams(len(records), 3))
    scale = DistanceScale.of(mechanism.flips, 400, 50, 25)
    matrix = distance_matrix(reports, 2, scale, debias=True)
    for seed in range(20):
        found = kcluster_matrix(matrix, 3, max_iter=50, random=SecureRandom.public(seed))
        assert found.converged
        if _same(found.labels, truth):
            break
    else:
        pytest.fail("no start found the groups")
    for seed in range(20):
        linear = kcluster_linear(reports, 2, 400, 3, max_iter=50, random=SecureRandom.public(seed))
        assert linear.sizes.sum() == len(records)
        if _same(linear.labels, truth):
            return
    pytest.fail("no start of the linear form found the groups")


def _same(labels, truth):
    return len({tuple(pair) for pair in zip(labels, truth, strict=True)}) == 3 == len(set(labels))


def test_the_linear_form_is_the_mean_hamming_distance():
    mechanism = privbv_as_published(2, 50, b=1, bits=90, t=25, random=SecureRandom.public(0))
    reports = mechanism.perturb(groups()[0], insecure_streams(60, 3))
    linear = kcluster_linear(reports, 2, 90, 3, max_iter=1, random=SecureRandom.public(5))
    bits = attribute_bits(reports, mechanism).reshape(60, -1).astype(int)
    first = SecureRandom.public(5).permutation(60)[:3]
    hamming = (bits[:, None] != bits[first]).sum(axis=2)
    assert np.array_equal(linear.labels, hamming.argmin(axis=1))
    sums = np.stack([bits[linear.labels == h].sum(axis=0) for h in range(3)])
    assert np.array_equal(linear.ones, sums)


def test_kcluster_refuses_more_clusters_than_records():
    with pytest.raises(InputError):
        kcluster_matrix(np.zeros((2, 2), np.float32), 3, max_iter=1, random=SecureRandom.public(0))


@pytest.mark.parametrize(("radius", "least"), [(3.0, 4), (6.0, 5), (1.0, 2)])
def test_dbscan_is_scikit_learns(radius, least):
    records = np.concatenate([groups(90)[0], values(20, 2, 60, 9)]).astype(float)
    matrix = np.sqrt(((records[:, None] - records) ** 2).sum(axis=2)).astype(np.float32)
    wanted = DBSCAN(eps=radius, min_samples=least, metric="precomputed").fit(matrix)
    assert np.array_equal(dbscan(matrix, radius, least), wanted.labels_)
    assert matches(matrix, radius)[0, 0]
