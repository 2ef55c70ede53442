"""Noise in the two clouds, on plaintext: the sensitivity, the result."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.kmeans.private.noisy_kmeans import (
    NoisePlan,
    moved_centres,
    noisy_kmeans,
    own_noise,
    relocated,
    residual_sums,
    two_clouds_noise,
)
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.concentrated import concentrated_rho
from ppodc.privacy.weighted_kmeans import mean_squared_distance
from tests.local_dp.test_codebook import groups

PLAN = NoisePlan(k=4, columns=2, ub=1000, epsilon=1.0, delta=1e-6, seed=3)


def no_noise(iteration, centres):
    return np.zeros((len(centres), centres.shape[1] + 1), np.int64)


def test_the_plans_numbers():
    """rho adds up to the whole, and the variances keep it: rounding only to the private side."""
    assert PLAN.openings == PLAN.iterations + 1 == 4  # one may be lost and sent again
    assert float(PLAN.rho) * 4 == pytest.approx(0.0174689, abs=1e-7)
    r, s, c = PLAN.radius, PLAN.sum_variance, PLAN.count_variance
    assert max(2 * r**2 / s, r**2 / s + 1 / c) <= PLAN.rho
    assert r == math.ceil(0.5 * 1000 * math.sqrt(2) / math.sqrt(12))
    assert len(PLAN.start()) == 12
    with pytest.raises(InputError):
        NoisePlan(k=4, columns=2, ub=10, epsilon=1.0, delta=0.0)
    with pytest.raises(InputError):
        NoisePlan(k=4, columns=2, ub=10, epsilon=1.0, delta=1e-6, centres=3)


@pytest.mark.parametrize("columns", [1, 2, 4, 10, 60])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 300.0])
def test_public_numbers_are_exact_and_on_the_private_side(columns, epsilon):
    plan = NoisePlan(k=3, columns=columns, ub=1000, epsilon=epsilon, delta=1e-9, iterations=7)
    wanted = 500 * math.sqrt(columns) * 9 ** (-1 / columns)
    assert plan.radius - 1 <= wanted * (1 + 1e-12)
    assert wanted <= plan.radius * (1 + 1e-12)
    rho = concentrated_rho(epsilon, 1e-9)
    assert rho * (1 - 1e-11) < plan.rho * 8 < rho * (1 + 1e-15)
    for variance, least in ((plan.sum_variance, 2 * plan.radius**2), (plan.count_variance, 2)):
        assert least / plan.rho <= variance < least / plan.rho * (1 + Fraction(1, 1 << 38))
    assert (plan.least_count - 1) ** 2 < 8 * plan.count_variance <= plan.least_count**2


def test_one_record_added_costs_half_the_rho():
    centre, r = np.array([[500, 500]]), PLAN.radius
    sums, counts = residual_sums(np.array([[500 + r, 500]]), centre, r)
    rho = (sums**2).sum() / (2 * PLAN.sum_variance) + counts[0] / (2 * PLAN.count_variance)
    assert float(rho) == pytest.approx(float(PLAN.rho) / 2, rel=1e-9)


def test_one_record_replaced_moves_no_more_than_the_proof_says():
    """Worst neighbours found by trying: rho of the differences stays below the plan's."""
    records = groups(40)
    centres = PLAN.start()
    sums, counts = residual_sums(records, centres, PLAN.radius)
    candidates = np.concatenate([centres, groups(60, seed=9), [[0, 0], [1000, 1000]]])
    worst = 0.0
    for row in range(0, 40, 7):
        for candidate in candidates:
            neighbour = records.copy()
            neighbour[row] = candidate
            other, others = residual_sums(neighbour, centres, PLAN.radius)
            rho = ((sums - other) ** 2).sum() / (2 * PLAN.sum_variance)
            rho += ((counts - others) ** 2).sum() / (2 * PLAN.count_variance)
            worst = max(worst, float(rho))
    assert 0.3 * PLAN.rho < worst <= PLAN.rho
    # the extreme case: opposite points at the radius of one centre
    centre, r = np.array([[500, 500]]), PLAN.radius
    ends = [residual_sums(np.array([[500 + x, 500]]), centre, r)[0] for x in (-r, r)]
    assert ((ends[0] - ends[1]) ** 2).sum() / (2 * PLAN.sum_variance) == pytest.approx(
        float(PLAN.rho), rel=1e-9
    )


