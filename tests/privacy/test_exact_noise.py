"""The exact samplers by the probabilities of their decision trees, by chi-square, by known answers.

Decision trees are enumerated with exact fractions. Parameters whose tree is too wide are tested by
the frequencies of a seeded stream.
"""

import json
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.privacy.cell_noise import ExactNoise
from ppodc.privacy.exact_noise import (
    choose,
    discrete_gaussian,
    exp_coin,
    gaussian_noise,
    two_sided,
    uniform_below,
)

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "exact_noise.json").read_text())


class OutOfTapeError(Exception):
    """A run wants more random numbers than it was given: one below `bound`."""

    def __init__(self, bound: int) -> None:
        self.bound = bound


class Tape:
    """Random numbers written down before the run."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self._numbers = iter(numbers)

    def below(self, bound: int) -> int:
        if bound == 1:
            return 0
        for number in self._numbers:
            return number
        raise OutOfTapeError(bound)


def exact_distribution(run: Callable, depth: int) -> tuple[dict, Fraction]:
    """Exact probability of every outcome that needs at most `depth` draws, and of the rest."""
    outcomes: dict = {}
    unresolved = Fraction(0)
    tapes = [((), Fraction(1))]
    while tapes:
        tape, probability = tapes.pop()
        try:
            outcome = run(Tape(tape).below)
        except OutOfTapeError as error:
            if len(tape) == depth:
                unresolved += probability
            else:
                share = probability / error.bound
                tapes += [((*tape, number), share) for number in range(error.bound)]
        else:
            outcomes[outcome] = outcomes.get(outcome, Fraction(0)) + probability
    return outcomes, unresolved


def agrees(run: Callable, depth: int, expected: dict, most_unresolved: Fraction) -> dict:
    """Check the enumerated probabilities; what is unresolved may belong to any outcome."""
    outcomes, rest = exact_distribution(run, depth)
    assert rest < most_unresolved
    for outcome, probability in expected.items():
        assert float(outcomes.get(outcome, 0)) <= probability + 1e-12
        assert float(outcomes.get(outcome, 0) + rest) >= probability - 1e-12
    return outcomes


@pytest.mark.parametrize("x", ["0", "1/3", "1", "5/3"])
def test_a_coin_of_probability_exp_minus_x(x):
    expected = {True: math.exp(-Fraction(x))}
    agrees(lambda below: exp_coin(below, Fraction(x)), 8, expected, Fraction(1, 100))


@pytest.mark.parametrize("epsilon", ["1", "2", "3/2"])
def test_two_sided_noise_has_the_stated_probabilities(epsilon):
    e = Fraction(epsilon)
    a = math.exp(-e)
    expected = {z: (1 - a) / (1 + a) * a ** abs(z) for z in range(-3, 4)}
    outcomes = agrees(lambda below: two_sided(below, e), 11, expected, Fraction(1, 3))
    # what is resolved is symmetric and falls by the same factor on both sides
    assert outcomes[1] == outcomes[-1]


@pytest.mark.parametrize("variance", ["1/2", "2/3"])
def test_gaussian_noise_has_the_stated_probabilities(variance):
    v = Fraction(variance)
    total = sum(math.exp(-x * x / (2 * v)) for x in range(-50, 51))
    expected = {x: math.exp(-x * x / (2 * v)) / total for x in range(-3, 4)}
    outcomes = agrees(lambda below: discrete_gaussian(below, v), 9, expected, Fraction(2, 5))
    assert outcomes[1] == outcomes[-1]


def test_the_exponential_mechanism_has_the_stated_probabilities():
    scores, e = [-2, 0, -1], Fraction(1)
    weights = [math.exp(score / 2) for score in scores]
    expected = {index: weight / sum(weights) for index, weight in enumerate(weights)}
    agrees(lambda below: choose(below, scores, e), 9, expected, Fraction(1, 20))


def chi_square(draws: list[int], weight: Callable[[int], float], reach: int) -> float:
    """Chi-square of the cells -reach..reach, the outer two open, per degree of freedom."""
    total = sum(weight(x) for x in range(-50 * reach, 50 * reach + 1))
    seen = Counter(max(-reach, min(reach, x)) for x in draws)
    score = 0.0
    for x in range(-reach, reach + 1):
        inside = weight(x)
        if abs(x) == reach:
            inside = sum(weight(y) for y in range(reach, 50 * reach))
        expected = len(draws) * inside / total
        score += (seen.get(x, 0) - expected) ** 2 / expected
    return score / (2 * reach)


@pytest.mark.parametrize("epsilon", ["1/2", "7/30", "5/11"])
def test_frequencies_of_two_sided_noise(epsilon):
    e, below = Fraction(epsilon), uniform_below(SecureRandom.public(0))
    draws = [two_sided(below, e) for _ in range(6000)]
    assert chi_square(draws, lambda x: math.exp(-e * abs(x)), 8) < 2.2


@pytest.mark.parametrize("variance", ["1/3", "7", "20001/1000"])
def test_frequencies_of_gaussian_noise(variance):
    v = Fraction(variance)
    draws = gaussian_noise(SecureRandom.public(0), v, (6000,)).tolist()
    reach = math.ceil(2.5 * math.sqrt(v))
    assert chi_square(draws, lambda x: math.exp(-x * x / (2 * v)), reach) < 2.5


def test_noise_of_great_variance_is_drawn():
    draws = gaussian_noise(SecureRandom.public(1), Fraction(10**12), (400,))
    assert draws.std() == pytest.approx(1e6, rel=0.15)


def test_uniform_numbers_are_those_of_the_stream():
    """The bytes of the stream decide, by rejection: every residue is equally likely."""
    one, other = SecureRandom.public(3), SecureRandom.public(3)
    below = uniform_below(one)
    for bound in (1, 2, 3, 256, 257, 10**20, 1 << 64):
        assert [below(bound) for _ in range(50)] == [
            int(x) for _ in range(50) for x in other.below(bound, 1)
        ]


def test_known_answers():
    """Other numbers here would be fresh noise for questions that were answered before."""
    seed = bytes.fromhex(VECTOR["seed"])
    for case in VECTOR["two_sided"]:
        below = uniform_below(SecureRandom(seed))
        epsilon = Fraction(case["epsilon"])
        assert [two_sided(below, epsilon) for _ in case["drawn"]] == case["drawn"]
    for case in VECTOR["discrete_gaussian"]:
        drawn = gaussian_noise(
            SecureRandom(seed), Fraction(case["variance"]), (len(case["drawn"]),)
        )
        assert np.array_equal(drawn, case["drawn"])
    for case in VECTOR["padding"]:
        noise = ExactNoise(SecureRandom(seed))
        budget = Fraction(case["epsilon"]), Fraction(case["delta"])
        assert [noise.padding(*budget) for _ in case["drawn"]] == case["drawn"]
    for case in VECTOR["choose"]:
        noise, epsilon = ExactNoise(SecureRandom(seed)), Fraction(case["epsilon"])
        drawn = [noise.choose(case["scores"], epsilon) for _ in case["drawn"]]
        assert drawn == case["drawn"]


def test_impossible_parameters_are_refused():
    below = uniform_below(SecureRandom.public(0))
    for nothing in (Fraction(0), Fraction(-1)):
        with pytest.raises(InputError, match="epsilon"):
            two_sided(below, nothing)
        with pytest.raises(InputError, match="variance"):
            discrete_gaussian(below, nothing)
