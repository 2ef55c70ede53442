"""Specs with a table [join]: what they mean, and what is refused before anything is sent."""

import json
import multiprocessing
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ppodc.cli import app
from ppodc.cluster import plain_values
from ppodc.errors import InputError
from ppodc.kinds import owner_side
from ppodc.linkage.joined.findings import Found, Joined, Uploads, lane_bytes
from ppodc.linkage.joined.sample import sample
from ppodc.linkage.schedule import Rows
from ppodc.service import deployment
from ppodc.spec import Spec
from tests.kmeans.joined_jobs import EVERY, spec_of, tables_of
from tests.linkage import reference
from tests.service.data import members

JOIN = {"rule": "exact", "columns": ["name", "year"]}


def without(name: str):
    return [column for column in EVERY if column["name"] != name]


def with_column(name: str, **changes):
    return [{**column, **changes} if column["name"] == name else column for column in EVERY]


def document(**changes):
    spec = spec_of(JOIN).to_dict()
    return {**spec, **changes}


REFUSED = {
    "nothing to join: no column has held_by": (
        JOIN,
        [{k: v for k, v in column.items() if k != "held_by"} for column in EVERY],
    ),
    "only 'hospital' hold columns of their own": (
        JOIN,
        [c for c in EVERY if c.get("held_by") != ["insurer"]],
    ),
    "one side, one set of columns": (JOIN, with_column("cost", held_by=["insurer", "hospital"])),
    "are compared, and held_by gives them to one side": (
        {"rule": "exact", "columns": ["name", "stay"]},
        EVERY,
    ),
    "say held_by instead": (JOIN, with_column("height", use="cluster")),
    "owners can be joined only by columns that all": (JOIN, with_column("stay", use="link")),
    "anchor is 'nobody', who holds no column": ({**JOIN, "anchor": "nobody"}, EVERY),
    "relation must be": ({**JOIN, "relation": "1:m"}, EVERY),
    "join.least must be": ({**JOIN, "least": 0}, EVERY),
    "output is for linkages": ({**JOIN, "output": "links"}, EVERY),
    "missing rule": ({"relation": "1:1"}, EVERY),
    "list of owners, each once": (JOIN, with_column("stay", held_by=["a", "a"])),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused_specs(words):
    join, columns = REFUSED[words]
    with pytest.raises(InputError, match=re.escape(words)):
        spec_of(join, columns)


def test_texts_have_no_holder():
    with pytest.raises(InputError, match="unknown key 'held_by'"):
        spec_of(JOIN, with_column("name", held_by=["hospital"]))


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"labels": True, "sizes": False}, "labels would tell how many rows are joined"),
        ({"dedup_limit": 1, "dedup_weights": [1]}, "takes no"),
    ],
)
def test_refused_jobs(job, words):
    with pytest.raises(InputError, match=re.escape(words)):
        spec_of(JOIN, **job)


def test_a_join_stands_beside_no_other_table():
    linkage = {"rule": "exact", "columns": ["name"]}
    with pytest.raises(InputError, match=r"takes no table \[linkage\]"):
        Spec.from_dict(document(linkage=linkage))
    with pytest.raises(InputError, match=r"takes no table \[privacy\]"):
        Spec.from_dict(document(privacy={"epsilon": 1}))
    with pytest.raises(InputError, match=r"'linkage' takes no table \[join\]"):
        Spec.from_dict(document(job={"kind": "linkage", **linkage}))


def test_held_by_is_for_joins():
    spec = spec_of(JOIN).to_dict()
    del spec["join"]
    with pytest.raises(InputError, match=r"held_by, which is for jobs with a table \[join\]"):
        Spec.from_dict(spec)
    with pytest.raises(InputError, match=r"held_by, which is for jobs with a table \[join\]"):
        Spec.from_dict({**spec, "linkage": {"rule": "exact", "columns": ["name"]}})


def test_holders_are_the_owners_of_the_spec():
    spec = spec_of(JOIN)
    with pytest.raises(InputError, match="held_by names 'insurer', who are no owners"):
        replace(spec, owners=members("hospital", "other"))
    with pytest.raises(InputError, match="'third' hold no column of their own"):
        replace(spec, owners=members("hospital", "insurer", "third"))


