"""Cells of other parties: leaves of any tree pass, whatever is no tree over the domain does not."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage.blocks.adtree import Budget, build
from ppodc.linkage.blocks.covering import check_leaves
from ppodc.privacy.cell_noise import ExactNoise


def leaves(dimensions: int, ub: int, seed: int, epsilon=8) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = np.minimum(random.geometric(0.03, (400, dimensions)), ub).astype(np.int64)
    budget = Budget(Fraction(epsilon), Fraction(1, 1000))
    noise = ExactNoise(SecureRandom.public(seed))
    tree = build(values, [np.arange(ub + 1)] * dimensions, budget, noise)
    return tree.boxes[random.permutation(len(tree.boxes))]


@pytest.mark.parametrize(("dimensions", "ub"), [(1, 1), (1, 1000), (2, 63), (3, 100), (5, 12)])
def test_leaves_of_a_tree_pass_and_change_nothing_less(dimensions, ub):
    domain = np.array([[0, ub + 1]] * dimensions)
    for seed in range(5):
        boxes = leaves(dimensions, ub, seed)
        check_leaves(boxes, domain)
        assert len(boxes) > 1
        wider = boxes.copy()
        wider[0, 0] = domain[0]
        shorter = boxes.copy()
        shorter[-1, -1, 1] -= 1
        twice = np.concatenate([boxes, boxes[:1]])
        for wrong in (boxes[1:], twice, shorter, wider):
            if not np.array_equal(wrong, boxes):
                with pytest.raises(InputError, match="public domain"):
                    check_leaves(wrong, domain)


def test_one_cell_is_the_whole_domain_or_nothing():
    domain = np.array([[0, 8], [3, 5]])
    check_leaves(domain[None], domain)
    with pytest.raises(InputError, match="leave a part"):
        check_leaves(np.array([[[0, 8], [3, 4]]]), domain)


def test_a_pinwheel_covers_the_domain_and_is_no_tree():
    boxes = [[0, 2, 0, 1], [2, 3, 0, 2], [1, 3, 2, 3], [0, 1, 1, 3], [1, 2, 1, 2]]
    with pytest.raises(InputError, match="into halves"):
        check_leaves(np.array(boxes).reshape(-1, 2, 2), np.array([[0, 3], [0, 3]]))


def test_cells_of_unit_size():
    every = np.stack(np.meshgrid(np.arange(9), np.arange(5), indexing="ij"), axis=-1).reshape(-1, 2)
    boxes = np.stack([every, every + 1], axis=2)
    check_leaves(boxes, np.array([[0, 9], [0, 5]]))
    with pytest.raises(InputError, match="public domain"):
        check_leaves(boxes[:-1], np.array([[0, 9], [0, 5]]))
