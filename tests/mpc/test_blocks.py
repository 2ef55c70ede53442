"""Select, multiply, compare, widen, AND and unmask against plaintext."""

import random
from functools import partial
from itertools import product

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.shares import (
    additive,
    and_bits,
    compare,
    join_three,
    look_up,
    multiply,
    quotient,
    select,
    zero_test,
)
from ppodc.mpc.shares.additive import AdditiveShare, limbs_of
from ppodc.mpc.shares.table_products import products, value_bytes
from ppodc.mpc.shares.truncate import drop_bits
from ppodc.mpc.shares.unmask import bit_needs, unmask
from ppodc.mpc.shares.unmask import needs as unmask_needs
from ppodc.mpc.shares.widen import widen
from ppodc.mpc.shares.xor_bits import XorShare, pack
from ppodc.mpc.spill import Budget
from ppodc.records.sharing import mask, split
from tests.mpc.pair import opened, share

JOINS = ({}, {"slow": True}, {"last_three": True})  # of a comparison's digits


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
@pytest.mark.parametrize("joins", JOINS)
def test_sign_of_edges_and_random_numbers(pair, limbs, width, joins):
    g, most = random.Random(width), (1 << width) - 1
    values = [0, 1, -1, most, -most, *(g.randrange(-most, most + 1) for _ in range(150))]
    quick = partial(compare.sign, **joins)
    first, second = pair.run(quick, share(values, limbs), (width, width))
    assert (first ^ second).unpack(len(values)).tolist() == [int(x < 0) for x in values]


def test_three_digits_are_joined_for_all_their_bits(pair):
    """Every digit less, equal or greater: all 27 nodes, and shares of their bits drawn anew."""
    bits = np.array(list(product([(0, 0), (0, 1), (1, 0)], repeat=3)), np.uint8)  # (g, e) by digit
    planes = pack(np.ascontiguousarray(bits.transpose(2, 1, 0)))  # (2, digits, words)
    masks = SecureRandom().uint64(planes.shape)

    def join(session, own):
        nodes = join_three.Nodes(session, 1, planes.shape[2])
        peers = session.link.exchange("first", nodes.first())
        nodes.finish(session.link.exchange("second", nodes.second(peers)))
        return nodes.join(session, slice(0, 1), "join", (XorShare(own[0]), XorShare(own[1])))

    (g1, e1), (g2, e2) = pair.run(join, (masks, masks ^ planes))
    found = np.stack([(g1 ^ g2).unpack(27)[0], (e1 ^ e2).unpack(27)[0]], axis=1)
    # the highest digit that differs decides
    expected = [next((d for d in node[::-1].tolist() if not d[1]), [0, 1]) for node in bits]
    assert found.tolist() == expected


def test_needs_of_a_comparison_are_what_it_takes(pair):
    def work(session, joins):
        needs = compare.needs(100, 76, **joins)
        session.supplies.reserve(needs)
        before = session.supplies.available()
        rounds = session.link.channel.traffic.rounds
        compare.sign(session, AdditiveShare(np.zeros((100, 2), np.uint64)), 76, **joins)
        assert session.supplies.available() == before - needs
        return session.link.channel.traffic.rounds - rounds, compare.rounds(100, 76, **joins)

    for joins, wanted in zip(JOINS, (7, 5, 6), strict=True):
        assert pair.run(work, (joins, joins)) == ((wanted, wanted), (wanted, wanted))


def test_sign_when_shares_are_extreme(pair):
    """Carries through all digits and none: shares chosen, not drawn."""
    top = (1 << 128) - 1
    own = [0, top, 1, 1 << 127, (1 << 127) - 1, top]
    values = [0, 0, -1, 5, -5, -1]
    first = additive.AdditiveShare(additive.limbs_of(own, 2))
    second = additive.AdditiveShare(additive.limbs_of(values, 2)) - first
    signs = pair.run(compare.sign, (first, second), (127, 127))
    assert (signs[0] ^ signs[1]).unpack(6).tolist() == [0, 0, 1, 0, 1, 1]


