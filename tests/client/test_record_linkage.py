"""`RecordLinkage` of two owners: links equal plaintext, and what cannot be is refused."""

import numpy as np
import pandas as pd
import pytest

from client import RecordLinkage, SecureKMeans, rules
from ppodc.linkage.rules import SquaredDistance
from ppodc.records.encode import encode
from ppodc.records.schema import Column, Schema
from tests.client.points import BOUNDS
from tests.client.test_linked_kmeans import clinics


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
    plain = rule.match_matrix(encode(first, schema), encode(second, schema))
    assert model.partners_ == [np.minimum(2, plain.sum(axis=axis)).tolist() for axis in (1, 0)]
    alone = plain & (plain.sum(axis=1) == 1)[:, None] & (plain.sum(axis=0) == 1)
    assert model.links_.tolist() == [tuple(link) for link in np.argwhere(alone).tolist()]
    assert (model.n_pairs_, model.reduction_) == (40 * 35, 0)
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
        RecordLinkage(**{"theta": 0, "bounds": BOUNDS, **change}).fit(tables)
    with pytest.raises(ValueError, match="two owners"):
        RecordLinkage(theta=0, bounds=BOUNDS).fit(tables[:1])


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
        ("none", [(7, 1), (8, 0), (9, 2), (10, 3)]),
        (
            rules.by_key("year", epsilon=8, delta="1/10"),
            [(8, 0), (9, 2)],  # the others are of different years
        ),
    ],
)
def test_texts_and_numbers_by_fields(threads, blocks, links):
    model = RecordLinkage(rule=RULE, blocks=blocks, platform=threads, **WORDS)
    model.fit(people())
    assert model.links_.tolist() == links
    assert model.epsilon_ == (0 if blocks == "none" else 8)


def test_several_links_and_their_number(threads):
    tables = [np.array([[1.0], [2.0]]), np.array([[1.0], [1.0], [5.0]])]
    model = RecordLinkage(theta=0, bounds=(0, 10), ub=10, max_links=2, platform=threads).fit(tables)
    assert model.partners_ == [[2, 0], [1, 1, 0]]
    assert model.links_.tolist() == [(0, 0), (0, 1)]
    model = RecordLinkage(theta=0, bounds=(0, 10), ub=10, output="count", platform=threads).fit(
        tables
    )
    assert model.count_ == 2


def test_the_sample_of_the_design(threads):
    """`estimate`, `fit`, links as recordlinkage has them, and k-means over distinct people."""
    link = RecordLinkage(
        rule=rules.fields(
            [
                rules.edit("surname", max=1, weight=1),
                rules.edit("given_name", max=1, weight=1),
                rules.exact("birth_date", weight=2),
                rules.numeric("height", max=2, weight=1),
            ],
            threshold=3,
        ),
        blocks=rules.by_key("birth_year", epsilon=1, delta=1e-2),
        output="links",
        bounds={"height": (100, 220), "birth_year": (1990, 1992)},  # public, so they are given
        texts={"surname": 8, "given_name": 6, "birth_date": ("digits", 8)},
        platform=threads,
    )
    assert link.estimate([50, 50]).pairs > 50 * 50 / 4
    clinic_a, clinic_b = clinics()
    clinic_a.index = pd.Index([f"a{row}" for row in clinic_a.index], name="patient")
    link.fit([clinic_a, clinic_b])
    assert isinstance(link.links_, pd.MultiIndex)
    assert link.links_.tolist() == [("a0", 0), ("a1", 1), ("a3", 3)]
    assert link.links_.names == ["patient", None]
    assert clinic_a.loc[link.links_.get_level_values(0)].height.tolist() == [150, 190, 188]
    assert link.epsilon_ == 1
    assert link.n_pairs_ > 30  # few rows, and dummies beside them
    assert link.reduction_ == 1 - link.n_pairs_ / 30
    model = SecureKMeans(
        n_clusters=2,
        init=np.array([[150], [190]]),
        bounds={"height": (100, 220)},
        min_size=1,
        dedup=link,
        platform=threads,
    )
    assert model.fit([clinic_a, clinic_b]).sizes_.sum() == 8


