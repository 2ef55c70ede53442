"""Local arithmetic against Python integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.mpc.shares import additive, xor_bits
from ppodc.mpc.shares.additive import AdditiveShare

LIMBS = st.sampled_from([1, 2, 3, 5, 40])
NUMBERS = st.lists(st.integers(-(1 << 2560), 1 << 2560), min_size=1, max_size=4)
EDGES = [0, 1, -1, (1 << 64) - 1, 1 << 64, (1 << 128) - 1, -(1 << 127)]


@settings(max_examples=60, deadline=None)
@given(a=NUMBERS, b=NUMBERS, limbs=LIMBS)
def test_arithmetic_is_that_of_integers_modulo_a_power_of_two(a, b, limbs):
    a, b = a + EDGES, (b * len(EDGES))[: len(a)] + EDGES
    b = b[: len(a)]
    modulus = 1 << (64 * limbs)
    x, y = AdditiveShare(additive.limbs_of(a, limbs)), AdditiveShare(additive.limbs_of(b, limbs))
    assert additive.integers((x + y).limbs) == [
        (p + q) % modulus for p, q in zip(a, b, strict=True)
    ]
    assert additive.integers((x - y).limbs) == [
        (p - q) % modulus for p, q in zip(a, b, strict=True)
    ]
    assert additive.integers((-x).limbs) == [-p % modulus for p in a]
    assert additive.integers(x.sum().limbs) == [sum(a) % modulus]
    assert additive.integers(x.times(b[0]).limbs) == [p * b[0] % modulus for p in a]
    products = [p * q % modulus for p, q in zip(a, b, strict=True)]
    assert additive.integers(additive.product(x.limbs, y.limbs)) == products
    assert additive.integers(x.low(1).limbs) == [p % (1 << 64) for p in a]


def test_matrix_product():
    g = np.random.default_rng(1)
    a, b = g.integers(0, 2**64, (4, 3, 2), np.uint64), g.integers(0, 2**64, (3, 5, 2), np.uint64)
    left = np.array(additive.integers(a), object).reshape(4, 3)
    right = np.array(additive.integers(b), object).reshape(3, 5)
    expected = (left @ right) % (1 << 128)
    assert additive.integers(additive.matrix_product(a, b)) == expected.reshape(-1).tolist()


def test_rings_do_not_mix():
    with pytest.raises(ValueError, match="rings differ"):
        AdditiveShare(np.zeros((2, 1), np.uint64)) + AdditiveShare(np.zeros((2, 2), np.uint64))


def test_share_types_do_not_mix():
    with pytest.raises(AttributeError):
        AdditiveShare(np.zeros((2, 1), np.uint64)) + xor_bits.XorShare(np.zeros((2, 1), np.uint64))


def test_a_share_does_not_show_in_repr():
    secret = AdditiveShare(np.full((1, 1), 987654321987, np.uint64))
    assert "987654321987" not in repr(secret)


def test_packing():
    g = np.random.default_rng(2)
    plain = g.integers(0, 2, (3, 77)).astype(np.uint8)
    assert np.array_equal(xor_bits.unpack(xor_bits.pack(plain), 77), plain)
