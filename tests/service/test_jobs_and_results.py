"""Jobs and results in the store: states, checkpoints, halves."""

import numpy as np
import pytest

from ppodc.errors import DiskFullError, InputError
from ppodc.records.result_shares import OutputShare, ResultShare
from ppodc.service.job_state import TRANSITIONS, JobState
from ppodc.service.store import Checkpoint
from tests.service.data import make_spec, put_upload, records, stores


def test_job_states_follow_the_table(two):
    first, second = two
    with pytest.raises(InputError, match="cannot become running"):
        first.jobs.transition("clinic", JobState.RUNNING)
    upload_id = put_upload(first, second, "clinic", "ann", records(4))
    first.seals.seal("clinic", [upload_id])
    first.jobs.transition("clinic", JobState.PREPARING, suite="paillier", pairs=2)
    first.jobs.transition("clinic", JobState.RUNNING, iteration=1)
    info = first.jobs.transition("clinic", JobState.RUNNING, iteration=2)
    assert (info.iteration, info.suite, info.pairs) == (2, "paillier", 2)
    first.jobs.request_cancel("clinic")
    assert first.jobs.get("clinic").cancel_requested
    first.jobs.transition("clinic", JobState.FAILED, message="a pair was lost; run: ppodc resume")
    assert "resume" in first.jobs.get("clinic").message
    assert not first.jobs.transition("clinic", JobState.PREPARING).cancel_requested
    first.jobs.transition("clinic", JobState.RUNNING)
    first.jobs.transition("clinic", JobState.DONE)
    with pytest.raises(InputError, match="done already"):
        first.jobs.request_cancel("clinic")
    with pytest.raises(InputError, match="cannot become"):
        first.jobs.transition("clinic", JobState.PREPARING)


def test_the_table_names_every_state():
    assert set(TRANSITIONS) == set(JobState)
    final = {JobState.DONE, JobState.CANCELLED}
    assert {state for state in JobState if state.final} == final


def test_the_last_two_checkpoints_stay(two):
    first = two[0]
    clusters = {
        i: np.random.default_rng(i).integers(0, 2**60, (2, 4, 2), np.uint64) for i in range(1, 5)
    }
    for i, state in clusters.items():
        checkpoint = Checkpoint(i, i == 4, {"clusters": state, "seen": np.array(i)})
        first.jobs.save_checkpoint("clinic", checkpoint, "run")
    assert first.jobs.checkpoints("clinic") == {3: "run", 4: "run"}
    for i in (3, 4):
        kept = first.jobs.checkpoint("clinic", i)
        assert (kept.iteration, kept.stop, set(kept.arrays)) == (i, i == 4, {"clusters", "seen"})
        assert kept.arrays["clusters"].dtype == np.uint64
        assert np.array_equal(kept.arrays["clusters"], clusters[i])
        assert kept.arrays["seen"].shape == ()
        assert kept.arrays["seen"] == i
    with pytest.raises(InputError, match="no checkpoint"):
        first.jobs.checkpoint("clinic", 2)
    first.jobs.drop_checkpoints_after("clinic", 3)
    assert first.jobs.checkpoints("clinic") == {3: "run"}
    empty = np.empty((0, 4), np.uint8)
    first.jobs.save_checkpoint("clinic", Checkpoint(4, False, {"clusters": empty}))
    first.jobs.save_checkpoint("clinic", Checkpoint(4, False, {"other": empty}))
    (again,) = first.jobs.checkpoint("clinic", 4).arrays.items()
    assert (again[0], again[1].shape) == ("other", (0, 4))


