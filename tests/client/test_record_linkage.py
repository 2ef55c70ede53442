"""`RecordLinkage` of two owners: links equal plaintext, and what cannot be is refused."""

import numpy as np
import pytest

from ppodc import RecordLinkage
from ppodc.linkage.reference import match_matrix
from ppodc.linkage.rules import SquaredDistance
from ppodc.records.encode import encode
from ppodc.records.schema import Column, Schema
from tests.client.points import BOUNDS


def test_links_of_two_owners_equal_plaintext(threads):
    random = np.random.default_rng(8)
    first = random.uniform((0, -5), (10, 5), (40, 2))
    second = random.uniform((0, -5), (10, 5), (35, 2))
    second[5:20] = np.clip(first[10:25] + random.normal(0, 0.02, (15, 2)), (0, -5), (10, 5))
    second[34] = second[5]  # the first owner's row 10 has several partners
    model = RecordLinkage(theta="1/10000", bounds=BOUNDS, ub=500, platform=threads)
    assert model.fit([first, second]) is model
    schema = Schema(tuple(Column(f"x{i}", *b) for i, b in enumerate(BOUNDS)), 500)
    rule = SquaredDistance((1, 1), 500 * 500 // 10_000)
    plain = match_matrix(rule, encode(first, schema), encode(second, schema))
    assert model.partners_ == [np.minimum(2, plain.sum(axis=axis)).tolist() for axis in (1, 0)]
    alone = plain & (plain.sum(axis=1) == 1)[:, None] & (plain.sum(axis=0) == 1)
    assert sorted(model.links_) == [((0, i), (1, j)) for i, j in np.argwhere(alone).tolist()]
    assert len(model.links_) >= 10
    assert 2 in model.partners_[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"theta": -1}, "'theta' parameter"),
        ({"theta": 2}, "every pair"),
        ({"weights": [1]}, "for 2 columns"),
        ({"output": "all"}, "'output' parameter"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(change, words):
    tables = [np.zeros((3, 2)), np.zeros((2, 2))]
    with pytest.raises(ValueError, match=words):
        RecordLinkage(**{"bounds": BOUNDS, **change}).fit(tables)
    with pytest.raises(ValueError, match="two owners"):
        RecordLinkage(bounds=BOUNDS).fit(tables[:1])
