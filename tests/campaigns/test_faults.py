"""Random fault schedules end exact, and their checks notice errors."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ppodc.kmeans.job import Job as KMeansJob
from ppodc.kmeans.reference import kmeans
from ppodc.pairs.cloud_job import CloudJob
from ppodc.totals.reference import reference as totals
from tests.campaigns import faults
from tests.campaigns.fault_points import Fate, Fault, RowWatch
from tests.campaigns.fault_schedules import Schedule, draw, with_faults
from tests.campaigns.plaintext_results import exact

SCHEDULES = 60


def test_schedules_end_exact_with_nothing_lost_or_doubled():
    document = faults.run(SCHEDULES, seed=7)
    assert document["schedules"] == SCHEDULES
    assert {name: document[name] for name in faults.COUNTS} == dict.fromkeys(faults.COUNTS, 0), (
        document["bad"]
    )
    assert sum(document["struck"].values()) > SCHEDULES


def test_a_seed_gives_the_same_schedule():
    one, other = draw(12), draw(12)
    assert one.faults == other.faults
    assert one.spec == other.spec
    assert all(np.array_equal(a, b) for a, b in zip(one.tables, other.tables, strict=True))
    assert draw(13).faults != one.faults


def test_a_fault_strikes_once_at_its_pass():
    fate = Fate([Fault("control reply", 2, "lose")])
    assert [fate.at("control reply") for _ in range(3)] == [None, "lose", None]
    assert fate.at("owner reply") is None
    assert len(fate.struck) == 1


def test_a_fault_strikes_in_its_phase():
    fate = Fate([Fault("control reply", 2, "lose", "settle")])
    assert [fate.at("control reply") for _ in range(3)] == [None] * 3
    fate.phase = "settle"
    assert [fate.at("control reply") for _ in range(3)] == [None, "lose", None]
    assert [str(fault) for fault in fate.struck] == ["lose at control reply 2 of settle"]


def test_a_row_that_comes_twice_is_noticed():
    watch, folder = RowWatch(Fate([])), Path("pool")
    watch(folder, "added", 0, 10)
    watch(folder, "taken", 0, 4)
    assert watch.reused == 0
    watch(folder, "taken", 3, 6)
    assert watch.reused == 1
    watch(folder, "emptied", 0, 0)
    watch(folder, "taken", 0, 2)
    assert watch.reused == 3


def test_a_result_that_differs_is_noticed():
    alone = (s for s in map(draw, range(50)) if getattr(s.spec.job, "join", True) is None)
    schedule = next(s for s in alone if s.spec.job.kind == "totals")
    plain = totals(schedule.spec, np.concatenate(schedule.tables))
    off = totals(schedule.spec, np.concatenate(schedule.tables)[1:])
    assert exact(schedule.spec, schedule.tables, [plain])
    assert not exact(schedule.spec, schedule.tables, [plain, off])


def long_job() -> Schedule:
    """A k-means job of three iterations or more."""
    for schedule in map(draw, range(200)):
        job = schedule.spec.job
        if not isinstance(job, KMeansJob) or job.join is not None:
            continue
        if schedule.suite == "shares" and not schedule.prepare:
            records = np.concatenate(schedule.tables)
            trace = kmeans(records, job.k, beta=0, max_iter=job.max_iter, seed=job.seed)
            if trace.n_iter >= 3:
                return schedule
    raise AssertionError("no such schedule")


def test_a_cloud_that_does_not_go_back_to_its_checkpoint_is_noticed(monkeypatch):
    killed = [Fault("control request", 13, "kill master")]
    schedule = with_faults(long_job(), killed)
    with faults.started(tries=4) as campaign:
        assert not campaign.run(schedule).bad
        restore = CloudJob.restore

        def only_cloud1(side: CloudJob, iteration: int | None) -> None:
            if side.store.role == "cloud1":
                restore(side, iteration)

        monkeypatch.setattr(CloudJob, "restore", only_cloud1)
        verdict = campaign.run(schedule)
    assert verdict.struck
    assert verdict.bad


@pytest.mark.parametrize(
    ("when", "then"),
    [
        ("open", None),
        ("iterate", Fault("control request", 1, "kill master", "settle")),
        ("iterate", Fault("control reply", 1, "kill master", "settle")),
        ("iterate", Fault("control request", 1, "cloud2 away", "settle")),
    ],
)
def test_a_cancelled_job_is_over_at_both_clouds_whatever_dies_meanwhile(when, then):
    cancelled = Fault("control request", 1, "cancel", when)
    job = replace(long_job(), pairs=1)
    schedule = with_faults(job, [cancelled, then] if then else [cancelled])
    verdict = played(schedule)
    assert len(verdict.struck) == len(schedule.faults)
    assert verdict.cancelled
    assert not verdict.bad, verdict


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("point", "action"),
    [
        ("cloud2 write", "disk full"),  # behind C2's answer, while C1 keeps the iteration
        ("cloud2 write", "kill before"),
        ("cloud2 write", "kill after"),
        ("cloud1 write", "disk full"),  # while C2 keeps it
        ("cloud1 write", "kill before"),
        ("cloud1 write", "kill after"),
        ("control request", "lose"),
        ("control request", "repeat"),
        ("control request", "kill cloud2"),
        ("control reply", "lose"),
        ("control reply", "repeat"),
        ("control reply", "kill master"),
        ("control reply", "kill cloud2"),
        ("worker1 message", "die"),
        ("worker2 call", "Ray dies"),
    ],
)
def test_whatever_strikes_in_an_iteration_of_one_step(point, action, count):
    """The result is exact, whichever cloud is one iteration ahead then."""
    schedule = replace(long_job(), pairs=1, withdraws=0)
    verdict = played(with_faults(schedule, [Fault(point, count, action, "iterate")]))
    assert not verdict.bad, verdict
    assert verdict.struck


def test_no_job_is_done_while_cloud2_may_lack_its_half(monkeypatch):
    """A cloud 2 that kept every step behind its answer would keep the last one so, too."""
    monkeypatch.setattr(CloudJob, "iterates", True)
    with faults.started(tries=4) as campaign:
        verdict = campaign.run(with_faults(replace(long_job(), pairs=1, withdraws=0), []))
    assert verdict.stuck
    assert "goes on with a job that is over" in " ".join(verdict.notes)


def test_a_job_is_cancelled_while_its_pools_are_filled():
    schedule = replace(long_job(), prepare=1)
    verdict = played(with_faults(schedule, [Fault("control request", 1, "cancel", "prepare")]))
    assert verdict.struck
    assert verdict.cancelled
    assert not verdict.bad, verdict


def test_a_second_master_is_turned_away():
    meanwhile = [Fault("control request", 1, "second master", at) for at in ("open", "settle")]
    verdict = played(with_faults(long_job(), meanwhile))
    assert len(verdict.struck) == len(meanwhile)
    assert not verdict.bad, verdict


def played(schedule: Schedule) -> faults.Verdict:
    with faults.started() as campaign:
        return campaign.run(schedule)


@pytest.mark.parametrize(
    ("cloud", "phase", "action"),
    [
        (1, "uploads", "die"),  # before cloud 2 has heard of them
        (1, "open", "Ray dies"),  # when they are told of cloud 2's
        (1, "assign", "Ray dies"),
        (2, "open", "die"),
        (2, "assign", "Ray dies"),
    ],
)
def test_workers_that_die_while_they_start_or_all_at_once_are_replaced(cloud, phase, action):
    fault = Fault(f"worker{cloud} call", 1, action, phase)
    schedule = replace(long_job(), pairs=2, withdraws=0)
    verdict = played(with_faults(schedule, [fault]))
    assert verdict.struck == [fault]
    assert not verdict.bad, verdict
    once = 2 + 2 * len(schedule.tables)  # create, run; each owner uploads and fetches
    assert verdict.tries == once, "the job went on by itself"
