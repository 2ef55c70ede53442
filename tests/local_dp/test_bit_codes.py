"""Bit codes and flips: worked examples, definitions, and guarantees by enumeration."""

import itertools
import math

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.local_dp.published.bit_codes import (
    binary,
    bit_vector,
    random_centres,
    thermometer,
    weight_values,
    weighted,
)
from ppodc.local_dp.published.bit_estimates import (
    attribute_bits,
    bit_shares,
    centres_of,
    decoded,
    ones_estimates,
)
from ppodc.local_dp.published.bit_reports import (
    BitReports,
    ldpseg,
    ldpseg_as_published,
    privbv,
    privbv_as_published,
)
from ppodc.local_dp.published.flips import Flips
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.chances import WORD
from tests.local_dp.words import GivenWords


def text(code, value):
    return "".join(map(str, code.encode(np.array([value]))[0]))


def enumerated_epsilon(code, flips):
    """The largest likelihood ratio of all outputs over all pairs of values, by definition."""
    stay, rise = flips.chances()
    strings = np.unique(code.encode(np.arange(code.ub + 1)), axis=0)
    worst = 0.0
    for output in itertools.product((0, 1), repeat=code.bits):
        ones = np.where(strings, stay, rise)
        chances = np.where(output, ones, 1 - ones).prod(axis=1)
        worst = max(worst, chances.max() / chances.min())
    return math.log(worst)


def test_bit_vectors_of_the_worked_example():
    code = bit_vector(10, np.array([2, 4, 6, 8, 11, 13]), 3)
    strings = [text(code, x) for x in (3, 5, 7, 9)]
    assert strings == ["111000", "111100", "011100", "001110"]


@pytest.mark.parametrize(
    ("ub", "t", "bits"), [(50, 25, 40), (30, 3, 17), (7, 1, 5), (1000, 500, 8)]
)
def test_bit_vectors_are_their_definition(ub, t, bits):
    centres = random_centres(ub, t, bits, SecureRandom.public(0))
    assert centres.min() >= -t
    assert centres.max() <= ub + t
    code, values = bit_vector(ub, centres, t), np.arange(ub + 1)
    wanted = np.abs(values[:, None] - centres) <= t
    assert np.array_equal(code.encode(values), wanted)
    pairs = (wanted[:, None] != wanted[None]).sum(axis=2)
    assert code.differing() == pairs.max()


def test_thermometer_and_weights_of_the_worked_examples():
    assert text(thermometer(100, 10), 62) == "1111110000"
    assert text(thermometer(100, 10), 0) == "0" * 10
    assert text(thermometer(100, 10), 100) == "1" * 10
    assert np.allclose(weight_values(100, 4, 1.5), [41.5385, 27.6923, 18.4615, 12.3077], atol=1e-4)
    code = weighted(100, 4, 1.5)
    assert text(code, 62) == "1010"
    sums = sorted(
        (float(np.dot(s, weight_values(100, 4, 1.5))), s)
        for s in itertools.product((0, 1), repeat=4)
    )
    for value in range(101):
        best = min(sums, key=lambda entry: (abs(entry[0] - value), entry[0]))
        assert text(code, value) == "".join(map(str, best[1]))


def test_binary_rounds_down():
    code = binary(1000, 1000, 1, 9)
    assert text(code, 1000) == "1000000000"
    assert text(code, 999) == "0111111111"
    assert text(code, 500) == "0100000000"
    assert text(code, 0) == "0" * 10


def test_spread_of_weights():
    """sum e_j^2 / range^2 = (w-1)(w^n+1)/((w+1)(w^n-1))."""
    for w, wanted in [(1.2, 0.1259), (1.5, 0.2071), (2.0, 0.3340)]:
        values = weight_values(1, 10, w)
        assert (values**2).sum() == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    "flips",
    [
        Flips.symmetric(0.8, 6),
        Flips.moue(5, 1, 60, 6),
        Flips.moue(5, 1, 60, 6, "proof"),
        Flips.uer(5, 1, 60, 6),
    ],
    ids=["symmetric", "moue", "moue proof", "uer"],
)
@pytest.mark.parametrize(
    "code",
    [
        thermometer(60, 6),
        bit_vector(20, random_centres(20, 10, 6, SecureRandom.public(1)), 10),
        bit_vector(20, random_centres(20, 4, 6, SecureRandom.public(2)), 4),
        weighted(63, 6, 1.5),
        binary(63, 32, 1, 5),
    ],
    ids=["thermometer", "bit vector", "narrow bit vector", "weights", "binary"],
)
def test_the_guarantee_of_a_value_holds_and_is_tight(code, flips):
    assert code.epsilon(flips) == pytest.approx(enumerated_epsilon(code, flips), abs=1e-9)


