"""Theorems 2, 3 and 5 of PrivBV, and the number of bits of DPBV's Figure 9, as published."""

import math

import numpy as np
import pytest

from ppodc.bench.local_dp.scores import seeded
from ppodc.local_dp.published.bit_estimates import DistanceScale, attribute_bits
from ppodc.local_dp.published.bit_reports import privbv_as_published
from ppodc.local_dp.report_streams import insecure_streams

UB, BITS = 1000, 1000


def reports(values, b, draw):
    """Bits of some values under one draw of the thresholds, and the scale of their distances."""
    made = privbv_as_published(1, UB, b=b, bits=BITS, t=UB // 2, random=seeded(draw))
    records = np.array(values)[:, None]
    bits = attribute_bits(made.perturb(records, insecure_streams(len(values), draw)), made)[:, 0]
    return bits, DistanceScale.of(made.flips, BITS, UB, UB / 2)


@pytest.mark.parametrize("b", [0.5, 1.0, 2.0])
def test_theorem_2_the_number_of_set_bits(b):
    """Over draws of the thresholds it is the same for all values; within one draw it is not."""
    c, mu, t = (math.e**b + 1) / (math.e**b - 1), 2 * UB, UB // 2
    expected = BITS * (2 * t / (mu * c) + 1 / (math.e**b + 1))
    ones = np.array([reports([0, 300, UB], b, draw)[0].sum(axis=1) for draw in range(60)])
    assert ones.mean(axis=0) == pytest.approx(expected, abs=5 * math.sqrt(BITS / 2 / 60))


def test_theorem_5_bounds_the_error_of_a_distance():
    b, beta = 1.0, 0.05
    c, mu = (math.e**b + 1) / (math.e**b - 1), 2 * UB
    bound = mu / 2 * c**2 * math.sqrt(math.log(2 / beta) / (2 * BITS))
    errors = []
    for draw in range(120):
        bits, scale = reports([200, 600], b, draw)
        (distance,) = scale.distances(np.array([(bits[0] != bits[1]).sum()]))
        errors.append(abs(float(distance) - 400))
    assert np.mean(np.array(errors) <= bound) >= 1 - beta
    assert max(errors) > bound / 20, "the bound is not vacuous"


@pytest.mark.parametrize(("b", "delta"), [(1.0, 8.957e-137), (2.0, 7.514e-56)])
def test_figure_9_the_bits_that_a_delta_takes(b, delta):
    """s = ceil(ln delta / (eps - ln(e^eps + 1))) inverts the first term of Theorem 3's delta."""
    needed = math.log(delta) / (b - math.log(math.e**b + 1))
    assert needed == pytest.approx(BITS, abs=0.01)
