"""Silent transfers: trees, code, check, batches, and supplies that are made from them."""

import itertools

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import ChannelError, CheckError, InputError
from ppodc.mpc.ot import column_check
from ppodc.mpc.ot.aes_instructions import BLOCKS
from ppodc.mpc.ot.code import LEAVES, ROWS
from ppodc.mpc.ot.silent import local_code, point_trees
from ppodc.mpc.ot.silent.batch import CHOICE, Batch, with_choice
from ppodc.mpc.ot.silent.noise import LOCALITY, NOISE, Noise
from ppodc.mpc.ot.silent.point_check import Challenge, times
from ppodc.mpc.ot.silent.source import SilentSource
from ppodc.mpc.ot.transfer import Lot
from ppodc.mpc.session import Session
from ppodc.mpc.shares.xor_bits import unpack
from ppodc.mpc.supplies import Needs
from tests.harness.together import together
from tests.mpc import lpn_attacks as attacks
from tests.mpc.lpn_attacks import costs
from tests.mpc.pair import JOB, Pair
from tests.mpc.uniform import assert_balanced, assert_never_again

U64 = np.uint64
SMALL = Noise(1 << 8, 40, 6)  # insecure: quick
KEY = b"a public AES key"


def bits(shape) -> np.ndarray:
    return (SecureRandom().uint64(shape) & U64(1)).astype(np.uint8)


def delta_with_choice() -> np.ndarray:
    return with_choice(SecureRandom().uint64((2,)))