def test_an_owner_gets_the_halves_that_were_made_for_it_alone(two):
    first, second = two
    ids = [put_upload(first, second, "clinic", owner, records(2)) for owner in ("ann", "bob")]
    first.seals.seal("clinic", ids)
    labels, common = OutputShare.of(4, [0, 1, 1, 0]), OutputShare.of(9, [4])
    nothing = OutputShare.of_words(np.empty(0, np.uint64))
    own = {"clusters": {"ann": OutputShare.of_words(np.arange(3, dtype=np.uint64)), "bob": nothing}}
    given = ResultShare({}, {"common": common}, {"labels": labels}, own)
    for _ in range(2):  # until the job is done it may be saved again
        first.results.save("clinic", given)
    for owner, half in own["clusters"].items():
        kept = first.results.half("clinic", owner).halves
        assert kept == {"clusters": half, "common": common}
        assert kept == given.for_owner(owner, [(0, 2)]).halves
    for nobody in ("", "eve"):
        assert first.results.half("clinic", nobody).halves == {"common": common}


def test_results_and_labels_by_owner(two):
    first, second = two
    ids = [
        put_upload(first, second, "clinic", owner, records(rows))
        for owner, rows in [("ann", 3), ("bob", 2), ("ann", 1)]
    ]
    first.seals.seal("clinic", [ids[1], ids[2], ids[0]])
    assert not first.results.has("clinic")
    with pytest.raises(InputError, match="no result yet"):
        first.results.half("clinic")
    values = OutputShare.of(2**2047 + 9, [5, 2**2047 + 8, 0])
    labels = OutputShare.of(1 << 71, [10, 11, 12, 13, 14, (1 << 71) - 1])
    facts = {"n_iter": 3, "converged": True}
    halves = {"clusters": values, "again": OutputShare.of(2, [1])}
    first.results.save("clinic", ResultShare(facts, halves, {"labels": labels}))
    assert first.results.half("clinic") == ResultShare(facts, halves)
    parts = [first.results.own_rows("clinic", "labels", upload_id).values for upload_id in ids]
    assert parts == [[13, 14, (1 << 71) - 1], [10, 11], [12]]
    for wrong in (("clinic", "ranks", ids[0]), ("clinic", "labels", "0" * 32)):
        with pytest.raises(InputError, match="for this upload"):
            first.results.own_rows(*wrong)
    short = ResultShare(facts, {"clusters": values}, {"labels": OutputShare.of(4, [0])})
    with pytest.raises(InputError, match="do not fit"):
        first.results.save("clinic", short)
    with pytest.raises(InputError, match="lacks the labels"):
        first.results.save("clinic", ResultShare(facts, {"clusters": values}))
    with pytest.raises(InputError, match="over 1000 bytes"):
        first.results.save("clinic", ResultShare({"long": "x" * 1000}, {}))
    assert first.results.half("clinic") == ResultShare(facts, halves)
    first.results.save("clinic", ResultShare({}, {"clusters": values}, {"labels": labels}))
    assert first.results.half("clinic") == ResultShare({}, {"clusters": values})
    for state in (JobState.PREPARING, JobState.RUNNING, JobState.DONE):
        first.jobs.transition("clinic", state)
    with pytest.raises(InputError, match="stays as it is"):
        first.results.save("clinic", ResultShare({}, {}, {"labels": labels}))


def test_no_labels_without_agreement(tmp_path):
    first, second = stores(tmp_path)
    for store in (first, second):
        store.datasets.create(make_spec(labels=False))
    first.seals.seal("clinic", [put_upload(first, second, "clinic", "ann", records(2))])
    with pytest.raises(InputError, match="did not agree"):
        first.results.save("clinic", ResultShare({}, {}, {"labels": OutputShare.of(4, [0, 1])}))
    assert not first.results.has("clinic")


def test_a_full_database_is_told_and_undone(two):
    first = two[0]
    small, large = np.zeros((10, 10), np.uint64), np.ones((100, 100), np.uint64)
    first.jobs.save_checkpoint("clinic", Checkpoint(1, False, {"clusters": small}))
    with first._database.reading() as sql:
        pages = sql.execute("PRAGMA page_count").fetchone()[0]
        sql.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(DiskFullError, match="Free some space"):
        first.jobs.save_checkpoint("clinic", Checkpoint(2, True, {"clusters": large}))
    assert first.jobs.checkpoints("clinic") == {1: ""}
    assert [entry.event for entry in first.ledger.entries()][-1:] == ["stop bit revealed"]
    assert first.ledger.verify().entries == 2
