"""A deployment of real services and a Ray for each cloud, in which processes are hit at random.

Everything is started by the command, as an operator would, and carries a mark in its environment:
whoever has it was started here, also when its own starter is long gone. Only such processes are hit
and counted.
"""

import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ppodc.bench import machine
from ppodc.bench.machine import Process
from ppodc.cluster.offspring import end_with_starter
from ppodc.errors import PpodcError
from ppodc.local.platform import free_ports
from ppodc.service import deployment

CLOUDS = ("cloud1", "cloud2")
PAIRS = 2
_KEY_BITS = 512  # faults are not in the arithmetic
_PPODC = (sys.executable, "-P", "-m", "ppodc.cli")
_PAUSE_SECONDS = (1.0, 8.0)
_START_SECONDS = 60.0
_RESTART_SECONDS = 0.5
# Who may be hit, by a part of its command line.
TARGETS = {
    "service of cloud 1": "ppodc.cli cloud1 serve",
    "service of cloud 2": "ppodc.cli cloud2 serve",
    "master": "ppodc.cli r",  # run or resume
    "worker of cloud 1": "ray::Worker1",
    "worker of cloud 2": "ray::Worker2",
    "driver of Ray": "ppodc.cluster.ray_driver",
    "raylet of Ray": "raylet/raylet",
    "GCS of Ray": "gcs/gcs_server",
}


@dataclass(frozen=True, slots=True)
class Footprint:
    """What the processes of the deployment hold between two jobs."""

    processes: int
    memory: int  # bytes of both services
    files: int  # descriptors of both services, sockets among them
    sockets: int
    threads: int


class SoakWorld:
    """Both services, a master at a time, and somebody who hits them."""

    def __init__(self, folder: Path, owners: int) -> None:
        self.folder = folder
        self._mark = f"PPODC_SOAK={secrets.token_hex(16)}"
        name, _, value = self._mark.partition("=")
        self._environment = {**os.environ, name: value}
        ports = free_ports(3)
        self.made = deployment.create(
            folder / "deployment",
            owners,
            cloud1_listen=f"tcp://127.0.0.1:{ports[0]}",
            cloud2_listen=f"tcp://127.0.0.1:{ports[1]}",
            cloud2_listen_control=f"tcp://127.0.0.1:{ports[2]}",
            insecure_key_bits=_KEY_BITS,
            pairs=PAIRS,
            suites=("shares", "paillier"),
        )
        self._services: dict[str, subprocess.Popen[str]] = {}
        self._over, self._first_start = threading.Event(), threading.Event()
        # One thread starts all services: they end with the thread that started them.
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> "SoakWorld":
        self._keeper.start()
        if not self._first_start.wait(_START_SECONDS):
            raise PpodcError(f"the services did not start within {_START_SECONDS:g} s.")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for process in self.processes():  # nothing shall stay, whatever was counted
            _signal(process.pid, signal.SIGKILL)

    def stop(self) -> int:
        """Stop the services in order; how many processes are left after a while."""
        self._over.set()
        self._keeper.join()
        for process in self._services.values():
            process.terminate()
        deadline = time.monotonic() + _START_SECONDS
        while self.processes() and time.monotonic() < deadline:
            for process in self._services.values():
                process.poll()  # a zombie is nobody's leak
            time.sleep(0.2)
        return len(self.processes())

    def _keep(self) -> None:
        """Start the services, and start them again, as systemd would."""
        while not self._over.is_set():
            for cloud in reversed(CLOUDS):
                process = self._services.get(cloud)
                if process is None or process.poll() is not None:
                    self._services[cloud] = self._start(cloud)
            self._first_start.set()
            self._over.wait(_RESTART_SECONDS)

    def processes(self) -> list[Process]:
        """All that was started here and runs."""
        return machine.marked(self._mark)

    def footprint(self) -> Footprint:
        """What is held now."""
        pids = [process.pid for process in self._services.values()]
        links = [link for pid in pids for link in machine.open_files(pid)]
        return Footprint(
            len(self.processes()),
            sum(machine.resident_bytes(pid) for pid in pids),
            len(links),
            sum(link.startswith("socket:") for link in links),
            sum(machine.threads(pid) for pid in pids),
        )

    def master(self, command: str, dataset: str, *options: str, seconds: float) -> tuple[int, str]:
        """`ppodc run` or `ppodc resume`: (exit code, last words); -1 if it took too long."""
        config = ("--config", str(self.made.party("cloud1").config))
        process = self._popen(command, dataset, *options, *config, stderr=subprocess.PIPE)
        try:
            _, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return -1, f"it took over {seconds:g} s"
        lines = said.strip().splitlines()
        return process.returncode, lines[-1] if lines else "it was killed"

    @contextlib.contextmanager
    def under_fire(
        self, chance: random.Random, shots: int, seconds: float
    ) -> Iterator[Counter[str]]:
        """So many shots at random targets, spread over so many seconds, or until the block ends."""
        over, hits = threading.Event(), Counter[str]()
        moments = sorted(chance.uniform(0, seconds) for _ in range(shots))
        plans = [(moment, chance.choice(list(TARGETS)), chance.random()) for moment in moments]
        thread = threading.Thread(target=self._fire, args=(plans, over, hits), daemon=True)
        thread.start()
        try:
            yield hits
        finally:
            over.set()
            thread.join()

    def _fire(
        self, plans: list[tuple[float, str, float]], over: threading.Event, hits: Counter[str]
    ) -> None:
        began = time.monotonic()
        for moment, target, lot in plans:
            if over.wait(max(0.0, began + moment - time.monotonic())):
                return
            alive = [p.pid for p in self.processes() if TARGETS[target] in p.title]
            if not alive:
                continue
            pid = alive[int(lot * 1000) % len(alive)]
            if lot < 0.6:
                hits[f"kill -9: {target}"] += _signal(pid, signal.SIGKILL)
            else:
                least, most = _PAUSE_SECONDS
                hits[f"stopped for a while: {target}"] += _signal(pid, signal.SIGSTOP)
                over.wait(least + (most - least) * (lot - 0.6) / 0.4)
                _signal(pid, signal.SIGCONT)

    def _start(self, cloud: str) -> "subprocess.Popen[str]":
        config = ("--config", str(self.made.party(cloud).config))
        with (self.made.party(cloud).folder / "service.log").open("a") as log:
            process = self._popen(cloud, "serve", *config, stdout=subprocess.PIPE, stderr=log)
        said = process.stdout.readline() if process.stdout is not None else ""
        if not said:
            raise PpodcError(f"{cloud} did not start again; its service.log says why.")
        return process

    def _popen(
        self, *arguments: str, stdout: int = subprocess.DEVNULL, stderr: "int | IO[str]"
    ) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*_PPODC, *arguments],
            env=self._environment,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=end_with_starter,
        )


def _signal(pid: int, number: int) -> bool:
    """Whether the process was still there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
