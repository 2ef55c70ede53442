"""Whatever process is killed, and whenever: the job ends with the reference's result, by itself or
after `resume`, or it stops with a message that says what to do."""

import contextlib
import os
import random
import signal
import threading
import time

import pytest

from master.job import cancel_job, status
from ppodc.cluster.ray_head import LocalRay
from ppodc.errors import JobFailedError
from ppodc.service.job_state import JobState
from tests.end_to_end.two_services import (
    Once,
    TwoServices,
    kill_worker,
    make_spec,
    make_tables,
    reference,
    slow_job,
    workers,
)
from tests.harness.patience import wait_for

ROWS = (13, 11)
MOMENTS = {
    1: ["ingest 0", "start 0", "iterate 1", "iterate 2", "iterate 3"],
    2: ["ingest 0", "start 0", "assign 1", "update 1", "assign 2", "update 2", "assign 3"],
}


def prepare(services: TwoServices, name: str):
    spec, tables = make_spec(name, 2, k=3), make_tables(17, ROWS, 2)
    assert reference(spec, tables).n_iter >= 4
    services.upload(spec, tables)
    return spec, tables


@pytest.mark.parametrize(
    ("name", "title", "phase", "iteration"),
    [
        ("c1-worker", "ray::Worker1", "assign", 2),
        ("before-labels", "ray::Worker2", "output", 4),
    ],
)
def test_a_lost_worker_is_replaced(
    services: TwoServices, ray_head: LocalRay, name, title, phase, iteration
):
    spec, tables = prepare(services, name)
    if phase == "output":
        iteration = reference(spec, tables).n_iter
    fault = Once(phase, iteration, lambda: kill_worker(ray_head, title))
    services.run(name, progress=fault)
    assert fault.done
    services.check(spec, tables)


def test_a_stalled_link_is_given_up(services: TwoServices, ray_head: LocalRay):
    spec, tables = prepare(services, "stalled")
    stop = Once("iterate", 1, lambda: kill_worker(ray_head, "ray::Worker2", signal.SIGSTOP))
    services.run("stalled", pairs=1, progress=stop)
    assert stop.done
    services.check(spec, tables)


def test_a_restarted_cloud2_goes_on_from_its_checkpoint(services: TwoServices):
    def restart():
        services.kill("cloud2")
        services.start("cloud2")

    spec, tables = prepare(services, "restarted")
    fault = Once("assign", 3, restart)
    services.run("restarted", progress=fault)
    assert fault.done
    services.check(spec, tables)


def test_a_job_that_keeps_failing_stops_with_advice_and_resumes(
    services: TwoServices, ray_head: LocalRay
):
    spec, tables = prepare(services, "hopeless")
    over = threading.Event()

    def kill_all():
        while not over.wait(0.05):
            for worker in workers(ray_head, "ray::Worker1"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)

    killer = threading.Thread(target=kill_all)
    try:
        with pytest.raises(JobFailedError, match=r"stopped: .*ppodc resume hopeless"):
            services.run("hopeless", pairs=1, progress=Once("iterate", 1, killer.start))
    finally:
        over.set()
        killer.join()
    assert status(services.config1, "hopeless").job.state == JobState.FAILED
    services.resume("hopeless")
    services.check(spec, tables)


def test_a_terminated_master_leaves_a_job_that_resumes(services: TwoServices, ray_head: LocalRay):
    spec, tables = slow_job("terminated")
    services.upload(spec, tables)
    master = services.master("terminated", "shares", 2)
    master.until("update 2")
    code, _ = master.end(signal.SIGTERM)
    assert code != 0
    for party in ("cloud1", "cloud2"):
        with services.store(party) as store:
            assert store.jobs.get("terminated").state == JobState.FAILED
            assert "stopped by the operator" in store.jobs.get("terminated").message
    wait_for(lambda: not workers(ray_head, "ray::Worker"))
    services.resume("terminated")
    services.check(spec, tables)


def test_cancel_ends_the_job_at_both_clouds(services: TwoServices):
    prepare(services, "cancelled")
    cancel = Once("assign", 1, lambda: cancel_job(services.config1, "cancelled") and None)
    end = services.run("cancelled", progress=cancel).figures()
    assert (end["state"], end["n_iter"], end["converged"]) == (JobState.CANCELLED, 0, False)
    for party in ("cloud1", "cloud2"):
        with services.store(party) as store:
            assert store.jobs.get("cancelled").state == JobState.CANCELLED
            assert not store.results.has("cancelled")


@pytest.mark.parametrize(
    ("pairs", "victim"),
    [(2, "master"), (2, "cloud2"), (1, "master"), (1, "cloud2"), (1, "ray::Worker2")],
)
def test_random_faults(services: TwoServices, ray_head: LocalRay, pairs: int, victim: str):
    plan = random.Random(f"faults {pairs} {victim}")
    moment, delay = plan.choice(MOMENTS[pairs]), plan.uniform(0, 0.3)
    name = f"random-{pairs}-{victim.rpartition(':')[2].lower()}"
    spec, tables = prepare(services, name)
    master = services.master(name, "shares", pairs)
    master.until(moment)
    time.sleep(delay)
    if victim == "master":
        master.process.kill()
    elif victim.startswith("ray::"):
        if workers(ray_head, victim):
            kill_worker(ray_head, victim)
    else:
        services.kill(victim)
        services.start(victim)
    code, said = master.end()
    if code != 0:
        assert victim == "master" or "ppodc resume" in said
        services.resume(name)
    services.check(spec, tables)
