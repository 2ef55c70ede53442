"""Numeric matching on shares: every match bit equals the oracle's, dummies never match."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage.blocks.adtree import Budget as PrivacyBudget
from ppodc.linkage.blocks.adtree import build, count_cells
from ppodc.linkage.blocks.candidates import Block, Work, blocks
from ppodc.linkage.blocks.cells import NoPruning, whole
from ppodc.linkage.compare.distances import NumberMatcher
from ppodc.linkage.rules import SquaredDistance, SquaredPruning
from ppodc.linkage.schedule import grouped
from ppodc.privacy.cell_noise import ExactNoise
from tests.linkage.shared import matched, taken_in


def all_pairs(pair, numbers, xs, ys, real_x=None, real_y=None):
    x, y = taken_in(pair, numbers, xs, real_x), taken_in(pair, numbers, ys, real_y)
    (bits,) = matched(pair, numbers, x, y, [Block((0, len(xs)), ((0, len(ys)),))])
    return bits


@pytest.mark.parametrize(
    ("bits", "weights", "limit"),
    [
        (8, (1,) * 5, 0),
        (8, (1, 0, 3), 40),
        (1, (1, 1), 1),
        (20, (1, 2), (1 << 39) + 5),
        (10, (7,), 99),
    ],
)
def test_every_match_bit_equals_the_oracle(pair, bits, weights, limit):
    rule = SquaredDistance(weights, limit)
    random = np.random.default_rng(bits)
    most = (1 << bits) - 1
    xs = random.integers(0, most + 1, (23, len(weights)))
    ys = np.concatenate([xs[:9], random.integers(0, most + 1, (10, len(weights)))])
    near = np.clip(xs[:6] + random.integers(-3, 4, (6, len(weights))), 0, most)
    corners = np.array([[0] * len(weights), [most] * len(weights)])
    xs, ys = np.concatenate([xs, corners]), np.concatenate([ys, near, corners])
    expected = rule.match_matrix(xs, ys)
    assert expected.any()
    assert not expected.all()
    assert (all_pairs(pair, NumberMatcher(rule, bits), xs, ys) == expected).all()


def test_the_limit_is_met_exactly(pair):
    numbers = NumberMatcher(SquaredDistance((1,) * 5, 5), 8)
    x = [[10, 20, 80, 30, 50]]
    ys = [[10, 20, 80, 31, 52], [10, 20, 80, 31, 53], [10, 20, 81, 31, 52]]
    assert all_pairs(pair, numbers, x, ys).tolist() == [[True, False, False]]


@pytest.mark.parametrize("limit", [0, 1 << 12])
def test_dummies_match_nothing_not_even_each_other(pair, limit):
    numbers = NumberMatcher(SquaredDistance((1, 1), limit), 6)
    rows = np.full((4, 2), 7)
    bits = all_pairs(pair, numbers, rows, rows, [1, 0, 1, 0], [1, 1, 0, 0])
    assert bits.tolist() == [[True, True, False, False], [False] * 4] * 2


def test_a_value_above_ub_wraps_nowhere(pair):
    """Numbers are of `bits` bits by construction: the largest of these still compares right."""
    numbers = NumberMatcher(SquaredDistance((1,) * 5, 0), 8)
    bits = all_pairs(pair, numbers, [[255] * 5, [0] * 5], [[0] * 5, [255] * 5])
    assert bits.tolist() == [[False, True], [True, False]]


DOMAIN = [np.arange(64)] * 3


def owners(rows=70):
    random = np.random.default_rng(9)
    xs = np.minimum(random.geometric(0.05, (rows, 3)), 63)
    ys = np.minimum(random.geometric(0.05, (rows + 5, 3)), 63)
    ys[:20] = xs[:20]
    return xs, ys


@pytest.mark.parametrize("blocking", ["none", "adtree", "adtree-shared"])
@pytest.mark.parametrize("limit", [0, 9])
def test_a_whole_linkage_over_cells(pair, blocking, limit):
    """Cells, dummies, permuted rows and batches of blocks: all links and no others."""
    xs, ys = owners()
    rule = SquaredDistance((1, 1, 2), limit)
    numbers = NumberMatcher(rule, 6)
    noise = ExactNoise(SecureRandom(bytes(32)))
    budget = PrivacyBudget(Fraction(8), Fraction(1, 1000))  # few dummies, many cells
    if blocking == "none":
        domain = np.array([[0, 64]] * 3)
        first, second = whole(len(xs), domain), whole(len(ys), domain)
        pruning = NoPruning()
    else:
        first = build(xs, DOMAIN, budget, noise)
        shared = blocking == "adtree-shared"
        second = (
            count_cells(ys, first.boxes, budget, noise)
            if shared
            else build(ys, DOMAIN, budget, noise)
        )
        pruning = SquaredPruning(rule)
    found = links(pair, numbers, (xs, first), (ys, second), pruning)
    expected = {tuple(link) for link in np.argwhere(rule.match_matrix(xs, ys)).tolist()}
    assert found == expected
    assert len(found) >= 20


def links(pair, numbers, first, second, pruning):
    """All links of two owners, their rows sorted into cells with dummies."""
    orders, rows = [], []
    for values, partition in (first, second):
        order = partition.arranged()
        orders.append(order)
        padded = np.where(order[:, None] >= 0, values[order], values[0])
        rows.append(taken_in(pair, numbers, padded, order >= 0))
    synopses = first[1].cell_counts, second[1].cell_counts
    plan = [Work(0, 1, block) for block in blocks(*synopses, pruning, most=900)]
    found = set()
    for batch in grouped(plan, 900):
        for work, bits in zip(batch, matched(pair, numbers, *rows, batch), strict=True):
            for i, j in np.argwhere(bits):
                partner = orders[1][work.block.columns[j]]
                found.add((int(orders[0][work.block.xs[0] + i]), int(partner)))
    return found


def test_blocks_cover_every_candidate_pair_once():
    xs, ys = owners(200)
    noise = ExactNoise(SecureRandom(bytes(32)))
    budget = PrivacyBudget(Fraction(8), Fraction(1, 1000))
    first, second = build(xs, DOMAIN, budget, noise), build(ys, DOMAIN, budget, noise)
    pruning = SquaredPruning(SquaredDistance((1, 1, 1), 4))
    seen = np.zeros((first.cell_counts.rows, second.cell_counts.rows), int)
    plan = list(blocks(first.cell_counts, second.cell_counts, pruning, most=500))
    for block in plan:
        assert block.pairs <= 500 or block.height == 1
        seen[block.xs[0] : block.xs[1], block.columns] += 1
    cells = [np.repeat(np.arange(len(p.boxes)), p.cell_counts.counts) for p in (first, second)]
    meets = pruning.candidates(first.boxes, second.boxes)[np.ix_(*cells)]
    assert (seen == meets).all()


def test_an_empty_owner_has_no_blocks():
    domain = np.array([[0, 64]] * 3)
    empty, some = whole(0, domain).cell_counts, whole(5, domain).cell_counts
    assert not list(blocks(empty, some, NoPruning()))
    assert not list(blocks(some, empty, NoPruning()))


def test_the_transcript_has_the_same_shape_whatever_the_data(pair):
    numbers = NumberMatcher(SquaredDistance((1, 1), 3), 5)
    shapes = []
    for fill in (0, 31):
        mark = len(pair.channels[0].sent)
        all_pairs(pair, numbers, np.full((6, 2), fill), np.full((7, 2), 3), [1] * 6, [0] * 7)
        shapes.append(pair.channels[0].shape()[mark:])
    assert [s for s in shapes[0] if s[0] != "shares.extension"] == [
        s for s in shapes[1] if s[0] != "shares.extension"
    ]


def test_columns_too_wide_for_the_ring_are_refused():
    with pytest.raises(InputError, match="62 bits"):
        NumberMatcher(SquaredDistance((1 << 16, 1 << 16), 0), 24)
