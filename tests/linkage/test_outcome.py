"""Links, ambiguous rows and duplicates from shared match bits, against plaintext."""

import numpy as np
import pytest

from ppodc.linkage.blocks import Block
from ppodc.linkage.outcome import NONE, ONE, SEVERAL, Duplicates, Links, kept_rows, opened_links
from tests.mpc.pair import share


def shared_bits(bits):
    own = np.random.default_rng(2).integers(0, 2, bits.shape).astype(np.uint8)
    return own, own ^ bits.astype(np.uint8)


MATCHES = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 1]], np.uint8)
TOKENS = [(1 << 63) - 1, 0, 77]


def links(pair, matches, tokens, cut):
    """Status and token of each row; the columns come in two blocks, cut at `cut`."""

    def step(session, bits, token):
        sums = Links(len(matches), len(tokens))
        at = np.arange(len(matches))
        for part in (slice(0, cut), slice(cut, None)):
            if bits[:, part].size:
                sums.add(session, at, bits[:, part], token[part])
        return sums.half(session)

    halves = pair.run(step, shared_bits(matches), share(tokens, 1))
    return opened_links(*halves)


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_one_partner_is_named_several_are_not(pair, cut):
    status, token = links(pair, MATCHES, TOKENS, cut)
    assert status.tolist() == [NONE, ONE, SEVERAL, ONE, SEVERAL]
    assert token.tolist() == [0, 0, 0, 77, 0]


def test_all_and_nothing(pair):
    none = np.zeros((70, 2), np.uint8)
    assert links(pair, none, [5, 6], 1)[0].tolist() == [NONE] * 70
    every = np.ones((3, 130), np.uint8)
    assert links(pair, every, list(range(130)), 64)[0].tolist() == [SEVERAL] * 3


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_duplicates_are_dropped_and_dummies_too(pair, rows):
    random = np.random.default_rng(rows)
    matches = (random.random((rows, 90)) < 0.2).astype(np.uint8)
    real = (random.random(90) < 0.7).astype(np.uint8)
    values = random.integers(0, 1000, (90, 2))
    spans = [Block((0, rows), ((0, 40), (80, 90))), Block((0, rows), ((40, 80),))]

    def step(session, bits, flag, table):
        found = Duplicates(90)
        for block in spans:
            found.add(session, block, bits[:, block.columns])
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