def test_a_spec_is_written_as_it_is_read():
    spec = spec_of({**JOIN, "relation": "m:1", "anchor": "insurer", "least": 7})
    assert Spec.loads(spec.to_toml()) == spec
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()).digest == spec.digest


@pytest.mark.parametrize(
    ("anchor", "own"),
    [("hospital", ["stay", "height"]), ("insurer", ["cost", "height", "claims"])],
)
def test_the_anchor_comes_first_and_has_the_columns_of_all(anchor, own):
    columns = spec_of({**JOIN, "anchor": anchor}).job.joined(spec_of(JOIN).schema)
    assert columns.anchor.owners == {anchor}
    assert columns.own(0).names == own
    assert columns.joined.names == ["stay", "cost", "height", "claims"]


def test_what_owners_agree_to_is_told():
    told = " ".join(spec_of({**JOIN, "least": 20}, labels=False).describe())
    for words in (
        "Rows that have each other and nobody else are joined; nobody learns which.",
        "With fewer than 20 joined rows, owners are told zeros.",
        "Owners learn how many rows are joined, through the sizes.",
        "hospital has the rows that count",
        "cost: from 0 to 60, held by insurer alone",
        "Every owner learns no record's cluster.",
    ):
        assert words in told
    told = " ".join(spec_of({**JOIN, "least": 20}, labels=True).describe())
    assert "nobody learns which" not in told
    for words in (
        "no cloud learns which.",
        "Each owner on the anchor's side learns which of its own rows are joined",
        "Owners of other sides learn of none of their rows.",
        "owners are told zeros, and that no row is joined.",
    ):
        assert words in told


# ------------------------------------------------------------------------------ owners' tables


def encoded(owner, table):
    return owner_side(spec_of(JOIN)).of(owner).encode(table)


def test_an_owner_gives_its_own_columns():
    (_, hospital), (_, insurer) = tables_of()
    assert encoded("hospital", hospital).shape[1] == encoded("insurer", insurer).shape[1]
    with pytest.raises(InputError, match="missing 'cost', 'claims'"):
        encoded("insurer", insurer.drop(columns=["cost", "claims"]))
    with pytest.raises(InputError, match="does not hold: leave them out"):
        encoded("hospital", hospital.assign(cost=1))
    with pytest.raises(InputError, match="'cost', 'claims', which hospital does not hold"):
        encoded("hospital", insurer)
    with pytest.raises(InputError, match="'third' holds no column"):
        encoded("third", hospital)
    with pytest.raises(InputError, match="no records"):
        encoded("hospital", hospital.iloc[:0])
    with pytest.raises(InputError, match="above"):
        encoded("insurer", insurer.assign(cost=61))


def test_a_table_without_an_owner_is_of_the_side_that_it_fits():
    (_, hospital), (_, insurer) = tables_of()
    side = owner_side(spec_of(JOIN))
    for owner, table in (("hospital", hospital), ("insurer", insurer)):
        assert (side.encode(table) == encoded(owner, table)).all()
    with pytest.raises(InputError, match=r"as hospital: .*; as insurer: "):
        side.encode(hospital.drop(columns="stay"))


# ------------------------------------------------------------------------------------- sample


def test_the_sample_is_a_spec(tmp_path):
    spec = Spec.loads(sample())
    assert spec.job.join.relation == "1:1"
    shown = CliRunner().invoke(app, ["sample-spec", "--kind", "join"])
    assert shown.stdout.startswith(sample())
    deployment.create(tmp_path / "d", 3)
    shown = CliRunner().invoke(
        app, ["sample-spec", "--kind", "join", "--deployment", str(tmp_path / "d")]
    )
    columns = Spec.loads(shown.stdout).job.joined(Spec.loads(shown.stdout).schema)
    assert [sorted(side.owners) for side in columns.sides] == [["owner1"], ["owner2", "owner3"]]


# ---------------------------------------------------------------------------------- reference


