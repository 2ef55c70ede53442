"""k-means over records of which several owners hold the same: each counts once, exactly."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.errors import BudgetError, InputError
from ppodc.kinds import cloud_side, owner_side
from ppodc.kmeans.job import Job
from ppodc.kmeans.linked.distinct import DistinctHalf
from ppodc.linkage.job import Job as LinkageJob
from ppodc.linkage.outputs import Shared
from ppodc.linkage.rules import Fields, Rule, SquaredDistance
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import give
from tests.kmeans.linked_jobs import COLUMNS, COST, FILTER, TEXTS, UB, check, spec_of, tables_of

SSE = {"rule": "sse", "weights": [4, 1], "limit": 1}
EDIT = {"rule": "edit", "attributes": 2, "limit": 1}
FIELDS = {
    "rule": "fields",
    "threshold": 4,
    "fields": [
        {"column": "name", "compare": "edit", "max": 1, "weight": 2},
        {"column": "code", "compare": "exact", "weight": 1},
        {"column": "year", "compare": "exact", "weight": 1},
        {"column": "height", "compare": "numeric", "max": 1, "weight": 2},
    ],
}
KEY = {"blocks": "key", "key": "year", "lossy": True, **COST}
HALF = {"epsilon": 8, "delta": "1/20"}
TWO_KEYS = [{"column": "year", **HALF}, {"column": "code", "buckets": 3, **HALF}]
CASES = {
    "sse": (SSE, COLUMNS, 0.0),
    "sse adtree": ({**SSE, "blocks": "adtree", **COST}, COLUMNS, 0.0),
    "sse shared": (
        {**SSE, "blocks": "adtree-shared", "tree_of": "ann", **COST},
        COLUMNS,
        0.0,
    ),
    "sse key": ({**SSE, "limit": 5, **KEY}, COLUMNS, 0.0),
    "edit": (EDIT, [*COLUMNS, *TEXTS], 0.0),
    "edit length": ({**EDIT, "blocks": "length", "shortest": 2, **COST}, [*COLUMNS, *TEXTS], 0.0),
    "fields": (FIELDS, [*COLUMNS, *TEXTS], 0.1),
    "fields key": ({**FIELDS, **KEY}, [*COLUMNS, *TEXTS], 0.1),
    "fields keys": (
        {**FIELDS, "blocks": "key", "lossy": True, "keys": TWO_KEYS},
        [*COLUMNS, *TEXTS],
        0.1,
    ),
    "exact": ({"rule": "exact", "columns": ["year", "height"]}, [*COLUMNS, *TEXTS], 0.0),
    "numeric key": (
        {"rule": "numeric", "columns": ["height"], "max": 1, **KEY},
        [*COLUMNS, *TEXTS],
        0.0,
    ),
    "dice": ({"rule": "dice", "bits": 16, "threshold": "9/10"}, [*COLUMNS, FILTER], 0.0),
    "dice key": ({"rule": "dice", "bits": 16, "threshold": 1, **KEY}, [*COLUMNS, FILTER], 0.0),
}


@pytest.mark.parametrize("case", CASES)
def test_every_rule_and_every_kind_of_blocks(tmp_path, case):
    linkage, columns, missing = CASES[case]
    spec, tables = spec_of(linkage, columns), tables_of(columns, missing)
    tables = tables if case.startswith("sse") else tables[:2]
    clouds = TwoClouds(give(spec, tables, tmp_path))
    known = check(clouds, clouds.run(), tables)
    assert 2 <= (known.real & ~known.keep).sum() < 20
    assert bool((~known.real).any()) == spec.job.dedup.rearranged


# -------------------------------------------------------------------- pairs, faults, several runs


def small(monkeypatch):
    """Batches and portions so small that a few rows make several rounds."""
    monkeypatch.setattr(Rule, "batch_pairs", 30)
    for rule in (SquaredDistance, Fields):
        monkeypatch.setattr(rule, "portion_pairs", 60)


def test_pairs_share_the_linkage_and_a_killed_job_goes_on(tmp_path, monkeypatch):
    small(monkeypatch)
    linkage = {**SSE, "blocks": "adtree", **COST}
    spec, tables = spec_of(linkage, k=3, max_iter=4), tables_of(COLUMNS)
    given = give(spec, tables, tmp_path)
    first = TwoClouds(given, pairs=3)
    rounds = len(first.plans[0].linking.rounds)
    assert rounds >= 2
    first.start()
    first.step()  # everything is lost but the checkpoints, three times, with fewer pairs each time
    second = resumed(given, first, 2)
    assert len(second.plans[0].linking.rounds) > 0
    second.start()
    while second.plans[0].links:
        second.step()
    assert second.names == ["link"] * len(second.names)
    third = resumed(given, second, 2)
    third.start()
    while third.plans[0].iteration < third.plans[0].linked + 2:
        third.step()
    assert "link" not in third.names
    fourth = resumed(given, third, 1)
    check(fourth, fourth.run(), tables)
    assert "start" not in fourth.names


def resumed(given, before: TwoClouds, pairs: int) -> TwoClouds:
    """Both clouds go on from the last checkpoint."""
    clouds = TwoClouds(given, pairs=pairs)
    for plan, saved in zip(clouds.plans, before.saved, strict=True):
        assert plan.can_go_on_from(saved[-1], {saved[-1].iteration})
        plan.restore(saved[-1], saved[-2] if len(saved) > 1 else None)
        if plan.links:
            assert not saved[-1].event  # nothing was learnt
    return clouds


def test_a_checkpoint_without_the_linkage_is_of_no_use(tmp_path):
    given = give(spec_of(SSE), tables_of(COLUMNS), tmp_path)
    (plan, _) = TwoClouds(given).plans
    other = TwoClouds(given)
    other.start()
    other.step()
    (kept, *_), _ = other.saved
    assert plan.can_go_on_from(kept, {1})
    for name in kept.arrays:
        rest = {key: array for key, array in kept.arrays.items() if key != name}
        if name != "done":
            assert not plan.can_go_on_from(type(kept)(1, False, rest), {1})


@pytest.mark.parametrize(
    "job",
    [
        {"init": "random", "n_init": 2, "inertia": True, "max_iter": 2},
        {"k": [1, 2], "inertia": True, "max_iter": 2},
        {"init": [[3, 4], [20, 25]], "labels": False},
    ],
)
def test_starts_inertia_and_several_k(tmp_path, job):
    spec, tables = spec_of({**SSE, **KEY}, **job), tables_of(COLUMNS)
    clouds = TwoClouds(give(spec, tables, tmp_path))
    check(clouds, clouds.run(), tables)


def test_one_owner_alone_has_nobody_to_link_with(tmp_path):
    tables = tables_of(COLUMNS)[:1]
    clouds = TwoClouds(give(spec_of({**SSE, "blocks": "adtree", **COST}), tables, tmp_path))
    known = check(clouds, clouds.run(), tables)
    assert (known.keep == known.real).all()
    assert "link" not in clouds.names


# ---------------------------------------------------------------------------------------- uploads


def table_with(**change) -> pd.DataFrame:
    (_, table), *_ = tables_of([*COLUMNS, *TEXTS])
    for column, value in change.items():
        table = table.astype({column: object})
        table.loc[2, column] = value
    return table


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (table_with(weight=None), "row 2, column 'weight': missing"),
        (table_with(height=31), "row 2, column 'height': above"),
        (table_with(weight="tall"), "row 2, column 'weight': not a number"),
        (table_with(height=1.5), "row 2, column 'height': not a whole number"),
        (table_with(name="maximilian"), "row 2, column 'name': 10 characters, at most 6"),
        (table_with(year=1900), "row 2, column 'year': below 1990"),
        (table_with().drop(columns="weight"), "missing 'weight'"),
        (table_with().assign(other=1), "unknown 'other'"),
    ],
)
def test_bad_tables_are_refused_as_a_whole(tmp_path, table, words):
    form = owner_side(spec_of({**FIELDS, **KEY}, [*COLUMNS, *TEXTS]))
    with pytest.raises(InputError, match=words):
        form.encode(table)


def test_files_frames_and_any_order_of_columns_are_the_same(tmp_path):
    form, table = owner_side(spec_of(FIELDS, [*COLUMNS, *TEXTS])), table_with(code=None)
    values = form.encode(table)
    table[table.columns[::-1]].to_csv(tmp_path / "a.csv", index=False)
    table.to_csv(tmp_path / "b.csv", index=False, header=False)
    assert np.array_equal(form.encode(str(tmp_path / "a.csv")), values)
    assert np.array_equal(form.encode(str(tmp_path / "b.csv"), header=False), values)
    (tmp_path / "b.csv").write_text("1990,3\n")
    with pytest.raises(InputError, match="must have 5 fields"):
        form.encode(str(tmp_path / "b.csv"), header=False)


def test_cells_are_charged_and_the_same_when_given_again(tmp_path):
    spec = spec_of({**FIELDS, **KEY}, [*COLUMNS, *TEXTS])
    form = owner_side(spec)
    values = form.encode(table_with())
    assert spec.form.privacy().guaranteed.epsilon == 8
    sent, outline = form.arrange(values, None, tmp_path, 10)
    again, told = form.arrange(values, None, tmp_path, 10)
    assert np.array_equal(sent, again)
    assert np.array_equal(outline, told)
    spec.form.check_outline(outline, len(sent))
    with pytest.raises(BudgetError):
        form.arrange(values[1:], None, tmp_path, 10)


def test_a_half_refuses_rows_that_do_not_fit(tmp_path):
    clouds = TwoClouds(give(spec_of(SSE), tables_of(COLUMNS), tmp_path))
    clouds.start()
    half = clouds.halves[0][0]
    assert isinstance(half, DistinctHalf)
    for rows in (np.zeros((3, 9), np.uint64), np.zeros((99, 3), np.uint64)):
        with pytest.raises(InputError, match="does not fit"):
            half.ingest("0x", rows)


# ------------------------------------------------------------------------------------------ specs

OLD = Schema((Column("x", 0, 1), Column("y", 0, 1)), 200)


def old_spec(**job) -> Spec:
    return Spec("d", OLD, Job(3, seed=4, min_size=1, **job))


def test_the_short_form_means_the_same_and_old_digests_stay():
    spec = old_spec(dedup=LinkageJob(SquaredDistance((1, 2), 9), Shared()))
    assert spec.to_dict()["job"]["dedup_limit"] == 9
    assert "linkage" not in spec.to_dict()
    assert Spec.from_bytes(spec.canonical()) == spec
    document = old_spec().to_dict()
    document["linkage"] = {"rule": "sse", "weights": [1, 2], "limit": 9}
    assert Spec.from_dict(document) == spec
    assert b"dedup" not in old_spec().canonical()
    assert spec.form.part(1) == old_spec().form.part(1)  # rows as they always were


@pytest.mark.parametrize("case", CASES)
def test_a_spec_is_the_same_in_bytes_and_in_a_file(case):
    linkage, columns, _ = CASES[case]
    spec = spec_of(linkage, columns)
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()) == spec
    words = " ".join(spec.describe())
    assert "counts once" in words
    assert "year: from 1990 to 1993, to link records only" in words
    assert ("dummies" in words) == spec.job.dedup.rearranged


NUMBERS = [dict(column) for column in COLUMNS]


@pytest.mark.parametrize(
    ("linkage", "columns", "words"),
    [
        ({**SSE, "weights": [1]}, NUMBERS, "1 weights for 2 columns"),
        ({**SSE, "limit": 5 * UB * UB}, NUMBERS, "every pair"),
        ({**SSE, "output": "links"}, NUMBERS, 'can only be "shared"'),
        ({**SSE, "max_links": 2}, NUMBERS, "max_links"),
        ({**SSE, "rule": "soundex"}, NUMBERS, "one of sse"),
        ("sse", NUMBERS, "must be a table"),
        (SSE, [*NUMBERS, TEXTS[0]], "hold texts"),
        (FIELDS, NUMBERS, "no column"),
        ({**SSE, **KEY, "key": "weight"}, NUMBERS, "compared"),
        (
            {"rule": "numeric", "columns": ["weight"], "max": 1},
            NUMBERS,
            "'weight' are compared, and the schema says use = 'cluster'",
        ),
        (EDIT, TEXTS, "no column is there to cluster"),
        (EDIT, [{**TEXTS[0], "use": "cluster"}, *NUMBERS], "not clustered"),
        (SSE, [{**NUMBERS[0], "use": "count"}], "use must be one of"),
    ],
)
def test_linkages_that_are_refused(linkage, columns, words):
    with pytest.raises(InputError, match=words):
        spec_of(linkage, columns)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dedup_limit": 1}, "needs job.dedup_weights"),
        ({"dedup_weights": [1, 1]}, "needs job.dedup_weights"),
        ({"dedup_limit": 1, "dedup_weights": [1]}, "1 weights for 2 columns"),
        ({"dedup_limit": 2 * 200 * 200, "dedup_weights": [1, 1]}, "every pair"),
        ({"dedup_limit": -1, "dedup_weights": [1, 1]}, "from 0"),
        ({"linkage": {}}, "a table of its own"),
    ],
)
def test_short_forms_that_are_refused(change, words):
    document = old_spec().to_dict()
    document["job"] = {**document["job"], **change}
    with pytest.raises(InputError, match=words):
        Spec.from_dict(document)


def test_only_jobs_that_link_and_cluster_have_uses_and_the_table():
    document = spec_of(SSE).to_dict()
    del document["job"]["dedup_limit"], document["job"]["dedup_weights"]
    with pytest.raises(InputError, match="jobs that link and cluster"):
        Spec.from_dict(document)
    for kind in ("linkage", "totals", "local"):
        other = {**document, "job": {"kind": kind}, "linkage": SSE}
        with pytest.raises(InputError, match="takes no table"):
            Spec.from_dict(other)
    both = {**document, "job": {**document["job"], "dedup_limit": 1}, "linkage": SSE}
    with pytest.raises(InputError, match="give one of them"):
        Spec.from_dict(both)
    plain = Spec.from_dict({**document, "linkage": SSE})
    document["job"] = {"kind": "linkage", **SSE, "output": "shared"}
    document["schema"] = plain.schema.used_to("link").to_dict()
    with pytest.raises(InputError, match="tells nobody"):
        Spec.from_dict(document)


def test_the_other_suite_refuses_it():
    with pytest.raises(InputError, match="dedup_limit needs the suite 'shares'"):
        cloud_side(spec_of(SSE, init="random")).check(100, "paillier", 2048)
    with pytest.raises(InputError, match="linkage needs the suite 'shares'"):
        cloud_side(spec_of({**SSE, **KEY}, init="random")).check(100, "paillier", 2048)
    cloud_side(spec_of(SSE)).check(100, "shares", 2048)


def test_costs_are_told_before_anything_is_sent(tmp_path):
    spec, file = spec_of({**FIELDS, **KEY}, [*COLUMNS, *TEXTS]), tmp_path / "people.csv"
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    table_with().to_csv(file, index=False)
    for command in (
        ["link", "estimate", str(tmp_path / "spec.toml"), "--rows", "5,6"],
        ["link", "preview", str(tmp_path / "spec.toml"), str(file)],
        ["privacy", "explain", str(tmp_path / "spec.toml")],
    ):
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0
        assert "epsilon" in shown.output
