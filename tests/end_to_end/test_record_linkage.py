"""`RecordLinkage` over the whole platform: every owner's links equal plaintext."""

import numpy as np
import pytest

from client import RecordLinkage, SecureKMeans
from ppodc.errors import InputError
from ppodc.kmeans.reference import kmeans
from ppodc.linkage.reference import distinct, match_matrix
from ppodc.linkage.rules import SquaredDistance
from ppodc.records.encode import encode
from ppodc.records.schema import Column, Schema

BOUNDS = [(0.0, 10.0), (-5.0, 5.0)]


def test_links_of_two_owners_equal_plaintext():
    random = np.random.default_rng(8)
    first = random.uniform((0, -5), (10, 5), (40, 2))
    second = random.uniform((0, -5), (10, 5), (35, 2))
    second[5:20] = np.clip(first[10:25] + random.normal(0, 0.02, (15, 2)), (0, -5), (10, 5))
    second[34] = second[5]  # the first owner's row 10 has several partners
    model = RecordLinkage(theta="1/10000", bounds=BOUNDS, ub=500)
    assert model.fit([first, second]) is model
    schema = Schema(tuple(Column(f"x{i}", *b) for i, b in enumerate(BOUNDS)), 500)
    rule = SquaredDistance((1, 1), 500 * 500 // 10_000)
    plain = match_matrix(rule, encode(first, schema), encode(second, schema))
    assert model.partners_ == [np.minimum(2, plain.sum(axis=axis)).tolist() for axis in (1, 0)]
    alone = plain & (plain.sum(axis=1) == 1)[:, None] & (plain.sum(axis=0) == 1)
    assert sorted(model.links_) == [((0, i), (1, j)) for i, j in np.argwhere(alone).tolist()]
    assert len(model.links_) >= 10
    assert 2 in model.partners_[0]


def test_clusters_of_people_that_two_owners_hold_count_each_once():
    random = np.random.default_rng(2)
    first = random.uniform((0, -5), (10, 5), (30, 2))
    second = np.concatenate([first[5:20], random.uniform((0, -5), (10, 5), (12, 2))])
    model = SecureKMeans(
        2, bounds=BOUNDS, ub=200, max_iter=5, random_state=3, pairs=2, dedup=RecordLinkage()
    )
    model.fit([first, second])
    schema = Schema(tuple(Column(f"x{i}", *b) for i, b in enumerate(BOUNDS)), 200)
    rows = encode(np.concatenate([first, second]), schema)
    keep = distinct(SquaredDistance((1, 1), 0), rows, [0] * 30 + [1] * 27)
    plain = kmeans(rows, 2, beta=0, max_iter=5, seed=3, keep=keep)
    assert keep.sum() == 42
    assert model.sizes_.tolist() == plain.sizes.tolist()
    assert model.sizes_.sum() == 42
    assert model.labels_.tolist() == plain.labels.tolist()
    assert model.n_iter_ == plain.n_iter


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"theta": -1}, "not be negative"),
        ({"theta": 2}, "every pair"),
        ({"weights": [1]}, "for 2 columns"),
        ({"output": "all"}, "links, flags"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(change, words):
    tables = [np.zeros((3, 2)), np.zeros((2, 2))]
    with pytest.raises(InputError, match=words):
        RecordLinkage(**{"bounds": BOUNDS, **change}).fit(tables)
    with pytest.raises(InputError, match="two owners"):
        RecordLinkage(bounds=BOUNDS).fit(tables[:1])
