"""Example 3.2.1 of the thesis by enumeration: suppression tells of records that do not match."""

import math
from collections import Counter
from fractions import Fraction

import pytest

from ppodc.privacy.cell_noise import padding_shift

EPSILON, DELTA = 1.0, 1e-6
MOST = 80  # of the noise, beyond which no probability counts


def noise(z: int, epsilon: float = EPSILON) -> float:
    """Two-sided geometric: the Laplace noise of the chapter on whole numbers."""
    a = math.exp(-epsilon)
    return (1 - a) / (1 + a) * a ** abs(z)


def suppressed(matching: int, other: int) -> Counter[tuple[int, int]]:
    """The other owner's view: the noisy size, and how many matching records arrive."""
    size = matching + other
    seen: Counter[tuple[int, int]] = Counter()
    for z in range(-MOST, MOST + 1):
        gone = min(size, max(0, -z))
        for lost in range(gone + 1):  # of the matching ones, drawn without replacement
            ways = math.comb(matching, lost) * math.comb(other, gone - lost)
            seen[size + max(z, -size), matching - lost] += noise(z) * ways / math.comb(size, gone)
    return seen


def padded(matching: int, other: int) -> Counter[tuple[int, int]]:
    """That view under padding: all matching records arrive."""
    shift = padding_shift(Fraction(EPSILON), Fraction(DELTA))
    whole = sum(noise(z) for z in range(-shift, MOST + 1))
    drawn = range(-shift, MOST + 1)
    return Counter({(matching + other + shift + z, matching): noise(z) / whole for z in drawn})


def test_suppression_shows_a_record_that_does_not_match():
    without, with_it = suppressed(3, 0), suppressed(3, 1)
    assert sum(without.values()) == pytest.approx(1)
    telling = [seen for seen in with_it if seen[1] < 3 and seen[0] > seen[1]]
    assert sum(with_it[seen] for seen in telling) == pytest.approx(0.1646, abs=0.001)
    assert sum(without[seen] for seen in telling) == 0


def test_padding_keeps_epsilon_and_delta():
    without, with_it = padded(3, 0), padded(3, 1)
    for one, other in ((without, with_it), (with_it, without)):
        beyond = sum(max(0.0, p - math.exp(EPSILON) * other[seen]) for seen, p in one.items())
        assert beyond <= DELTA * 1.01
