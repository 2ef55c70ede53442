"""Noise through faults: every opening has noise of its own, and there are no more than paid for."""

import json
import secrets
from dataclasses import replace

import numpy as np
import pytest

from ppodc.errors import BudgetError, StateError
from ppodc.kmeans.private.job import NoisyJob
from ppodc.kmeans.private.kind import POINTS
from ppodc.kmeans.private.owner import owner_side
from ppodc.kmeans.private.reference import reference
from ppodc.kmeans.private.result import PrivateResult
from ppodc.pairs.cloud_job import CloudJob
from ppodc.records.result_shares import OpenedResult, open_output
from tests.harness.cloud_jobs import NAME, TwoCloudJobs, two_cloud_jobs

RECORDS = np.random.default_rng(3).integers(0, 10, (40, 2))
JOB = NoisyJob(k=2, epsilon=6.0, delta=1e-6, seed=2)


class Drawn(list):
    """Seeds as they are drawn, so that a test knows the noise."""

    def __call__(self) -> bytes:
        self.append(secrets.token_bytes(32))
        return self[-1]


def watch(both: TwoCloudJobs) -> None:
    for side, drawn in zip(both.sides, both.drawn, strict=True):
        side.plan.facts = replace(side.plan.facts, noise_seed=drawn)


@pytest.fixture
def both(tmp_path):
    with two_cloud_jobs(tmp_path, RECORDS, JOB) as made:
        made.drawn = Drawn(), Drawn()
        watch(made)
        yield made


def opened(both: TwoCloudJobs) -> PrivateResult:
    """The owner's result."""
    halves = [side.store.results.half(NAME) for side in both.sides]
    assert halves[0].facts == halves[1].facts
    values = {POINTS: open_output(*(half.halves[POINTS] for half in halves))}
    return owner_side(both.first.spec).open_result(OpenedResult(halves[0].facts, values, {}))


def check(both: TwoCloudJobs) -> None:
    """The result is that of plaintext with the noise of the last openings of each iteration."""
    wanted, found = reference(both.first.spec, RECORDS, both.drawn), opened(both)
    assert np.array_equal(found.counts_, wanted.counts)
    assert np.array_equal(np.rint(found.points_).astype(int), wanted.points)
    assert np.array_equal(found.sizes_, wanted.sizes)


def begun(side: CloudJob) -> list[int]:
    """The iteration of every opening in a cloud's ledger."""
    entries = [e for e in side.store.ledger.entries(NAME) if e.event == "reveal begun"]
    details = [json.loads(entry.detail) for entry in entries]
    return [d["iteration"] for d in details if d["step"] == "open"]


def again(both: TwoCloudJobs, iteration: int | None) -> None:
    """Both clouds' processes are gone; new ones go on from what is on disk."""
    for side in both.sides:
        side.close()
        fresh = CloudJob(side.store, side.workers, NAME, "shares", 2, 1)
        fresh.restore(iteration)
        side.walk, side._current, side._opened = fresh.walk, None, {}
    watch(both)
    for slot in range(both.first.pairs):
        both.pair(slot)


def test_the_steps_and_what_the_ledgers_say(both):
    assert both.run() == ["ingest", *["assign", "open"] * 3, "output"]
    check(both)
    for side in both.sides:
        assert begun(side) == [1, 2, 3]
        events = [entry.event for entry in side.store.ledger.entries(NAME)]
        assert events.count("noisy sums opened") == 3
        assert "stop bit revealed" not in events
    assert len({*both.drawn[0], *both.drawn[1]}) == 6


def test_a_new_lead_worker_goes_on(both):
    both.run_until("open")
    both.pair(0)
    both.run()
    check(both)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_going_on_from_a_checkpoint_opens_nothing_again(both, stop):
    while both.first.plan.iteration < stop:
        both.step()
    theirs = both.first.store.jobs.checkpoints(NAME).items()
    assert both.second.resume_point(theirs) == stop
    again(both, stop)
    both.run()
    check(both)
    assert begun(both.first) == begun(both.second) == [1, 2, 3]


def opened_noise(both: TwoCloudJobs) -> np.ndarray:
    both.run_until("open")
    both.step()
    return both.first.plan.points()


def test_an_iteration_that_is_opened_again_has_other_noise(both):
    """A cloud that changed its share of a record meanwhile cannot take the noise away."""
    before = opened_noise(both)
    again(both, None)
    assert not np.array_equal(opened_noise(both), before)
    both.run()
    for drawn in both.drawn:
        assert len(set(drawn)) == 4
        del drawn[0]  # the opening that was lost
    check(both)


@pytest.mark.parametrize("number", [0, 1])
def test_openings_beyond_those_of_the_proof_are_refused(both, number):
    """A cloud that opens a session again and again gets T + 1 openings, whatever it says."""
    for _ in range(2):
        opened_noise(both)
        again(both, None)
    for _ in range(2):
        opened_noise(both)
    both.run_until("open")
    side = both.sides[number]
    with pytest.raises(BudgetError, match="has begun 'open' 4 times, restarts included"):
        side.begin(side.walk.next_step(), 1, [0])
    again(both, 2)
    both.run_until("open")
    side = both.sides[number]
    with pytest.raises(BudgetError, match="Create a new dataset"):
        side.begin(side.walk.next_step(), 1, [0])


def test_an_opening_that_was_broken_off_counts(both):
    both.run_until("open")
    assert begun(both.second) == begun(both.first) == [1], "announced as the step before was kept"
    both.second.begin(both.first.walk.next_step(), 1, [0])
    assert begun(both.second) == [1]
    both.second._current = None
    both.pair(0)
    both.run()
    assert begun(both.second) == [1, 1, 2, 3]
    assert both.drawn[1][0] not in both.drawn[1][1:]
    del both.drawn[1][0]
    check(both)


def test_nothing_of_the_noise_is_kept(both):
    both.run()
    for side, drawn in zip(both.sides, both.drawn, strict=True):
        names = {path.name for path in side.store.folder.rglob("*") if path.is_file()}
        assert not any("noise" in name for name in names)
        stored = b"".join(p.read_bytes() for p in side.store.folder.rglob("*") if p.is_file())
        assert not any(seed in stored or seed.hex().encode() in stored for seed in drawn)


def test_a_job_whose_half_was_given_never_opens_again(both):
    """Even if its state were not `done`: cloud 1 would get a second result on changed shares."""
    both.run()
    for side in both.sides:
        CloudJob(side.store, side.workers, NAME, "shares", 2, 1)
        side.store.ledger.append("result half given", NAME, {"owner": "owner1"})
        with pytest.raises(StateError, match="has left this cloud"):
            CloudJob(side.store, side.workers, NAME, "shares", 2, 1)