def test_residual_sums_are_their_definition():
    records, centres = groups(500), PLAN.start()
    sums, counts = np.zeros_like(centres), np.zeros(len(centres), np.int64)
    for record in records:
        squares = ((record - centres) ** 2).sum(axis=1)
        h = int(squares.argmin())
        if squares[h] <= PLAN.radius**2:
            sums[h] += record - centres[h]
            counts[h] += 1
    found = residual_sums(records, centres, PLAN.radius)
    assert np.array_equal(found[0], sums)
    assert np.array_equal(found[1], counts)


def test_centres_move_by_the_mean_and_no_farther_than_the_radius():
    centres = np.array([[500, 500], [10, 990], [300, 300]])
    sums = np.array([[1000, -500], [-(10**6), 10**6], [5000, 5000]])
    counts = np.array([1000, 10_000, PLAN.least_count - 1])
    moved = moved_centres(centres, sums, counts, PLAN)
    assert moved.tolist() == [[501, 500], [0, 1000], [300, 300]]
    far = moved_centres(centres, sums * 1000, counts, PLAN)
    assert math.dist(far[0], centres[0]) == pytest.approx(PLAN.radius, abs=1)


def test_idle_centres_move_beside_the_heaviest_by_released_values_only():
    centres = np.array([[100, 100], [900, 900], [500, 500], [700, 100]])
    least = PLAN.least_count
    counts = np.array([20 * least, -5, least, 0])
    moved = relocated(centres, counts, PLAN, 1)
    assert np.array_equal(moved, relocated(centres, counts, PLAN, 1)), "the same at both clouds"
    assert moved[[0, 2]].tolist() == centres[[0, 2]].tolist()
    for h in (1, 3):
        assert math.dist(moved[h], centres[0]) == pytest.approx(PLAN.radius / 2, abs=2)
    light = np.array([7 * least, -5, least, 0])
    assert np.array_equal(relocated(centres, light, PLAN, 1), centres)


def test_close_clusters_beside_far_small_ones_are_split():
    """Three heavy groups in one corner, one small group far away: the form of SIPU unbalance."""
    words = insecure_streams(8000, 8).words(9).astype(np.int64)
    noise = (words[:, :8].reshape(8000, 2, 4) % 21).sum(axis=2) - 40
    corner = np.array([[100, 100], [100, 220], [210, 150], [900, 800]])
    group = np.where(words[:, 8] % 40 == 0, 3, words[:, 8] % 3)
    records = np.clip(corner[group] + noise // 3, 0, 1000)
    plan = NoisePlan(k=4, columns=2, ub=1000, epsilon=2.0, delta=1e-6, seed=3)
    found = noisy_kmeans(
        records, plan, two_clouds_noise(plan, SecureRandom.public(1), SecureRandom.public(2))
    ).centres
    floats = records.astype(float)
    exact = mean_squared_distance(floats, corner.astype(float))
    assert mean_squared_distance(floats, found) < 3 * exact


def test_given_noise_is_added_and_nothing_else():
    """Equal noise gives equal values; opened values minus noise are the exact sums."""
    records = groups(3000)
    drawn = []

    def noise(iteration, centres):
        drawn.append(own_noise(PLAN, SecureRandom.public(iteration)))
        return drawn[-1]

    result = noisy_kmeans(records, PLAN, noise)
    exact = residual_sums(records, PLAN.start(), PLAN.radius)
    assert np.array_equal(result.opened[0].sums, exact[0] + drawn[0][:, :-1])
    assert np.array_equal(result.opened[0].counts, exact[1] + drawn[0][:, -1])
    assert len(result.opened) == len(drawn) == PLAN.iterations


def test_the_result_is_near_that_without_noise():
    records = groups(20_000)
    clean = noisy_kmeans(records, PLAN, no_noise)
    noisy = noisy_kmeans(
        records, PLAN, two_clouds_noise(PLAN, SecureRandom.public(1), SecureRandom.public(2))
    )
    floats = records.astype(float)
    reference = mean_squared_distance(floats, clean.centres)
    assert mean_squared_distance(floats, noisy.centres) < 1.2 * reference
    assert noisy.sizes.sum() == pytest.approx(20_000, rel=0.2)


def test_without_any_record_the_result_is_still_there():
    empty = noisy_kmeans(np.zeros((0, 2), np.int64), PLAN, no_noise)
    assert empty.centres.shape == (4, 2)
