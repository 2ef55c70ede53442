"""Edit distance on shares: worked examples and every pair against the oracle."""

import numpy as np
import pytest

from ppodc.linkage.blocks.candidates import Block, Work
from ppodc.linkage.blocks.embedding import coded
from ppodc.linkage.compare import characters
from ppodc.linkage.compare.edit_distance import band, within_secret
from ppodc.linkage.compare.public_lengths import BitRows, TextMatcher, TextRows, pair_bits
from ppodc.linkage.rules import EditDistance
from ppodc.linkage.symbols import levenshtein
from ppodc.mpc.shares import circuits
from ppodc.mpc.spill import Budget
from tests.linkage.shared import MEMORY, matched, uploaded


def string_rows(pair, texts, length, *, first):
    def step(session, part):
        return characters.take_in(session, part, Budget(MEMORY), first=first)

    return pair.run(step, uploaded(coded(texts, length)))


def bit_rows(pair, bits, *, first):
    own = np.random.default_rng(5).integers(0, 2, bits.shape).astype(np.uint8)

    def step(session, share):
        return BitRows.of(session, share, Budget(MEMORY), first=first)

    return pair.run(step, (own, own ^ bits.astype(np.uint8)))


def test_codes_become_one_hots(pair):
    parts = uploaded(np.arange(32)[:, None])

    def step(session, part):
        return characters.one_hots(session, part.reshape(-1))

    first, second = pair.run(step, parts)
    assert ((first ^ second) == np.eye(32, dtype=np.uint8)).all()


def text_rows(pair, texts, longest, real, *, first):
    strings = [
        string_rows(pair, column, longest, first=first) for column in zip(*texts, strict=True)
    ]
    flags = bit_rows(pair, np.asarray(real)[:, None], first=first)
    return tuple(
        TextRows(tuple(column[role] for column in strings), flags[role]) for role in (0, 1)
    )


def found(pair, rule, xs, ys, entries, real_x=None, real_y=None):
    longest = max(len(t) for row in (*xs, *ys) for t in row) or 1
    x = text_rows(pair, xs, longest, [1] * len(xs) if real_x is None else real_x, first=True)
    y = text_rows(pair, ys, longest, [1] * len(ys) if real_y is None else real_y, first=False)
    return matched(pair, TextMatcher(rule, (longest,)), x, y, entries)


def words(count, length, seed, letters="ab"):
    random = np.random.default_rng(seed)
    return ["".join(random.choice(list(letters), length)) for _ in range(count)]


def test_bands_of_the_specification():
    assert [len(band(0, d)) for d in (0, 1, 2, 3)] == [1, 1, 3, 3]
    assert band(1, 1) == range(2)
    assert band(-2, 2) == range(-2, 1)


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_public_lengths_in_lockstep_equal_the_oracle(pair, limit):
    """All pairs of lengths 0..5 that the limit allows, in one batch."""
    rule = EditDistance(1, limit)
    lengths = range(6)
    xs = [(w,) for n in lengths for w in words(5, n, n)]
    ys = [(w,) for n in lengths for w in words(6, n, 10 + n)]
    entries = [
        Work(0, 1, Block((5 * a, 5 * a + 5), ((6 * b, 6 * b + 6),)), (a,), (b,))
        for a in lengths
        for b in lengths
        if abs(a - b) <= limit
    ]
    expected = rule.match_matrix(xs, ys)
    for entry, bits in zip(entries, found(pair, rule, xs, ys, entries), strict=True):
        rows = slice(*entry.block.xs)
        assert (bits == expected[rows][:, entry.block.columns]).all(), entry


def test_the_worked_examples(pair):
    xs, ys = [("ca",), ("kitten",)], [("ac",), ("sitting",)]
    for limit, expected in ((2, [True, False]), (1, [False, False]), (3, [True, True])):
        entries = [Work(0, 1, Block((0, 1), ((0, 1),)), (2,), (2,))]
        entries += [Work(0, 1, Block((1, 2), ((1, 2),)), (6,), (7,))]
        bits = found(pair, EditDistance(1, limit), xs, ys, entries)
        assert [bool(b[0, 0]) for b in bits] == expected


def test_two_attributes_share_the_limit_and_dummies_match_nothing(pair):
    rule = EditDistance(2, 2)
    xs = list(zip(words(9, 4, 1), words(9, 3, 2), strict=True))
    ys = list(zip(words(70, 5, 3), words(70, 3, 4), strict=True))
    real_x, real_y = [1] * 8 + [0], [1] * 60 + [0] * 10
    entries = [Work(0, 1, Block((0, 9), ((0, 70),)), (4, 3), (5, 3))]
    (bits,) = found(pair, rule, xs, ys, entries, real_x, real_y)
    expected = rule.match_matrix(xs, ys)
    expected[8:] = False
    expected[:, 60:] = False
    assert expected.any()
    assert (bits == expected).all()


@pytest.mark.parametrize("most", [0, 1, 2])
def test_secret_lengths_equal_the_oracle(pair, most):
    longest = 5
    xs = [w for n in range(longest + 1) for w in words(3, n, n, "abcd")] + ["bcd"]
    ys = [w for n in range(longest + 1) for w in words(4, n, 20 + n, "abcd")] + ["abcd"]
    ys[:8] = xs[5:13]
    x = string_rows(pair, xs, longest, first=True)
    y = string_rows(pair, ys, longest + most, first=False)
    lengths = [
        np.array([[len(t) == n for n in range(longest + 1)] for t in texts], np.uint8)
        for texts in (xs, ys)
    ]
    length_x, length_y = (
        bit_rows(pair, lengths[0], first=True),
        bit_rows(pair, lengths[1], first=False),
    )
    block = Block((0, len(xs)), ((0, len(ys)),))

    def step(session, left, right, la, lb):
        diagonals = range(-most, most + 1)
        equal = characters.equalities(session, left, right, block, longest, diagonals)
        shifts = {s: la.sums(session, lb, block, s) for s in diagonals}
        circuit = within_secret(session.role, equal, longest, most, shifts)
        (share,) = circuits.run(session, [circuit])
        return pair_bits(block, share)

    first, second = pair.run(step, x, y, length_x, length_y)
    expected = [[levenshtein(a, b) <= most for b in ys] for a in xs]
    assert (first ^ second).astype(bool).tolist() == expected
