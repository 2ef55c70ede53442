"""Results at owners: opened exactly, noted in ledgers, waited for, tampered with."""

import re
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from client import JobEndedError
from ppodc.cli import app
from ppodc.errors import InputError, ProtocolError, RefusedError, StateError
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.service import operations
from ppodc.service.job_state import JobState
from ppodc.service.messages import (
    RowsAsk,
    RowsReply,
)
from ppodc.service.store.job_lock import job_lock
from tests.client.two_gateways import finish_job, split_values, table
from tests.harness.patience import LONG
from tests.service.data import make_spec


def test_the_result_is_the_references(platform):
    tables = {"ann": [table(8, 1), table(3, 2)], "bob": [table(6, 3)]}
    with platform.owner("ann") as ann, platform.owner("bob") as bob:
        ann.upload("clinic", tables["ann"][0])
        bob.upload("clinic", tables["bob"][0])
        ann.upload("clinic", tables["ann"][1])
        platform.seal()
        trace = finish_job(platform)
        results = {"ann": ann.result("clinic"), "bob": bob.result("clinic", wait=False)}
    for result in results.values():
        assert np.array_equal(result.sums_, trace.sums)
        assert np.array_equal(result.sizes_, trace.sizes)
        assert (result.n_iter_, result.converged_) == (trace.n_iter, trace.converged)
        centres = trace.sums / trace.sizes[:, None] / 100 * 10
        assert np.allclose(result.cluster_centers_, centres, rtol=1e-12)
    labels = trace.labels
    assert results["ann"].labels_.tolist() == [*labels[:8], *labels[14:]]
    assert results["bob"].labels_.tolist() == labels[8:14].tolist()