def carryless(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product in GF(2^128), by whole numbers."""
    x, y = (int(n[0]) | int(n[1]) << 64 for n in (a, b))
    product = 0
    for place in range(128):
        product ^= (x << place) * (y >> place & 1)
    for place in range(254, 127, -1):
        if product >> place & 1:
            product ^= ((1 << 128) | 0x87) << (place - 128)
    return np.array([product & (2**64 - 1), product >> 64], U64)


def fits(sender, receiver) -> None:
    """q = t ^ D_r for all transfers of a lot."""
    chosen = unpack(receiver.choices, len(receiver.t)).astype(np.intp)
    r = sum(plane << j for j, plane in enumerate(chosen))
    assert np.array_equal(sender.q ^ receiver.t, sender.offsets[r])


# ------------------------------------------------------------------------- parameters


def test_every_known_attack_on_the_parameters_costs_128_bits():
    found = costs(NOISE)
    assert len(found) == 12
    assert min(found.values()) >= 128, found
    assert NOISE.k & (NOISE.k - 1) == 0
    assert NOISE.gained > 8 * NOISE.base


def test_attacks_see_what_makes_parameters_weak():
    weak = Noise(124_000, 4_971, 11)  # few secret bits for many rows: equations of degree 2 do
    assert attacks.algebraic(weak) < 80 < attacks.pooled_gauss(weak.n, weak.k, weak.t)
    n, k, t = NOISE.n, NOISE.k, NOISE.t
    for attack in (attacks.pooled_gauss, attacks.enumeration, attacks.representations):
        assert attack(n, k / 2, t) < attack(n, k, t)
        assert attack(n, k, t // 2) < attack(n, k, t)
        assert attack(2 * n, k, t) < attack(n, k, t)
    assert attacks.sparsest(20) < attacks.sparsest(10) < 10 ** (-1 / 9)


# ------------------------------------------------------------------------------ trees


def test_trees_differ_by_delta_where_the_path_ends():
    delta, path = delta_with_choice(), bits((30, 7))
    leaves, sums = point_trees.grow(KEY, delta, SecureRandom().uint64((30, 2)), 7)
    sides = sums ^ (1 - path)[..., None].astype(U64) * delta
    restored = point_trees.restore(KEY, sides, path)
    noise = np.zeros((30, 128), U64)
    noise[np.arange(30), point_trees.ends(path)] = 1
    assert np.array_equal(leaves ^ restored, noise[..., None] * delta)
    assert np.array_equal(restored[..., 0] & CHOICE, noise)
    assert not (leaves[..., 0] & CHOICE).any()


@pytest.mark.skipif(not BLOCKS, reason="this processor has no instructions for AES")
def test_trees_by_instructions_and_by_the_library_are_the_same(monkeypatch):
    delta, roots, path = delta_with_choice(), SecureRandom().uint64((9, 2)), bits((9, 8))
    sides = SecureRandom().uint64((9, 8, 2))
    native = *point_trees.grow(KEY, delta, roots, 8), point_trees.restore(KEY, sides, path)
    monkeypatch.setattr(point_trees, "BLOCKS", 0)
    library = *point_trees.grow(KEY, delta, roots, 8), point_trees.restore(KEY, sides, path)
    for one, other in zip(native, library, strict=True):
        assert np.array_equal(one, other)


# ------------------------------------------------------------------------------- code


@pytest.mark.parametrize("first", [0, 1, 4095, 6000])
def test_a_row_is_the_sum_of_ten_secret_rows(first):
    table = np.zeros((1 << 5, 4), U64)
    table[:, 0] = U64(1) << np.arange(32, dtype=U64)
    table[:, 2] = table[:, 0] << U64(7)
    q, t = np.zeros((9001, 2), U64), np.zeros((9001, 2), U64)
    local_code.encode(KEY, table, 0, q, t, bits=5)
    assert np.array_equal(q << U64(7), t)
    weights = [int(row).bit_count() for row in q[:, 0]]
    assert max(weights) == LOCALITY
    assert {w % 2 for w in weights} == {0}
    places = np.unpackbits(q[:, 0].astype("<u4").view(np.uint8)).reshape(9001, 32).sum(axis=0)
    assert places.min() > 0.8 * places.mean()
    assert places.max() < 1.2 * places.mean()
    later, other = np.zeros((50, 2), U64), np.zeros((50, 2), U64)
    local_code.encode(KEY, table, first, later, other, bits=5)
    assert np.array_equal(later, q[first : first + 50])
    assert np.array_equal(other, t[first : first + 50])


# ------------------------------------------------------------------------ rows and leaves


def test_rows_and_leaves_of_many_batches_fit(pair):
    lots = [
        *(Lot(ROWS, count) for count in (1, 63, 64, 1000, 2500, 7001)),
        *(Lot(LEAVES, count) for count in (1, 5, 640, 2000)),
        *(Lot(code, 300) for _ in range(5) for code in (ROWS, LEAVES)),
    ]

    def draw(session):
        source = SilentSource(session.ot, SMALL)
        runs = [lots[:2], lots[2:9], [], lots[9:]]
        return [made for run in runs for made in source.extend(run)], source._batches

    (first, batches), (second, same) = pair.run(draw)
    assert batches == same > 10
    for lot, one, other in zip(lots, first, second, strict=True):
        assert len(one.q) == len(one.t) == lot.count
        fits(one, other)
        fits(other, one)
    every = np.concatenate([unpack(made.choices, len(made.t)).reshape(-1) for made in first])
    assert 0.47 < every.mean() < 0.53
    for made in (first, second):  # no row twice
        rows = np.concatenate([one.q for one in made])
        assert len(np.unique(rows, axis=0)) == len(rows)


def test_rows_that_are_made_beside_other_steps_fit(pair):
    lots = [Lot(ROWS, 900), *(Lot(LEAVES, 500) for _ in range(6)), Lot(ROWS, 64)]

    def draw(session):
        source, made, stops = SilentSource(session.ot, SMALL), [], itertools.count()

        def work():
            for one in source.extend_beside(lots, 4):
                if one is None:
                    next(stops)
                    yield
                else:
                    made.append(one)

        session.link.do_beside(work())
        for turn in range(5):
            session.link.exchange("shares.stop", np.array([turn], U64))
        session.link.finish_beside()
        return made, next(stops)

    (first, stops), (second, _) = pair.run(draw)
    assert stops == 7
    for one, other in zip(first, second, strict=True):
        fits(one, other)
        fits(other, one)


def test_offsets_of_leaves_are_multiples_of_delta(pair):
    made = pair.run(lambda session: list(SilentSource(session.ot, SMALL).extend([Lot(LEAVES, 1)])))
    for session, (lot,) in zip(pair.sessions, made, strict=True):
        delta = with_choice(session.ot.delta)
        for v in range(16):
            assert np.array_equal(lot.offsets[v], carryless(np.array([v, 0], U64), delta))
        assert len(np.unique(lot.offsets, axis=0)) == 16


def test_chosen_transfers_are_none_of_its_business(pair):
    source = SilentSource(pair.sessions[0].ot, SMALL)
    with pytest.raises(ValueError, match="random choices"):
        list(source.extend([Lot(ROWS, 64, np.zeros(1, U64))]))


# ------------------------------------------------------------------------------ check


def batches(pair) -> tuple[Batch, Batch]:
    """Both ends of a batch, from a base that a trusted party makes."""
    source, count = SecureRandom(), SMALL.base
    q = [source.uint64((count, 2)) for _ in range(2)]
    for rows in q:
        rows[:, 0] &= ~CHOICE
    chosen = [bits(count).astype(U64)[:, None] for _ in range(2)]
    t = [q[1 - i] ^ chosen[i] * with_choice(pair.sessions[1 - i].ot.delta) for i in range(2)]
    made = [Batch(pair.sessions[i].ot, SMALL, 7, q[i], t[i]) for i in range(2)]
    return made[0], made[1]


def test_an_honest_batch_passes_in_both_directions(pair):
    one, other = batches(pair)
    sums = one.take(other.corrections), other.take(one.corrections)
    one.verdict.verify(other.verdict.answer(sums[0]))
    other.verdict.verify(one.verdict.answer(sums[1]))


@pytest.mark.parametrize("level", range(SMALL.depth))
def test_a_false_correction_is_caught(pair, level):
    sender, receiver = batches(pair)
    false = sender.corrections.copy()
    false[3, level, 1] ^= U64(1) << U64(40)
    told = receiver.take(false)
    with pytest.raises(CheckError, match="silent transfers do not fit"):
        receiver.verdict.verify(sender.verdict.answer(told))


def test_a_false_sum_and_a_false_answer_are_caught(pair):
    sender, receiver = batches(pair)
    told = receiver.take(sender.corrections)
    answer = sender.verdict.answer(told)
    changed = answer.copy()
    changed[5] ^= 1
    with pytest.raises(CheckError):
        receiver.verdict.verify(changed)
    with pytest.raises(CheckError):
        receiver.verdict.verify(sender.verdict.answer(told ^ np.array([1, 0], U64)))
    receiver.verdict.verify(answer)


@pytest.mark.parametrize("right", [True, False])
def test_a_sender_that_guesses_a_path_passes_only_if_it_is_right(pair, right):
    """Its error of the last level reaches two leaves that the guess names."""
    sender, receiver = batches(pair)
    error, tree = np.array([0, 1 << 17], U64), 11
    false = sender.corrections.copy()
    false[tree, -1] ^= error
    challenge = Challenge.of(sender.verdict.own, false, SMALL.depth)
    old = Challenge.of(sender.verdict.own, sender.corrections, SMALL.depth)
    leaves = sender._q.reshape(SMALL.t, -1, 2)
    end = int(point_trees.ends(1 - (receiver._t_trees[:, :, 0] & CHOICE).astype(np.uint8))[tree])
    guess = end >> 1 if right else (end >> 1) ^ 5
    chi = challenge.leaves.reshape(-1, 2)
    both = chi[2 * guess] ^ chi[2 * guess + 1]
    reached = times(times(challenge.trees.reshape(-1, 2)[tree], both), error)
    sender.verdict.sum ^= old.sum(leaves) ^ challenge.sum(leaves) ^ reached
    answer = sender.verdict.answer(receiver.take(false))
    if right:
        receiver.verdict.verify(answer)
    else:
        with pytest.raises(CheckError):
            receiver.verdict.verify(answer)


def test_a_cheating_cloud_ends_the_run_before_anything_is_handed_out():
    pair = Pair(silent=True)
    for session in pair.sessions:
        session.supplies._source._noise = SMALL
    channel, kinds = pair.channels[0], itertools.count()

    def send(kind, body=None, arrays=(), true=channel.send):
        arrays = [np.array(array) for array in arrays]
        if kind == "shares.silent" and next(kinds) == 2:  # the third batch
            arrays[0][0, 0, 0] ^= U64(4)
        true(kind, body, arrays)

    channel.send = send
    with pytest.raises((CheckError, ChannelError)):
        pair.run(lambda session: session.supplies.reserve(Needs(pairs=150)))
    assert pair.sessions[1].supplies.available() == Needs()


def test_products_of_the_field_are_those_of_whole_numbers():
    for a, b in SecureRandom().uint64((20, 2, 2)):
        assert np.array_equal(times(a, b), carryless(a, b))
    assert column_check.CHALLENGE_BYTES == 16


# --------------------------------------------------------------------------- supplies


def test_supplies_of_silent_transfers_fit():
    pair = Pair(silent=True)

    def draw(session):
        supplies = session.supplies
        supplies.reserve(Needs(leaves=3000, pairs=40, transfers=500))
        return supplies.take_leaves(3000), supplies.take_pairs(40), supplies.take_transfers(500)

    first, second = pair.run(draw)
    for (table, _), (_, mine) in ((first[0], second[0]), (second[0], first[0])):
        choices, pads = mine & 15, mine >> 4
        assert np.array_equal(table >> (2 * choices).astype(np.uint32) & 3, pads)
        others = table >> (2 * (choices ^ 6)).astype(np.uint32) & 3
        assert 0.2 < np.mean(others == pads) < 0.3
    a, b0, b1, c0, c1 = first[1] ^ second[1]
    assert np.array_equal(a & b0, c0)
    assert np.array_equal(a & b1, c1)
    for (pairs, _, _), (_, key, choice) in ((first[2], second[2]), (second[2], first[2])):
        picked = np.where(choice[:, None], pairs[:, 2:], pairs[:, :2])
        assert np.array_equal(picked, key)
    for channel in pair.channels:
        sent = channel.bytes_of("shares.silent")
        assert sent.nbytes == 16 * NOISE.t * NOISE.depth
        assert_balanced(sent.view(U64))
        assert_never_again(sent.view(U64))


def test_both_clouds_must_want_silent_supplies():
    with pytest.raises((InputError, ChannelError), match=r"different jobs|peer|closed"):
        together(
            lambda c: Session.start(1, c, JOB, silent=True),
            lambda c: Session.start(2, c, JOB),
        )


def test_stored_supplies_of_both_kinds_are_kept_apart(tmp_path):
    def run(silent):
        def half(role):
            def work(channel):
                folder = tmp_path / str(role)
                session = Session.start(role, channel, JOB, pools=folder, silent=silent)
                try:
                    found = session.supplies.available()
                    session.supplies.prepare(Needs(transfers=64))
                    return found
                finally:
                    session.close()

            return work

        return together(half(1), half(2))

    assert run(silent=True) == (Needs(), Needs())
    assert run(silent=False) == (Needs(), Needs())
    assert run(silent=True) == (Needs(transfers=64), Needs(transfers=64))
