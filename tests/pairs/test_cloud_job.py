"""One cloud's side of a job without Ray: two of them with workers in threads, step by step."""

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ppodc.errors import ChannelError, ProtocolError, SessionLostError, StoreError
from ppodc.kmeans import plan
from ppodc.kmeans.job import Job
from ppodc.kmeans.reference import kmeans
from ppodc.kmeans.result import Result, open_result
from ppodc.pairs import shards
from ppodc.pairs.cloud_job import CloudJob
from ppodc.pairs.pair_worker import PairWorker
from ppodc.pairs.plan import Step
from ppodc.pairs.recording import Recorder, Recording
from ppodc.records.result_shares import OpenedResult, open_output
from ppodc.records.schema import Column, Schema
from ppodc.service.store import Checkpoint, Store
from ppodc.spec import Spec
from tests.harness.cloud_jobs import NAME, RECORDS, TwoCloudJobs, two_cloud_jobs
from tests.harness.patience import LONG
from tests.harness.thread_workers import ThreadWorkers
from tests.service.data import members


@pytest.fixture
def both(tmp_path: Path) -> Iterator[TwoCloudJobs]:
    with two_cloud_jobs(tmp_path) as made:
        yield made


def opened(both: TwoCloudJobs) -> Result:
    """The owner's result."""
    halves = [side.store.results.half(NAME) for side in both.sides]
    values = {"clusters": open_output(*(half.halves["clusters"] for half in halves))}
    rows = {"labels": []}
    return open_result(both.first.spec, OpenedResult(halves[0].facts, values, rows))


@pytest.mark.parametrize(("suite", "split"), [("shares", False), ("paillier", True)])
def test_a_record_that_stands_in_for_an_empty_cluster_is_not_in_the_result(tmp_path, suite, split):
    records = np.random.default_rng(1).integers(0, 4, (9, 2))
    job = Job(k=3, max_iter=1, init=((1.0, 1.0), (8.0, 9.0), (9.0, 9.0)), min_size=1)
    with two_cloud_jobs(tmp_path, records, job, suite, split) as both:
        both.run()
        result = opened(both)
    assert result.sizes_.tolist() == [9, 0, 0]
    assert result.sums_.tolist() == [records.sum(axis=0).tolist(), [0, 0], [0, 0]]
    assert np.isnan(result.cluster_centers_[1:]).all()


@pytest.mark.parametrize("suite", ["shares", "paillier"])
def test_rows_beyond_ub_deny_nobody_the_result(tmp_path, suite):
    records = RECORDS.copy()
    records[:3] = 15  # ub is 9, of 4 bits
    with two_cloud_jobs(tmp_path, records, suite=suite) as both:
        both.run()
        result = opened(both)
    plain = kmeans(np.minimum(records, 9), 2, beta=0, max_iter=100, seed=0)
    assert np.array_equal(result.sums_, plain.sums)


def test_the_output_is_of_the_last_iteration_after_a_kill_too(tmp_path):
    records = np.random.default_rng(1).integers(0, 4, (9, 2))
    job = Job(k=2, max_iter=1, init=((1.0, 1.0), (9.0, 9.0)), min_size=1)
    with two_cloud_jobs(tmp_path, records, job) as both:
        while both.first.plan.iteration < 1:
            both.step()
        for side in both.sides:
            again = CloudJob(side.store, side.workers, NAME, "shares", 2, 1)
            again.restore(again.resume_point(both.first.store.jobs.checkpoints(NAME).items()))
            side.walk = again.walk
        both.run()
        assert opened(both).sizes_.tolist() == [9, 0]


def check(both: TwoCloudJobs) -> None:
    """The result of both clouds together is the reference's."""
    trace = kmeans(RECORDS, 2, beta=0, max_iter=100, seed=0)
    halves = [side.store.results.half(NAME) for side in both.sides]
    assert halves[0].facts == halves[1].facts == {"n_iter": trace.n_iter, "converged": True}
    table = np.array(open_output(*(half.halves["clusters"] for half in halves))).reshape(2, 3)
    assert np.array_equal(table[:, :2], trace.sums)
    assert np.array_equal(table[:, 2], trace.sizes)


def test_the_steps_of_a_job_in_their_order(both: TwoCloudJobs):
    names = both.run()
    iterations = both.first.plan.iteration
    expected = ["ingest", "start", *["assign", "update"] * iterations, "output", "labels"]
    assert names == expected
    check(both)
    for side in both.sides:
        assert side.store.jobs.get(NAME).iteration == iterations


