"""The lab by hand, on one machine: a head without workers and a node for each cloud.

`ray job submit -- ppodc run` starts a job, a node of it is lost, and `ppodc resume`, submitted the
same way, brings it to its end. Commands are those of cluster_configs/lab_cluster, addresses aside.
"""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ppodc.cluster.offspring import end_session
from ppodc.local.platform import free_ports
from ppodc.service.job_state import JobState
from tests.end_to_end.two_services import TwoServices, slow_job
from tests.harness.patience import LONG, wait_for

_PAUSE = 2.0  # `ray status` takes seconds of CPU, which those need who are waited for
PROGRAM = [sys.executable, "-m", "ppodc.cli"]
# Ray's own command. The setting that keeps it to loopback also forbids a second node: that check
# alone is passed over.
_COMMAND = """
from types import SimpleNamespace
from ray.scripts import scripts
known = vars(scripts.ray_constants)
scripts.ray_constants = SimpleNamespace(**{**known, "ENABLE_RAY_CLUSTER": True})
scripts.cli(prog_name="ray")
"""
RAY = [sys.executable, "-c", _COMMAND]


class Lab:
    """Nodes as `ray_start.sh` starts them, each a session of processes of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        token = folder / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        port, self._dashboard = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self.environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback alone
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        self._sessions: list[subprocess.Popen[bytes]] = []

    def head(self) -> None:
        host, _, port = self.address.partition(":")
        self._until(
            lambda: self._said("status").startswith("===="),
            "--head", f"--node-ip-address={host}", f"--port={port}", "--num-cpus=0",
            "--dashboard-host=127.0.0.1", f"--dashboard-port={self._dashboard}",
        )  # fmt: skip

    def node(self, cloud: str) -> "subprocess.Popen[bytes]":
        """A node with one worker of this cloud, once the head knows it."""
        return self._until(
            lambda: self.offers(cloud),
            f"--address={self.address}", f'--resources={{"{cloud}": 1}}',
            "--node-ip-address=127.0.0.1",
        )  # fmt: skip

    def _until(self, ready: Callable[[], bool], *arguments: str) -> "subprocess.Popen[bytes]":
        """A session that is ready.

        Ray gives one half a minute to start. On a busy machine that is tried again.
        """
        started: list[subprocess.Popen[bytes]] = []

        def known() -> bool:
            if not started or started[-1].poll() is not None:
                started.append(self._start(*arguments))
            return ready()

        wait_for(known, _PAUSE)
        return started[-1]

    def _start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        listen, grpc = free_ports(2)  # several nodes share this machine
        own = [f"--dashboard-agent-listen-port={listen}", f"--dashboard-agent-grpc-port={grpc}"]
        memory = "--object-store-memory=100000000"
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*RAY, "start", "--block", *arguments, *own, memory,
                 f"--temp-dir={self._folder / 'files'}", "--disable-usage-stats"],
                env={**os.environ, **self.environment},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._sessions.append(process)
        return process

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        end_session(process.pid)
        process.wait()

    def submit(self, *command: str, wait: bool) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*RAY, "job", "submit", *(() if wait else ("--no-wait",)),
             "--address", f"http://127.0.0.1:{self._dashboard}", "--", *PROGRAM, *command],
            env={**os.environ, **self.environment},
            capture_output=True, text=True, timeout=LONG, check=False,
        )  # fmt: skip

    def offers(self, cloud: str) -> bool:
        return f"1.0 {cloud}" in self._said("status")

    def _said(self, command: str) -> str:
        done = subprocess.run(
            [*RAY, command, "--address", self.address],
            env={**os.environ, **self.environment},
            capture_output=True, text=True, timeout=LONG, check=False,
        )  # fmt: skip
        return done.stdout

    def log(self) -> str:
        """The last words of all nodes."""
        return (self._folder / "log").read_text(errors="replace")[-10_000:]

    def stop(self) -> None:
        for process in reversed(self._sessions):
            self.end(process)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)  # of another test's Ray
    with tempfile.TemporaryDirectory(prefix="t") as place, ExitStack() as last:
        running = Lab(Path(place))
        last.callback(lambda: sys.stdout.write(running.log()))  # seen if the test fails
        last.callback(running.stop)
        running.head()
        yield running


def test_a_submitted_job_loses_a_node_and_is_resumed(lab: Lab, tmp_path: Path):
    lab.node("cloud1")
    second = lab.node("cloud2")
    services = TwoServices(
        tmp_path / "parties",
        dict.fromkeys(("cloud1", "cloud2"), lab.address),
        dict.fromkeys(("cloud1", "cloud2"), lab.environment),
        owners=2,
    )
    config = ("--config", str(services.parties.party("cloud1").config))
    spec, tables = slow_job("submitted")
    try:
        for party in ("cloud1", "cloud2"):
            services.start(party)
        services.upload(spec, tables)
        told = lab.submit("run", "submitted", *config, "--pairs", "1", wait=False)
        assert told.returncode == 0, told.stdout + told.stderr
        with services.store("cloud1") as store:
            wait_for(lambda: max(store.jobs.checkpoints("submitted"), default=0) >= 1)
            lab.end(second)
            wait_for(lambda: store.jobs.get("submitted").state is JobState.FAILED)
        wait_for(lambda: not lab.offers("cloud2"), _PAUSE)
        lab.node("cloud2")
        told = lab.submit("resume", "submitted", *config, "--pairs", "1", wait=True)
        assert told.returncode == 0, told.stdout + told.stderr
        services.check(spec, tables)
    finally:
        services.stop()