@pytest.mark.parametrize("length", [1, 2])
def test_widen_keeps_numbers_below_half_of_the_ring(pair, length):
    values = [0, 1, (1 << (64 * length - 1)) - 1, 1234567890123456789] * 8
    for limbs in (1, 2, 4):
        expected = [x % (1 << (64 * min(limbs, length))) for x in values]
        if limbs >= length:
            expected = values
        assert opened(pair.run(widen, share(values, length), (limbs, limbs))) == expected


@pytest.mark.parametrize("limbs", [1, 2])
def test_widen_from_half_a_limb_whatever_the_other_half_holds(pair, limbs):
    values = [0, 1, (1 << 31) - 1, 123456789] * 8
    parts = share(values, 1)  # modulo 2^64, so that the upper halves are random
    assert opened(pair.run(widen, parts, (limbs, limbs), (32, 32))) == values


@pytest.mark.parametrize("bits", [1, 3, 10, 16])
@pytest.mark.parametrize("count", [1, 5])
def test_look_up(pair, bits, count):
    g, size, limbs = random.Random(bits), 1 << bits, 3
    numbers = [g.getrandbits(192) for _ in range(size)]
    table = additive.limbs_of(numbers, limbs)
    indices = [0, size - 1, *(g.randrange(size) for _ in range(count))][:count]
    shares = share(indices, 1)
    needs = look_up.needs(count, bits)
    pair.run(lambda session: session.supplies.reserve(needs))
    before = pair.sessions[0].supplies.available()
    found = pair.run(
        lambda session, own: look_up.look_up(
            session, own.limbs[:, 0], bits, lambda first, n: table[first : first + n], limbs
        ),
        shares,
    )
    assert opened(found) == [numbers[n] for n in indices]
    assert before - pair.sessions[0].supplies.available() == needs, "needs() must be what is used"


def test_a_path_is_walked_before_the_first_entries_arrive(pair, monkeypatch):
    """Hashing between two messages would show in which part the secret index lies."""
    events = {session.role: [] for session in pair.sessions}
    walk = look_up._walk
    monkeypatch.setattr(
        look_up, "_walk", lambda ot, *rest: (events[ot.role].append("walk"), walk(ot, *rest))[1]
    )
    for session in pair.sessions:
        receive, seen = session.link.receive, events[session.role]

        def noted(kind, *shape, receive=receive, seen=seen):
            seen.extend(["entries"] if kind == look_up._ENTRIES else [])
            return receive(kind, *shape)

        monkeypatch.setattr(session.link, "receive", noted)
    table, shares = additive.limbs_of(list(range(8)), 1), share([3, 5, 6, 0], 1)
    pair.run(
        lambda session, own: look_up.look_up(
            session, own.limbs[:, 0], 3, lambda first, n: table[first : first + n], 1
        ),
        shares,
    )
    for seen in events.values():
        assert seen == ["walk"] * 2 + ["entries"] * 2


@pytest.mark.parametrize(("bits", "limbs"), [(1, 1), (60, 1), (80, 2), (128, 2)])
@pytest.mark.parametrize("count", [1, 7])
def test_numbers_are_all_zero_or_not(pair, bits, limbs, count):
    """One number at the least distance from zero, in any place, is enough."""
    others = [1, 1 << (bits - 1), (1 << bits) - 1]
    cases = [
        [0] * count,
        *([0] * i + [x] + [0] * (count - 1 - i) for x in others for i in (0, count - 1)),
    ]
    needs = zero_test.needs(count, bits)
    for values in cases:
        pair.run(lambda session: session.supplies.reserve(needs))
        before = pair.sessions[0].supplies.available()
        first, second = pair.run(zero_test.all_zero, share(values, limbs), (bits, bits))
        assert first ^ second == (not any(values))
        assert before - pair.sessions[0].supplies.available() == needs


