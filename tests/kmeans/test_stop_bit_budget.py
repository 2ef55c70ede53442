"""Stop bits of a dataset are counted in the ledger of each cloud, restarts included."""

import pytest

from ppodc.errors import BudgetError
from ppodc.kmeans import steps
from ppodc.kmeans.job import Job
from ppodc.pairs.cloud_job import CloudJob
from tests.harness.cloud_jobs import NAME, TwoCloudJobs, two_cloud_jobs


def from_the_start(both: TwoCloudJobs) -> None:
    """New processes at both clouds, and no checkpoint named."""
    for side in both.sides:
        side.close()
        fresh = CloudJob(side.store, side.workers, NAME, "shares", 2, 1)
        fresh.restore(None)
        side.walk, side._current, side._opened = fresh.walk, None, fresh._opened
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


def test_a_job_without_stop_bits_has_no_budget_to_spend(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "REPEATED", -1)
    with two_cloud_jobs(tmp_path, job=Job(k=2, iterations=1, min_size=1)) as both:
        for _ in range(2):
            both.run_until("update")
            both.step()
            from_the_start(both)
        assert both.run()[-1] == "output"