def test_records_are_handed_over_shard_by_shard(tmp_path, monkeypatch):
    """A worker never has more than one shard's rows in hand, and counts those of all."""
    monkeypatch.setattr(shards, "SHARD_ROWS", 2)
    monkeypatch.setattr(shards, "SHARD_VALUES", 4)
    handed: list[int] = []
    original = PairWorker.run

    def run(self, step, attempt, tasks):
        handed.append(sum(len(rows) for task in tasks for rows in task.inputs))
        assert len(tasks) == 1 or all(task.name != "ingest" for task in tasks)
        found = original(self, step, attempt, tasks)
        progress.append(self.progress())
        return found

    progress: list[int] = []
    with two_cloud_jobs(tmp_path) as both:
        with monkeypatch.context() as patch:
            patch.setattr(PairWorker, "run", run)
            assert both.step() == "ingest"
        assert sorted(handed) == [0] * 4 + [1] * 4 + [2] * 12
        assert max(progress) == 7
        assert both.first.walk.rows_at(0) == 7
        both.run()
        check(both)


def reveals(side: CloudJob) -> list[tuple[str, int, int]]:
    """(step, iteration, attempt) of the reveals in a cloud's ledger."""
    entries = [e for e in side.store.ledger.entries(NAME) if e.event == "reveal begun"]
    details = [json.loads(entry.detail) for entry in entries]
    return [(d["step"], d["iteration"], d["attempt"]) for d in details]


def test_every_reveal_is_in_both_ledgers_before_it_can_happen(both: TwoCloudJobs):
    while both.first.walk.next_step().name != "update":
        both.step()
    step = both.second.walk.next_step()
    announced = [("update", 1, 1)]  # as the step before was kept
    assert reveals(both.first) == reveals(both.second) == announced
    both.second.begin(step, 1, [0])  # C1 never comes
    assert reveals(both.second) == announced
    both.pair(0)
    both.run()
    last = both.first.plan.iteration
    expected = [("update", i, 1) for i in range(1, last + 1)]
    expected += [("output", last, 1), ("labels", last, 1)]
    assert reveals(both.first) == expected
    assert reveals(both.second) == announced + expected, "what was begun again is announced again"


def test_only_the_first_attempt_on_all_slots_was_announced_ahead(both: TwoCloudJobs):
    both.run_until("labels")
    step, before = both.second.walk.next_step(), reveals(both.second)
    both.second.begin(step, 1, [0])
    both.second.begin(step, 1, [1])
    assert reveals(both.second)[len(before) :] == [("labels", step.iteration, 1)] * 2


def test_one_pair_does_an_iteration_in_one_step(tmp_path):
    with two_cloud_jobs(tmp_path, pairs=1) as both:
        names, last = both.run(), both.first.plan.iteration
        assert names == ["ingest", "start", *["iterate"] * last, "output", "labels"]
        check(both)
        iterations = [("iterate", i, 1) for i in range(1, last + 1)]
        for side in both.sides:
            assert reveals(side) == [*iterations, ("output", last, 1), ("labels", last, 1)]


def test_one_pair_with_many_records_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "TOGETHER_ROWS", len(RECORDS) - 1)
    with two_cloud_jobs(tmp_path, pairs=1) as both:
        assert both.run()[2:4] == ["assign", "update"]
        check(both)


def test_a_job_goes_on_with_another_number_of_pairs(tmp_path):
    """In an iteration of one step after some of two, and the other way round."""
    with two_cloud_jobs(tmp_path, pairs=1) as both:
        both.run_until("iterate")
        both.step()
        for pairs, name in ((2, "assign"), (1, "iterate")):
            for side in both.sides:
                side.close()
                again = CloudJob(side.store, side.workers, NAME, "shares", pairs, 1)
                again.restore(both.first.plan.iteration)
                side.walk, side.pairs = again.walk, pairs
            for slot in range(pairs):
                both.pair(slot)
            both.run_until(name)
            both.step()
            if name == "assign":
                both.step()
        both.run()
        check(both)


def test_a_step_out_of_turn_is_refused(both: TwoCloudJobs):
    for wrong in (Step(1, "update", 1), Step(2, "ingest", 0), Step(1, "reveal-all", 0)):
        with pytest.raises(ProtocolError, match="not the next step"):
            both.second.begin(wrong, 1, [0])
    due = both.second.walk.next_step()
    assert due is not None
    for attempt, slots in ((0, [0]), (4, [0]), (1, [2])):
        with pytest.raises(ProtocolError, match="cannot run on slots"):
            both.second.begin(due, attempt, slots)
    with pytest.raises(ProtocolError, match="not finished"):
        both.second.save_result()
    with pytest.raises(ProtocolError, match="not complete"):
        both.second.commit()


