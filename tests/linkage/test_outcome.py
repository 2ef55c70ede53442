"""Links, ambiguous rows and duplicates from shared match bits, against plaintext."""

import numpy as np
import pytest

from ppodc.linkage.outcome import (
    NONE,
    ONE,
    SEVERAL,
    Count,
    Duplicates,
    Links,
    any_of_row,
    kept_rows,
)
from ppodc.linkage.power_sums import numbers
from ppodc.mpc.additive import integers
from tests.mpc.pair import share


def shared_bits(bits):
    own = np.random.default_rng(2).integers(0, 2, bits.shape).astype(np.uint8)
    return own, own ^ bits.astype(np.uint8)


MATCHES = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 1]], np.uint8)
TOKENS = [(1 << 63) - 1, 0, 77]


def links(pair, matches, tokens, cut, most=1):
    """Partners and power sums of each row; the columns come in two blocks, cut at `cut`."""

    def step(session, bits, token):
        sums = Links(len(matches), len(tokens), most)
        at = np.arange(len(matches))
        for part in (slice(0, cut), slice(cut, None)):
            if bits[:, part].size:
                sums.add(session, at, bits[:, part], token[part])
        return sums.half(session)

    powers = [token**r for token in tokens for r in range(1, most + 1)]
    first, second = pair.run(step, shared_bits(matches), share(powers, most, (len(tokens), most)))
    opened = integers((first + second).limbs)
    rows = [opened[at : at + most + 1] for at in range(0, len(opened), most + 1)]
    return [row[0] for row in rows], [row[1:] for row in rows]


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_one_partner_is_named_several_are_not(pair, cut):
    status, token = links(pair, MATCHES, TOKENS, cut)
    assert status == [NONE, ONE, SEVERAL, ONE, SEVERAL]
    assert token == [[0], [0], [0], [77], [0]]


@pytest.mark.parametrize("most", [2, 3, 8])
def test_several_partners_are_named_up_to_the_limit(pair, most):
    random = np.random.default_rng(most)
    tokens = [int(x) for x in random.integers(0, 1 << 61, 9)] + [0, 5, 5]
    matches = np.array([[j < i for j in range(12)] for i in range(13)], np.uint8)
    matches = random.permuted(matches, axis=1)
    partners, sums = links(pair, matches, tokens, 5, most)
    for row, count, powers in zip(matches, partners, sums, strict=True):
        wanted = sorted(tokens[j] for j in np.flatnonzero(row))
        assert count == min(len(wanted), most + 1)
        if len(wanted) <= most:
            assert numbers(powers[:count], (1 << 61) - 1) == wanted
        else:
            assert not any(powers)


def test_power_sums_that_no_numbers_have():
    assert numbers([], 9) == []
    assert numbers([5, 13], 9) == [2, 3]
    assert numbers([18, 162], 9) == [9, 9]
    for sums in ([5, 14], [5, 15], [-1], [10], [20, 200]):
        assert numbers(sums, 9) is None


def test_matching_pairs_are_counted(pair):
    def step(session, bits):
        count = Count()
        for part in (bits[:2], bits[2:]):
            count.add(session, part)
        return count.sums

    first, second = pair.run(step, shared_bits(MATCHES))
    assert int((first + second)[0, 0]) == MATCHES.sum()


def test_all_and_nothing(pair):
    none = np.zeros((70, 2), np.uint8)
    assert links(pair, none, [5, 6], 1)[0] == [NONE] * 70
    every = np.ones((3, 130), np.uint8)
    assert links(pair, every, list(range(130)), 64)[0] == [SEVERAL] * 3


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_duplicates_are_dropped_and_dummies_too(pair, rows):
    random = np.random.default_rng(rows)
    matches = (random.random((rows, 90)) < 0.2).astype(np.uint8)
    real = (random.random(90) < 0.7).astype(np.uint8)
    values = random.integers(0, 1000, (90, 2))
    parts = [np.r_[0:40, 80:90], np.r_[30:80]]  # some rows are told of twice

    def step(session, bits, flag, table):
        found = Duplicates(90)
        for part in parts:
            found.add(session, np.tile(part, rows), bits[:, part].reshape(-1))
        keep = found.keep(session, flag)
        return keep, kept_rows(session, keep, table)

    table = share(values.reshape(-1).tolist(), 1, (90, 2))
    (keep, kept), (other_keep, other_kept) = pair.run(
        step, shared_bits(matches), shared_bits(real), table
    )
    expected = real & ~matches.any(axis=0)
    assert (keep ^ other_keep).tolist() == expected.tolist()
    rest = np.column_stack([values, np.ones(90, int)]) * expected[:, None]
    assert (kept + other_kept).tolist() == rest.tolist()


def test_the_or_of_rows_of_any_length(pair):
    random = np.random.default_rng(9)
    rows = random.permutation(np.repeat([3, 4, 9, 11], [1, 2, 70, 129]))
    bits = (random.random(len(rows)) < 0.02).astype(np.uint8)
    first, second = pair.run(lambda session, own: any_of_row(session, rows, own), shared_bits(bits))
    assert (first ^ second).tolist() == [int(bits[rows == row].any()) for row in (3, 4, 9, 11)]
    none = np.empty(0, np.intp), np.empty(0, np.uint8)
    assert pair.run(lambda session: any_of_row(session, *none))[0].size == 0