def test_every_half_given_is_in_both_ledgers(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        finish_job(platform)
        ann.result("clinic")
    for store in platform.stores:
        events = [entry.event for entry in store.ledger.entries("clinic")]
        assert events == [
            "dataset created",
            "upload committed",
            "dataset sealed",
            "labels half stored",
            "result half stored",
            "result half given",
            "labels half given",
        ]
        assert store.ledger.verify().broken is None


def test_labels_only_if_the_spec_offers_them(platform):
    platform.create(make_spec("quiet", labels=False))
    with platform.owner() as ann:
        receipt = ann.upload("quiet", table(8))
        with platform.client("ann") as raw, pytest.raises(RefusedError, match="offers no labels"):
            raw.call("rows", RowsAsk("quiet", receipt.upload_id, "labels"), reply=RowsReply)


def test_waiting_ends_with_the_job(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        with pytest.raises(InputError, match="it is created"):
            ann.result("clinic", wait=False)
        platform.seal()
        with pytest.raises(InputError, match="it is sealed"):
            ann.result("clinic", timeout=0.3)
        results = []
        waiting = threading.Thread(
            target=lambda: results.append(ann.result("clinic", timeout=LONG))
        )
        waiting.start()
        finish_job(platform)
        waiting.join(LONG)
        assert results[0].n_iter_ >= 1


@pytest.mark.parametrize(("state", "text"), [("failed", "ppodc resume"), ("cancelled", "was can")])
def test_a_job_that_ends_badly_is_told_while_waiting(platform, state, text):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        for each in (JobState.PREPARING, JobState.RUNNING, JobState(state)):
            platform.stores[0].jobs.transition("clinic", each, message="a pair was lost.")
        with pytest.raises(JobEndedError, match=text) as caught:
            ann.result("clinic")
        assert "a pair was lost" in str(caught.value)


def test_an_end_that_cloud_2_has_not_heard_of_is_named(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        for store in platform.stores:
            for state in (JobState.PREPARING, JobState.RUNNING):
                store.jobs.transition("clinic", state)
            parts = split_values([1] * 8, 2**521 - 1)[0], split_values([0] * 8, 1 << 71)[0]
            facts = {"n_iter": 3, "converged": True}
            store.results.save(
                "clinic", ResultShare(facts, {"clusters": parts[0]}, {"labels": parts[1]})
            )
        platform.stores[0].jobs.transition("clinic", JobState.DONE)
        with pytest.raises(StateError, match=r"Cloud 1 is done.*`ppodc resume clinic`"):
            ann.result("clinic", wait=False)


def test_halves_of_different_runs_are_not_opened(platform):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        for store in platform.stores:
            for state in (JobState.PREPARING, JobState.RUNNING):
                store.jobs.transition("clinic", state)
            half = split_values([1] * 8, 2**521 - 1)[0]  # the partner of this one is thrown away
            labels = split_values([0] * 8, 1 << 71)[0]
            facts = {"n_iter": 3, "converged": True}
            result = ResultShare(facts, {"clusters": half}, {"labels": labels})
            store.results.save("clinic", result)
            store.jobs.transition("clinic", JobState.DONE)
        with pytest.raises(ProtocolError, match="do not belong together"):
            ann.result("clinic")


@pytest.mark.parametrize(
    ("tamper", "text"),
    [
        (lambda half: replace(half, facts={**half.facts, "n_iter": 99}), "two sessions"),
        (lambda half: replace(half, halves={}), "two sessions"),
        (
            lambda half: replace(half, halves={"centres": half.halves["clusters"]}),
            "two sessions",
        ),
        (
            lambda half: replace(half, halves={"clusters": OutputShare.of(7, [0] * 8)}),
            "do not belong together",
        ),
        (
            lambda half: replace(half, halves={"clusters": half.halves["clusters"].rows(0, 7)}),
            "do not belong together",
        ),
    ],
)
def test_a_cloud_that_gives_another_result_is_found_out(platform, monkeypatch, tamper, text):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        finish_job(platform)
        results = platform.stores[1].results
        original = results.half
        monkeypatch.setattr(results, "half", lambda *asked: tamper(original(*asked)))
        with pytest.raises(ProtocolError, match=text):
            ann.result("clinic")


def test_labels_of_other_rows_are_found_out(platform, monkeypatch):
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        finish_job(platform)
        results = platform.stores[1].results
        original = results.own_rows
        monkeypatch.setattr(results, "own_rows", lambda *which: original(*which).rows(0, 0))
        with pytest.raises(ProtocolError, match="cloud 2 sent labels of other rows"):
            ann.result("clinic")


def test_labels_come_in_pieces(platform, monkeypatch):
    monkeypatch.setattr(operations, "ROWS_PIECE", 30)  # three rows of nine bytes
    with platform.owner() as ann:
        ann.upload("clinic", table(8))
        platform.seal()
        trace = finish_job(platform)
        assert ann.result("clinic").labels_.tolist() == trace.labels.tolist()
    for store in platform.stores:
        events = [entry.event for entry in store.ledger.entries()]
        assert events.count("labels half given") == 3


def test_an_owner_sees_what_it_waits_for(platform):
    with platform.owner() as owner, job_lock(platform.stores[0].folder, "clinic"):
        owner.upload("clinic", table(6))
        platform.seal()
        for store in platform.stores:
            store.jobs.transition("clinic", JobState.PREPARING)
            store.jobs.transition("clinic", JobState.RUNNING, iteration=2)
        assert str(owner.progress("clinic")) == "running (iteration 2)"
        with pytest.raises(InputError, match=r"it is running \(iteration 2\)"):
            owner.result("clinic", timeout=0)
        heard = []

        def hear(progress):
            heard.append(str(progress))
            if len(heard) == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            owner.result("clinic", on_wait=hear)
    assert heard == ["running (iteration 2)"] * 2


def test_owners_list_their_datasets_by_command(platform):
    with platform.owner() as owner:
        owner.upload("clinic", table(6))
    config = ["--config", str(platform.deployment.party("ann").config)]
    listed = CliRunner().invoke(app, ["datasets", *config])
    assert listed.exit_code == 0
    assert re.findall(r"clinic|created|\b\d\b", listed.output) == ["clinic", "created", "1", "6"]
    told = CliRunner().invoke(app, ["progress", "clinic", *config])
    assert told.output == "clinic: created\n"
    late = CliRunner().invoke(app, ["result", "clinic", "--no-wait", *config])
    assert "no result yet" in str(late.exception)


def test_a_look_at_how_far_things_are_takes_nothing(platform):
    """Neither a half nor an entry in a ledger; who gave no records yet may look too."""
    with platform.owner("ann") as ann, platform.owner("bob") as bob:
        assert str(bob.progress("clinic")) == "created"
        ann.upload("clinic", table(8))
        platform.seal()
        finish_job(platform)
        before = [store.ledger.entries() for store in platform.stores]
        assert [str(owner.progress("clinic")) for owner in (ann, bob)] == ["done", "done"]
        listed = CliRunner().invoke(
            app, ["datasets", "--config", str(platform.deployment.party("bob").config)]
        )
        assert re.findall(r"clinic|done|\b0\b", listed.output) == ["clinic", "done", "0", "0"]
        assert [store.ledger.entries() for store in platform.stores] == before
        for store in platform.stores:
            store.removal.dataset("clinic", "olga")
        assert str(ann.progress("clinic")) == "deleted"


def test_iterations_are_told_to_those_with_records(platform):
    running = job_lock(platform.stores[0].folder, "clinic")
    with platform.owner("ann") as ann, platform.owner("bob") as bob, running:
        ann.upload("clinic", table(6))
        platform.seal()
        for store in platform.stores:
            store.jobs.transition("clinic", JobState.PREPARING)
            store.jobs.transition("clinic", JobState.RUNNING, iteration=2)
        assert str(ann.progress("clinic")) == "running (iteration 2)"
        assert str(bob.progress("clinic")) == "running"


def test_a_result_as_a_table_in_full_precision(platform, tmp_path):
    with platform.owner() as owner:
        owner.upload("clinic", table(9))
        platform.seal()
        finish_job(platform)
        result = owner.result("clinic")
    config = ["--config", str(platform.deployment.party("ann").config)]
    file = tmp_path / "centres.csv"
    given = CliRunner().invoke(app, ["result", "clinic", "--csv", str(file), *config])
    assert given.exit_code == 0
    frame = pd.read_csv(file)
    assert list(frame.columns) == ["cluster", "records", *result.columns]
    assert np.array_equal(frame[list(result.columns)], result.cluster_centers_, equal_nan=True)
