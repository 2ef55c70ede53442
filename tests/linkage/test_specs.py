"""Specs of linkages: which are read, and which are refused with what words."""

import pytest

from ppodc.errors import InputError
from ppodc.linkage.cloud import cloud_side
from ppodc.linkage.job import SAMPLE, Job
from ppodc.linkage.kind import KIND
from ppodc.linkage.rules import SquaredDistance
from ppodc.pairs.plan import JobFacts
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from tests.harness.uploads import sealed
from tests.linkage.test_job import (
    COLUMNS,
    EPSILON,
    FIELDS,
    NUMBERS,
    OWNERS,
    TEXTS,
    YEAR,
    X,
    spec_of,
)


def test_one_owner_alone_is_refused():
    spec = Spec("d", Schema((Column("x", 0, 1),), 63), Job(SquaredDistance((1,), 2)), OWNERS)
    with pytest.raises(InputError, match="two owners"):
        cloud_side(spec).plan(JobFacts(sealed(("ann", 3), ("ann", 4))))


def test_the_sample_is_a_spec_of_this_kind():
    spec = Spec.loads(SAMPLE)
    assert spec.kind is KIND
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()) == spec
    words = " ".join(spec.describe())
    assert "equal birth_year" in words
    assert "matches are lost" in words
    assert "rounded" not in words
    assert "its one partner among all other owners" in words  # which max_links counts


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rule": "soundex"}, "one of sse, edit"),
        ({"weights": [1]}, "1 weights for 3 columns"),
        ({"weights": [0, 0, 0]}, "more than 0"),
        ({"weights": 3}, "list of whole numbers"),
        ({"limit": -1}, "whole number from 0"),
        ({"limit": 3 * 63 * 63}, "every pair"),
        ({"blocks": "soundex"}, "one of none, adtree"),
        ({"blocks": "adtree"}, "missing epsilon"),
        ({"blocks": "adtree", **EPSILON, "epsilon": 0}, "more than 0"),
        ({"blocks": "adtree", **EPSILON, "delta": 1}, "between 0 and 1"),
        ({"blocks": "length", **EPSILON}, "rule edit only"),
        ({"blocks": "embedding", **EPSILON}, "rule edit only"),
        ({"blocks": "key", "key": "x", **EPSILON}, "missing lossy"),
        ({"blocks": "key", "key": "x", "lossy": False, **EPSILON}, "lossy = true"),
        ({"blocks": "key", "key": "z", "lossy": True, **EPSILON}, "no column"),
        ({"blocks": "key", "key": "x", "keys": [], "lossy": True, **EPSILON}, "unknown key"),
        ({"blocks": "key", "keys": [], "lossy": True}, "1 to 4 keys"),
        ({"blocks": "key", "keys": {}, "lossy": True}, "list of tables"),
        ({"blocks": "key", "keys": [{"column": "x"}], "lossy": True}, "missing"),
        ({"blocks": "key", "keys": [X, X], "lossy": True}, "all different"),
        ({"blocks": "key", "keys": [{**X, "first": 2}], "lossy": True}, "texts only"),
        ({"blocks": "key", "keys": [{**X, "buckets": 1 << 15}], "lossy": True}, "buckets"),
        ({"blocks": "key", "keys": [X, {**X, "column": "y", "epsilon": 0}], "lossy": True}, "more"),
        ({"blocks": "none", "epsilon": 1}, "unknown key"),
        ({"output": "everything"}, "one of links, flags, count"),
        ({"output": "count", "max_links": 2}, "max_links"),
        ({"max_links": 9}, "from 1 to 8"),
        ({"epsilon": 1}, "unknown key"),
    ],
)
def test_jobs_that_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        spec_of({**NUMBERS, **change}, COLUMNS)


def one_field(column, compare, most):
    field = {"column": column, "compare": compare, "max": most}
    return {"rule": "fields", "threshold": 1, "fields": [field]}


def test_rules_that_some_pair_does_not_meet():
    spec_of({"rule": "edit", "attributes": 2, "limit": 8}, texts=TEXTS)
    spec_of({"rule": "numeric", "columns": ["year"], "max": 2}, YEAR, TEXTS)
    spec_of(one_field("name", "edit", 5), YEAR, TEXTS)


@pytest.mark.parametrize("how", ["numeric", "exact"])
@pytest.mark.parametrize(("low", "high"), [(0.5, 9), (0, 9.5), (0, 1 << 20)])
def test_fields_of_numbers_need_whole_bounds(how, low, high):
    with pytest.raises(InputError, match="whole bounds less than"):
        spec_of(one_field("year", how, 0), [("year", low, high)])


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"rule": "sse", "weights": [1], "limit": 1}, "hold texts"),
        ({"rule": "edit", "attributes": 1, "limit": 1}, "as many columns"),
        ({"rule": "dice", "bits": 8, "threshold": 0.5}, "a filter of 8 bits"),
        ({"rule": "edit", "attributes": 2, "limit": 9}, "every pair"),
        ({**FIELDS, "threshold": 99}, "sum of all weights"),
        ({"rule": "numeric", "columns": ["year"], "max": 3}, "at most 3 apart"),
        (one_field("name", "edit", 6), "at most 6 apart"),
        (one_field("code", "edit", 3), "at most 3 apart"),
        ({"rule": "exact", "columns": ["nobody"]}, "no column"),
        ({"rule": "numeric", "columns": ["name"], "max": 1}, "columns of numbers"),
        ({**FIELDS, "blocks": "adtree", **EPSILON}, "sse only"),
    ],
)
def test_rules_that_do_not_fit_their_columns(job, words):
    with pytest.raises(InputError, match=words):
        spec_of(job, YEAR, TEXTS)
