"""Accounting: guarantees against the enumeration of all outputs, and the values of the design."""

import itertools
import math
from fractions import Fraction

import pytest

from ppodc.errors import InputError
from ppodc.privacy.chances import WORD, log_ratio, other_words
from ppodc.privacy.concentrated import bit_epsilon, concentrated_rho, flip_delta, tight_epsilon
from ppodc.privacy.guarantee import Guarantee, PrivacyReport


def enumerated_delta(b, differing, epsilon):
    """delta by its definition: the set of outputs that favour one input, summed up."""
    p, q = math.exp(b) / (math.exp(b) + 1), 1 / (math.exp(b) + 1)
    total = 0.0
    for output in itertools.product((0, 1), repeat=differing):
        ones = sum(output)
        first, second = p**ones * q ** (differing - ones), q**ones * p ** (differing - ones)
        total += max(0.0, first - math.exp(epsilon) * second)
    return total


@pytest.mark.parametrize("differing", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("b", [0.3, 1.0, 2.5])
def test_delta_is_that_of_the_enumeration(differing, b):
    for epsilon in (0.0, 0.5, 1.0, b, b * differing * 0.9, b * differing):
        assert flip_delta(b, differing, epsilon) == pytest.approx(
            enumerated_delta(b, differing, epsilon), rel=1e-9, abs=1e-15
        )


def test_the_designs_values_of_delta():
    assert flip_delta(1, 2, 1) == pytest.approx(0.337835, abs=1e-6)
    assert flip_delta(1, 3, 1) == pytest.approx(0.337835, abs=1e-6)
    assert flip_delta(1, 5, 1) == pytest.approx(0.537102, abs=1e-6)
    assert flip_delta(1, 1000, 1) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("b", "differing", "epsilon"),
    [(1, 1000, 591.08), (2, 1000, 1705.5), (1, 64_000, 30637.6)],
)
def test_tight_epsilon_of_published_settings(b, differing, epsilon):
    assert tight_epsilon(b, differing, 0) == b * differing
    assert tight_epsilon(b, differing, 1e-6) == pytest.approx(epsilon, rel=1e-4)


def test_tight_epsilon_holds_and_is_tight():
    epsilon = tight_epsilon(0.7, 12, 1e-3)
    assert enumerated_delta(0.7, 12, epsilon) <= 1e-3 * (1 + 1e-9)
    assert enumerated_delta(0.7, 12, epsilon - 1e-6) > 1e-3


def test_bit_epsilon_inverts():
    assert bit_epsilon(1, 1000) == 0.001
    assert bit_epsilon(1, 1000, 1e-6) == pytest.approx(0.00750, abs=5e-6)
    assert bit_epsilon(8, 1000, 1e-6) == pytest.approx(0.0485, abs=5e-5)
    b = bit_epsilon(1, 8, 1e-3)
    assert enumerated_delta(b, 8, 1) <= 1e-3 * (1 + 1e-9) < enumerated_delta(b * 1.001, 8, 1)


def test_concentrated_privacy():
    assert concentrated_rho(1, 1e-6) == pytest.approx(0.0174689, abs=1e-7)
    with pytest.raises(InputError):
        concentrated_rho(1, 0)


def test_a_report_names_claim_and_guarantee():
    report = PrivacyReport(
        Guarantee(64_000.0),
        (1000.0,) * 64,
        guaranteed_at_delta=Guarantee(30637.6, 1e-6),
        claimed=Guarantee(1.0, 8.9e-137),
        source="PrivBV",
        claimed_for="one value",
    )
    assert not report.claim_holds
    assert str(report) == (
        "privacy of one record: guaranteed epsilon 64000 (30637.6 at delta 1e-06). PrivBV states "
        "(1, 8.9e-137) for one value; that does not hold."
    )
    assert report.to_dict()["guaranteed"] == {"epsilon": 64_000.0, "delta": 0.0}


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, math.log(3), 8.0, Fraction(1, 3), 900])
@pytest.mark.parametrize("values", [2, 3, 17])
def test_whole_probabilities_lie_on_the_private_side(epsilon, values):
    other = other_words(epsilon, values)
    keep = WORD - (values - 1) * other
    assert keep > other >= 1
    # Not above e^epsilon, and one word fewer would be: as near as 2^-32 allows.
    if epsilon < 20:
        assert Fraction(keep, other) <= Fraction(math.exp(epsilon)) * (1 + Fraction(1, 10**12))
        tighter = Fraction(WORD - (values - 1) * (other - 1), other - 1)
        assert tighter > Fraction(math.exp(epsilon))
    assert log_ratio(keep, other) <= epsilon * (1 + 1e-12)


def test_log_ratio_never_understates():
    for numerator, denominator in [(3, 1), (WORD - 5, 5), (7, 9), (WORD, WORD)]:
        exact = math.log(Fraction(numerator, denominator))
        assert exact - 1e-15 <= log_ratio(numerator, denominator) <= exact + 1e-14


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1001, True, "1"])
def test_impossible_epsilons_are_refused(epsilon):
    with pytest.raises(InputError):
        other_words(epsilon)


def test_nothing_but_noise_is_refused():
    with pytest.raises(InputError, match="nothing but noise"):
        other_words(1e-7)