@pytest.mark.parametrize("bits", [1, 63, 64, 70, 130])
def test_dropped_bits_leave_an_error_of_one_at_most(bits):
    g = random.Random(bits)
    ring, left = 1 << 192, 1 << (192 - bits)
    values = [0, 1, ring - 1, (1 << bits) - 1, *(g.getrandbits(192) for _ in range(200))]
    halves = [drop_bits(own, bits, role) for role, own in enumerate(share(values, 3), 1)]
    for value, got in zip(values, opened(tuple(halves)), strict=True):
        error = (got - (value >> bits) + 1) % left - 1  # against the number rounded down
        assert error in (0, 1)


def unmasked(pair, records, bits, **ring):
    """A table of shared records at both clouds, and what its additive shares open to."""
    rows, columns = records.shape
    own, seed = split(records)
    tables = pair.run(
        lambda session, part: unmask(session, part, bits, Budget(1 << 30), **ring),
        (own, mask(seed, 0, rows, columns)),
    )
    return tables, opened(tuple(table.additive(0, rows) for table in tables))


@pytest.mark.parametrize(("ub", "limbs", "top"), [(1, 1, 8), (1000, 2, 8), (1023, 3, 1)])
def test_unmask_gives_bits_and_numbers(pair, ub, limbs, top):
    records = np.random.default_rng(ub).integers(0, ub + 1, (70, 3))
    records[0], records[1] = 0, ub
    bits = ub.bit_length()
    needs = unmask_needs(70, 3, bits) + bit_needs(70, 3, bits)
    pair.run(lambda session: session.supplies.reserve(needs))
    before = pair.sessions[0].supplies.available()
    (first, second), values = unmasked(pair, records, bits, limbs=limbs, top=top)
    shared = np.bitwise_xor(*pair.run(lambda _, table: table.choices(5, 60), (first, second)))
    assert before - pair.sessions[0].supplies.available() == needs, "needs() must be what is used"
    modulus = 1 << (64 * (limbs - 1) + 8 * top)
    assert [x % modulus for x in values] == records.reshape(-1).tolist()
    expected = (records[5:60, :, None] >> np.arange(bits)) & 1
    assert np.array_equal(shared, expected.reshape(-1))
    first.close()
    second.close()


def test_sums_of_squares_from_bits_and_numbers(pair):
    """sum t^2 = sum_j 2^j sum_i bit_j(i) t_i: what a job on columns needs of the engine."""
    records = np.random.default_rng(7).integers(0, 1001, (70, 1))
    tables, _ = unmasked(pair, records, 10)

    def squares(session, table):
        planes = pack(np.ascontiguousarray(table.choices(0, 70).reshape(70, 10).T))
        members = [XorShare(plane) for plane in planes]
        by_bit = select.sum_selected(session, members, table.additive(0, 70))
        powers = [by_bit[j].times(1 << j) for j in range(10)]
        return sum(powers[1:], powers[0])

    assert opened(pair.run(squares, tables)) == [int((records**2).sum())]


@pytest.mark.parametrize("ub", [1, 2, 5, 8, 14, 15])
def test_every_pair_of_words_becomes_a_number_up_to_the_largest(pair, ub):
    """All x and r of as many bits, sent by either cloud: min((x - r) mod 2^b, ub)."""
    bits = ub.bit_length()
    x, r = (plane.reshape(-1, 1) for plane in np.indices((1 << bits, 1 << bits), np.uint64))
    x, r = np.concatenate([x, x[::-1]]), np.concatenate([r, r[::-1]])
    for largest in (ub, None):
        needs = unmask_needs(len(x), 1, bits, largest)
        pair.run(lambda session, needs=needs: session.supplies.reserve(needs))
        before = pair.sessions[0].supplies.available()
        tables = pair.run(
            lambda session, own, largest=largest: unmask(
                session, own, bits, Budget(1 << 20), largest=largest, limbs=2, top=4
            ),
            (x, r),
        )
        assert before - pair.sessions[0].supplies.available() == needs
        expected = np.minimum((x - r).reshape(-1) % (1 << bits), largest or x.max())
        values = opened(tuple(table.additive(0, len(x)) for table in tables))
        assert [value % (1 << 96) for value in values] == expected.tolist()