def test_a_slot_that_has_run_a_step_runs_it_again_only_on_a_new_pair(both: TwoCloudJobs):
    """A peer that could have it run again would learn from each try."""
    due = both.second.walk.next_step()
    both.second.workers.end(both.second.slots[0].worker)
    both.second.begin(due, 1, [0])
    assert list(both.second.wait(60)[1]) == [0], "it failed"
    with pytest.raises(ProtocolError, match="cannot run on slots"):
        both.second.begin(due, 1, [0])
    both.pair(0)
    both.second.begin(due, 2, [0])


def test_the_seed_of_a_record_serves_one_session(tmp_path):
    recorder = Recorder(Recording(bytes(32), str(tmp_path / "a.record")))
    channel = SimpleNamespace(session=b"s", keep_log=lambda _log: None)
    recorder.attach(channel)
    with pytest.raises(ChannelError, match="Start a new pair"):
        recorder.attach(channel)
    recorder.close()


def test_a_fresh_worker_takes_in_what_the_old_one_held(both: TwoCloudJobs):
    for _ in range(3):
        both.step()
    both.pair(1)
    assert not both.first.slots[1].held.shards
    both.run()
    assert both.first.slots[1].generation == 1
    check(both)


def test_labels_are_assigned_again_on_a_worker_that_came_last(both: TwoCloudJobs):
    while both.step() != "output":
        pass
    both.pair(0)
    assert both.step() == "labels"
    both.run()
    check(both)


def test_going_on_from_a_checkpoint_gives_the_same_result(both: TwoCloudJobs):
    while both.first.plan.iteration < 2:
        both.step()
    for side in both.sides:
        again = CloudJob(side.store, side.workers, NAME, "shares", 2, 1)
        assert again.resume_point(both.first.store.jobs.checkpoints(NAME).items()) == 2
        side.close()
        again.restore(2)
        side.walk = again.walk
    for slot in range(2):
        both.pair(slot)
    assert both.run()[:2] == ["ingest", "assign"]
    check(both)


@pytest.mark.parametrize(
    ("first", "second", "final", "labels", "expected"),
    [
        ([], [], 9, True, None),
        ([1], [], 9, True, None),
        ([3, 4], [4, 5], 9, True, 4),  # C1 was killed before it saved the fifth
        ([4, 5], [3, 4], 9, True, 4),
        ([4, 5], [4, 5], 5, True, 5),  # all iterations done, the output is missing
        ([5], [4, 5], 5, True, None),  # no labels without the clusters before
        ([5], [5], 5, False, 5),
        ([1], [1], 1, True, None),
    ],
)
def test_where_to_go_on(tmp_path, first, second, final, labels, expected):
    spec = Spec(NAME, Schema((Column("x", 0, 9),), 9), Job(k=1, labels=labels), members("owner1"))
    with Store.open(tmp_path, "cloud2") as store:
        store.datasets.create(spec)
        upload = secrets.token_hex(16)
        store.uploads.begin(NAME, "owner1", upload, 3)
        store.uploads.put_seed(upload, bytes(32))
        store.uploads.commit(upload)
        store.seals.seal(NAME, [upload])
        for iteration in second:
            state = {name: np.zeros((1, 2), np.uint64) for name in ("clusters", "sums")}
            store.jobs.save_checkpoint(
                NAME, Checkpoint(iteration, iteration == final, state), "run"
            )
        side = CloudJob(store, ThreadWorkers(id), NAME, "shares", 1, 1)
        assert side.resume_point([(iteration, "run") for iteration in first]) == expected


def test_halves_of_two_runs_are_no_checkpoint(both: TwoCloudJobs):
    """A store that was put back from a copy has the halves of an earlier attempt."""
    for side in both.sides:
        for iteration in (1, 2):
            state = {"clusters": np.zeros((2, 3), np.uint64)}
            run = "earlier" if (side, iteration) == (both.second, 2) else "later"
            side.store.jobs.save_checkpoint(NAME, Checkpoint(iteration, False, state), run)
    theirs = both.first.store.jobs.checkpoints(NAME)
    assert theirs == {1: "later", 2: "later"}
    assert both.second.resume_point(theirs.items()) == 1


