"""The code of leaves, the column hash, and what the check of the extension lets pass."""

import itertools
from contextlib import suppress

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import CheckError, PpodcError
from ppodc.mpc.ot import code as codes
from ppodc.mpc.ot import column_check, trees
from ppodc.mpc.ot.code import LEAVES, ROWS
from ppodc.mpc.ot.extension import Receiver, Sender
from ppodc.mpc.ot.transfer import Lot
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from tests.harness.together import together
from tests.mpc.pair import JOB, Pair

WORDS = 16
BOTH = pytest.mark.parametrize("code", [ROWS, LEAVES])


def rank(rows: np.ndarray) -> int:
    """Of a matrix of bits."""
    basis: list[int] = []
    for row in rows:
        number = int("".join(map(str, row.tolist())), 2)
        for other in basis:
            number = min(number, number ^ other)
        if number:
            basis.append(number)
            basis.sort(reverse=True)
    return len(basis)


def cut_matrix() -> np.ndarray:
    """(128, 240): which columns each kept column is the sum of."""
    columns = np.zeros((240, 8), np.uint64)
    for i in range(240):
        columns[i, i // 64] = np.uint64(1) << np.uint64(i % 64)
    return np.unpackbits(LEAVES.cut(columns).view(np.uint8), axis=1, bitorder="little")[:, :240]


def test_words_of_leaves_differ_in_32_trees():
    weights = {int(LEAVES.word(r).sum()) for r in range(1, 16)}
    assert weights == {32}
    assert LEAVES.points[:4].tolist() == [1, 2, 4, 8]
    assert len(LEAVES.points) == 60


def test_every_offset_is_uniform_in_128_bits_and_keeps_what_is_not_known():
    matrix = cut_matrix()
    masked = [matrix * np.repeat(LEAVES.word(r), 4) for r in range(16)]
    assert [rank(part) for part in masked] == [0] + [128] * 15
    for r, s in itertools.combinations(range(16), 2):
        assert np.array_equal(masked[r] ^ masked[s], masked[r ^ s])
    g = np.random.default_rng(1)
    for r in range(1, 16):
        known = g.choice(60, 9, replace=False)
        left = masked[r].copy()
        for tree in known:
            left[:, 4 * tree : 4 * tree + 4] = 0
        assert rank(left) == 128 - 4 * int(LEAVES.word(r)[known].sum())


def test_any_eight_elements_of_fifteen_decide():
    generator = np.array(codes._generator())
    assert np.array_equal(generator[:, :8], np.eye(8))
    # an MDS code: a word other than 0 has at most 7 zeros; all words of weight 1 and 2 of 8 symbols
    for i, j in itertools.combinations(range(8), 2):
        for a, b in itertools.product(range(1, 16), range(16)):
            word = [
                codes._times(a, int(x)) ^ codes._times(b, int(y))
                for x, y in zip(generator[i], generator[j], strict=True)
            ]
            assert word.count(0) <= 7


@pytest.mark.parametrize("instructions", sorted({False, column_check.BLOCKS > 0}))
def test_the_column_hash_is_its_formula(instructions):
    def times(a, b):
        product = 0
        for place in range(128):
            product ^= (a << place) * (b >> place & 1)
        for place in range(254, 127, -1):
            if product >> place & 1:
                product ^= (1 << 128 | 0x87) << (place - 128)
        return product

    def blocks(words):
        return [int(a) | int(b) << 64 for a, b in words.reshape(-1, 2)]

    columns = np.random.default_rng(2).integers(0, 2**64, (5, 24), np.uint64)
    factors = column_check.coefficients(b"c" * 16, 24)
    assert blocks(factors)[0] == 1
    found = column_check.hashes(columns, factors, instructions=instructions)
    for column, value in zip(columns, found, strict=True):
        total = 0
        for a, b in zip(blocks(factors), blocks(column), strict=True):
            total ^= times(a, b)
        assert blocks(value) == [total]


class Ends:
    """A sender and a receiver whose secrets follow from a seed, and one lot between them."""

    def __init__(self, code, seed: int) -> None:
        self.code, self.random = code, SecureRandom.public(seed)
        data = np.frombuffer(self.random.bytes(code.columns // 8), np.uint8)
        self.delta = np.unpackbits(data)
        pairs = self.random.uint64((code.columns, 2, 2))
        full, message = trees.grow(b"", pairs, self.random)
        chosen = pairs[np.arange(code.columns), trees.choices_for(self.delta)]
        self.receiver = Receiver(code, full)
        holes = trees.punctured(b"", self.delta, chosen, message)
        self.sender = Sender(code, self.delta, holes)

    def passes(self, flips=(), choice=0) -> bool:
        """Whether a lot passes in which these trees' messages are false in one row."""
        message, choices, columns = self.receiver.extend(WORDS)
        for tree in flips:
            message[tree - self.code.choice_bits, 5] ^= np.uint64(1 << 17)
        challenge = self.random.bytes(16)
        masked, digest = column_check.answer(b"lot", challenge, choices, columns)
        masked[0, 0] ^= np.uint64(choice)
        factors = column_check.coefficients(challenge, WORDS)
        hashed = column_check.hashes(self.sender.extend(message), factors)
        try:
            column_check.verify(b"lot", self.code, self.delta, hashed, masked, digest)
        except CheckError:
            return False
        return True

    def name(self, tree: int) -> int:
        """The sender's four bits of a tree."""
        return int(self.delta[4 * tree : 4 * tree + 4].sum())


@BOTH
def test_honest_lots_pass_and_false_ones_pass_for_one_secret_of_16(code):
    """A false message of a tree is a guess that the sender's four bits of it are 0."""
    ends, caught, passed = [Ends(code, seed) for seed in range(24)], 0, 0
    for number, end in enumerate(ends):
        assert end.passes()
        for tree in range(code.choice_bits, code.trees, 7):
            right = end.name(tree) == 0
            assert end.passes([tree]) == right
            passed, caught = passed + right, caught + (not right)
        two = [code.choice_bits + number % 20, code.choice_bits + 20 + number % 7]
        assert end.passes(two) == (end.name(two[0]) == end.name(two[1]) == 0)
        assert not end.passes(choice=1)
        assert end.passes()
    assert caught > 8 * passed
    assert passed > 0


@pytest.mark.parametrize(("code", "liar"), [(ROWS, 1), (ROWS, 2), (LEAVES, 1), (LEAVES, 2)])
def test_a_deviating_receiver_ends_the_session_before_a_row_is_used(code, liar):
    """Eight false trees in one row pass with 2^-32."""
    pair = Pair()

    def step(session):
        if session.role == liar:
            extend = session.ot.receivers[code.number].extend

            def false(words, choices=None):
                message, *rest = extend(words, choices)
                message[8:16, 3] ^= np.uint64(1)
                return message, *rest

            session.ot.receivers[code.number].extend = false
        made = []
        caught = pytest.raises(CheckError) if session.role != liar else suppress(PpodcError)
        with caught, session.step("extension"):
            made.extend(session.ot.extend([Lot(code, 400)] * 3))
        return made

    assert pair.run(step)[2 - liar] == []


def test_a_failed_check_empties_the_folders_of_both_clouds(tmp_path):
    def start(role, channel):
        return Session.start(role, channel, JOB, pools=tmp_path / str(role))

    def spoiled(role):
        def run(channel):
            session = start(role, channel)
            session.supplies.prepare(Needs(leaves=300, transfers=300))
            assert session.supplies.available() == Needs(leaves=300, transfers=300)
            if role == 1:
                send = channel.send

                def sending(kind, body=None, arrays=()):
                    if kind == "shares.extension" and arrays[0].ndim == 2 and len(arrays[0]) > 8:
                        arrays = [np.array(arrays[0]), *arrays[1:]]
                        arrays[0][:8] ^= np.uint64(4)
                    send(kind, body, arrays)

                channel.send = sending
            caught = pytest.raises(CheckError) if role == 2 else suppress(PpodcError)
            with caught, session.step("prepare"):
                session.supplies.prepare(Needs(pairs=10))
            session.close()

        return run

    together(spoiled(1), spoiled(2))

    def fresh(role):
        def run(channel):
            session = start(role, channel)
            found = session.supplies.available()
            session.close()
            return found

        return run

    assert together(fresh(1), fresh(2)) == (Needs(), Needs())
