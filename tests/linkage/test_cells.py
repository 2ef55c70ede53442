"""Cells, trees and what they may show: worked examples, budgets of every path, no lost match."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage.blocks import adtree, embedding, embedding_tree
from ppodc.linkage.blocks.adtree import Budget, build, count_cells
from ppodc.linkage.blocks.cells import (
    CellCounts,
    NoPruning,
    gaps,
    locate,
    pairs_compared,
    whole,
)
from ppodc.linkage.blocks.embedding_tree import PUBLISHED_EDGES, StringTree, cut_lengths
from ppodc.linkage.rules import EditDistance, EditPruning, SquaredDistance, SquaredPruning
from ppodc.privacy.cell_noise import ExactNoise

DELTA = Fraction(1, 10_000)


def exact_noise(seed: int = 1) -> ExactNoise:
    return ExactNoise(SecureRandom.public(seed))


class NoNoise:
    """Counts as they are, the median where it is, no dummies."""

    def count(self, epsilon):
        return 0

    def padding(self, epsilon, delta):
        return 0

    def choose(self, scores, epsilon):
        return int(np.argmax(scores))


class Accountant(NoNoise):
    """Real noise, and every budget that was asked for."""

    def __init__(self):
        self.noise, self.counts, self.leaves, self.medians = exact_noise(), [], [], []

    def count(self, epsilon):
        self.counts.append(epsilon)
        return self.noise.count(epsilon)

    def padding(self, epsilon, delta):
        self.leaves.append(epsilon)
        return self.noise.padding(epsilon, delta)

    def choose(self, scores, epsilon):
        self.medians.append(epsilon)
        return self.noise.choose(scores, epsilon)


# --------------------------------------------------------------------------- worked examples


def tables():
    """Tables 3.1 and 3.2 of the chapter: ages in tens, weights in hundreds."""
    boxes = [
        [(age, age + 10), (weight, weight + 100)]
        for weight in (200, 100, 0)
        for age in (40, 50, 60)
    ]
    alice = CellCounts(np.array(boxes), np.array([2, 2, 4, 3, 1, 1, 1, 3, 1]))
    bob = CellCounts(np.array(boxes), np.array([4, 3, 3, 4, 2, 4, 0, 3, 1]))
    return alice, bob


def test_neighbours_are_one_apart():
    assert gaps(
        np.array([[40, 50]]), np.array([[50, 60], [45, 46], [30, 40], [60, 70]])
    ).tolist() == [[1, 0, 1, 11]]


def test_the_chapters_example_of_pruning():
    alice, bob = tables()
    assert pairs_compared(alice, bob, NoPruning()) == 18 * 24 == 432
    assert pairs_compared(alice, bob, SquaredPruning(SquaredDistance((1, 1), 0))) == 54
    near = SquaredPruning(SquaredDistance((1, 1), 2))
    assert pairs_compared(alice, bob, near) == 263
    meets = near.candidates(alice.boxes, bob.boxes)
    assert np.flatnonzero(meets[:, 0]).tolist() == [0, 1, 3, 4]


def test_the_non_dominating_rule_without_noise():
    """N = 6000 in even halves: six levels, then 64 nodes of two leaves each."""
    values = (np.arange(6000) * 2**20 // 6000)[:, None]
    tree = build(values, [np.arange(2**20)], Budget(Fraction(1), DELTA), NoNoise())
    assert len(tree.boxes) == 128
    assert tree.cell_counts.rows == 6000


class Bookkeeper(NoNoise):
    """No noise, and every budget that was asked for."""

    def __init__(self):
        self.counts, self.leaves = [], []

    def count(self, epsilon):
        self.counts.append(epsilon)
        return 0

    def padding(self, epsilon, delta):
        self.leaves.append(epsilon)
        return 0


def test_the_budgets_of_the_non_dominating_rule():
    """Sizes that can be halved six times: 6400 rows weigh as 6000 do at eta 1/10."""
    book, eta = Bookkeeper(), Fraction(6000, 10 * 6400)
    values = (np.arange(6400) * 2**20 // 6400)[:, None]
    tree = build(values, [np.arange(2**20)], Budget(Fraction(1), DELTA, eta), book)
    levels = [Fraction(n, 300) for n in (1, 2, 4, 8, 16, 32)]  # 1/300, 1/150, .. 8/75
    assert book.counts == [eps for level, eps in enumerate(levels, 1) for _ in range(2**level)]
    rest = Fraction(1, 4) - sum(levels)  # B
    assert rest == Fraction(4, 100)
    assert 2 / (100 * eta) == 2 / (Fraction("93.75") / 10) > rest  # so nothing is halved again
    eps_u = rest + Fraction(1, 4)
    assert set(book.leaves) == {eps_u} == {Fraction(29, 100)}
    assert int(100 * eta * eps_u) == 2  # W
    assert len(book.leaves) == len(tree.boxes) == 64 * 2
    assert len(tree.boxes) <= 6400 * eta * 1 / 4 == 150


# --------------------------------------------------------------------------- privacy


def clustered(rows: int, seed: int = 3) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.minimum(random.geometric(0.03, (rows, 3)), 100).astype(np.int64)


DOMAIN = [np.arange(101)] * 3


def test_no_path_spends_more_than_half_of_epsilon():
    """Every budget of the tree is on the path of some leaf: B is what a leaf has left."""
    book, budget = Accountant(), Budget(Fraction(1), DELTA)
    tree = build(clustered(2000), DOMAIN, budget, book)
    assert len(book.leaves) == len(tree.boxes) > 10
    assert all(Fraction(1, 4) <= leaf <= Fraction(1, 2) for leaf in book.leaves)
    # the deepest path: leaf budget plus the counts above it make epsilon / 2 exactly
    spent = Fraction(1, 2) - min(book.leaves)
    assert 0 < spent <= Fraction(1, 4)
    assert max(book.counts) <= Fraction(1, 4)


def test_cells_cover_the_domain_once_whatever_the_data():
    tree = build(clustered(500), DOMAIN, Budget(Fraction(1), DELTA), exact_noise())
    random = np.random.default_rng(0)
    points = random.integers(0, 101, (500, 3))
    hits = sum(
        ((points >= box[:, 0]) & (points < box[:, 1])).all(axis=1).astype(int) for box in tree.boxes
    )
    assert (hits == 1).all()
    sizes = np.prod(tree.boxes[:, :, 1] - tree.boxes[:, :, 0], axis=1)
    assert sizes.sum() == 101**3


def looked_for(values, boxes) -> list[int]:
    """The cell of each row, cell by cell."""
    inside = (values[:, None] >= boxes[..., 0]) & (values[:, None] < boxes[..., 1])
    return [int(np.flatnonzero(row)[-1]) for row in inside.all(axis=2)]


def test_rows_are_located_in_cells_of_any_kind():
    random = np.random.default_rng(1)
    tree = build(clustered(3000), DOMAIN, Budget(Fraction(20), DELTA), exact_noise()).boxes
    uneven = embedding_tree.length_boxes(((0, 2), (2, 3), (3, 40), (40, 101)), 3)
    everywhere = np.concatenate([uneven, np.array([[[0, 101]] * 3])])  # overlaps all others
    points = random.integers(0, 101, (700, 3))
    for boxes in (tree, uneven, everywhere, tree[:1] * 0 + [[[0, 101]] * 3]):
        shuffled = random.permutation(boxes)
        assert locate(points, shuffled).tolist() == looked_for(points, shuffled)
    assert len(tree) > 500
    assert locate(points[:0], tree).tolist() == []
    with pytest.raises(InputError, match="row 1 lies in no cell"):
        locate(tree[3:4, :, 0], np.delete(tree, 3, axis=0))


def test_boxes_do_not_follow_the_data_within_them():
    """Without noise, moving all rows inside their cells leaves the cell counts as they are."""
    values = clustered(400)
    budget = Budget(Fraction(2), DELTA)
    tree = build(values, DOMAIN, budget, NoNoise())
    corner = tree.boxes[tree.cell, :, 0]
    moved = build(corner, DOMAIN, budget, NoNoise())
    assert moved.boxes.tolist() == tree.boxes.tolist()
    assert moved.cell_counts.counts.tolist() == tree.cell_counts.counts.tolist()


def test_a_category_is_never_cut_and_absent_ones_are_not_missed():
    """Two categories far apart; all rows in one of them: the cut is by the domain."""
    domain = [np.array([0, 80]), np.arange(64)]
    values = np.column_stack([np.zeros(300, np.int64), np.arange(300) % 64])
    tree = build(values, domain, Budget(Fraction(2), DELTA), NoNoise())
    assert {tuple(interval) for interval in tree.boxes[:, 0].tolist()} == {(0, 40), (40, 81)}


def test_padding_is_never_below_the_true_count_in_a_thousand_runs():
    values = clustered(12)
    for seed in range(1000):
        tree = build(values, DOMAIN, Budget(Fraction(12), DELTA), exact_noise(seed))
        true = np.bincount(tree.cell, minlength=len(tree.boxes))
        assert len(true) > 1
        assert (tree.cell_counts.counts >= true).all()


def test_padding_hides_every_count():
    values = clustered(300)
    for seed in range(20):
        tree = build(values, DOMAIN, Budget(Fraction(1), DELTA), exact_noise(seed))
        true = np.bincount(tree.cell, minlength=len(tree.boxes))
        assert (tree.cell_counts.counts >= true).all()
        order = tree.arranged()
        assert len(order) == tree.cell_counts.rows
        assert sorted(order[order >= 0].tolist()) == list(range(300))


def test_rows_stand_in_the_order_of_their_cells():
    tree = build(clustered(60), DOMAIN, Budget(Fraction(3), DELTA), exact_noise())
    at = 0
    order, counts = tree.arranged(), tree.cell_counts.counts
    for cell, count in enumerate(counts):
        rows = order[at : at + count]
        assert (tree.cell[rows[rows >= 0]] == cell).all()
        at += count


@pytest.mark.parametrize("rows", [0, 1])
def test_a_tiny_table_is_one_cell(rows):
    tree = build(clustered(rows), DOMAIN, Budget(Fraction(1), DELTA), exact_noise())
    assert len(tree.boxes) == 1
    assert tree.cell_counts.rows >= rows


def test_all_rows_equal_and_a_domain_of_one_value():
    equal = np.full((200, 2), 7)
    tree = build(equal, [np.array([7]), np.array([7])], Budget(Fraction(1), DELTA), exact_noise())
    assert tree.boxes.tolist() == [[[7, 8], [7, 8]]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Budget(Fraction(0), DELTA),
        lambda: Budget(Fraction(1), Fraction(0)),
        lambda: Budget(Fraction(1), DELTA, eta=Fraction(0)),
        lambda: Budget(Fraction(1), DELTA, leaf_share=Fraction(0)),
        lambda: Budget(Fraction(1), Fraction(1, 100)).check_rows(100),
        lambda: locate(np.array([[101, 0, 0]]), np.array([[(0, 101)] * 3])),
        lambda: CellCounts(np.zeros((1, 2, 2), np.int64), np.array([-1])),
        lambda: StringTree(Fraction(1), DELTA, (10,), (0,), tree_share=Fraction(1)),
        lambda: StringTree(Fraction(1), DELTA, (10,), (0,), buckets=(((0, 11),),)),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(InputError):
        make()


# --------------------------------------------------------------------------- no match is lost


@pytest.mark.parametrize("limit", [0, 5, 300])
def test_no_matching_pair_is_pruned(limit):
    rule = SquaredDistance((1, 2, 1), limit)
    xs, ys = clustered(250, 5), clustered(250, 6)
    ys[:40] = xs[:40]
    budget = Budget(Fraction(3), DELTA)
    first = build(xs, DOMAIN, budget, exact_noise(1))
    for second in (
        build(ys, DOMAIN, budget, exact_noise(2)),
        count_cells(ys, first.boxes, budget, exact_noise(3)),
        whole(250, np.array([[0, 101]] * 3)),
    ):
        meets = SquaredPruning(rule).candidates(first.boxes, second.boxes)
        matching = rule.match_matrix(xs, ys)
        assert meets[first.cell[:, None], second.cell[None, :]][matching].all()


def words(count: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    letters = np.array(list("abcde"))
    return ["".join(random.choice(letters, random.integers(0, 12))) for _ in range(count)]


@pytest.mark.parametrize("buckets", [(), (((0, 4), (4, 6), (6, 13)),)])
@pytest.mark.parametrize("adjust", [False, True])
def test_no_matching_strings_are_pruned(buckets, adjust):
    rule = EditDistance(1, 2)
    first_texts, second_texts = words(120, 1), words(120, 2)
    second_texts[:30] = [text[:-1] for text in first_texts[:30]]
    references = embedding.reference_set(bytes(32), 24, 12)

    def points(texts):
        lengths = [len(text) for text in texts]
        return np.column_stack([lengths, embedding.embed(embedding.coded(texts), references)])

    share = Fraction(1, 20) if buckets else Fraction(0)
    tree = StringTree(
        Fraction(4), DELTA, (12,), (0,), length_share=share, buckets=buckets, adjust=adjust
    )
    first = embedding_tree.build(points(first_texts), tree, exact_noise(1))
    second = embedding_tree.build(points(second_texts), tree, exact_noise(2))
    meets = EditPruning(rule, tree.dimensions).candidates(first.boxes, second.boxes)
    rows = rule.match_matrix([(t,) for t in first_texts], [(t,) for t in second_texts])
    assert rows.sum() > 30
    assert meets[first.cell[:, None], second.cell[None, :]][rows].all()
    assert (first.cell >= 0).all()


def test_string_trees_keep_to_half_of_epsilon():
    book = Accountant()
    texts = words(800, 4)
    references = embedding.reference_set(bytes(32), 24, 12)
    points = np.column_stack(
        [[len(t) for t in texts], embedding.embed(embedding.coded(texts), references)]
    )
    tree = StringTree(
        Fraction(2),
        DELTA,
        (12,),
        (0,),
        tree_share=Fraction(3, 5),
        length_share=Fraction(1, 20),
        buckets=(((0, 5), (5, 13)),),
    )
    embedding_tree.build(points, tree, book)
    assert book.counts[0] == Fraction(1, 20)
    assert all(Fraction(7, 20) <= leaf <= Fraction(19, 20) for leaf in book.leaves)
    assert book.medians
    assert max(book.medians) <= Fraction(3, 5)


def test_length_cells():
    assert embedding_tree.exact_lengths(2, 3, 9) == ((0, 2), (2, 3), (3, 4), (4, 10))
    assert embedding_tree.exact_lengths(0, 2, 2) == ((0, 1), (1, 2), (2, 3))
    assert cut_lengths(PUBLISHED_EDGES, 39)[:2] == ((0, 11), (11, 13))
    assert cut_lengths(PUBLISHED_EDGES, 39)[-1] == (19, 40)
    assert cut_lengths((3, 9), 5) == ((0, 3), (3, 6))
    boxes = embedding_tree.length_boxes(embedding_tree.exact_lengths(0, 12, 12), 1)
    lengths = np.array([[0], [12], [5]])
    tree = count_cells(lengths, boxes, Budget(Fraction(1), DELTA), exact_noise())
    assert tree.cell.tolist() == [0, 12, 5]
    assert adtree.hull([np.arange(3)]) == ((0, 3),)
