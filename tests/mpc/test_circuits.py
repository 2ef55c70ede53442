"""Circuits in lockstep, sums of bits and products over GF(2), against plaintext."""

import numpy as np
import pytest

from ppodc.mpc.ot.static_ot import StaticTransfers
from ppodc.mpc.shares import bit_products, circuits
from ppodc.mpc.shares.xor_bits import XorShare, pack
from ppodc.mpc.spill import Budget


def shared(bits):
    """XOR shares of rows of bits, packed."""
    own = np.random.default_rng(4).integers(0, 2, bits.shape).astype(np.uint8)
    return [XorShare(pack(row)) for row in own], [XorShare(pack(row)) for row in own ^ bits]


def opened(pair, count):
    return (pair[0] ^ pair[1]).unpack(count)


@pytest.mark.parametrize("sizes", [(1,), (2,), (3,), (7, 0, 2), (1, 1, 4)])
def test_sums_of_weighted_bits_and_their_comparison(pair, sizes):
    count = 100
    bits = np.random.default_rng(1).integers(0, 2, (sum(sizes), count)).astype(np.uint8)
    weights = np.repeat(2 ** np.arange(len(sizes)), sizes)
    sums = (weights[:, None] * bits).sum(axis=0)
    bounds = range(-1, int(weights.sum()) + 2)

    def step(session, rows):
        columns = np.split(np.arange(len(rows)), np.cumsum(sizes)[:-1])
        table = [[rows[i] for i in column] for column in columns]
        return circuits.run(
            session, [circuits.at_most(session.role, table, b, rows[0]) for b in bounds]
        )

    both = pair.run(step, shared(bits))
    for bound, result in zip(bounds, zip(*both, strict=True), strict=True):
        assert opened(result, count).tolist() == (sums <= bound).tolist()


def test_circuits_of_different_depth_and_width_run_side_by_side(pair):
    def conjunction(shares):
        product = shares[0]
        for share in shares[1:]:
            (product,) = yield [circuits.Gate(product, share)]
        return product

    def double(shares):
        first, second, third = yield [
            circuits.Gate(shares[0], shares[1], shares[2]),
            circuits.Gate(shares[1], shares[2]),
        ]
        return first ^ second ^ third

    bits = np.random.default_rng(2).integers(0, 2, (4, 70)).astype(np.uint8)
    wide = np.random.default_rng(3).integers(0, 2, (3, 300)).astype(np.uint8)

    def step(session, a, b):
        return circuits.run(
            session, [conjunction(a), conjunction(a[:1]), double(b), conjunction(b)]
        )

    first, second = pair.run(step, shared(bits), shared(wide))
    results = [opened(both, 300) for both in zip(first, second, strict=True)]
    assert results[0][:70].tolist() == bits.all(axis=0).tolist()
    assert results[1][:70].tolist() == bits[0].tolist()
    x, y, z = wide
    assert results[2].tolist() == ((x & y) ^ (x & z) ^ (y & z)).tolist()
    assert results[3].tolist() == wide.all(axis=0).tolist()


@pytest.mark.parametrize(("rows", "words"), [(6, 1), (3, 5), (12, 40_000)])
def test_bit_products(pair, rows, words):
    """Several parts per message, rows that repeat, groups that end inside a part."""
    random = np.random.default_rng(rows)
    count, group = 24, 3
    bits = random.integers(0, 2, count).astype(np.uint8)
    own_bits = random.integers(0, 2, count).astype(np.uint8)
    table = random.integers(0, 1 << 63, (rows, words)).astype(np.uint64)
    own_table = random.integers(0, 1 << 63, (rows, words)).astype(np.uint64)

    def step(session, choice, share):
        static = StaticTransfers(session.ot, count, Budget(1 << 20))
        static.append(choice)
        result = bit_products.products(session, static.starting_at(0), choice, share, group)
        static.close()
        return result

    both = pair.run(step, (own_bits, own_bits ^ bits), (own_table, own_table ^ table))
    expected = np.zeros((count // group, words), np.uint64)
    for o, bit in enumerate(bits):
        if bit:
            expected[o // group] ^= table[o % rows]
    assert ((both[0] ^ both[1]).words == expected).all()
