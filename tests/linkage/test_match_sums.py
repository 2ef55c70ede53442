"""Links, ambiguous rows and counts from shared match bits, against plaintext."""

import numpy as np
import pytest

from ppodc.linkage.match_sums import CountSums, LinkSums, Side
from ppodc.linkage.outputs import Count, Links
from ppodc.linkage.plan import added
from ppodc.linkage.power_sums import numbers
from ppodc.mpc.shares.additive import AdditiveShare, integers, zeros
from tests.mpc.pair import share


def shared_bits(bits):
    own = np.random.default_rng(2).integers(0, 2, bits.shape).astype(np.uint8)
    return own, own ^ bits.astype(np.uint8)


MATCHES = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 1]], np.uint8)
TOKENS = [(1 << 63) - 1, 0, 77]
NONE, ONE, SEVERAL = 0, 1, 2  # partners of a row that may have one


def links(pair, matches, tokens, cut, most=1, known=False):
    """Partners and power sums of each row; the columns come in two blocks, cut at `cut`.

    `known`: the tokens are public.
    """

    def step(session, bits, token):
        rows, partners = np.arange(len(matches)), len(matches) + np.arange(len(tokens))
        both = len(rows) + len(partners)
        sums = LinkSums(Links(most).empty(both), both)
        names = zeros((len(rows), most), most)  # of the rows: their partners are not looked at
        left = Side(rows, lambda: names, np.zeros(len(rows), np.uint64) if known else None)
        plain = np.array(tokens, np.uint64)
        blocks = []
        for part in (slice(0, cut), slice(cut, None)):
            if bits[:, part].size:
                own = plain[part] if known else None
                right = Side(partners[part], lambda part=part: token[part], own)
                blocks.append((bits[:, part], left, right))
        sums.add(session, blocks)
        return sums.learned(session)[: len(rows)]

    powers = [token**r for token in tokens for r in range(1, most + 1)]
    first, second = pair.run(step, shared_bits(matches), share(powers, most, (len(tokens), most)))
    opened = integers((first + second).limbs)
    rows = [opened[at : at + most + 1] for at in range(0, len(opened), most + 1)]
    return [row[0] for row in rows], [row[1:] for row in rows]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_one_partner_is_named_several_are_not(pair, cut, known):
    status, token = links(pair, MATCHES, TOKENS, cut, known=known)
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
        count, nobody = CountSums(Count().empty(0)), Side(np.arange(0), lambda: None)
        count.add(session, [(part, nobody, nobody) for part in (bits[:2], bits[2:])])
        return count.sums

    first, second = pair.run(step, shared_bits(MATCHES))
    assert int((first + second)[0, 0]) == MATCHES.sum()


def test_all_and_nothing(pair):
    none = np.zeros((70, 2), np.uint8)
    assert links(pair, none, [5, 6], 1)[0] == [NONE] * 70
    every = np.ones((3, 130), np.uint8)
    assert links(pair, every, list(range(130)), 64)[0] == [SEVERAL] * 3


@pytest.mark.parametrize("limbs", [1, 2, 8])
def test_planners_add_sums_as_shares_are_added(limbs):
    edges = np.array([0, 1, (1 << 64) - 2, (1 << 64) - 1], np.uint64)
    x, y = (np.random.default_rng(seed).choice(edges, (40, 3, limbs)) for seed in (1, 2))
    assert (added(x, y) == (AdditiveShare(x) + AdditiveShare(y)).limbs).all()