def test_guarantees_of_the_published_settings():
    published = privbv_as_published(64, 50, b=1, bits=1000, t=25, random=SecureRandom.public(0))
    report = published.guarantee()
    # a centre exactly in the middle tells both ends apart by no bit, so D is just below 1000
    differing = published.code.differing()
    assert 960 <= differing <= 1000
    assert report.guaranteed.epsilon == pytest.approx(64 * differing, rel=1e-6)
    assert report.guaranteed_at_delta.epsilon < report.guaranteed.epsilon / 2
    assert report.claimed.epsilon == 1
    assert report.claimed.delta == pytest.approx(8.9e-137, rel=0.01)
    assert not report.claim_holds

    code = thermometer(1000, 10)
    rows = 45_211
    moue = ldpseg_as_published(16, code, rows=rows).guarantee()
    assert moue.per_attribute[0] == pytest.approx(16.0944, abs=1e-3)
    assert moue.guaranteed.epsilon == pytest.approx(257.5, abs=0.1)
    uer = ldpseg_as_published(16, code, rows=rows, flips="uer").guarantee()
    assert uer.per_attribute[0] == pytest.approx(23.2698, abs=1e-3)
    assert uer.guaranteed.epsilon == pytest.approx(372.3, abs=0.1)
    proof = ldpseg_as_published(16, code, rows=rows, moue_variant="proof").guarantee()
    assert proof.per_attribute[0] == pytest.approx(1.8e-5, rel=0.05)


@pytest.mark.parametrize("epsilon", [1.0, 16.0])
def test_honest_versions_keep_their_budget(epsilon):
    for mechanism in (
        privbv(4, 1000, epsilon=epsilon, bits=8, random=SecureRandom.public(0)),
        ldpseg(4, 1000, epsilon=epsilon, bits=10),
    ):
        guaranteed = mechanism.guarantee().guaranteed.epsilon
        assert 0.8 * epsilon < guaranteed <= epsilon


def test_bits_turn_at_their_words():
    flips = Flips((5, 100), (3, 200))
    mechanism = BitReports(thermometer(10, 2), flips, 1)
    records = np.array([[10], [10], [0], [0]])
    words = [[4, 99], [5, 100], [2, 199], [3, 200]]
    bits = attribute_bits(mechanism.perturb(records, GivenWords(words)), mechanism)
    assert bits[:, 0].tolist() == [[1, 1], [0, 0], [1, 1], [0, 0]]


def test_stochastic_rounding_turns_at_its_word():
    mechanism = ldpseg(1, 1000, epsilon=1000, bits=10)
    keep = [WORD // 2] * 10  # far from both ends of a flip with b = 100
    turn = WORD * 620 % WORD  # 620 is no level: 6 and 200/1000
    assert turn == 0
    exact = WORD * 200 // 1000
    rows = [[*keep, exact - 1], [*keep, exact + 1]]
    bits = attribute_bits(mechanism.perturb(np.full((2, 1), 620), GivenWords(rows)), mechanism)
    assert bits.sum(axis=2).ravel().tolist() == [7, 6]


def test_estimates_have_the_right_expectation():
    """MOUE and UER of 62: E[c] by the chances, and the unbiased number of ones."""
    code = thermometer(100, 10)
    for flips, expected in [("moue", 5.6667), ("uer", 3.1905)]:
        mechanism = ldpseg_as_published(1, code, rows=45_211, flips=flips)
        stay, rise = mechanism.flips.chances()
        string = code.encode(np.array([62]))[0]
        assert np.where(string, stay, rise).sum() == pytest.approx(expected, abs=1e-3)
        records = np.full((40_000, 1), 62)
        reports = mechanism.perturb(records, insecure_streams(len(records), 1))
        ones = ones_estimates(reports, mechanism)
        assert ones.mean() == pytest.approx(6, abs=5 * ones.std() / 200)
        values = np.full(10, 10.0)
        plain = decoded(reports, mechanism, values, debias=False)
        assert plain.mean() == pytest.approx(10 * expected, abs=5 * plain.std() / 200)
        debiased = decoded(reports, mechanism, values, debias=True)
        assert np.allclose(debiased, 10 * ones)


def test_centres_from_shares():
    """A cluster's centre from its summed bits: exact up to the steps of the thresholds."""
    for mechanism in (
        privbv(2, 1000, epsilon=1000, bits=200, random=SecureRandom.public(0)),
        BitReports(thermometer(1000, 100), Flips.symmetric(1, 100), 2),
    ):
        records = np.array([[100, 900], [300, 700], [200, 500]])
        bits = attribute_bits(mechanism.encode(records), mechanism).sum(axis=0)
        kept, raised = mechanism.flips.chances()
        flipped = bits * kept + (3 - bits) * raised  # what flips make of it, expected
        shares = bit_shares(flipped.reshape(1, -1), np.array([3]), mechanism)
        assert np.allclose(centres_of(shares, mechanism), [[200, 700]], atol=15)


def test_bad_parameters_are_refused():
    with pytest.raises(InputError):
        bit_vector(10, np.array([1]), 0)
    with pytest.raises(InputError):
        thermometer(100, 0)
    with pytest.raises(InputError, match="values"):
        thermometer(5, 10)
    with pytest.raises(InputError):
        weighted(100, 17, 1.5)
    with pytest.raises(InputError):
        weighted(100, 4, 1.0)
    with pytest.raises(InputError):
        privbv(10, 1000, epsilon=1e-6, bits=10, random=SecureRandom.public(0))
    mechanism = privbv(2, 1000, epsilon=1, bits=3, random=SecureRandom.public(0))
    with pytest.raises(InputError, match="beyond"):
        mechanism.check(np.array([[0, 1 << 3]], np.uint64))
    with pytest.raises(InputError, match="attributes"):
        mechanism.perturb(np.zeros((2, 3), np.int64), insecure_streams(2, 0))
