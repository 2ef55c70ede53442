"""Whole jobs at the edges of every rule: no rows, one row, no match, nothing but matches."""

import base64

import numpy as np
import pandas as pd
import pytest

from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import give
from tests.linkage.test_job import (
    COLUMNS,
    EPSILON,
    FIELDS,
    NUMBERS,
    TEXTS,
    YEAR,
    spec_of,
    text_links,
)
from tests.linkage.whole_job import check, expected

EDIT = {"rule": "edit", "attributes": 2, "limit": 1}
DICE = {"rule": "dice", "bits": 20, "threshold": 0.8}
KEYS = [{"column": "year", **EPSILON}, {"column": "code", "buckets": 4, **EPSILON}]
NAMES = ["name", "code", "year"]


def filters(*bits: int) -> pd.DataFrame:
    packed = [int(b << 4).to_bytes(3, "big") for b in bits]
    return pd.DataFrame({"clk": [base64.b64encode(p).decode() for p in packed]}, dtype=object)


def numbers(*rows) -> np.ndarray:
    return np.array(rows, float).reshape(len(rows), 3)


def texts(*rows, columns=NAMES) -> pd.DataFrame:
    return pd.DataFrame([row[: len(columns)] for row in rows], columns=columns, dtype=object)


def of_edit(*rows) -> pd.DataFrame:
    return texts(*rows, columns=NAMES[:2])


ANN, EVA = ("anna", "103", 1990), ("eva", "205", 1993)
CASES = {
    "sse": ({**NUMBERS}, COLUMNS, (), numbers, (3, 4, 5), (60, 9, 1)),
    "adtree": ({**NUMBERS, "blocks": "adtree", **EPSILON}, COLUMNS, (), numbers, (3, 4, 5),
               (60, 9, 1)),
    "edit": (EDIT, (), TEXTS, of_edit, ANN, EVA),
    "length": ({**EDIT, "blocks": "length", "epsilon": 8, "delta": "1/10"}, (), TEXTS, of_edit, ANN,
               EVA),
    "embedding": ({**EDIT, "blocks": "embedding", "epsilon": 8, "delta": 1e-9}, (), TEXTS,
                  of_edit, ANN, EVA),
    "fields": (FIELDS, YEAR, TEXTS, texts, ANN, EVA),
    "key": ({**FIELDS, "blocks": "key", "key": "year", "lossy": True, **EPSILON}, YEAR, TEXTS,
            texts, ANN, EVA),
    "keys": ({**FIELDS, "blocks": "key", "keys": KEYS, "lossy": True}, YEAR, TEXTS, texts, ANN,
             EVA),
    "dice": (DICE, (), [("clk", "filter", 20)], filters, 0b1011, 0b1100000),
}  # fmt: skip


def linked(case, tmp_path, ann, bob, **change):
    """The results of ann and bob for these rows, and the clouds that computed them."""
    job, columns, listed, table, _, _ = CASES[case]
    spec = spec_of({**job, **change}, columns, listed)
    clouds = TwoClouds(give(spec, [("ann", table(*ann)), ("bob", table(*bob))], tmp_path))
    return clouds.run(), clouds


@pytest.mark.parametrize("case", CASES)
def test_a_table_without_rows_links_nothing(tmp_path, case):
    row = CASES[case][4]
    for number, (ann, bob) in enumerate((([], [row, row]), ([row], []), ([], []))):
        results, clouds = linked(case, tmp_path / str(number), ann, bob)
        for owner, own in (("ann", ann), ("bob", bob)):
            assert results[owner].partners_ == [0] * len(own)
            assert results[owner].links_ == [()] * len(own)
        assert (clouds.given.sealed.m > 2) == clouds.given.spec.job.rearranged  # dummies alone


@pytest.mark.parametrize("output", ["flags", "count"])
@pytest.mark.parametrize("case", ["sse", "keys"])
def test_flags_and_counts_of_tables_without_rows(tmp_path, case, output):
    row = CASES[case][4]
    for number, (ann, bob) in enumerate((([row], []), ([], []))):
        results, _ = linked(case, tmp_path / str(number), ann, bob, output=output)
        if output == "count":
            assert results["bob"].count_ == 0
        else:
            assert results["ann"].partners_ == [0] * len(ann)


@pytest.mark.parametrize("case", CASES)
def test_one_row_and_one_row(tmp_path, case):
    *_, row, other = CASES[case]
    results, _ = linked(case, tmp_path / "same", [row], [row])
    assert results["ann"].links_ == [(("bob", 0, 0),)]
    assert results["bob"].links_ == [(("ann", 0, 0),)]
    results, _ = linked(case, tmp_path / "other", [row], [other])
    assert results["ann"].partners_ == results["bob"].partners_ == [0]


@pytest.mark.parametrize("case", CASES)
def test_no_match_at_all_and_nothing_but_matches(tmp_path, case):
    *_, row, other = CASES[case]
    results, _ = linked(case, tmp_path / "none", [row] * 3, [other] * 4)
    assert results["ann"].partners_ == [0] * 3
    results, _ = linked(case, tmp_path / "all", [row] * 3, [row] * 4, max_links=4)
    assert results["ann"].partners_ == [4] * 3
    assert results["ann"].links_ == [tuple(("bob", 0, j) for j in range(4))] * 3
    assert results["bob"].partners_ == [3] * 4


def test_cells_that_never_meet_leave_nothing_to_compare(tmp_path, monkeypatch):
    monkeypatch.setattr("ppodc.privacy.cell_noise.padding", lambda *_: 0)  # or dummies meet
    results, clouds = linked("key", tmp_path, [ANN] * 2, [EVA] * 3)
    assert clouds.names == ["output"]
    assert results["ann"].partners_ == [0, 0]


def test_empty_texts_are_texts(tmp_path):
    """Not missing: they agree with each other, and are one edit from a single letter."""
    rows = [("", "", 1990), (" ", "1", 1990), ("a", "", None), (None, "1", 1990)]
    tables = [("ann", texts(*rows)), ("bob", texts(*reversed(rows)))]
    spec = spec_of({**FIELDS, "max_links": 4}, YEAR, TEXTS)
    plain = [(o, t.replace(" ", "")) for o, t in tables]
    wanted = text_links(spec.job.rule, plain, ["name", "code", "code", "year"])
    assert check(TwoClouds(give(spec, tables, tmp_path / "f")).run(), wanted, 4) > 6
    for case in ("edit", "length", "embedding"):
        job, columns, listed, table, _, _ = CASES[case]
        edit = spec_of({**job, "max_links": 4}, columns, listed)
        known = [(o, [r[:2] for r in rows[:3]]) for o in ("ann", "bob")]
        given = give(edit, [(o, table(*some)) for o, some in known], tmp_path / case)
        bare = [(o, [[v.strip() for v in r] for r in some]) for o, some in known]
        rule = edit.job.rule
        links = expected(bare, lambda a, b, rule=rule: rule.matches(a, b), ("ann", "bob"))
        assert check(TwoClouds(given).run(), links, 4) > 6
