"""Rows through a network of shared switches: any order, and never another set of rows."""

from itertools import permutations

import numpy as np
import pytest

from ppodc.mpc.shares import permutation_network as network
from tests.mpc.pair import opened, share


def carried(bits, items):
    """The network in the clear."""
    size = len(items)
    items = np.array(items)
    layers = np.split(bits, len(network.distances(size))) if size > 1 else []
    for h, layer in zip(network.distances(size), layers, strict=True):
        both = items.reshape(-1, 2, h)
        swap = layer.reshape(-1, h).astype(bool)
        both[:, 0], both[:, 1] = (
            np.where(swap, both[:, 1], both[:, 0]),
            np.where(swap, both[:, 0], both[:, 1]),
        )
        items = both.reshape(size)
    return items


def orders():
    yield from permutations(range(1))
    yield from permutations(range(2))
    yield from permutations(range(4))
    random = np.random.default_rng(1)
    for size in (8, 16, 64, 1024):
        yield from (random.permutation(size) for _ in range(5))


def test_settings_of_any_order():
    for places in map(np.array, orders()):
        bits = network.settings(places)
        assert len(bits) == network.switch_count(len(places))
        assert carried(bits, np.arange(len(places)))[places].tolist() == list(range(len(places)))


@pytest.mark.parametrize("size", [1, 2, 16])
def test_shared_rows_take_the_order_of_shared_switches(pair, size):
    random = np.random.default_rng(size)
    values = random.integers(0, 1 << 40, (size, 2))
    bits = random.integers(0, 2, network.switch_count(size)).astype(np.uint8)  # of anybody
    own = random.integers(0, 2, len(bits)).astype(np.uint8)

    def step(session, switches, rows):
        return network.permuted(session, switches, rows)

    rows = share(values.reshape(-1).tolist(), 2, (size, 2))
    found = opened(pair.run(step, (own, bits ^ own), rows))
    assert found == values[carried(bits, np.arange(size))].reshape(-1).tolist()


def test_sizes():
    assert [network.size_for(n) for n in (0, 1, 2, 3, 8, 9)] == [1, 1, 2, 4, 8, 16]
    assert network.distances(8) == [4, 2, 1, 2, 4]
    assert network.switch_count(1 << 20) == 39 << 19