def test_a_commit_is_on_disk_whole_or_not_at_all(both: TwoCloudJobs, monkeypatch):
    """The plan has moved when the disk gives up: nothing may build on it, and nobody is told."""
    both.run_until("update")
    side, number = both.second, both.second.walk.number
    entries = side.store.ledger.entries()

    def full(**_amounts: float) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(side.store.figures, "add", full)
    with pytest.raises(StoreError):
        both.step()
    after = [entry.event for entry in side.store.ledger.entries()[len(entries) :]]
    assert after == [], "the reveal was announced before"
    assert side.store.jobs.checkpoints(NAME) == {}
    assert side.store.jobs.get(NAME).iteration == 0
    with pytest.raises(SessionLostError):
        side.committed(number)
    with pytest.raises(SessionLostError):
        side.begin(side.walk.next_step(), 1, [0])
    # at the other cloud the iteration is there, and both can go on from the start
    assert list(both.first.store.jobs.checkpoints(NAME)) == [1]
    assert both.first.resume_point(side.store.jobs.checkpoints(NAME).items()) is None


@pytest.mark.parametrize("pairs", [1, 2])
def test_what_workers_give_needs_no_code_of_a_kind_to_be_read(tmp_path, monkeypatch, pairs):
    """A driver of Ray, which passes it on, would load that kind's kernels in mid-job."""
    found: set[str] = set()
    collect = CloudJob._collect

    def watched(side: CloudJob, current: Any, slot: int, call: Any) -> None:
        found.update(modules(side.workers.outcome(call)))
        collect(side, current, slot, call)

    monkeypatch.setattr(CloudJob, "_collect", watched)
    with two_cloud_jobs(tmp_path, pairs=pairs) as both:
        both.run()
    ours = {name for name in found if name.startswith("ppodc.")}
    assert found - ours == {"builtins", "numpy"}
    assert ours == {"ppodc.pairs.pair_worker", "ppodc.records.result_shares"}


def modules(value: Any) -> set[str]:
    """The modules of the classes in a result."""
    inside: list[Any] = []
    if isinstance(value, list | tuple):
        inside = list(value)
    elif isinstance(value, dict):
        inside = [*value, *value.values()]
    elif is_dataclass(value):
        inside = [getattr(value, each.name) for each in fields(value)]
    return {type(value).__module__}.union(*map(modules, inside))


@pytest.mark.parametrize("behind", [0, 1])
def test_a_cloud_that_could_not_keep_an_iteration_is_one_behind(tmp_path, monkeypatch, behind):
    """Both go back to the last iteration that both have, and come to the same result."""
    with two_cloud_jobs(tmp_path, pairs=1) as both:
        both.run_until("iterate")
        both.step()
        with monkeypatch.context() as patch:

            def full(**_amounts: float) -> None:
                raise StoreError("the disk is full")

            patch.setattr(both.sides[behind].store.figures, "add", full)
            step = both.first.walk.next_step()
            for side in both.sides:
                side.begin(step, 1, [0])
            for number, side in enumerate(both.sides):
                side.wait(LONG)
                if number == behind:
                    with pytest.raises(StoreError):
                        side.commit()
                else:
                    side.commit()
        kept = [list(side.store.jobs.checkpoints(NAME)) for side in both.sides]
        assert kept[behind] == [1]
        assert kept[1 - behind] == [1, 2]
        for side, other in (both.sides, both.sides[::-1]):
            side.close()
            again = CloudJob(side.store, side.workers, NAME, "shares", 1, 1)
            assert again.resume_point(other.store.jobs.checkpoints(NAME).items()) == 1
            again.restore(1)
            side.walk, side._behind, side._announced = again.walk, False, None
        both.pair(0)
        both.run()
        check(both)
        for side in both.sides:
            counts = Counter(iteration for step, iteration, _ in reveals(side) if step == "iterate")
            assert counts[2] == 2, "what was opened again is in the ledger again"


@pytest.mark.parametrize(("pairs", "steps"), [(1, 1), (2, 2)])
def test_each_step_of_an_iteration_writes_to_disk_once(tmp_path, monkeypatch, pairs, steps):
    """The findings, and that the next stop bit may be revealed."""
    with two_cloud_jobs(tmp_path, pairs=pairs) as both:
        both.run_until("iterate" if pairs == 1 else "assign")
        written = transactions(both, monkeypatch)
        for _ in range(steps):
            both.step()
        assert both.first.plan.iteration == 1
        assert len(written) == steps


def transactions(both: TwoCloudJobs, monkeypatch) -> list[str]:
    """Cloud 1's transactions from now on that change something, as they come."""
    written, database = [], both.first.store._database
    begin = database._begin

    @contextmanager
    def watched(how: str) -> Iterator[sqlite3.Connection]:
        outermost = not database.nested
        with begin(how) as sql:
            before = sql.total_changes
            yield sql
            if outermost and sql.total_changes > before:
                written.append(how)

    monkeypatch.setattr(database, "_begin", watched)
    return written
