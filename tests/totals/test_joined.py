"""Totals of joined rows: number, sums, squares and products, equal to plaintext."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ppodc import RecordLinkage, SecureTotals, ThreadPlatform, rules
from ppodc.errors import InputError
from ppodc.spec import Spec
from ppodc.totals.reference import reference
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import give
from tests.kmeans.joined_jobs import EVERY, TEXTS, Known, opened_join, spec_of, tables_of
from tests.kmeans.shares.test_dedup import resumed, small
from tests.kmeans.shares.test_joined import EXACT, FIELDS, SHARED, THREE, TWO_KEYS, named

SEVEN = [list("abcdefgh"), list("hgfedcxa")]


def totals_of(join, columns=EVERY, **job) -> Spec:
    return spec_of(join, columns, kind="totals", **job)


def check(clouds: TwoClouds, results, tables) -> Known:
    known = Known(clouds.given, tables)
    _, keep = opened_join(clouds)
    assert keep.astype(bool).tolist() == known.keep.tolist()
    joined, own = known.records[known.keep], known.own[known.keep].sum(axis=0)
    for number, told in enumerate(results.values()):
        plain = reference(clouds.given.spec, joined, own[number])
        assert told.count_ == plain.count_
        assert told.encoded_sums_ == plain.encoded_sums_
        assert told.encoded_squares_ == plain.encoded_squares_
        assert told.encoded_cross_ == plain.encoded_cross_
        assert told.columns == tuple(known.columns.joined.names)
        for name in ("sum_", "mean_", "var_", "cov_", "corr_"):
            np.testing.assert_array_equal(getattr(told, name), getattr(plain, name))
    return known


@pytest.mark.parametrize("job", [{"cross": True}, {}, {"variance": False}])
@pytest.mark.parametrize("least", [1, 7, 8])
def test_totals_of_who_is_joined(tmp_path, job, least):
    spec = totals_of({**EXACT, "least": least}, **job)
    tables = [
        named(owner, names) for owner, names in zip(("hospital", "insurer"), SEVEN, strict=True)
    ]
    clouds = TwoClouds(give(spec, tables, tmp_path))
    results = clouds.run()
    known = check(clouds, results, tables)
    assert known.keep.sum() == 7
    assert results["insurer"].count_ == (7 if least <= 7 else 0)


@pytest.mark.parametrize("anchor", ["clinic", "insurer"])
@pytest.mark.parametrize(("least", "told"), [(4, [13, 13, 13]), (5, [0, 13, 13])])
def test_rows_of_the_own_side_do_not_count(tmp_path, anchor, least, told):
    """The hospital would read the totals of the clinic's four patients."""
    tables = [
        ("hospital", pd.DataFrame({"name": list("abcdefghr"), "stay": range(9)})),
        ("clinic", pd.DataFrame({"name": list("wxyz"), "stay": [30] * 4})),
        ("insurer", pd.DataFrame({"name": list("abcdefghrwxyz"), "cost": range(13)})),
    ]
    join = {"rule": "exact", "columns": ["name"], "anchor": anchor, "least": least}
    clouds = TwoClouds(give(totals_of(join, [*SHARED, TEXTS[0]], cross=True), tables, tmp_path), 2)
    results = clouds.run()
    check(clouds, results, tables)
    assert [result.count_ for result in results.values()] == told


@pytest.mark.parametrize(("names", "told"), [("a" * 9 + "bbc", 0), ("aabbcc", 6)])
def test_rows_of_one_partner_count_as_one_person(tmp_path, names, told):
    tables = [named("hospital", list(names)), named("insurer", list("cab"))]
    spec = totals_of({**EXACT, "relation": "m:1", "least": 3})
    clouds = TwoClouds(give(spec, tables, tmp_path))
    results = clouds.run()
    check(clouds, results, tables)
    assert [result.count_ for result in results.values()] == [told] * 2


def test_keys_sides_pairs_and_a_kill(tmp_path, monkeypatch):
    small(monkeypatch)
    sides = (("insurer", 8), ("practice", 8), ("hospital", 4), ("hospital", 3))
    join = {**FIELDS, **TWO_KEYS, "relation": "m:1", "anchor": "hospital"}
    spec, tables = totals_of(join, THREE, cross=True), tables_of(THREE, 0.1, sides, seed=10)
    given = give(spec, tables, tmp_path)
    first = TwoClouds(given, pairs=2)
    first.start()
    first.step()
    second = resumed(given, first, 3)
    second.start()
    while second.plans[0].links:
        second.step()
    third = resumed(given, second, 2)
    check(third, third.run(), tables)
    assert third.names == ["sum", "output"]


def test_specs_of_joined_totals():
    spec = totals_of({**EXACT, "least": 9}, cross=True)
    assert Spec.loads(spec.to_toml()) == spec
    assert Spec.from_bytes(spec.canonical()) == spec
    words = " ".join(spec.describe())
    assert "of every two columns the covariance" in words
    assert "With fewer than 9 joined rows, owners are told zeros." in words
    with pytest.raises(InputError, match="least stands in the table"):
        totals_of(EXACT, least=9)
    with pytest.raises(InputError, match="needs a table"):
        totals_of(EXACT, cross=True, variance=False)
    with pytest.raises(InputError, match="needs a table"):
        replace(spec, job=replace(spec.job, join=None))


def test_the_estimator_has_correlations_of_joined_columns():
    join = RecordLinkage(rule=rules.fields([rules.exact("name")], threshold=1), texts={"name": 4})
    clinic = pd.DataFrame({"name": list("abcdef"), "stay": [1, 5, 9, 2, 7, 3]})
    insurer = pd.DataFrame({"cost": [30, 10, 80, 25, 60], "name": list("dabec")})
    model = SecureTotals(
        bounds={"stay": (0, 10), "cost": (0, 100)}, join=join, cross=True, platform=ThreadPlatform()
    ).fit([clinic, insurer])
    merged = clinic.merge(insurer, on="name", validate="1:1")[["stay", "cost"]]
    assert model.count_ == len(merged) == 5
    np.testing.assert_allclose(model.mean_, merged.mean())
    np.testing.assert_allclose(model.cov_, merged.cov(ddof=0))
    np.testing.assert_allclose(model.corr_, merged.corr())
    with pytest.raises(InputError, match="is for joined columns"):
        SecureTotals(bounds=(0, 1), cross=True).fit([[0.5], [0.1]])
