"""Garbled circuits compare as numbers do, and their messages say nothing about the numbers."""

import numpy as np
import pytest

from ppodc.mpc.shares.garbled_compare import greater
from tests.mpc.pair import Pair


@pytest.fixture(scope="module")
def pair() -> Pair:
    return Pair()


@pytest.mark.parametrize("width", [1, 5, 62, 70])
def test_greater_is_what_numbers_say(pair, width):
    random = np.random.default_rng(width)
    top = (1 << width) - 1
    x = [int(v) % (top + 1) for v in random.integers(0, 1 << 62, 40)]
    y = [int(v) % (top + 1) for v in random.integers(0, 1 << 62, 40)]
    x += [0, top, top, 0, 3 & top]
    y += [0, top, 0, top, 3 & top]
    first, second = pair.run(lambda s, n: greater(s, n, width), (x, y))
    assert first.tolist() == second.tolist() == [int(a > b) for a, b in zip(x, y, strict=True)]


def test_bytes_per_bit_are_those_published(pair):
    """7 labels a bit: C1's, 4 of the table, 2 of the transfer (one of which is derived here)."""
    before = [len(channel.sent) for channel in pair.channels]
    pair.run(lambda s, n: greater(s, n, 64), ([1] * 512, [2] * 512))
    sent = [
        {kind: sum(a.nbytes for a in arrays) for kind, arrays in channel.sent[start:]}
        for channel, start in zip(pair.channels, before, strict=True)
    ]
    bits = 64 * 512
    assert sent[0]["garbled.labels"] == 16 * bits
    assert sent[0]["garbled.table"] == 64 * bits
    assert sent[0]["garbled.transfer"] == 16 * bits
    assert set(sent[1]) == {"shares.extension", "garbled.result"}
