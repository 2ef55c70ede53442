"""Base transfers, OT extension, the hash, and what is made from them; known answers."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import PoolError
from ppodc.mpc import (
    and_triples,
    base_ot,
    compare,
    digit_ot,
    leaf_streams,
    ot_extension,
    random_ot,
)
from ppodc.mpc.additive import AdditiveShare, limbs_of
from ppodc.mpc.aes import _INSTANCES, Hash, Tweaks
from ppodc.mpc.aes_instructions import BLOCKS
from ppodc.mpc.messages import Link
from ppodc.mpc.oblivious_transfer import ObliviousTransfer
from ppodc.mpc.xor_bits import unpack
from ppodc.transport.channel import memory_pair
from tests.mpc.pair import SECRET, Pair
from tests.two_clouds import together

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
    ends = []
    for _ in range(2):
        delta = np.unpackbits(np.frombuffer(source.bytes(16), np.uint8))
        pairs = source.uint64((128, 2, 2))
        roots = [source.bytes(16) for _ in range(ot_extension.TREES)]
        full, corrections = ot_extension.grow(roots, pairs)
        chosen = pairs[np.arange(128), ot_extension.choices_for(delta)]
        holes = ot_extension.punctured(delta, chosen, corrections)
        ends.append((ot_extension.Sender(delta, holes), ot_extension.Receiver(full)))
    channels = memory_pair()
    randoms = [SecureRandom(source.bytes(32)) for _ in range(2)]
    return tuple(
        ObliviousTransfer(
            role,
            Link(channels[role - 1]),
            randoms[role - 1],
            Hash(b"ppodc known hash"),
            ends[role - 1][0],
            ends[2 - role][1],
            Tweaks(),
        )
        for role in (1, 2)
    )


def known_answers() -> dict[str, list[str]]:
    """What both clouds get from fixed secrets, in this order."""
    sides = fixed_ends()
    steps = {
        "rows": lambda ot: next(ot.extend([ot.random.uint64(8)]))[1:],
        "transfers": lambda ot: random_ot.make(ot, 100),
        "pairs": lambda ot: and_triples.make(ot, 20),
        "leaves": lambda ot: digit_ot.make(ot, 100),
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


def test_base_transfers_give_the_chosen_of_two_keys():
    choices = np.random.default_rng(3).integers(0, 2, base_ot.COUNT).astype(np.uint8)
    pairs, chosen = together(
        lambda c: base_ot.send(Link(c), SECRET.public, SecureRandom()),
        lambda c: base_ot.receive(Link(c), SECRET, choices, SecureRandom()),
    )
    assert np.array_equal(chosen, pairs[np.arange(base_ot.COUNT), choices])
    other = pairs[np.arange(base_ot.COUNT), 1 - choices]
    assert not np.any(np.all(chosen == other, axis=1))


@pytest.mark.parametrize("instructions", WAYS)
def test_the_hash_is_the_formula_of_its_docstring(instructions):
    block = Cipher(algorithms.AES128(b"k" * 16), modes.ECB()).encryptor()  # noqa: S305
    keys = np.random.default_rng(4).integers(0, 2**64, (3, 2), np.uint64)
    out = Hash(b"k" * 16, instructions=instructions).expand(keys, 10, 2, blocks=2)
    for i, (a, b) in enumerate(keys.tolist()):
        for number in range(2):
            y = (b ^ (10 + i)) | (a ^ b ^ (2 << 32) ^ number) << 64
            permuted = int.from_bytes(block.update(y.to_bytes(16, "little")), "little")
            words = out[i, 2 * number : 2 * number + 2].tolist()
            assert words[0] | words[1] << 64 == permuted ^ y


@pytest.mark.parametrize("instructions", WAYS)
@pytest.mark.parametrize("count", [0, 1, 5, 700])
@pytest.mark.parametrize("each", [1, 2, 16])
def test_two_bits_are_those_of_the_hash(instructions, count, each):
    g = np.random.default_rng(count)
    rows = g.integers(0, 2**64, (count, 2), np.uint64)
    offsets = g.integers(0, 2**64, (each, 2), np.uint64)
    hasher = Hash(b"k" * 16, instructions=instructions)
    found = hasher.two_bits(rows, offsets, 33, 1)
    for v in range(each):
        whole = Hash(b"k" * 16).expand(rows ^ offsets[v], 33, 1)
        assert np.array_equal(found >> (2 * v) & 3, whole[:, 0] & np.uint64(3))


@pytest.mark.skipif(not BLOCKS, reason="this processor has no instructions for AES")
@pytest.mark.parametrize("missing", [False, True])
def test_streams_by_instructions_are_those_of_the_library(missing):
    trees = [[bytes([tree, leaf] * 8) for leaf in range(16)] for tree in range(3)]
    if missing:
        trees = [[None, *tree[1:]] for tree in trees]
    both = leaf_streams.NativeStreams(trees), leaf_streams.LibraryStreams(trees)
    for words in (8, 520):  # the second goes on where the first ends
        found = []
        for streams in both:
            matrix, totals = np.empty((12, words), np.uint64), np.empty((3, words), np.uint64)
            streams.sums(matrix, totals)
            found.append(matrix if missing else np.concatenate([matrix, totals]))
        assert np.array_equal(*found)


def test_rows_differ_by_delta_where_the_choice_is_one(pair):

    def extended(session, own):
        """Three lots, of which the next one's message is always on its way."""
        lots = list(np.split(own, [8, 16]))
        rows = [[part.copy() for part in made[1:]] for made in session.ot.extend(lots)]
        return [np.concatenate(part) for part in zip(*rows, strict=True)]

    choices = [session.random.uint64(24) for session in pair.sessions]
    (q1, t1), (q2, t2) = pair.run(extended, tuple(choices))
    for sender, q, t, chosen in ((0, q1, t2, choices[1]), (1, q2, t1, choices[0])):
        delta = pair.sessions[sender].ot.sender.delta
        expected = t ^ (unpack(chosen, 24 * 64)[:, None].astype(np.uint64) * delta)
        assert np.array_equal(q, expected)
        assert len(np.unique(t, axis=0)) == len(t)