@pytest.mark.parametrize("ub", [1000, (1 << 20) - 3, 1 << 20])
def test_hostile_words_count_as_numbers_up_to_the_largest(pair, ub):
    bits, g = ub.bit_length(), np.random.default_rng(ub)
    x, r = g.integers(0, 2**64, (2, 210, 3), np.uint64)
    edges = np.array([0, 1, ub - 1, ub, ub + 1, (1 << bits) - 1, 1 << bits], np.uint64)
    x[0, :], x[:7, 1] = r[0, :], r[:7, 1] + edges
    tables = pair.run(
        lambda session, own: unmask(session, own, bits, Budget(1 << 20), largest=ub), (x, r)
    )
    expected = np.minimum((x - r).reshape(-1) % np.uint64(1 << bits), ub)
    assert opened(tuple(table.additive(0, 210) for table in tables)) == expected.tolist()
    shared = np.bitwise_xor(*pair.run(lambda _, table: table.choices(0, 210), tables))
    planes = (expected[:, None] >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    assert np.array_equal(shared, planes.reshape(-1))


def test_an_upload_out_of_range_becomes_a_number_of_the_agreed_bits(pair):
    shares = (np.full((1, 1), 5000, np.uint64), np.zeros((1, 1), np.uint64))
    first, second = pair.run(
        lambda session, part: unmask(session, part, 10, Budget(1 << 30)), shares
    )
    assert opened((first.additive(0, 1), second.additive(0, 1))) == [5000 % 1024]


@pytest.mark.parametrize("count", [1, 64, 200])
def test_and_of_shared_bits(pair, count):
    g = np.random.default_rng(count)
    x, y0, y1 = (g.integers(0, 2**64, count, np.uint64) for _ in range(3))
    shares = [
        (XorShare(own), XorShare(own ^ plain))
        for plain, own in ((p, g.integers(0, 2**64, count, np.uint64)) for p in (x, y0, y1))
    ]
    first, second = pair.run(and_bits.and_two, *shares)
    for a, b, expected in zip(first, second, (x & y0, x & y1), strict=True):
        assert np.array_equal((a ^ b).words, expected)
    one = pair.run(and_bits.and_one, *shares[:2])
    assert np.array_equal((one[0] ^ one[1]).words, x & y0)


@pytest.mark.parametrize(
    ("bits", "size"), [(1, 1), (8, 1), (9, 2), (50, 8), (64, 8), (65, 1), (135, 1), (150, 4)]
)
def test_bytes_of_the_last_limb(bits, size):
    assert correlated_ot.top_bytes(bits) == size


@pytest.mark.parametrize(("bits", "width"), [(8, 17), (8, 40), (10, 9), (1, 12), (8, 64), (10, 16)])
def test_table_products_with_only_the_bytes_that_count(pair, bits, width):
    g = np.random.default_rng(width)
    values, matrix = g.integers(0, 1 << bits, (6, 3)), g.integers(0, 1 << 20, (3, 7))
    masks = SecureRandom().uint64((6, 3))
    tables = pair.run(
        lambda session, own: unmask(session, own, bits, Budget(1 << 20)),
        (values.astype(np.uint64) + masks, masks),
    )
    before = len(pair.channels[0].bytes_of("shares.correlated"))
    first, second = pair.run(
        lambda session, table, own: products(session, table, 1, 6, own, width),
        tables,
        share([int(v) for v in matrix.reshape(-1)], 1, (3, 7)),
    )
    below = np.uint64((1 << width) - 1)
    found = (first + second).limbs[..., 0] & below
    assert np.array_equal(found, (values[1:] @ matrix).astype(np.uint64) & below)
    sent = len(pair.channels[0].bytes_of("shares.correlated")) - before
    assert sent == 5 * 3 * 7 * value_bytes(bits, width)


def test_quotients_are_exact_whatever_the_shares_are(pair):
    """All low parts of both shares, at both ends of the room that an error has."""
    values = [16 * x + e for x in (0, 5, 2**59 + 3) for e in range(8)] * 16
    first = AdditiveShare(np.arange(len(values), dtype=np.uint64)[:, None] // np.uint64(24))
    shares = first, AdditiveShare(limbs_of(values, 1)) - first
    found = opened(pair.run(quotient.quotient, shares, (4, 4)))
    assert [x % 2**60 for x in found] == [value // 16 for value in values]


@pytest.mark.parametrize("limbs", [1, 2])
@pytest.mark.parametrize("top", [1, 4, 8])
def test_one_round_selects_for_all_bits_and_choices(pair, limbs, top):
    """Every (u, v) meets every random choice c; groups, several parts and repeated rows."""
    g = np.random.default_rng(limbs)
    bits = g.integers(0, 2, (2, 600)).astype(np.uint8)
    values = [int(x) for x in g.integers(0, 2**63, 30)]
    rows = share(values, limbs, (10, 3))
    found = pair.run(
        lambda session, own, part: select.select(session, own, part, 6, top),
        (bits[0], bits[1]),
        rows,
    )
    chosen = (bits[0] ^ bits[1]).reshape(100, 6).astype(object)
    table = np.array(values, object).reshape(10, 3)
    places = np.arange(600).reshape(100, 6) % 10
    expected = (chosen[..., None] * table[places]).sum(axis=1).reshape(-1)
    right = 1 << (64 * (limbs - 1) + 8 * top)
    assert [x % right for x in opened(found)] == [x % right for x in expected]


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("table", [7, 40_000])
def test_selects_in_lanes(pair, kind, table):
    """Every (u, v) meets every random choice c; several messages, rows repeated or not."""
    g, count = np.random.default_rng(table), 40_000
    bits = g.integers(0, 2, (2, count)).astype(np.uint8)
    rows = g.integers(0, np.iinfo(kind).max + 1, (2, table, 9)).astype(kind)
    found = pair.run(select.select_lanes, tuple(bits), tuple(rows))
    whole = (rows[0] + rows[1])[np.arange(count) % table]
    assert found[0].dtype == kind
    assert np.array_equal(found[0] + found[1], whole * (bits[0] ^ bits[1])[:, None])


@pytest.mark.parametrize("liar", [1, 2])
def test_a_sender_of_selects_that_deviates_moves_the_result_by_its_own_error(pair, liar):
    """y + d gives the error (-1)^f (v ^ f) d of the header: 0, d or -d."""
    g, d = np.random.default_rng(liar), 1000
    bits = g.integers(0, 2, (2, 64)).astype(np.uint8)
    values = [int(x) for x in g.integers(0, 2**40, 64)]
    rows = share(values, 1, (64, 1))
    channel = pair.channels[liar - 1]
    send = channel.send

    def sending(kind, body=None, arrays=()):
        if kind == "shares.correlated":
            arrays = [np.array(array) + np.uint64(d) for array in arrays]
        send(kind, body, arrays)

    channel.send = sending
    try:
        found = opened(pair.run(select.select, (bits[0], bits[1]), rows))
    finally:
        del channel.send
    right = [int(b) * v for b, v in zip(bits[0] ^ bits[1], values, strict=True)]
    errors = {(x - y) % 2**64 for x, y in zip(found, right, strict=True)}
    assert errors == {0, d, 2**64 - d}
