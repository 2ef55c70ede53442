"""Texts in tables: what a column may hold is checked wherever it is read, and equal is equal."""

import pandas as pd
import pytest

from ppodc.errors import InputError
from ppodc.linkage.owner import owner_side
from ppodc.spec import Spec
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import give
from tests.linkage.test_job import EPSILON, spec_of
from tests.linkage.test_specs import one_field

NAMES = [("name", "words", 9), ("code", "digits", 5)]
BY_NAME = {"blocks": "key", "keys": [{"column": "code", "first": 2, **EPSILON}], "lossy": True}


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"rule": "exact", "columns": ["code"]}, ["'code': 24 char", "'code': signs other than 0"]),
        ({**one_field("name", "edit", 1), **BY_NAME}, ["'code': 24", "'code': signs other than 0"]),
        ({"rule": "exact", "columns": ["name"]}, ["'name': signs", "'name': 12 characters"]),
    ],
)
def test_texts_that_no_column_may_hold_are_refused_wherever_they_are_read(job, words):
    table = pd.DataFrame(
        {"name": ["ann_a", "bob", "maximilianus"], "code": ["12345-6789 §§§ very long", "1-2", "7"]}
    )
    with pytest.raises(InputError) as refused:
        owner_side(spec_of(job, texts=NAMES)).encode(table)
    assert all(part in str(refused.value) for part in words)
    assert "12345" not in str(refused.value)


def test_signs_beyond_the_alphabet_are_one_where_the_spec_says_so(tmp_path):
    """In an exact field and in a key as well: equal after mapping is equal."""
    columns = [{"name": n, "text": s, "longest": m, "other": "map"} for n, s, m in NAMES]
    columns.append({"name": "long", "text": "words", "longest": 20, "other": "map"})
    job = {"rule": "exact", "columns": ["name", "code", "long"], **BY_NAME}
    spec = Spec.from_dict({"name": "d", "schema": {"columns": columns},
                           "job": {"kind": "linkage", **job}})  # fmt: skip
    ann = pd.DataFrame({"name": ["a§b", "a1b"], "code": ["1.2", "12"], "long": ["x!", "x y"]})
    bob = pd.DataFrame({"name": ["a%b", "a2b"], "code": ["1/2", "12"], "long": ["x?", "x y"]})
    results = TwoClouds(give(spec, [("ann", ann), ("bob", bob)], tmp_path)).run()
    assert results["ann"].links_ == [(("bob", 0, 0),), ()]


@pytest.mark.parametrize(("longest", "columns"), [(7, 2), (20, 3)])
def test_exact_texts_are_compared_as_they_are(tmp_path, longest, columns):
    """Digits among letters count one by one; short texts as themselves, long ones by digest."""
    spec = spec_of({"rule": "exact", "columns": ["name"]}, texts=[("name", "words", longest)])
    tables = [
        ("ann", pd.DataFrame({"name": ["a1", "", None, "zz-z' 9", "A  b", "0"]})),
        ("bob", pd.DataFrame({"name": ["a2", None, "", "zz-z' 9", " a b ", "00"]})),
    ]
    assert owner_side(spec).encode(tables[0][1]).shape == (6, columns)
    results = TwoClouds(give(spec, tables, tmp_path)).run()
    partners = {links[0][2] if links else None for links in results["ann"].links_}
    assert results["ann"].partners_ == [0, 1, 0, 1, 1, 0]
    assert partners == {None, 2, 3, 4}
