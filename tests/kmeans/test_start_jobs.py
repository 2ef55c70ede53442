"""Whole jobs with chosen starts, several starts and several k, two clouds in this process."""

from dataclasses import replace

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.kinds import cloud_side, owner_side
from ppodc.kmeans.job import Job
from ppodc.kmeans.kind import KIND
from ppodc.pairs.cloud_job import CloudJob
from ppodc.records.result_shares import OpenedResult, open_output
from tests.harness.cloud_jobs import NAME, RECORDS, TwoCloudJobs, two_cloud_jobs
from tests.kmeans.expected import expected, is_exact

SPREAD = Job(k=3, init="k-means++", seed=4, labels=True, min_size=2, max_iter=20)
STARTS = replace(SPREAD, n_init=3, inertia=True)
EVERYTHING = replace(STARTS, n_init=2, ks=(1, 3), max_iter=2)


def result_of(both: TwoCloudJobs):
    """The result of the one owner."""
    halves = [side.store.results.half(NAME) for side in both.sides]
    assert halves[0].facts == halves[1].facts
    values = {name: open_output(*(h.halves[name] for h in halves)) for name in halves[0].halves}
    rows = {}
    for name in KIND.row_outputs(both.first.spec):
        kept = [side.plan.labels for side in both.sides]
        k = int(name.partition("-")[2] or both.first.plan.job.k)
        rows[name] = open_output(*(labels[k] for labels in kept))
    return owner_side(both.first.spec).open_result(OpenedResult(halves[0].facts, values, rows))


def check(both: TwoCloudJobs, records: np.ndarray = RECORDS) -> None:
    job = both.first.plan.job
    assert is_exact(job, [result_of(both)], expected(job, records))


def killed(both: TwoCloudJobs) -> None:
    """Both clouds lose everything but their stores, and go on from what these hold."""
    kept = both.first.store.jobs.checkpoints(NAME).items()
    for side in both.sides:
        again = CloudJob(side.store, side.workers, NAME, "shares", 2, 1)
        side.close()
        again.restore(again.resume_point(kept))
        side.walk = again.walk
    for slot in range(both.first.pairs):
        both.pair(slot)


@pytest.mark.parametrize("job", [SPREAD, STARTS, EVERYTHING, replace(STARTS, init="random")])
def test_a_job_gives_what_the_reference_gives(tmp_path, job):
    with two_cloud_jobs(tmp_path, job=job) as both:
        names = both.run()
        check(both)
    starts = job.n_init if job.init == "k-means++" else 0
    assert names.count("spread") == names.count("pick") == starts * (job.k - 1)
    assert names.count("better") == (job.n_init - 1) * len(job.clusters)
    assert names.count("tally") == (len(job.clusters) if job.inertia else 0)


@pytest.mark.parametrize("least", [2, 6, 9])
def test_the_inertia_is_that_of_the_clusters_that_are_told(tmp_path, least):
    job = replace(SPREAD, inertia=True, min_size=least)
    with two_cloud_jobs(tmp_path, job=job) as both:
        both.run()
        check(both)
        result = result_of(both)
    assert (result.sizes_ == 0).any() == (least > 2)
    points = [RECORDS[result.labels_ == h] for h in range(3) if result.sizes_[h]]
    plain = sum(((part - part.mean(axis=0)) ** 2).sum() for part in points)
    assert float(result.inertia_) == pytest.approx(plain)


def test_equal_records_and_as_many_clusters_as_records(tmp_path):
    records = np.full((4, 2), 7)
    job = Job(k=4, init="k-means++", n_init=2, inertia=True, labels=True, min_size=1)
    with two_cloud_jobs(tmp_path, records, job) as both:
        both.run()
        check(both, records)
        assert result_of(both).inertia_ == 0


def test_new_workers_in_the_middle_of_a_start(tmp_path):
    """A worker that is new makes the distances again, also between the sums and the choice."""
    with two_cloud_jobs(tmp_path, job=STARTS) as both:
        seen = 0
        while both.first.walk.next_step() is not None and seen < 4:
            if both.first.walk.next_step().name in ("spread", "pick"):
                both.pair(seen % 2)
                seen += 1
            both.step()
        both.run()
        check(both)


def test_killed_after_every_iteration(tmp_path):
    with two_cloud_jobs(tmp_path, job=EVERYTHING) as both:
        done = 0
        while both.first.walk.next_step() is not None:
            both.step()
            if both.first.plan.iteration > done:
                done = both.first.plan.iteration
                killed(both)
                assert both.first.plan.iteration == done
        both.run()
        check(both)


def test_killed_before_the_better_start_is_known_and_at_the_end(tmp_path):
    with two_cloud_jobs(tmp_path, job=STARTS) as both:
        for name in ("better", "tally", "labels", "output"):
            while both.first.walk.next_step().name != name:
                both.step()
            killed(both)
        both.run()
        check(both)


def test_the_steps_of_the_other_suite_are_refused(tmp_path):
    with two_cloud_jobs(tmp_path) as both:
        for job, words in [
            (SPREAD, 'init = "k-means\\+\\+" needs the suite'),
            (replace(SPREAD, init="random", n_init=2), "n_init needs"),
            (replace(SPREAD, init="random", inertia=True), "inertia needs"),
            (replace(SPREAD, init="random", ks=(2, 3)), "several of k needs"),
        ]:
            spec = replace(both.first.spec, job=job)
            with pytest.raises(InputError, match=words):
                cloud_side(spec).check(14, "paillier", 2048)
            cloud_side(spec).check(14, "shares", 2048)


def test_what_an_owner_agrees_to_is_in_words():
    words = " ".join(EVERYTHING.describe())
    for part in (
        "1 or 3 clusters",
        "far apart",
        "2 times",
        "inertia",
        "Nobody learns which",
        "too small",
    ):
        assert part in words
    assert "inertia" not in " ".join(Job(k=2).describe())
