"""Dummies of cells: the least shift that meets delta, and the divergence of the outputs."""

import math
from fractions import Fraction

import pytest

from ppodc.errors import InputError
from ppodc.privacy.cell_noise import ExactNoise, padding_shift


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
