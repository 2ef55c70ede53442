"""Oracles: every outcome enumerated, unbiased by exact expectation, the samplers by chi-square."""

import itertools
import math

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.local_dp.frequencies import clip, norm_sub, possible, whole
from ppodc.local_dp.oracles import (
    DirectResponse,
    HadamardResponse,
    UnaryResponse,
    oracle,
    respond,
)
from ppodc.local_dp.published.packed_bits import bit_counts, check_padding, pack, unpack
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.chances import WORD, nearest_words
from tests.local_dp.words import GivenWords

LN3 = math.log(3)


def test_every_word_of_direct_response_leads_where_it_should():
    """Steps of equal width: with their ends all 2^32 words are covered."""
    for size, epsilon in [(2, 1.0), (5, 0.7), (300, 3.0)]:
        grr = DirectResponse.of(size, epsilon)
        for value in (0, size - 1):
            starts = [step * grr.other for step in range(size)]
            ends = [start - 1 for start in starts[1:]] + [WORD - 1]
            reports = [
                respond(np.full(size, value), np.array(w, np.uint32), size, grr.other)
                for w in (starts, ends)
            ]
            wanted = [(value + 1 + step) % size for step in range(size)]
            assert reports[0].tolist() == reports[1].tolist() == wanted
            assert wanted[-1] == value


@pytest.mark.parametrize("cells", [2, 4, 7])
@pytest.mark.parametrize("epsilon", [0.5, LN3, 4.0])
def test_direct_response_is_tight_and_unbiased(cells, epsilon):
    grr = DirectResponse.of(cells, epsilon)
    keep = WORD - (cells - 1) * grr.other
    table = np.full((cells, cells), grr.other) + np.eye(cells, dtype=np.int64) * (keep - grr.other)
    assert (table.sum(axis=1) == WORD).all()
    assert math.log((table.max(axis=0) / table.min(axis=0)).max()) == pytest.approx(grr.epsilon)
    assert epsilon - 1e-6 < grr.epsilon <= epsilon
    truth = np.arange(1, cells + 1) * 10
    expected = truth @ (table / WORD)
    assert np.allclose(grr.estimate(expected, int(truth.sum())), truth)


@pytest.mark.parametrize("epsilon", [0.5, LN3, 3.0])
def test_unary_response_is_tight_by_enumeration(epsilon):
    """All 2^P outputs of all P inputs; each bit is decided by one comparison (next test)."""
    oue, cells = UnaryResponse.of(4, epsilon), 4
    q = oue.rise / WORD
    worst = 0.0
    for output in itertools.product((0, 1), repeat=cells):
        chances = []
        for cell in range(cells):
            ones = [0.5 if j == cell else q for j in range(cells)]
            chances.append(
                math.prod(p if bit else 1 - p for p, bit in zip(ones, output, strict=True))
            )
        worst = max(worst, max(chances) / min(chances))
    assert math.log(worst) == pytest.approx(oue.epsilon, abs=1e-9)
    assert epsilon - 1e-6 < oue.epsilon <= epsilon