def test_three_owners_have_a_partner_of_each_other(threads):
    tables = [np.array([[1.0], [2.0]]), np.array([[2.0]]), np.array([[5.0], [2.0]])]
    model = RecordLinkage(theta=0, bounds=(0, 10), ub=10, platform=threads).fit(tables)
    assert model.partners_ == [[0, 2], [2], [0, 2]]
    assert model.all_links_.values.tolist() == [[0, 1, 1, 0], [0, 1, 2, 1], [1, 0, 2, 1]]
    assert model.n_pairs_ == 8
    with pytest.raises(AttributeError, match="of two owners; all_links_ has the links of more"):
        _ = model.links_
    model.set_params(max_links=1).fit(tables)
    assert model.partners_ == [[0, 2], [2], [0, 2]]  # 2: more than one
    assert len(model.all_links_) == 0


def test_an_output_has_its_own_attributes_and_none_of_an_earlier_fit(threads):
    tables = [np.array([[1.0], [2.0]]), np.array([[1.0], [1.0], [5.0]])]
    model = RecordLinkage(theta=0, bounds=(0, 10), ub=10, platform=threads)
    given = {"partners_", "links_", "all_links_", "count_"}
    with pytest.raises(AttributeError, match='links_\': fit gives it with output="links"'):
        _ = model.links_
    for output, told in {
        "links": {"partners_", "links_", "all_links_"},
        "flags": {"partners_"},
        "count": {"count_"},
    }.items():
        model.set_params(output=output).fit(tables)
        assert {name for name in given if hasattr(model, name)} == told
    with pytest.raises(AttributeError, match='partners_\': fit gives it with output="links" or'):
        _ = model.partners_
    with pytest.raises(AttributeError, match=r"no attribute 'labels_'$"):
        _ = model.labels_


def test_no_links_are_an_empty_index(threads):
    tables = [pd.DataFrame({"x": [1.0]}, index=["a"]), pd.DataFrame({"x": [5.0]}, index=[7])]
    model = RecordLinkage(theta=0, bounds=(0, 10), ub=10, platform=threads).fit(tables)
    assert (len(model.links_), model.links_.nlevels, len(model.all_links_)) == (0, 2, 0)


def test_numbers_by_the_rule_of_a_spec_file(threads):
    tables = [np.array([[1.0, 2.0], [7.0, 7.0]]), np.array([[2.0, 2.0], [9.0, 9.0]])]
    model = RecordLinkage(rule=rules.sse([1, 1], limit=1), bounds=(0, 10), ub=10, platform=threads)
    assert model.fit(tables).links_.tolist() == [(0, 0)]
    assert model.estimate([10, 20]).pairs == 200
    blocks = rules.adtree_shared("owner1", epsilon=4, delta=1e-2)
    assert model.set_params(blocks=blocks).fit(tables).links_.tolist() == [(0, 0)]


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
    model.set_params(blocks=rules.by_key("year", epsilon=1, delta=1e-6))
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
    with pytest.raises(ValueError, match="nothing is said of 'name', 'code', 'year': give bounds"):
        RecordLinkage(rule=RULE).estimate([10, 10])
    with pytest.raises(ValueError, match="nothing is said of 'year'"):
        RecordLinkage(rule=RULE, texts=WORDS["texts"]).fit(people())
    with pytest.raises(ValueError, match="columns="):
        RecordLinkage(theta=0).estimate([10, 10])
    assert RecordLinkage(theta=0).estimate([10, 20], columns=3).pairs == 200
    listed = RecordLinkage(theta="1/10000", bounds=[(1900, 2030), (40, 260)])
    assert listed.estimate([10, 20]) == RecordLinkage(theta="1/10000").estimate([10, 20], 2)
    with pytest.raises(ValueError, match="columns="):
        RecordLinkage(theta=0, bounds=(0, 1)).estimate([10, 10])
