"""FEBRL beside other tools: a rule fitted on one set, and bits on shares that are plaintext's."""

import sys
from pathlib import Path

import numpy as np
import pytest

from ppodc.bench.linkage import febrl, peers
from ppodc.bench.points import Points
from ppodc.errors import InputError
from ppodc.linkage.blocks.keys import Key
from ppodc.linkage.exact_codes import CODE_BITS, text_code

HEAD = "rec_id, given_name, surname, street_number, address_1, suburb, postcode, date_of_birth"
PEOPLE = (
    ("anna", "smith", "4", "hill road", "kew", "3101", "19800101"),
    ("bruno", "jones", "17", "sea street", "perth", "6000", "19810505"),
    ("clara", "o'neil", "2", "long lane", "hobart", "7000", "19800909"),
    ("dan", "kelly", "", "high street", "sydney", "2000", "19811212"),
    ("eve", "brown", "99", "park avenue", "darwin", "0800", ""),
    ("finn", "white", "5", "lake drive", "cairns", "4870", "18000101"),
)
COPIES = (
    ("ana", "smith", "4", "hill rd", "kew", "3101", "19800101"),
    ("bruno", "jonse", "17", "sea street", "perht", "6000", "19810505"),
    ("clara", "o neil", "2", "long lane", "", "7001", "19800909"),
    ("dan", "kelley", "8", "high street", "sydney", "2000", "19811213"),
    ("eve", "brown", "99", "park avenue", "darwin", "0800", ""),
    ("xaver", "white", "6", "lake drive", "cairns", "4870", "18000101"),
)


def lines(people, suffix):
    return [", ".join([f"rec-{number}-{suffix}", *row]) for number, row in enumerate(people)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copies = [line for number in range(3) for line in lines(COPIES, f"dup-{number}")]
    sets = {
        "dataset3.csv": [*lines(PEOPLE, "org"), *copies],
        "dataset4a.csv": lines(PEOPLE, "org"),
        "dataset4b.csv": lines(COPIES, "dup-0"),
    }
    for name, rows in sets.items():
        (tmp_path / name).write_text("\n".join([HEAD, *rows]) + "\n")
    return tmp_path


def fitted(folder):
    return febrl.fit(febrl.load(folder, 3), febrl.spec(["birth year"], 1, 1e-6))


@pytest.mark.parametrize("weighed", [False, True])
def test_points_are_the_oracles(folder, weighed):
    fields = fitted(folder).rule.fields if weighed else febrl.FIELDS
    people = febrl.load(folder, 4)
    pairs = np.argwhere(np.ones((len(PEOPLE), len(COPIES)), bool))
    scores = febrl.weighed(febrl.outcomes(people, pairs), fields)
    rows = [
        [field.decode(entry) for entry in field.encode_values([_value(field, row[n])], size)]
        for owner in (people.a, people.b)
        for row in owner.rows
        for n, (field, size) in enumerate(zip(fields, sizes(fields), strict=True))
    ]
    values = [value for (value,) in rows]
    width = len(fields)
    own = [values[start : start + width] for start in range(0, len(values), width)]
    rule = febrl.Fields(tuple(fields), 1)
    expected = [rule.score(own[i], own[len(PEOPLE) + j]) for i, j in pairs]
    assert scores.tolist() == expected
    assert len(set(expected)) > 3


def sizes(fields):
    return [
        CODE_BITS if f.how == "frequency" else s for f, s in zip(fields, febrl.SIZES, strict=True)
    ]


def _value(field, value):
    text = febrl.TEXTS[febrl.COLUMNS.index(field.column)]
    return text_code(text, value) if field.how == "exact" and value is not None else value


def test_the_rule_finds_what_it_was_fitted_to(folder):
    people = febrl.load(folder, 3)
    assert people.truth == {(i, i + copy) for i in range(6) for copy in (0, 6, 12)}
    pairs = people.candidates(["birth year"])
    assert {(i, j) for i, j in pairs.tolist() if j < 6} == {
        (i, j) for year in ((0, 2), (1, 3)) for i in year for j in year
    }  # no key: born before 1900 or nobody knows when
    rule = fitted(folder).rule
    scores = febrl.weighed(febrl.outcomes(people, pairs), rule.fields)
    assert ((scores >= rule.threshold) == febrl.matching(people, pairs)).all()


def test_the_rule_treats_all_texts_alike(folder):
    """No column has levels of its own, which could have been chosen to suit the set that tests."""
    *texts, number = fitted(folder).rule.fields
    assert {(field.how, len(field.weights)) for field in texts} == {("levels", 3)}
    assert (number.how, len(number.weights)) == ("frequency", 1)


def test_keys_are_columns_of_their_own_for_other_tools():
    assert not set(febrl.KEYS) & set(febrl.COLUMNS)


def test_the_best_threshold_has_the_highest_f1():
    scores = [9.0, 8.0, 8.0, 5.0, 1.0]
    match = [True, True, False, True, False]
    # 9: 2/4, 8: 4/6, 5: 6/7, 1: 6/8
    assert febrl.best_threshold(scores, match, 3) == (5.0, 6 / 7)


def test_ours_runs_on_shares_and_missing_tools_are_named(folder, monkeypatch):
    monkeypatch.setattr(febrl, "YEARS", (1980, 1981))
    monkeypatch.setitem(febrl.KEYS, "post code", Key("postcode", buckets=4))
    monkeypatch.setattr(peers, "EPSILON", 16)  # few dummies
    monkeypatch.setattr(peers, "WAYS", peers.WAYS[1:])
    result = peers.run(data=folder, python=Path(sys.executable), passes=1, points=Points(on="here"))
    points = {point["peer"]: point for point in result["points"]}
    assert points["ppodc"]["exact"]
    # nobody knows when eve was born, and finn was before all years: their postcodes agree
    assert points["ppodc"]["recall"] == 1 == points["ppodc"]["reach"]
    assert len(febrl.load(folder, 4).candidates(["birth year"])) == 4 * 2
    assert points["ppodc"]["precision"] == 1
    assert points["ppodc"]["compared"] > 4 * 4
    for peer in {"recordlinkage", "splink", "anonlink"} - set(points):
        assert any(peer in note and "was not run" in note for note in result["notes"])
    assert all(len(table["rows"]) == len(result["points"]) for table in result["tables"])


def test_without_the_files_it_is_said_where_they_come_from(tmp_path):
    with pytest.raises(InputError, match="--data"):
        peers.run(data=None, python=tmp_path / "none", passes=1, points=Points(on="x"))
    with pytest.raises(InputError, match=r"dataset4a\.csv"):
        febrl.load(tmp_path, 4)
    (tmp_path / "dataset3.csv").write_text(HEAD.replace("suburb", "town") + "\nrec-0-org, smith\n")
    with pytest.raises(InputError, match="suburb"):
        febrl.load(tmp_path, 3)
