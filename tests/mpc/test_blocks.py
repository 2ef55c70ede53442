"""Select, multiply, compare, ingest and SMIN_k against plaintext."""

import random

import numpy as np
import pytest

from ppodc.kmeans.shares import ingest, scaling, smin_k
from ppodc.kmeans.shares.products import TransferProducts
from ppodc.mpc import compare, correlated_ot, multiply, select
from ppodc.mpc.spill import Budget
from ppodc.records.sharing import mask, split
from tests.mpc.pair import opened, share


def shared_bits(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    own = np.random.default_rng(8).integers(0, 2, bits.shape).astype(np.uint8)
    return own, own ^ bits


@pytest.mark.parametrize("limbs", [1, 2, 5])
@pytest.mark.parametrize("group", [1, 4])
def test_select(pair, limbs, group):
    g = random.Random(limbs)
    bits = np.array([0, 1] * 4 + [1, 1, 0, 0], np.uint8)
    values = [g.getrandbits(64 * limbs) for _ in range(4 * 3)]
    rows = share(values, limbs, (4, 3))
    result = opened(pair.run(select.select, shared_bits(bits), rows, (group, group)))
    expected = [0] * (len(bits) // group * 3)
    for o, bit in enumerate(bits.tolist()):
        for c in range(3):
            expected[o // group * 3 + c] += bit * values[o % 4 * 3 + c]
    assert result == [x % (1 << (64 * limbs)) for x in expected]


@pytest.mark.parametrize("limbs", [1, 2, 3, 40])
def test_scale_multiplies_columns_by_a_scalar(pair, limbs):
    g, modulus = random.Random(limbs), 1 << (64 * limbs)
    scalars = [0, modulus - 1, g.randrange(modulus)]
    columns = [g.randrange(modulus) for _ in range(6)]
    result = opened(pair.run(multiply.scale, share(scalars, limbs), share(columns, limbs, (3, 2))))
    assert result == [scalars[i // 2] * c % modulus for i, c in enumerate(columns)]


@pytest.mark.parametrize(
    ("limbs", "width"), [(1, 1), (1, 4), (1, 5), (1, 63), (2, 64), (2, 117), (3, 191), (20, 1279)]
)
def test_sign_of_edges_and_random_numbers(pair, limbs, width):
    g, most = random.Random(width), (1 << width) - 1
    values = [0, 1, -1, most, -most, *(g.randrange(-most, most + 1) for _ in range(150))]
    first, second = pair.run(compare.sign, share(values, limbs), (width, width))
    assert (first ^ second).unpack(len(values)).tolist() == [int(x < 0) for x in values]


def test_sign_when_shares_are_extreme(pair):
    """Carries through all digits and none: shares chosen, not drawn."""
    from ppodc.mpc import additive

    top = (1 << 128) - 1
    own = [0, top, 1, 1 << 127, (1 << 127) - 1, top]
    values = [0, 0, -1, 5, -5, -1]
    first = additive.AdditiveShare(additive.limbs_of(own, 2))
    second = additive.AdditiveShare(additive.limbs_of(values, 2)) - first
    signs = pair.run(compare.sign, (first, second), (127, 127))
    assert (signs[0] ^ signs[1]).unpack(6).tolist() == [0, 0, 1, 0, 1, 1]


def test_widen_keeps_the_number(pair):
    values = [0, 1, (1 << 64) - 1, 12345678901234567890]
    for limbs in (1, 2, 4):
        assert opened(pair.run(scaling.widen, share(values, 1), (limbs, limbs))) == values


@pytest.mark.parametrize("k", range(1, 9))
def test_products_of_all_and_of_all_others(pair, k):
    counts = [random.Random(k).randrange(1, 1000) for _ in range(k)]
    first, second = pair.run(scaling._products, share(counts, 2))
    whole = 1
    for count in counts:
        whole *= count
    assert opened((first[0], second[0])) == [whole]
    assert opened((first[1], second[1])) == [whole // count for count in counts]


@pytest.mark.parametrize("k", [2, 3, 4, 5, 7, 8, 13])
def test_smin_k_is_argmin_with_ties_to_the_lowest(pair, k):
    g = np.random.default_rng(k)
    columns = g.integers(-2, 3, (150, k - 1))  # few values: many ties
    columns[0] = 0
    values = share(columns.reshape(-1).tolist(), 2, (150, k - 1))
    before = pair.stocks[0].available()
    needs = smin_k.needs(150, k, 70)
    pair.run(lambda _, stock: stock.reserve(needs))
    had = pair.stocks[0].available()
    first, second = pair.run(smin_k.smin_k, values, (70, 70))
    hot = np.stack([(a ^ b).unpack(150) for a, b in zip(first, second, strict=True)])
    expected = np.argmin(np.hstack([np.zeros((150, 1), int), columns]), axis=1)
    assert np.array_equal(hot, np.eye(k, dtype=np.uint8)[expected].T)
    left = pair.stocks[0].available()
    assert had - left == needs, "needs() must be what is used"
    assert before.leaves <= had.leaves


@pytest.mark.parametrize(("ub", "limbs", "top"), [(1, 1, 4), (1000, 2, 8), (1023, 3, 1)])
def test_ingest_and_products(pair, ub, limbs, top):
    g = np.random.default_rng(ub)
    records = g.integers(0, ub + 1, (70, 3))
    records[0], records[1] = 0, ub
    own, seed = split(records)
    shares = (own, mask(seed, 0, 70, 3))
    bits = ub.bit_length()
    first, second = pair.run(
        lambda session, stock, part: ingest.ingest(
            session, stock, part, bits, limbs, top, Budget(1 << 30)
        ),
        shares,
    )
    modulus = 1 << (64 * (limbs - 1) + (64 if limbs == 1 else 8 * top))
    values = [x % modulus for x in opened((first.additive(0, 70), second.additive(0, 70)))]
    assert values == records.reshape(-1).tolist()
    made = pair.run(
        lambda session, _, shard: TransferProducts().make(session, shard, 10, 60, 4),
        (first, second),
    )
    matrix = np.array(opened((made[0].matrix, made[1].matrix)), object).reshape(3, 4)
    products = np.array(opened((made[0].products, made[1].products)), object).reshape(50, 4)
    modulus = 1 << (64 * (limbs - 1) + 8 * top)
    assert np.array_equal(products % modulus, (records[10:60].astype(object) @ matrix) % modulus)


def test_an_upload_out_of_range_becomes_a_number_of_the_agreed_bits(pair):
    shares = (np.full((1, 1), 5000, np.uint64), np.zeros((1, 1), np.uint64))
    first, second = pair.run(
        lambda session, stock, part: ingest.ingest(session, stock, part, 10, 1, 8, Budget(1 << 30)),
        shares,
    )
    assert opened((first.additive(0, 1), second.additive(0, 1))) == [5000 % 1024]


@pytest.mark.parametrize(
    ("bits", "size"), [(1, 1), (8, 1), (9, 2), (50, 8), (64, 8), (65, 1), (135, 1), (150, 4)]
)
def test_bytes_of_the_last_limb(bits, size):
    assert correlated_ot.top_bytes(bits) == size
