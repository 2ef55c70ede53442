"""Theorems of PrivBV and DPBV, Figure 9 of DPBV, and the error analysis of LDPseg, as published."""

import math

import numpy as np
import pytest

from ppodc.bench.local_dp.scores import seeded
from ppodc.local_dp.published.bit_codes import binary_values, weight_values
from ppodc.local_dp.published.bit_estimates import DistanceScale, attribute_bits
from ppodc.local_dp.published.bit_reports import privbv_as_published
from ppodc.local_dp.published.flips import Flips
from ppodc.local_dp.report_streams import insecure_streams

UB, BITS = 1000, 1000


def reports(values, b, draw, t=UB // 2):
    """Bits of some values under one draw of the thresholds, and the scale of their distances."""
    made = privbv_as_published(1, UB, b=b, bits=BITS, t=t, random=seeded(draw))
    records = np.array(values)[:, None]
    bits = attribute_bits(made.perturb(records, insecure_streams(len(values), draw)), made)[:, 0]
    return bits, DistanceScale.of(made.flips, BITS, UB, t)


@pytest.mark.parametrize("b", [0.5, 1.0, 2.0])
def test_theorem_2_the_number_of_set_bits(b):
    """Over draws of the thresholds it is the same for all values; within one draw it is not."""
    c, mu, t = (math.e**b + 1) / (math.e**b - 1), 2 * UB, UB // 2
    expected = BITS * (2 * t / (mu * c) + 1 / (math.e**b + 1))
    ones = np.array([reports([0, 300, UB], b, draw)[0].sum(axis=1) for draw in range(60)])
    assert ones.mean(axis=0) == pytest.approx(expected, abs=5 * math.sqrt(BITS / 2 / 60))


@pytest.mark.parametrize(("b", "t", "values"), [(1.0, 500, [200, 600]), (2.0, 100, [200, 350])])
def test_theorem_5_bounds_the_error_of_a_distance(b, t, values):
    """Theorem 6 of DPBV is the same bound for its mu = U - L + 2t, up to distances of 2t."""
    beta = 0.05
    c, mu = (math.e**b + 1) / (math.e**b - 1), UB + 2 * t
    bound = mu / 2 * c**2 * math.sqrt(math.log(2 / beta) / (2 * BITS))
    errors = []
    for draw in range(120):
        bits, scale = reports(values, b, draw, t)
        (distance,) = scale.distances(np.array([(bits[0] != bits[1]).sum()]))
        errors.append(abs(float(distance) - abs(values[0] - values[1])))
    assert np.mean(np.array(errors) <= bound) >= 1 - beta
    assert max(errors) > bound / 20, "the bound is not vacuous"


@pytest.mark.parametrize(("b", "delta"), [(1.0, 8.957e-137), (2.0, 7.514e-56)])
def test_figure_9_the_bits_that_a_delta_takes(b, delta):
    """s = ceil(ln delta / (eps - ln(e^eps + 1))) inverts the first term of Theorem 3's delta."""
    needed = math.log(delta) / (b - math.log(math.e**b + 1))
    assert needed == pytest.approx(BITS, abs=0.01)


def expected_error(values, flips):
    """Of one number whose bits are 1 with probability 1/2: (expectation, variance)."""
    kept, raised = flips.chances()
    means = values * (raised - (1 - kept)) / 2
    return means.sum(), (values**2 * (raised + 1 - kept) / 2 - means**2).sum()


A, SENSITIVITY = 5.0, 452_110
Q1, Q2 = 1 / (1 + A), A**3 / (1 + A**3)  # 1 becomes 0 at even and odd places
Q3 = 1 / (1 + A * math.exp(1 / SENSITIVITY))  # 0 becomes 1


@pytest.mark.parametrize("w", [1.0, 1.2, 1.6, 2.0])
def test_equations_13_19_and_21_the_expected_error_of_a_weight(w):
    """EX1 and EX3 hold. EX1 of UER is negative: a smaller weight makes it larger, not smaller."""
    values = np.full(10, 0.1) if w == 1 else weight_values(1000, 10, w) / 1000
    moue, moue_variance = expected_error(values, Flips.moue(A, 1.0, SENSITIVITY, 10))
    assert moue == pytest.approx((Q3 - Q1) / 2, abs=1e-9)  # Eq. 13, range 1
    uer, _ = expected_error(values, Flips.uer(A, 1.0, SENSITIVITY, 10))
    assert uer == pytest.approx((-Q1 * w - Q2) / 2 / (1 + w) + Q3 / 2, abs=1e-8)  # Eq. 19, 21
    assert uer < -0.13, "towards 0 as w grows, against the text below Eq. 19"
    printed = (Q3 - Q1) / 2 * (values**2).sum() - moue**2  # Eq. 14: of the wrong sign
    assert printed < 0 < moue_variance


def test_equations_16_and_20_and_corollary_3():
    """a whole and b fraction bits reach 2^a - 2^-b (Corollaries 1, 2); which error is nearer 0."""
    for whole, fraction in ((1, 3), (1, 9), (2, 8), (3, 5)):
        reach = 2.0**whole - 2.0**-fraction
        values = binary_values(1, whole, fraction)
        assert values.sum() == reach  # Eq. 16
        binary, _ = expected_error(values, Flips.uer(A, 1.0, SENSITIVITY, len(values)))
        assert binary == pytest.approx((-Q1 / 3 - Q2 / 6 + Q3 / 2) * reach, abs=1e-6)  # Eq. 20
        for part in (0.3, 0.65, 0.68, 0.99):
            segments = np.full(len(values), part * reach / len(values))
            error, _ = expected_error(segments, Flips.uer(A, 1.0, SENSITIVITY, len(values)))
            assert (abs(error) < abs(binary)) == (part < 2 / 3)  # Corollary 3, and no further
