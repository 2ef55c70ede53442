"""Owners of a local job: descriptions, published settings, receipts, own labels."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cloud1.collector import collect
from ppodc.cli import app
from ppodc.errors import BudgetError, InputError
from ppodc.local_dp.explain import explain
from ppodc.local_dp.job import Job
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.published.groupings import Grouping
from ppodc.local_dp.published.settings import PrivBVSetting, setting_of
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from tests.cloud1.one_server import NUMBERS, numbers, numbers_spec

WORDS = Schema(
    (
        Column.of_words("smoker", ["no", "former", "yes"]),
        Column.of_words("sex", ["f", "m"]),
        Column("children", 0, 3),
    )
)
runner = CliRunner()


def habits(rows, seed=1):
    words = insecure_streams(rows, seed).words(4).astype(np.int64)
    groups = words[:, 3] % 2
    modes = np.array([[0, 0, 3], [2, 1, 0]])[groups]
    other = words[:, :3] % [3, 2, 4]
    numbered = np.where(words[:, :3] % 5 == 0, other, modes)
    frame = pd.DataFrame(numbered, columns=["smoker", "sex", "children"])
    frame["smoker"] = np.array(["no", "former", "yes"])[numbered[:, 0]]
    frame["sex"] = np.array(["f", "m"])[numbered[:, 1]]
    return frame, groups


@pytest.mark.parametrize("mechanism", ["joint", "mixed", "ldpk-modes"])
def test_words_from_a_file_to_the_result_and_own_labels(server, tmp_path, mechanism):
    """Words in, words out; labels are found by the owner, who sends nothing for them."""
    server.fix_noise()
    rows = 3000 if mechanism == "mixed" else 0
    server.create(Spec("habits", WORDS, Job(2, 8.0, mechanism, expected_rows=rows, seed=1)))
    frame, groups = habits(3000)
    file, labels = tmp_path / "habits.csv", tmp_path / "labels.csv"
    frame.to_csv(file, index=False)
    with server.owner("ann") as ann:
        receipt = ann.upload("habits", file, progress=False)
        assert ann.upload("habits", frame, progress=False).repeated, "a frame of the same words"
        collect(server.store, "habits")
        result = ann.result("habits")
    spec = server.store.datasets.spec("habits")
    assert receipt.privacy == result.privacy_ == form_of(spec).mechanism.guarantee()
    means = [2.7, 0.3] if mechanism == "mixed" else [3.0, 0.0]  # of the number of children
    assert [mode[:2] for mode in sorted(result.modes_)] == [["no", "f"], ["yes", "m"]]
    assert [mode[2] for mode in sorted(result.modes_)] == pytest.approx(means, abs=0.3)
    assert {row[2] for row in result.table()[1]} == {"no", "yes"}
    assert json.loads(json.dumps(result.figures()))["cluster_centers"] == result.modes_
    assert result.figures()["columns"] == result.table()[0][2:]
    before = len(server.store.ledger.entries())
    options = ["--config", str(server.config("ann")), "--to", str(labels)]
    done = runner.invoke(app, ["labels", "habits", str(file), *options])
    assert done.exit_code == 0, done.output
    found = np.array(labels.read_text().split()[1:], int)
    assert max((found == groups).mean(), (found != groups).mean()) > 0.85
    assert {entry.event for entry in server.store.ledger.entries()[before:]} <= {
        "result half given"
    }


def test_unknown_and_missing_words_are_named_by_row_and_cost_nothing(server):
    server.create(Spec("habits", WORDS, Job(2, 8.0, "joint", seed=1)))
    good = habits(10)[0]
    for column, word, reason in [
        ("smoker", "often", "row 3, column 'smoker': not one of the values"),
        ("smoker", None, "row 3, column 'smoker': missing"),
        ("children", 0.5, "row 3, column 'children'"),
        ("children", 4, "row 3, column 'children': above"),
    ]:
        frame = good.astype(object)
        frame.loc[3, column] = word
        with server.owner("ann") as ann, pytest.raises(InputError, match=reason) as caught:
            ann.upload("habits", frame, progress=False)
        assert "often" not in str(caught.value), "values stay out of messages"
    assert not (server.config("ann").parent / "privacy" / "budget.json").exists()


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"name": "a", "values": ["x"]}, "at least two"),
        ({"name": "a", "values": "xy"}, "at least two"),
        ({"name": "a", "values": ["x", "x"]}, "more than once"),
        ({"name": "a", "values": ["x", " y"]}, "blanks"),
        ({"name": "a", "values": ["x", 1]}, "word"),
        ({"name": "a", "values": ["x", "y"], "low": 0, "high": 1}, "unknown key"),
    ],
)
def test_columns_of_words_say_what_is_wrong(table, reason):
    with pytest.raises(InputError, match=reason):
        Schema.from_dict({"columns": [table]})


def test_jobs_that_need_numbers_refuse_words():
    from ppodc.kmeans.job import Job as KMeansJob
    from ppodc.totals.job import Job as TotalsJob

    for job in (KMeansJob(k=2), TotalsJob(), Job(2, 1.0, expected_rows=10), Job(2, 1.0, "ldpseg")):
        with pytest.raises(InputError, match="needs numbers"):
            Spec("habits", WORDS, job)
    spec = Spec("habits", WORDS, Job(2, 1.0, "joint"))
    assert Spec.loads(spec.to_toml()) == spec == Spec.from_bytes(spec.canonical())
    assert "  smoker: one of no, former, yes" in spec.describe()


def published_spec(**setting):
    job = Job(2, None, "privbv", as_published=PrivBVSetting(**{"b": 1.0, "s": 100, **setting}))
    return Spec("published", NUMBERS, job)


def test_a_published_setting_is_agreed_to_by_typing_out_what_it_spends(server, tmp_path):
    """100 bits of 2 columns with b = 1: 200 for a record, where 1 is claimed for a value."""
    spec = server.create(published_spec(), accepted=False)
    assert any("guaranteed epsilon 200" in line and "does not hold" in line
               for line in spec.describe())  # fmt: skip
    data, privacy = numbers(50, 1), server.config("ann").parent / "privacy"
    with server.owner("ann") as ann:
        for typed in (None, 1.0, 199.0, float("nan")):
            with pytest.raises(InputError, match="--accept-epsilon 200"):
                ann.upload("published", data, spec=spec, accept_epsilon=typed, progress=False)
        with pytest.raises(InputError, match="not yet agreed"):
            ann.upload("published", data, progress=False)
        with pytest.raises(BudgetError, match=r"200 .*spent 0 of 10"):
            ann.upload("published", data, spec=spec, accept_epsilon=200, progress=False)
    assert not (privacy / "budget.json").exists()
    config = server.config("ann")
    config.write_text(config.read_text().replace("max_epsilon = 10.0", "max_epsilon = 250.0"))
    with server.owner("ann") as ann:
        receipt = ann.upload("published", data, progress=False)
        assert "states (1," in str(receipt.privacy)
        collect(server.store, "published")
        figures = ann.result("published").figures()
    assert figures["privacy"]["claimed"]["epsilon"] == 1.0
    assert figures["privacy"]["guaranteed"]["epsilon"] == pytest.approx(200)
    told = [entry.describe()[0] for entry in server.store.ledger.entries("published")
            if entry.event in ("upload committed", "reports clustered")]  # fmt: skip
    assert len(told) == 2
    assert all("guaranteed epsilon 200" in words and "does not hold" in words for words in told)
    file = tmp_path / "spec.toml"
    file.write_text(spec.to_toml())
    command = ["dataset", "create", str(file), "--config", str(server.config("operator"))]
    assert runner.invoke(app, command).exit_code != 0
    done = runner.invoke(app, [*command, "--accept-epsilon", "200"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("grouping", [Grouping("hierarchical"), Grouping("dbscan", 0.15, 4)])
def test_all_pairs_of_reports_are_compared_and_owners_get_their_labels(server, grouping):
    server.fix_noise()
    spec = published_spec(b=4.0)
    spec = replace(spec, job=replace(spec.job, k=3 - (grouping.least == 0), grouping=grouping))
    assert Spec.loads(spec.to_toml()) == spec == Spec.from_bytes(spec.canonical())
    assert form_of(spec).mechanism.digest() == form_of(published_spec(b=4.0)).mechanism.digest()
    spec = server.create(spec, accepted=False)
    assert any("clusters of its own reports" in line for line in spec.describe())
    for name in ("ann", "bob"):
        config = server.config(name)
        config.write_text(config.read_text().replace("max_epsilon = 10.0", "max_epsilon = 900.0"))
        with server.owner(name) as owner:
            data = numbers(60 + len(name), len(name) * (name == "bob"))
            owner.upload("published", data, spec=spec, accept_epsilon=800, progress=False)
    collect(server.store, "published")
    with server.owner("ann") as ann:
        result = ann.result("published")
        own = numbers(63, 0)
        labels = np.array(result.own_rows()["label"])
        if grouping.least:
            with pytest.raises(InputError, match="--labels"):
                ann.labels("published", own)
        else:
            assert (ann.labels("published", own) == labels).mean() > 0.9
    assert result.usable_
    assert len(result.cluster_centers_) == 2, "dbscan tells no more than it finds"
    kept = labels >= 0
    assert kept.mean() > 0.8
    assert len(set(zip((own[:, 0] > 5)[kept], labels[kept], strict=True))) == 2


def test_groupings_refuse_what_does_not_fit():
    table = {"k": 2, "mechanism": "privbv", "epsilon": 1.0}
    for further, reason in [
        ({"grouping": "dbscan"}, "both needed"),
        ({"grouping": "matrix", "least": 3}, "only there"),
        ({"grouping": "rings"}, "one of matrix"),
        ({"radius": 0.1}, "for grouping"),
        ({"grouping": "matrix", "mechanism": "ldpseg"}, "for privbv"),
        ({"grouping": "matrix", "expected_rows": 30_000}, "at most 20000"),
    ]:
        with pytest.raises(InputError, match=reason):
            Job.from_dict({**table, **further})
    blurred = Spec("few", NUMBERS, Job.from_dict({**table, "grouping": "matrix"}))
    assert any("little but noise" in note for note in explain(blurred)[2])


def test_published_settings_in_spec_files():
    spec = published_spec(t=0.75)
    assert Spec.loads(spec.to_toml()) == spec == Spec.from_bytes(spec.canonical())
    seg = Job(
        2, None, "ldpseg", expected_rows=100, as_published=setting_of("ldpseg", {"epsilon": 1})
    )
    assert Spec.loads(Spec("seg", NUMBERS, seg).to_toml()).job == seg
    assert form_of(Spec("seg", NUMBERS, seg)).mechanism.guarantee().claimed.epsilon == 1.0
    for mechanism, table, reason in [
        ("codebook", {"b": 1.0, "s": 10}, "privbv, ldpseg"),
        ("privbv", {"b": 1.0}, "missing s"),
        ("privbv", {"b": 1.0, "s": 0}, "whole number from 1"),
        ("privbv", {"b": 0.0, "s": 10}, "greater than 0"),
        ("privbv", {"b": 1.0, "s": 10, "t": 0.0}, "half the range"),
        ("ldpseg", {"epsilon": 1.0, "flips": "none"}, "moue"),
        ("ldpk-modes", {"epsilon": float("inf")}, "at most"),
    ]:
        with pytest.raises(InputError, match=reason):
            setting_of(mechanism, table)
    with pytest.raises(InputError, match="not both"):
        Job(2, 1.0, "privbv", as_published=PrivBVSetting(1.0, 10))
    with pytest.raises(InputError, match="expected_rows"):
        Spec("seg", NUMBERS, Job(2, None, "ldpseg", as_published=seg.as_published))
    with pytest.raises(InputError, match="no meaning"):
        Job.from_dict({"k": 2, "mechanism": "privbv", "bits": 8, "as_published": {"b": 1, "s": 1}})


def test_receipts_of_honest_jobs_need_no_acceptance(server):
    spec = server.create(numbers_spec(), accepted=False)
    with server.owner("ann") as ann:
        receipt = ann.upload("survey", numbers(40, 1), spec=spec.digest, progress=False)
        with pytest.raises(InputError, match="no result yet"):
            ann.result("survey", wait=False)
    assert receipt.privacy.claimed is None
    assert receipt.privacy.guaranteed.epsilon <= 3.0
