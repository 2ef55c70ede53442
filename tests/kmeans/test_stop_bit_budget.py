"""Stop bits of a dataset are counted in the ledger of each cloud, restarts included."""

import pytest

from ppodc.errors import BudgetError
from ppodc.kmeans import steps
from ppodc.kmeans.job import Job
from ppodc.pairs.cloud_job import CloudJob
from tests.harness.cloud_jobs import NAME, TwoCloudJobs, two_cloud_jobs


def from_the_start(both: TwoCloudJobs, pairs: int = 2) -> None:
    """New processes at both clouds, and no checkpoint named."""
    for side in both.sides:
        side.close()
        fresh = CloudJob(side.store, side.workers, NAME, "shares", pairs, 1)
        fresh.restore(None)
        side.walk, side._current, side._opened = fresh.walk, None, fresh._opened
        side.pairs, side._announced = fresh.pairs, None
    for slot in range(both.first.pairs):
        both.pair(slot)


@pytest.mark.parametrize("cheated", [0, 1])
def test_a_restart_beyond_the_budget_is_refused(tmp_path, monkeypatch, cheated):
    """A cloud that begins anew gets one bit of its choice each time, until the budget is spent."""
    monkeypatch.setattr(steps, "REPEATED", 1)
    with two_cloud_jobs(tmp_path, job=Job(k=2, max_iter=1, min_size=1)) as both:
        for _ in range(2):
            both.run_until("update")
            both.step()
            from_the_start(both)
        both.run_until("update")
        honest = both.sides[cheated]
        with pytest.raises(BudgetError, match="has begun 'update' 2 times, restarts included"):
            honest.begin(honest.walk.next_step(), 1, [0])


def test_iterations_of_one_step_and_of_two_have_one_budget(tmp_path, monkeypatch):
    """Whoever goes on with another number of pairs gets no further stop bits by it."""
    monkeypatch.setattr(steps, "REPEATED", 1)
    with two_cloud_jobs(tmp_path, job=Job(k=2, max_iter=1, min_size=1), pairs=1) as both:
        both.run_until("iterate")
        both.step()
        from_the_start(both, pairs=2)
        both.run_until("update")
        both.step()
        for pairs, name in ((1, "iterate"), (2, "update")):
            from_the_start(both, pairs)
            both.run_until(name)
            for side in both.sides:
                with pytest.raises(BudgetError, match=f"has begun '{name}' 2 times"):
                    side.begin(side.walk.next_step(), 1, [0])


def test_what_was_announced_counts_though_a_kill_prevents_it(tmp_path, monkeypatch):
    """The ledger cannot know how far a worker came."""
    monkeypatch.setattr(steps, "REPEATED", 1)
    with two_cloud_jobs(tmp_path, job=Job(k=2, max_iter=1, min_size=1), pairs=1) as both:
        for _ in range(2):
            both.run_until("iterate")
            from_the_start(both, pairs=1)
        both.run_until("iterate")
        with pytest.raises(BudgetError, match="restarts included"):
            both.first.begin(both.first.walk.next_step(), 1, [0])


def test_a_job_without_stop_bits_has_no_budget_to_spend(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "REPEATED", -1)
    with two_cloud_jobs(tmp_path, job=Job(k=2, iterations=1, min_size=1)) as both:
        for _ in range(2):
            both.run_until("update")
            both.step()
            from_the_start(both)
        assert both.run()[-1] == "output"