def test_unary_bits_turn_at_their_words():
    oue = UnaryResponse.of(3, LN3)
    half, rise = WORD // 2, oue.rise
    words = [[half - 1, rise - 1, rise], [half, rise, rise - 1]]
    reports = unpack(oue.perturb(np.array([0, 0]), GivenWords(words)), 3)
    assert reports.tolist() == [[1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("cells", [2, 3, 7, 8])
def test_hadamard_response_by_enumeration(cells):
    """All columns and both signs: probabilities, tightness, and the estimate's expectation."""
    hadamard = HadamardResponse.of(cells, LN3)
    columns = hadamard.columns
    assert columns > cells
    table = np.zeros((cells, columns))
    for cell in range(cells):
        for word, weight in (
            (hadamard.flip - 1, hadamard.flip),
            (hadamard.flip, WORD - hadamard.flip),
        ):
            words = [[word, y] for y in range(columns)]
            reports = hadamard.perturb(np.full(columns, cell), GivenWords(words))[:, 0]
            np.add.at(table[cell], reports, weight / WORD / columns)
    assert np.allclose(table.sum(axis=1), 1)
    assert math.log((table.max(axis=0) / table.min(axis=0)).max()) == pytest.approx(
        hadamard.epsilon, abs=1e-9
    )
    truth = np.arange(1, cells + 1) * 1000
    # Expectations are no whole numbers: a large multiple of them nearly is.
    expected = np.rint(truth @ table * 1e6).astype(np.int64)
    assert np.allclose(hadamard.estimate(expected, 0) / 1e6, truth, atol=1e-3)


def test_the_designs_examples():
    counts = np.array([40, 30, 20, 10])
    grr = DirectResponse(4, nearest_words(1 / 6)).estimate(counts, 100)
    assert np.allclose(grr, [70, 40, 10, -20], atol=1e-5)
    assert np.allclose(norm_sub(grr, 100), [63.333333, 33.333333, 3.333333, 0], atol=1e-5)
    oue = UnaryResponse(4, nearest_words(1 / 4)).estimate(counts, 100)
    assert np.allclose(oue, [60, 20, -20, -60], atol=1e-5)
    hadamard = HadamardResponse(3, nearest_words(1 / 4))
    reports = np.array([0] * 55 + [1] * 45)  # row 1 has +1 in column 0, -1 in column 1
    assert hadamard.estimate(np.bincount(reports, minlength=4), 100)[0] == pytest.approx(20)


@pytest.mark.parametrize("name", ["grr", "oue", "hadamard"])
def test_samplers_at_a_million_draws(name):
    """Chi-square of the reports' counts against the exact probabilities."""
    cells, n = 5, 1_000_000
    made = oracle(cells, 1.0, name)
    truth = np.repeat(np.arange(cells), n // cells)
    counts = made.count(made.perturb(truth, insecure_streams(n, seed=1)))
    estimate = made.estimate(counts, n)
    deviation = (estimate - n / cells) / math.sqrt(n * made.variance)
    assert (np.abs(deviation) < 4.5).all()
    # chi-square of independent cells (OUE) or of cells that add up (GRR, Hadamard)
    assert (deviation**2).sum() < 40
    assert made.part.check(made.perturb(truth[:9], insecure_streams(9, 1)), 0, 9) is None


def test_counts_add_up_over_chunks():
    for name in ("grr", "oue", "hadamard"):
        made = oracle(70, 2.0, name)
        reports = made.perturb(np.arange(70), insecure_streams(70, 3))
        parts = made.count(reports[:20]) + made.count(reports[20:])
        assert np.array_equal(parts, made.count(reports))
        assert len(parts) == made.counters


def test_the_choice_of_an_oracle():
    assert oracle(10, 1.0).name == "grr"
    assert oracle(11, 1.0).name == "oue"
    assert oracle(4096, 1.0).name == "oue"
    assert oracle(4097, 1.0).name == "hadamard"
    with pytest.raises(InputError):
        oracle(10, 1.0, "other")
    with pytest.raises(InputError):
        oracle((1 << 22) + 1, 1.0)


def test_the_stated_variance_is_that_of_the_formulas():
    e = math.exp(2.0)
    assert oracle(50, 2.0, "oue").variance == pytest.approx(4 * e / (e - 1) ** 2, rel=1e-6)
    assert oracle(50, 2.0, "grr").variance == pytest.approx((e + 48) / (e - 1) ** 2, rel=1e-6)
    assert oracle(50, 2.0, "hadamard").variance == pytest.approx(((e + 1) / (e - 1)) ** 2, rel=1e-6)


def test_possible_counts():
    estimates = np.array([55.0, 35.0, 15.0, -5.0])
    assert np.allclose(clip(estimates, 100), [52.380952, 33.333333, 14.285714, 0])
    assert whole(clip(estimates, 100), 100).tolist() == [53, 33, 14, 0]
    projected = norm_sub(np.array([-3.0, -2.0, -10.0]), 6)
    assert projected.sum() == pytest.approx(6)
    assert (projected >= 0).all()
    assert np.allclose(clip(np.array([-1.0, -1.0]), 4), [2, 2])
    with pytest.raises(InputError):
        possible(estimates, 100, "other")


def test_packed_bits_round_trip():
    bits = (insecure_streams(5, 2).words(130) & 1).astype(bool)
    packed = pack(bits)
    assert packed.shape == (5, 3)
    assert np.array_equal(unpack(packed, 130), bits)
    assert np.array_equal(bit_counts(packed, 130), bits.sum(axis=0))
    check_padding(packed, 130)
    packed[2, 2] |= np.uint64(1 << 2)
    with pytest.raises(InputError, match="beyond"):
        check_padding(packed, 130)
