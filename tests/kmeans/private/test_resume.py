"""Noise through faults: a question is opened with one noise, however often its step is repeated."""

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.kmeans.private.job import NoisyJob
from ppodc.kmeans.private.kind import POINTS
from ppodc.kmeans.private.own_noise import noise_seed, question
from ppodc.kmeans.private.owner import owner_side
from ppodc.kmeans.private.reference import reference
from ppodc.kmeans.private.result import PrivateResult
from ppodc.pairs.cloud_job import CloudJob
from ppodc.records.result_shares import OpenedResult, open_output
from tests.harness.cloud_jobs import NAME, TwoCloudJobs, two_cloud_jobs

RECORDS = np.random.default_rng(3).integers(0, 10, (40, 2))
JOB = NoisyJob(k=2, epsilon=6.0, delta=1e-6, seed=2)


@pytest.fixture
def both(tmp_path):
    with two_cloud_jobs(tmp_path, RECORDS, JOB) as made:
        yield made


def opened(both: TwoCloudJobs) -> PrivateResult:
    """The owner's result."""
    halves = [side.store.results.half(NAME) for side in both.sides]
    assert halves[0].facts == halves[1].facts
    values = {POINTS: open_output(*(half.halves[POINTS] for half in halves))}
    return owner_side(both.first.spec).open_result(OpenedResult(halves[0].facts, values, {}))


def check(both: TwoCloudJobs) -> None:
    keys = [
        side.store.noise_key.of_job(side.spec.digest, side.sealed.digest) for side in both.sides
    ]
    wanted, found = reference(both.first.spec, RECORDS, keys), opened(both)
    assert np.array_equal(found.counts_, wanted.counts)
    assert np.array_equal(np.rint(found.points_).astype(int), wanted.points)
    assert np.array_equal(found.sizes_, wanted.sizes)


def begun(side: CloudJob) -> list[tuple[int, str]]:
    """(iteration, what was asked) of every opening in a cloud's ledger."""
    entries = [e for e in side.store.ledger.entries(NAME) if e.event == "reveal begun"]
    details = [json.loads(entry.detail) for entry in entries]
    return [(d["iteration"], d["asked"]) for d in details if d["step"] == "open"]


def again(both: TwoCloudJobs, iteration: int | None) -> None:
    """Both clouds' processes are gone; new ones go on from what is on disk."""
    for side in both.sides:
        side.close()
        fresh = CloudJob(side.store, side.workers, NAME, "shares", 2, 1)
        fresh.restore(iteration)
        side.walk, side._current = fresh.walk, None
    for slot in range(both.first.pairs):
        both.pair(slot)


def test_the_steps_and_what_the_ledgers_say(both):
    assert both.run() == ["ingest", *["assign", "open"] * 3, "output"]
    check(both)
    for side in both.sides:
        assert [iteration for iteration, _ in begun(side)] == [1, 2, 3]
        events = [entry.event for entry in side.store.ledger.entries(NAME)]
        assert events.count("noisy sums opened") == 3
        assert "stop bit revealed" not in events
    assert begun(both.first) != begun(both.second), "each commits to noise of its own"


def test_a_new_lead_worker_opens_the_same_values(both):
    both.run_until("open")
    both.pair(0)
    both.run()
    check(both)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_going_on_from_a_checkpoint_gives_the_same_result(both, stop):
    while both.first.plan.iteration < stop:
        both.step()
    theirs = both.first.store.jobs.checkpoints(NAME).items()
    assert both.second.resume_point(theirs) == stop
    again(both, stop)
    both.run()
    check(both)


def test_an_iteration_that_is_run_again_opens_the_very_same_noise(both):
    """One cloud was killed before it had the opened values on disk: both start over."""
    while both.first.plan.iteration < 2:
        both.step()
    before = both.first.plan.points()
    for start in (None, 1):
        again(both, start)
        while both.first.plan.iteration < 2:
            both.step()
        assert np.array_equal(both.first.plan.points(), before)
    both.run()
    check(both)
    for side in both.sides:
        assert len(set(begun(side))) == 3, "one question, one noise for each iteration"
        assert len(begun(side)) > 3


def test_a_cloud_with_another_key_does_not_open_the_same_sums_again(both):
    both.run_until("open")
    both.step()
    (both.second.store.folder / "noise.key").write_bytes(bytes(range(32)))
    again(both, None)
    both.run_until("open")
    with pytest.raises(InputError, match="would reveal more than the owners agreed"):
        both.second.begin(both.second.walk.next_step(), 1, [0])


def tampered_first_iteration(both: TwoCloudJobs, added: int) -> None:
    """C2 adds a number to its share of every sum and count, up to the opening of iteration 2.

    It decides by that where the centres go. Noise plays no part: its standard deviation is below
    5 in a count and 15 in a sum. Negative counts keep all centres in place; 200 moves them.
    """
    both.run_until("open")
    both.second.plan.sums = tuple(part + np.uint64(added % 2**64) for part in both.second.plan.sums)
    both.step()
    both.run_until("open")


def test_another_question_in_the_same_iteration_is_refused(both):
    """C2 tampers with iteration 1 so that iteration 2 would be asked at other centres."""
    tampered_first_iteration(both, -50)
    asked = both.first.plan.asked()
    both.step()
    again(both, None)
    tampered_first_iteration(both, 200)
    assert both.first.plan.asked() != asked
    with pytest.raises(InputError, match="begun with other centres"):
        both.first.begin(both.first.walk.next_step(), 1, [0])


def test_the_same_question_is_answered_with_the_same_noise_whatever_the_other_cloud_does(both):
    """C2 tampers with iteration 1 otherwise, but iteration 2 is asked at the same centres."""
    tampered_first_iteration(both, -50)
    asked = both.first.plan.asked()
    both.step()
    before = begun(both.first)
    again(both, None)
    tampered_first_iteration(both, -60)
    assert both.first.plan.asked() == asked
    both.step()
    assert begun(both.first) == before * 2, "C1's noise of the first time: C2 learns nothing more"


@contextmanager
def _broken_off(both: TwoCloudJobs):
    """The lead's workers are told to open, then their link breaks."""
    both.run_until("open")
    step = both.first.walk.next_step()
    both.second.begin(step, 1, [0])
    yield
    both.pair(0)


def test_an_opening_that_was_broken_off_is_in_the_ledger_and_repeated_alike(both):
    with _broken_off(both):
        assert len(begun(both.second)) == 1
        assert begun(both.first) == []
    both.run()
    check(both)
    assert len(begun(both.second)) == 4
    assert len(set(begun(both.second))) == 3


def test_noise_differs_by_job_question_and_cloud(both):
    keys = {side.plan.facts.noise_key for side in both.sides}
    assert len(keys) == 2
    assert len({len(key) for key in keys} | {32}) == 1
    store = both.first.store
    assert store.noise_key.of_job("a", "b") != store.noise_key.of_job("a", "c")
    centres = np.zeros((2, 2), np.int64)
    questions = [question(1, centres), question(2, centres), question(1, centres + 1)]
    assert len({noise_seed(key, asked) for key in keys for asked in questions}) == 6
    assert (store.folder / "noise.key").stat().st_mode & 0o777 == 0o600


def test_a_plan_without_its_key_draws_no_noise(both):
    both.first.plan.facts = replace(both.first.plan.facts, noise_key=b"")
    both.step()
    both.step()
    with pytest.raises(InputError, match="noise key"):
        both.first.begin(both.first.walk.next_step(), 1, [0])
