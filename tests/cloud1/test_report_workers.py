"""Reports counted by workers: the same result as in one process, whoever dies."""

import numpy as np
import pytest

from cloud1 import collector
from cloud1.collector import collect
from cloud1.report_workers import ReportsOnWorkers, ReportWorker
from ppodc.cluster.workers import RAY_DIED
from ppodc.errors import InputError, JobFailedError, StepFailedError
from ppodc.local_dp.job import Job
from ppodc.local_dp.kind import form_of
from ppodc.service.job_state import JobState
from ppodc.spec import Spec
from tests.cloud1.one_server import CATEGORIES, categories, numbers, numbers_spec
from tests.harness.thread_workers import ThreadWorkers, WorkerDiedError

JOBS = {
    "codebook": numbers_spec("counted"),
    "privbv": numbers_spec("counted", mechanism="privbv", epsilon=10.0, k=3),
    "joint": Spec("counted", CATEGORIES, Job(2, 6.0, "joint", seed=1)),
}


def worker_threads(adapt=lambda worker: None):
    return ThreadWorkers(adapt)


def uploaded(server, mechanism, rows=400):
    server.create(JOBS[mechanism])
    data = categories(rows, 3) if mechanism == "joint" else numbers(rows, 1)
    with server.owner("ann") as ann:
        ann.upload("counted", data, progress=False)


@pytest.mark.parametrize("mechanism", JOBS)
def test_workers_come_to_the_same_result(server, mechanism, monkeypatch):
    """Many small chunks, and the second call of every worker that was there first ends in death."""
    uploaded(server, mechanism)
    spec = server.store.datasets.spec("counted")
    part = form_of(spec).mechanism.part
    monkeypatch.setattr(
        collector, "_CHUNK_BYTES", 40 * part.columns * np.dtype(part.dtype).itemsize
    )
    (upload,) = server.store.uploads.of("counted")
    server.store.seals.seal("counted", [upload.upload_id])
    deaths = []

    def mortal(worker):
        tally, calls = worker.tally, []

        def dies(chunk, found):
            calls.append(len(chunk))
            if len(calls) == 2 and len(deaths) < 2:
                deaths.append(worker)
                raise WorkerDiedError
            return tally(chunk, found)

        worker.tally = dies

    def chunks():
        sealed = server.store.seals.sealed("counted")
        return collector._chunks(server.store, sealed, lambda done, m: None)

    with ReportsOnWorkers(worker_threads(mortal), 3, spec, chunks) as reports:
        found = collector.make_result(spec, reports, upload.rows)
    assert len(deaths) == 2
    collect(server.store, "counted")
    kept = server.store.results.half("counted")
    assert found.facts == kept.facts
    assert np.array_equal(found.halves["clusters"].data, kept.halves["clusters"].data)


def test_the_collector_counts_on_its_cluster(server):
    uploaded(server, "codebook", 300)
    end = collect(server.store, "counted", workers=worker_threads(), count=2)
    assert end.m == 300
    assert server.store.jobs.get("counted").state == JobState.DONE


class RayThatDies(ThreadWorkers):
    """Its first workers are all lost, and then more, by this many deaths of Ray."""

    def __init__(self, lost, deaths):
        super().__init__(lambda worker: None)
        self._lost, self._deaths, self._seen = lost, deaths, 0

    def deaths(self):
        return min(self._seen, self._deaths)

    def outcome(self, reference):
        outcome = super().outcome(reference)
        self._seen += 1
        return RAY_DIED if self._seen <= self._lost else outcome


def test_a_ray_that_dies_counts_once_however_many_workers_it_had():
    spec = JOBS["codebook"]
    part = form_of(spec).mechanism.part
    chunk = np.zeros((4, part.columns), part.dtype)

    def total(workers):
        with ReportsOnWorkers(workers, 6, spec, lambda: iter([chunk] * 12)) as reports:
            reports.total()
            return reports._deaths

    assert total(RayThatDies(lost=6, deaths=1)) == 1
    assert total(RayThatDies(lost=12, deaths=2)) == 2
    with pytest.raises(StepFailedError, match="Ray died"):
        total(RayThatDies(lost=12, deaths=12))


def test_a_pass_that_cannot_be_counted_fails_and_can_be_run_again(server):
    uploaded(server, "codebook", 300)

    def broken(worker):
        def fails(chunk, found):
            raise WorkerDiedError

        worker.tally = fails

    with pytest.raises(JobFailedError, match="a worker process died"):
        collect(server.store, "counted", workers=worker_threads(broken), count=2)
    assert server.store.jobs.get("counted").state == JobState.FAILED
    assert collect(server.store, "counted").m == 300


def test_an_input_that_is_wrong_is_not_tried_again():
    spec = JOBS["codebook"]

    def refusing(worker):
        def fails(chunk, found):
            raise InputError("a chunk that nobody can count")

        worker.tally = fails

    reports = np.zeros(
        (4, form_of(spec).mechanism.part.columns), form_of(spec).mechanism.part.dtype
    )
    with ReportsOnWorkers(worker_threads(refusing), 1, spec, lambda: iter([reports])) as counted:
        with pytest.raises(StepFailedError, match="nobody can count"):
            counted.total()
        assert counted._deaths == 1
    assert ReportWorker(spec.canonical()).progress() == 0