def test_the_reference_is_a_merge_without_rows_that_break_the_relation():
    left = pd.DataFrame({"key": [1, 2, 2, 3, 5], "row": range(5)})
    right = pd.DataFrame({"key": [2, 1, 3, 3, 4], "other": range(5)})

    def matches(i, j):
        return left.key[i] == right.key[j]

    single = right[~right.key.duplicated(keep=False)]
    merged = left.merge(single, on="key", validate="m:1").set_index("row").other
    wanted = [merged.get(i) for i in range(5)]
    assert reference.partners(5, 5, matches, "m:1") == wanted == [1, 0, 0, None, None]
    once = left[~left.key.duplicated(keep=False)]
    merged = once.merge(single, on="key", validate="1:1").set_index("row").other
    assert reference.partners(5, 5, matches, "1:1") == [merged.get(i) for i in range(5)]


# ------------------------------------------------------------------ costs, before anything is sent

COST = {"epsilon": 8, "delta": "1/1000"}


@pytest.mark.parametrize("blocks", [{}, {"blocks": "key", "key": "year", "lossy": True, **COST}])
def test_costs_and_own_duplicates_are_told(tmp_path, blocks):
    spec, (_, (_, insurer)) = spec_of({**JOIN, **blocks}), tables_of()
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    insurer.to_csv(tmp_path / "insurer.csv", index=False)
    file, document = str(tmp_path / "spec.toml"), tmp_path / "e.json"
    asked = ["link", "estimate", file, "--rows", "600,800", "--json", str(document)]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    told = json.loads(document.read_text())
    assert 0 < told["joining_gigabytes"] < told["gigabytes"]
    assert (told["joining_rows"] > 600) == bool(blocks)
    if not blocks:
        assert told["joining_rows"] == 600
        assert told["pairs"] == 600 * 800
        # two lanes of values and a count of two bytes
        assert told["joining_gigabytes"] == pytest.approx(480_000 * (4.13 + 2 * 3 + 2.2) / 1e9)
    shown = CliRunner().invoke(app, ["link", "preview", file, str(tmp_path / "insurer.csv")])
    assert shown.exit_code == 0, shown.output
    assert "of all 8" in shown.output
    assert "none of them counts in a 1:1 join" in shown.output
    insurer.drop(columns="cost").to_csv(tmp_path / "insurer.csv", index=False)
    shown = CliRunner().invoke(app, ["link", "preview", file, str(tmp_path / "insurer.csv")])
    assert shown.exit_code == 1
    shown = CliRunner().invoke(app, ["link", "estimate", file, "--rows", "1,2,3"])
    assert shown.exit_code == 1


def test_work_and_findings_go_to_a_worker_without_pickle():
    """Everything that a task of a join has, or gives, is a plain value."""
    here, there = multiprocessing.Pipe()
    rows = Rows(1, 0, 0, 3, (2, 1))
    found = Found(np.zeros((2, 3), np.uint16), np.zeros(4, np.uint16), np.zeros(1, np.uint8))
    joined = Joined(
        np.ones((2, 2), np.uint32),
        np.zeros(2, np.uint8),
        np.zeros((2, 0), np.uint8),
        np.ones((2, 1), np.uint64),
    )
    for value in (Uploads((rows, rows), 2), found, joined):
        plain_values.send(here, value)
        assert repr(plain_values.receive(there)) == repr(value)


@pytest.mark.parametrize(
    ("ub", "candidates", "size"),
    [(1, 63, 1), (1, 127, 1), (1, 128, 2), (255, 1, 1), (256, 1, 2), (1000, (1 << 15) - 1, 2),
     (1000, 1 << 15, 4), (1 << 20, 1, 4), (1, (1 << 31) - 1, 4)],
)  # fmt: skip
def test_lanes_hold_values_and_counts_with_a_sign(ub, candidates, size):
    assert lane_bytes(ub, candidates) == size


def test_too_many_candidates_for_any_lane_are_refused():
    with pytest.raises(InputError, match="too many to join"):
        lane_bytes(1, 1 << 31)
