"""`RecordLinkage` of two owners: links equal plaintext, and what cannot be is refused."""

import numpy as np
import pandas as pd
import pytest

from ppodc import RecordLinkage
from ppodc.linkage import blocking, rules
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
    assert model.links_.values.tolist() == [[0, i, 1, j] for i, j in np.argwhere(alone).tolist()]
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


RULE = rules.fields(
    [
        rules.edit("name", max=1, weight=2),
        rules.exact("code", weight=1),
        rules.numeric("year", max=1, weight=1),
    ],
    threshold=3,
)
WORDS = {"bounds": {"year": (1990, 1999)}, "texts": {"name": 6, "code": ("digits", 3)}}


def people():
    first = pd.DataFrame(
        {
            "name": ["Anna", "Bert", "Carla", "Dora"],
            "code": ["101", "102", None, "104"],
            "year": [1990, 1991, 1992, 1999],
            "diagnosis": ["stays at home"] * 4,
        },
        index=[7, 8, 9, 10],
    )
    second = pd.DataFrame(
        {
            "year": [1991, 1991, 1992, 1994],
            "code": ["102", "101", "103", "104"],
            "name": ["Berta", "Ana", "carla", "Nora"],
        }
    )
    return first, second


@pytest.mark.parametrize(
    ("blocks", "links"),
    [
        (None, [[0, 7, 1, 1], [0, 8, 1, 0], [0, 9, 1, 2], [0, 10, 1, 3]]),
        (
            blocking.by_key("year", epsilon=8, delta="1/10"),
            [[0, 8, 1, 0], [0, 9, 1, 2]],  # the others are of different years
        ),
    ],
)
def test_texts_and_numbers_by_fields(threads, blocks, links):
    model = RecordLinkage(rule=RULE, blocks=blocks, platform=threads, **WORDS)
    model.fit(people())
    assert model.links_.values.tolist() == links
    assert model.epsilon_ == (8 if blocks else 0)


def test_several_links_and_their_number(threads):
    tables = [np.array([[1.0], [2.0]]), np.array([[1.0], [1.0], [5.0]])]
    model = RecordLinkage(bounds=(0, 10), ub=10, max_links=2, platform=threads).fit(tables)
    assert model.partners_ == [[2, 0], [1, 1, 0]]
    assert model.links_.values.tolist() == [[0, 0, 1, 0], [0, 0, 1, 1]]
    model = RecordLinkage(bounds=(0, 10), ub=10, output="count", platform=threads).fit(tables)
    assert model.count_ == 2


def test_a_table_is_refused_as_a_whole_before_anything_starts(threads):
    first, second = people()
    second.loc[2, "name"] = "far too long"
    with pytest.raises(ValueError, match="row 2, column 'name': 12 characters"):
        RecordLinkage(rule=RULE, platform=threads, **WORDS).fit([first, second])
    with pytest.raises(ValueError, match="no column 'code'"):
        RecordLinkage(rule=RULE, **WORDS).fit([first, second.drop(columns="code")])


def test_estimate_and_preview_before_anything_is_sent():
    model = RecordLinkage(rule=RULE, **WORDS)
    everything = model.estimate([5000, 4000])
    assert (everything.pairs, everything.dummies, everything.epsilon) == (20_000_000, 0, 0)
    model.set_params(blocks=blocking.by_key("year", epsilon=1, delta=1e-6))
    cells = model.estimate([5000, 4000])
    assert everything.pairs / 12 < cells.pairs < everything.pairs / 8  # ten years, and no year
    assert cells.dummies > 0
    assert cells.seconds < everything.seconds
    assert cells.epsilon == 1
    first, _ = people()
    seen = model.preview(first)
    assert (seen.rows, seen.cells) == (4, 11)
    assert seen.dummies > 0
    assert seen.matches == [(1, 2), (2, 0), (3, 0), (4, 0)]  # two pairs of neighbouring years
    assert seen.threshold == 3
    with pytest.raises(ValueError, match="columns="):
        RecordLinkage().estimate([10, 10])
    assert RecordLinkage().estimate([10, 20], columns=3).pairs == 200
