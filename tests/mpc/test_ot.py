"""Base transfers, OT extension, the hash, and what is made from them; known answers."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import PoolError
from ppodc.mpc.messages import PeerLink
from ppodc.mpc.ot import bit_transpose, digit_ot, leaf_streams, random_ot, trees
from ppodc.mpc.ot.aes import _INSTANCES, Hash, Tweaks
from ppodc.mpc.ot.aes_instructions import BLOCKS
from ppodc.mpc.ot.code import LEAVES, ROWS
from ppodc.mpc.ot.extension import Receiver, Sender, rows_of
from ppodc.mpc.ot.recipe import make
from ppodc.mpc.ot.transfer import LOT_LEAVES, LOT_ROWS, Lot, ObliviousTransfer
from ppodc.mpc.shares import and_triples, compare
from ppodc.mpc.shares.additive import AdditiveShare, limbs_of
from ppodc.mpc.shares.xor_bits import unpack
from ppodc.transport.channel import memory_pair
from tests.harness.together import together
from tests.mpc.pair import Pair

WAYS = [False, True] if BLOCKS else [False]  # the hash by the library, by the processor
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "ot_extension.json").read_text())


def digest(*arrays: np.ndarray) -> str:
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(np.ascontiguousarray(array).tobytes())
    return hasher.hexdigest()


def fixed_ends() -> tuple[ObliviousTransfer, ObliviousTransfer]:
    """Transfers whose every secret follows from a seed; the base transfers are given."""
    source = SecureRandom(bytes.fromhex(VECTORS["seed"]))
    senders, receivers = [{}, {}], [{}, {}]
    for role, code in itertools.product((1, 2), (ROWS, LEAVES)):
        delta = np.unpackbits(np.frombuffer(source.bytes(code.columns // 8), np.uint8))
        pairs = source.uint64((code.columns, 2, 2))
        full, message = trees.grow(b"known", pairs, source)
        chosen = pairs[np.arange(code.columns), trees.choices_for(delta)]
        holes = trees.punctured(b"known", delta, chosen, message)
        senders[role - 1][code.number] = Sender(code, delta, holes)
        receivers[2 - role][code.number] = Receiver(code, full)
    channels = memory_pair()
    randoms = [SecureRandom(source.bytes(32)) for _ in range(2)]
    return tuple(
        ObliviousTransfer(
            role,
            PeerLink(channels[role - 1]),
            randoms[role - 1],
            b"known",
            Hash(b"ppodc known hash"),
            senders[role - 1],
            receivers[role - 1],
            Tweaks(),
        )
        for role in (1, 2)
    )


def known_answers() -> dict[str, list[str]]:
    """The values of both clouds from fixed secrets, in this order."""
    sides = fixed_ends()

    def rows(ot):
        (made,) = ot.chosen([ot.random.uint64(8)])
        return made.q, made.t

    steps = {
        "rows": rows,
        "transfers": lambda ot: make(ot, [(random_ot.RECIPE, 100)])[0],
        "pairs": lambda ot: make(ot, [(and_triples.RECIPE, 20)])[0],
        "leaves": lambda ot: make(ot, [(digit_ot.RECIPE, 100)])[0],
    }
    answers = {}
    for name, step in steps.items():
        first, second = together(
            lambda _, step=step: step(sides[0]),
            lambda _, step=step: step(sides[1]),
            tuple(ot.link.channel for ot in sides),
        )
        answers[name] = [digest(*first), digest(*second)]
    return answers


def hashed(sid: bytes, x: int, instance: int, sender: int, number: int) -> int:
    """H(x, t) = P(P(x) ^ t) ^ P(x) from the library alone."""
    text = b"ppodc hash" + sid + (instance >> 20).to_bytes(8, "little")
    key = hashlib.sha256(text).digest()[:16]
    block = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # noqa: S305

    def permuted(y: int) -> int:
        return int.from_bytes(block.update(y.to_bytes(16, "little")), "little")

    tweak = instance | ((sender << 32) ^ number) << 64
    return permuted(permuted(x) ^ tweak) ^ permuted(x)


@pytest.mark.parametrize("instructions", WAYS)
@pytest.mark.parametrize(("count", "blocks"), [(3, 2), (1, 300), (40, 1), (130, 3), (64, 1)])
def test_the_hash_is_the_formula_of_its_docstring(instructions, count, blocks):
    keys = np.random.default_rng(4).integers(0, 2**64, (count, 2), np.uint64)
    first = (1 << 20) - 2  # the third key has another permutation
    out = Hash(b"s" * 32, instructions=instructions).expand(keys, first, 2, blocks)
    for i, (a, b) in enumerate(keys.tolist()):
        for number in range(blocks):
            words = out[i, 2 * number : 2 * number + 2].tolist()
            found = hashed(b"s" * 32, a | b << 64, first + i, 2, number)
            assert words[0] | words[1] << 64 == found


@pytest.mark.parametrize("instructions", WAYS)
@pytest.mark.parametrize("count", [0, 1, 5, 700])
@pytest.mark.parametrize("each", [1, 2, 16])
def test_two_bits_are_those_of_the_hash(instructions, count, each):
    g = np.random.default_rng(count)
    rows = g.integers(0, 2**64, (count, 2), np.uint64)
    offsets = g.integers(0, 2**64, (each, 2), np.uint64)
    hasher = Hash(b"k" * 32, instructions=instructions)
    first = (1 << 20) - 33  # two permutations
    found = hasher.two_bits(rows, offsets, first, 1)
    for v in range(each):
        whole = Hash(b"k" * 32).expand(rows ^ offsets[v], first, 1)
        assert np.array_equal(found >> (2 * v) & 3, whole[:, 0] & np.uint64(3))


def test_rows_that_a_receiver_ground_give_the_sender_unequal_pads():
    """Two rows whose inputs to a single permutation would collide, for both pads of the sender.

    With H = P(y) ^ y, y = s(x) ^ t and s(a, b) = (b, a ^ b), a receiver that knows its rows t and
    grinds the seeds of its trees gets s(x) ^ t = s(x') ^ t': then H(q) = H(q') and
    H(q ^ D) = H(q' ^ D), a pad that serves twice, and no consistency check sees it.
    """
    g = np.random.default_rng(12)
    delta = g.integers(0, 2**64, 2, np.uint64)
    a, b = g.integers(0, 2**64, 2, np.uint64).tolist()
    first, second = 5, 77  # instance numbers
    step = first ^ second
    # s(x) ^ s(x') = t ^ t' = (step, 0): b differs by step, and so does a
    rows = np.array([[a, b], [a ^ step, b ^ step]], np.uint64)
    moved = [(int(y[1]) ^ t, int(y[0] ^ y[1])) for y, t in zip(rows, (first, second), strict=True)]
    assert moved[0] == moved[1]  # the rows that the old hash falls for
    for offset in (np.zeros(2, np.uint64), delta):
        pads = [
            Hash(b"s" * 32).expand((row ^ offset)[None], instance, 1)
            for row, instance in zip(rows, (first, second), strict=True)
        ]
        assert not np.array_equal(*pads)


@pytest.mark.skipif(not BLOCKS, reason="this processor has no instructions for AES")
@pytest.mark.parametrize("missing", [False, True])
def test_streams_by_instructions_are_those_of_the_library(missing):
    leaves = np.random.default_rng(8).integers(0, 2**64, (3, 16, 2), np.uint64)
    if missing:
        leaves[:, 0] = 0
    both = leaf_streams.NativeStreams(leaves), leaf_streams.LibraryStreams(leaves)
    for words in (8, 520):  # the second goes on where the first ends
        found = []
        for streams in both:
            matrix, totals = np.empty((12, words), np.uint64), np.empty((3, words), np.uint64)
            streams.sums(matrix, totals)
            found.append(matrix if missing else np.concatenate([matrix, totals]))
        assert np.array_equal(*found)


@pytest.mark.parametrize("instructions", sorted({False, bit_transpose.INSTRUCTIONS}))
@pytest.mark.parametrize("words", [8, 48])
def test_row_i_of_the_transpose_is_bit_i_of_every_column(instructions, words):
    matrix = np.random.default_rng(2).integers(0, 2**64, (128, words), np.uint64)
    room = np.empty((64 * words, 2), np.uint64)
    rows = bit_transpose.transpose(matrix, room, instructions=instructions)
    assert np.array_equal(unpack(rows, 128), unpack(matrix, 64 * words).T)


@pytest.mark.skipif(not bit_transpose.INSTRUCTIONS, reason="this processor lacks them")
def test_leaves_cut_on_the_way_are_those_cut_before():
    columns = np.random.default_rng(5).integers(0, 2**64, (LEAVES.columns, 24), np.uint64)
    fast, slow = (rows_of(LEAVES, columns, instructions=way) for way in (True, False))
    assert np.array_equal(fast, slow)


def test_rows_differ_by_delta_where_the_choice_is_one(pair):
    """Twenty lots, so that messages of several steps are on their way at the same time."""

    def extended(session, own):
        made = [(lot.q, lot.t) for lot in session.ot.chosen(np.split(own, 20))]
        return [np.concatenate(part) for part in zip(*made, strict=True)]

    choices = [session.random.uint64(60) for session in pair.sessions]
    (q1, t1), (q2, t2) = pair.run(extended, tuple(choices))
    for sender, q, t, chosen in ((0, q1, t2, choices[1]), (1, q2, t1, choices[0])):
        delta = pair.sessions[sender].ot.delta
        expected = t ^ (unpack(chosen, 60 * 64)[:, None].astype(np.uint64) * delta)
        assert np.array_equal(q, expected)
        assert len(np.unique(t, axis=0)) == len(t)


@pytest.mark.parametrize("code", [ROWS, LEAVES])
def test_random_choices_name_the_offset_of_each_row(pair, code):
    lots = [Lot(code, 100), Lot(code, 700)]
    first, second = pair.run(lambda session: list(session.ot.extend(lots)))
    for sender, (sent, got) in enumerate(((first, second), (second, first))):
        offsets = pair.sessions[sender].ot.senders[code.number].offsets
        for lot, mine, theirs in zip(lots, sent, got, strict=True):
            bits = unpack(theirs.choices, lot.count)
            choices = bits.T @ (1 << np.arange(code.choice_bits))
            assert np.array_equal(mine.q ^ theirs.t, offsets[choices])
        assert len(np.unique(choices)) == 1 << code.choice_bits, "of 700: all but for 2^-60"


def supplies_of(pair, recipe, count):
    return pair.run(lambda session: make(session.ot, [(recipe, count)])[0])


@pytest.mark.parametrize("count", [1, 64, 700, LOT_ROWS + 5])
def test_random_transfers(pair, count):
    first, second = supplies_of(pair, random_ot.RECIPE, count)
    for (pairs, _, _), (_, keys, choices) in ((first, second), (second, first)):
        assert np.array_equal(keys, np.where(choices == 1, pairs[:, 2:], pairs[:, :2]))
        assert len(choices) == count


@pytest.mark.parametrize("words", [1, 9, LOT_ROWS // 64 + 1])
def test_and_pairs(pair, words):
    (first,), (second,) = supplies_of(pair, and_triples.RECIPE, words)
    a, b0, b1, c0, c1 = (first ^ second).T
    assert np.array_equal(c0, a & b0)
    assert np.array_equal(c1, a & b1)


@pytest.mark.parametrize("count", [1, 200, LOT_LEAVES + 3])
def test_leaves(pair, count):
    first, second = supplies_of(pair, digit_ot.RECIPE, count)
    for (tables, _), (_, mine) in ((first, second), (second, first)):
        choices = (mine & 15).astype(np.uint32)
        assert np.array_equal((tables >> (2 * choices)) & 3, mine >> 4)


def test_extension_by_the_book():
    """Message and rows from AES-CTR key streams and xor alone, as the module's docstring says."""
    seeds = [[bytes([tree, leaf] * 8) for leaf in range(16)] for tree in range(32)]
    leaves = np.frombuffer(b"".join(seed for tree in seeds for seed in tree), np.uint64)
    receiver = Receiver(ROWS, leaves.reshape(32, 16, 2))
    choices = np.random.default_rng(6).integers(0, 2**64, (1, 8), np.uint64)
    message, _, own = receiver.extend(8, choices)
    columns = np.zeros((128, 8), np.uint64)
    for tree, row in enumerate(seeds):
        total = choices[0].copy()
        for leaf, seed in enumerate(row):
            stream = Cipher(algorithms.AES128(seed), modes.CTR(bytes(16))).encryptor()
            words = np.frombuffer(stream.update(bytes(64)), np.uint64)
            total ^= words
            for j in range(4):
                columns[4 * tree + j] ^= words * np.uint64(leaf >> j & 1)
        assert np.array_equal(message[tree], total)
    assert np.array_equal(own, columns)
    assert np.array_equal(unpack(rows_of(ROWS, own), 128), unpack(columns, 512).T)


def test_known_answers():
    """Fixed secrets at both clouds: every later release must compute and send the same."""
    assert known_answers() == VECTORS["answers"]


def test_known_comparison():
    vector = VECTORS["comparison"]
    own = [AdditiveShare(limbs_of([int(x, 16) for x in vector[c]], 2)) for c in ("c1", "c2")]
    signs = Pair().run(compare.sign, tuple(own), (vector["width"], vector["width"]))
    assert (signs[0] ^ signs[1]).unpack(len(own[0].limbs)).tolist() == vector["signs"]


def test_tweaks_end_before_they_repeat():
    tweaks = Tweaks()
    assert [tweaks.reserve(5), tweaks.reserve(1), tweaks.reserve(3)] == [0, 5, 6]
    tweaks.used = _INSTANCES - 1
    tweaks.reserve(1)
    with pytest.raises(PoolError, match="start a new pair"):
        tweaks.reserve(1)
