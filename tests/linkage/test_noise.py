"""The exact sampler by the probabilities of its decision tree; padding by its divergence."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage import noise
from ppodc.linkage.noise import ExactNoise, padding_shift


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


@pytest.mark.parametrize("x", ["0", "1/3", "1", "5/3"])
def test_a_coin_of_probability_exp_minus_x(x):
    outcomes, rest = exact_distribution(lambda below: noise.exp_coin(below, Fraction(x)), 8)
    expected = math.exp(-Fraction(x))
    assert float(outcomes[True]) <= expected + 1e-12
    assert float(outcomes[True] + rest) >= expected - 1e-12
    assert rest < Fraction(1, 100)


@pytest.mark.parametrize("epsilon", ["1", "2", "3/2"])
def test_two_sided_noise_has_the_stated_probabilities(epsilon):
    e = Fraction(epsilon)
    outcomes, rest = exact_distribution(lambda below: noise.two_sided(below, e), 11)
    a = math.exp(-e)
    assert rest < Fraction(1, 3)
    for z in range(-3, 4):
        expected = (1 - a) / (1 + a) * a ** abs(z)
        assert float(outcomes.get(z, 0)) <= expected + 1e-12
        assert float(outcomes.get(z, 0) + rest) >= expected - 1e-12
    # what is resolved is symmetric and falls by the same factor on both sides
    assert outcomes[1] == outcomes[-1]


def test_the_exponential_mechanism_has_the_stated_probabilities():
    scores, e = [-2, 0, -1], Fraction(1)
    outcomes, rest = exact_distribution(lambda below: noise.choose(below, scores, e), 9)
    weights = [math.exp(score / 2) for score in scores]
    for index, weight in enumerate(weights):
        expected = weight / sum(weights)
        assert float(outcomes[index]) <= expected + 1e-12
        assert float(outcomes[index] + rest) >= expected - 1e-12
    assert rest < Fraction(1, 20)


def test_frequencies_of_small_budgets_agree():
    """Budgets whose decision tree is too wide to enumerate: a seeded stream, 4 sigma."""
    draw = ExactNoise(SecureRandom(bytes(32)))
    e, count = Fraction(7, 30), 4000
    drawn = [draw.count(e) for _ in range(count)]
    a = math.exp(-e)
    for z in (-5, -1, 0, 1, 4):
        p = (1 - a) / (1 + a) * a ** abs(z)
        assert abs(drawn.count(z) - count * p) < 4 * math.sqrt(count * p * (1 - p))


@pytest.mark.parametrize(
    ("epsilon", "shifts"),
    [
        ("1/10", (63, 86, 109)),
        ("1/4", (29, 38, 47)),
        ("1/2", (16, 21, 25)),
        ("1", (9, 11, 14)),
    ],
)
def test_the_shift_is_the_least_that_meets_delta(epsilon, shifts):
    e = Fraction(epsilon)
    a = math.exp(-e)
    for m, delta in zip(shifts, ("1/10000", "1/100000", "1/1000000"), strict=True):
        assert padding_shift(e, Fraction(delta)) == m

        def none(m):
            return (1 - a) * a**m / (1 + a - a ** (m + 1))

        assert none(m) <= Fraction(delta) < none(m - 1)


def padding_probabilities(e: float, m: int, most: int) -> list[float]:
    a = math.exp(-e)
    weights = [a ** abs(v - m) for v in range(most)]
    return [w / sum(weights) for w in weights]


def divergence(p: dict, q: dict, epsilon: float) -> float:
    """Hockey-stick: the least delta for this epsilon."""
    return sum(max(0.0, mass - math.exp(epsilon) * q.get(o, 0.0)) for o, mass in p.items())


@pytest.mark.parametrize(
    ("e", "joint"), [("1/10", 9.2e-5), ("1/4", 8.8e-5), ("1/2", 8.2e-5), ("1", 5.7e-5)]
)
def test_a_replaced_record_costs_2e_and_delta(e, joint):
    """Counts (1, 0) against (0, 1) in two cells, all outputs enumerated."""
    delta = Fraction(1, 10_000)
    m = padding_shift(Fraction(e), delta)
    pad = padding_probabilities(float(Fraction(e)), m, 4 * m + 60)
    here = {(i + 1, j): a * b for i, a in enumerate(pad) for j, b in enumerate(pad)}
    there = {(j, i): mass for (i, j), mass in here.items()}
    worst = divergence(here, there, 2 * float(Fraction(e)))
    assert worst <= float(delta)
    assert worst == pytest.approx(joint, rel=0.02)
    alone = dict(enumerate(pad))
    more = {i + 1: a for i, a in enumerate(pad)}
    assert divergence(more, alone, float(Fraction(e))) < 1e-12  # losing a record
    assert divergence(alone, more, float(Fraction(e))) <= float(delta)  # gaining one


def test_padding_is_never_negative():
    draw = ExactNoise()
    assert min(draw.padding(Fraction(2), Fraction(1, 3)) for _ in range(1000)) >= 0


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("0", "1/2"), ("-1", "1/2"), ("1", "0"), ("1", "1")]
)
def test_impossible_budgets_are_refused(epsilon, delta):
    with pytest.raises(InputError):
        padding_shift(Fraction(epsilon), Fraction(delta))