def test_the_sender_lacks_exactly_the_leaf_of_its_delta():
    g = np.random.default_rng(5)
    delta = g.integers(0, 2, 128).astype(np.uint8)
    pairs = g.integers(0, 2**64, (128, 2, 2), np.uint64)
    chosen = pairs[np.arange(128), ot_extension.choices_for(delta)]
    roots = [bytes([i] * 16) for i in range(ot_extension.TREES)]
    full, corrections = ot_extension.grow(roots, pairs)
    known = ot_extension.punctured(delta, chosen, corrections)
    names = delta.reshape(ot_extension.TREES, ot_extension.DEPTH) @ (1, 2, 4, 8)
    for tree, name in enumerate(names.tolist()):
        assert known[tree][name] is None
        assert [x for x in known[tree] if x] == full[tree][:name] + full[tree][name + 1 :]


@pytest.mark.parametrize("count", [1, 64, 700, ot_extension.CHUNK + 5])
def test_random_transfers(pair, count):
    first, second = pair.run(lambda session: random_ot.make(session.ot, count))
    for (pairs, _, _), (_, keys, choices) in ((first, second), (second, first)):
        assert np.array_equal(keys, np.where(choices == 1, pairs[:, 2:], pairs[:, :2]))
        assert len(choices) == count


@pytest.mark.parametrize("words", [1, 9, ot_extension.CHUNK // 64 + 1])
def test_and_pairs(pair, words):
    (first,), (second,) = pair.run(lambda session: and_triples.make(session.ot, words))
    a, b0, b1, c0, c1 = (first ^ second).T
    assert np.array_equal(c0, a & b0)
    assert np.array_equal(c1, a & b1)


@pytest.mark.parametrize("count", [1, 200, ot_extension.CHUNK // 4 + 3])
def test_leaves(pair, count):
    first, second = pair.run(lambda session: digit_ot.make(session.ot, count))
    for (tables, _), (_, mine) in ((first, second), (second, first)):
        choices = (mine & 15).astype(np.uint32)
        assert np.array_equal((tables >> (2 * choices)) & 3, mine >> 4)


def test_multiples_of_delta_are_those_of_the_field():
    delta = np.array([3, 1 << 63], np.uint64)
    table = digit_ot.multiples(delta)
    assert len({tuple(row) for row in table.tolist()}) == 16
    # X * (X^127 + X + 1) = X^128 + X^2 + X = X^7 + X^2 + X + 1 + X^2 + X
    assert table[2].tolist() == [0b10000001, 0]
    assert np.array_equal(table[3], table[1] ^ table[2])


def test_extension_by_the_book():
    """Message and rows from AES-CTR key streams and xor alone, as the module's docstring says."""
    seeds = [[bytes([tree, leaf] * 8) for leaf in range(16)] for tree in range(32)]
    receiver = ot_extension.Receiver(seeds)
    choices = np.random.default_rng(6).integers(0, 2**64, 8, np.uint64)
    message = receiver.extend(choices)
    columns = np.zeros((128, 8), np.uint64)
    for tree, row in enumerate(seeds):
        total = choices.copy()
        for leaf, seed in enumerate(row):
            stream = Cipher(algorithms.AES128(seed), modes.CTR(bytes(16))).encryptor()
            words = np.frombuffer(stream.update(bytes(64)), np.uint64)
            total ^= words
            for j in range(4):
                columns[4 * tree + j] ^= words * np.uint64(leaf >> j & 1)
        assert np.array_equal(message[tree], total)
    assert np.array_equal(unpack(receiver.rows(8), 128), unpack(columns, 512).T)


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
