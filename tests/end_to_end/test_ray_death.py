"""Ray's own processes are killed: the job goes on by itself, the gateways do not notice, and
nothing is left behind; a foreign cluster that is gone is named."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from client.operator import Operator
from cloud1.report_workers import ReportWorker
from ppodc.cluster import ray_workers
from ppodc.cluster.driver_process import DriverProcess
from ppodc.cluster.ray_cluster import RayPlacement
from ppodc.cluster.ray_workers import RayWorkers
from ppodc.cluster.workers import RAY_DIED, in_background
from ppodc.errors import RayUnusableError
from ppodc.local.platform import free_ports
from tests.cloud1.one_server import numbers_spec
from tests.end_to_end.foreign_cluster import ForeignCluster
from tests.end_to_end.two_services import TwoServices, ancestors, slow_job
from tests.harness.patience import wait_for


@pytest.fixture
def temporary(monkeypatch):
    """A place of its own for Ray's folders; short, for its sockets."""
    with tempfile.TemporaryDirectory(prefix="t") as place:
        monkeypatch.setenv("TMPDIR", place)
        monkeypatch.setattr(tempfile, "tempdir", place)
        monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)  # of another test's Ray
        yield Path(place)


def ray_processes(root: int, name: str = "") -> list[int]:
    """Processes below this one whose program is of Ray, such as raylet."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            program = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        if name in program and "ray" in program and root in ancestors(int(entry.name)):
            found.append(int(entry.name))
    return found


def kill_one(root: int, name: str, number: int = signal.SIGKILL) -> None:
    """Send a signal to the one process below this one that has this name, once it is there."""
    wait_for(lambda: ray_processes(root, name))
    (pid,) = ray_processes(root, name)
    os.kill(pid, number)


def test_a_job_outlives_the_rays_of_both_clouds(tmp_path: Path, temporary: Path):
    services = TwoServices(
        tmp_path / "parties",
        dict.fromkeys(("cloud1", "cloud2"), "local"),
        {"cloud1": {}, "cloud2": {}},
        owners=2,
    )
    spec, tables = slow_job("outlives", iterations=300)  # on one pair each takes a few ms
    try:
        for party in ("cloud1", "cloud2"):
            services.start(party)
        gateway = services.processes["cloud2"].pid
        services.upload(spec, tables)
        master = services.master("outlives", "shares", 1)
        master.until("starting 0")
        kill_one(master.process.pid, "raylet/raylet")
        master.until("iterate 1")
        kill_one(gateway, "gcs_server")
        with Operator.connect(services.parties.party("operator").config) as operator:
            assert [entry.name for entry in operator.datasets()] == ["outlives"]
        master.until("iterate 2")
        kill_one(master.process.pid, "gcs_server")
        kill_one(master.process.pid, "ray::Worker1")  # so that the job needs Ray before its end
        code, said = master.end()
        assert code == 0, said
        assert "\x1b" not in said
        services.check(spec, tables)
        with services.store("cloud1") as store:
            assert store.figures.all()["ray_deaths"] >= 1
        assert services.processes["cloud2"].poll() is None
    finally:
        services.stop()
    assert not ray_processes(os.getpid(), str(temporary))
    assert not list(temporary.glob("ppodc-ray-*"))


def test_a_ray_of_our_own_is_replaced_when_it_dies(monkeypatch, temporary: Path, caplog):
    monkeypatch.setenv("RAY_health_check_initial_delay_ms", "0")
    others = set(ray_processes(os.getpid(), "gcs_server"))
    workers = RayWorkers(RayPlacement("local", "cloud2", 1))
    checked = in_background(workers.check, 1)
    wait_for(lambda: not others.issuperset(ray_processes(os.getpid(), "gcs_server")))
    (gcs,) = set(ray_processes(os.getpid(), "gcs_server")) - others
    os.kill(gcs, signal.SIGKILL)  # while it starts
    assert checked.result() is None
    for name, number in (("gcs_server", signal.SIGKILL), ("raylet/raylet", signal.SIGSTOP)):
        driver = workers._driver
        assert driver is not None
        kill_one(driver.pid, name, number)  # while nobody asks for anything
        wait_for(lambda driver=driver: not driver.alive)
        assert not ray_processes(driver.pid)
        workers.check(1)
        assert workers._driver is not driver
    assert "its raylet does not answer" in caplog.text
    assert workers.deaths() in (2, 3), "that of a start may be a refusal"
    workers.close()
    assert not list(temporary.iterdir())


def test_a_foreign_cluster_is_left_when_it_is_broken_and_used_when_it_is_whole(
    monkeypatch, temporary: Path, caplog
):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(temporary / "token"))
    monkeypatch.setenv("RAY_gcs_server_request_timeout_seconds", "10")
    spec = numbers_spec("counted").canonical()
    with ForeignCluster.start(temporary) as cluster:
        cluster.add_node()
        with RayWorkers(RayPlacement(cluster.address, "cloud2", 1), silent=10.0) as workers:
            workers.check(1)
            first = workers._driver
            assert first is not None

            os.kill(cluster.raylet, signal.SIGKILL)  # the GCS lives
            wait_for(lambda: not first.alive)
            assert f"'{cluster.address}' died: " in caplog.text
            assert first.call("both_clouds").result() == RAY_DIED
            assert workers.nodes() == 0
            assert workers.deaths() == 1
            with pytest.raises(RayUnusableError, match=f"{cluster.address}.* node on this machine"):
                workers.check(1)

            cluster.add_node()
            workers.check(1)
            worker = workers.start(ReportWorker, spec)
            assert workers.outcome(workers.watch(worker)) == 0, "it was started"
            wait_for(lambda: workers.nodes() == 1)

            second = workers._driver
            assert second is not None
            cluster.kill()
            wait_for(lambda: not second.alive)
            missing = f"no Ray head of cloud2 .*{cluster.address}"
            with pytest.raises(RayUnusableError, match=missing):
                workers.check(1)
            assert workers.nodes() == 0
            assert workers.deaths() >= 2, "a driver that waits for the broken cluster may die too"


def test_a_dead_cluster_that_was_to_be_found_is_named_at_once(monkeypatch):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    started = []
    monkeypatch.setattr(ray_workers, "DriverProcess", _noted(DriverProcess, started))
    with pytest.raises(RayUnusableError, match=f"no Ray head of cloud2 listens at {address}"):
        RayWorkers(RayPlacement("auto", "cloud2", 1)).check(1)
    assert len(started) == 1, "nobody else's Ray is tried twice"


def _noted(make, made):
    def noted(*arguments):
        made.append(make(*arguments))
        return made[-1]

    return noted
