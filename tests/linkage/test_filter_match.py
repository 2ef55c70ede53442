"""Dice of bit filters on shares: every match bit equals the oracle's."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.linkage.blocks.candidates import Block
from ppodc.linkage.compare.filter_match import FilterMatcher
from ppodc.linkage.rules import Dice
from ppodc.mpc.shares import unmask
from ppodc.mpc.shares.unmask import SharedTable
from tests.linkage.shared import matched, taken_in


def filter_rows(pair, rule, bits, real=None):
    return taken_in(pair, FilterMatcher(rule), bits, real)


def numbers(bits):
    return [(int("".join(map(str, row)), 2),) for row in bits.tolist()]


@pytest.mark.parametrize(
    ("bits", "threshold"), [(1, "1"), (40, "7/10"), (300, "2/3"), (64, "12345/65536")]
)
def test_every_match_bit_equals_the_oracle(pair, bits, threshold):
    rule = Dice(bits, Fraction(threshold))
    random = np.random.default_rng(bits)
    xs = random.integers(0, 2, (9, bits))
    ys = np.concatenate([xs[:5], random.integers(0, 2, (6, bits))])
    flipped = random.random((5, bits)) < 0.2
    ys[:5] ^= flipped
    xs[:, 0] = ys[:, 0] = 1  # no filter is empty
    xs[8], ys[10] = 1, 1
    real_x, real_y = [1] * 8 + [0], [1] * 10 + [0]
    x, y = filter_rows(pair, rule, xs, real_x), filter_rows(pair, rule, ys, real_y)
    batch = [Block((0, 4), ((0, 11),)), Block((4, 9), ((0, 2), (5, 11)))]
    expected = rule.match_matrix(numbers(xs), numbers(ys))
    assert expected.any()
    expected &= (np.array(real_x) > 0)[:, None] & (np.array(real_y) > 0)
    found = matched(pair, FilterMatcher(rule), x, y, batch)
    for block, bits in zip(batch, found, strict=True):
        assert (bits == expected[slice(*block.xs)][:, block.columns]).all()


def test_filters_are_read_a_stretch_or_a_block_at_a_time(pair, monkeypatch):
    """Never all rows: their shares would be 8 bytes a bit."""
    rule, most, read = Dice(16, Fraction(1, 2)), 160, []
    monkeypatch.setattr(unmask, "VALUES", most)

    def additive(self, start, end, whole=SharedTable.additive):
        read.append((end - start) * self.columns)
        return whole(self, start, end)

    monkeypatch.setattr(SharedTable, "additive", additive)
    bits = np.random.default_rng(1).integers(0, 2, (57, 16))
    bits[:, 0] = 1
    x, y = (filter_rows(pair, rule, bits) for _ in range(2))
    block = Block((20, 23), ((0, 4), (50, 55)))
    (found,) = matched(pair, FilterMatcher(rule), x, y, [block])
    assert len(read) > 57 * 16 // most
    assert max(read) <= most
    expected = rule.match_matrix(numbers(bits[20:23]), numbers(bits[block.columns]))
    assert (found == expected).all()


def test_the_threshold_is_met_exactly(pair):
    """2 * 1 / 3 is 2/3; one bit more on one side is less."""
    rule = Dice(4, Fraction(2, 3))
    xs, ys = np.array([[0, 0, 1, 1], [0, 1, 1, 1]]), np.array([[0, 0, 0, 1]])
    x, y = filter_rows(pair, rule, xs), filter_rows(pair, rule, ys)
    (found,) = matched(pair, FilterMatcher(rule), x, y, [Block((0, 2), ((0, 1),))])
    assert found.tolist() == [[True], [False]]
