"""A deployment of real services with a Ray for each cloud, whose processes a soak kills and counts.

Two clouds and a collector are started by the command, as an operator would do it. Masters and
uploads are commands too. All processes carry a mark in their environment, which identifies them
even after their parent has ended. Only marked processes are hit and counted, and their temporary
files have a folder of their own.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import psutil

from ppodc.cluster.offspring import end_with_starter
from ppodc.errors import PpodcError
from ppodc.local.platform import free_ports
from ppodc.service import deployment, health
from ppodc.service.config import Cloud1Config, Cloud2Config, CollectorConfig, OwnerConfig, load
from ppodc.service.config_text import save
from ppodc.service.deployment import Deployment
from ppodc.service.quotas import Quotas
from tests.campaigns.processes import marked, title
from tests.campaigns.soak_jobs import LIMIT

PAIRS = 2
_KEY_BITS = 512  # no fault depends on the arithmetic
_PPODC = (sys.executable, "-P", "-m", "ppodc.cli")
_START_SECONDS = 300.0
_RESTART_SECONDS = 0.5
_RECORDS_DAYS = 3 / (24 * 60)  # records are deleted three minutes after a job
_CONFIGS: dict[str, Any] = {
    "cloud2": Cloud2Config,
    "cloud1": Cloud1Config,
    "collector": CollectorConfig,
}


class SoakWorld:
    """All services, and the commands of the soak."""

    def __init__(self, folder: Path, owners: int) -> None:
        self.folder = folder
        self._mark = {"PPODC_SOAK": secrets.token_hex(16)}
        self.temporary = Path(tempfile.mkdtemp(prefix="s-"))  # short, since Ray puts sockets in it
        self._environment = {**os.environ, **self._mark, "TMPDIR": str(self.temporary)}
        self._ports = free_ports(7)
        self.clouds, self.reports = self._deploy(owners)
        self.services: dict[str, subprocess.Popen[str]] = {}
        self._over, self._first_start = threading.Event(), threading.Event()
        # One thread starts all services, because they end with the thread that started them.
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def _deploy(self, owners: int) -> tuple[Deployment, Deployment]:
        listen = [f"tcp://127.0.0.1:{port}" for port in self._ports]
        clouds = deployment.create(
            self.folder / "clouds",
            owners,
            cloud1_listen=listen[0],
            cloud2_listen=listen[1],
            cloud2_listen_control=listen[2],
            insecure_key_bits=_KEY_BITS,
            pairs=PAIRS,
            suites=("shares", "paillier"),
        )
        reports = deployment.create_local(self.folder / "reports", owners, listen=listen[3])
        for number, (name, kind) in enumerate(_CONFIGS.items()):
            config = (reports if name == "collector" else clouds).party(name).config
            more: dict[str, Any] = {"ray_address": "local"} if name == "collector" else {}
            more["health"] = f"127.0.0.1:{self._ports[4 + number]}"
            more["quotas"] = Quotas(records_days=_RECORDS_DAYS)
            save(config, msgspec.structs.replace(load(config, kind), **more))
        for made in (clouds, reports):
            for number in range(1, owners + 1):
                config = made.party(f"owner{number}").config
                owner = load(config, OwnerConfig)
                save(config, msgspec.structs.replace(owner, max_epsilon=LIMIT))
        return clouds, reports

    def __enter__(self) -> "SoakWorld":
        self._keeper.start()
        if not self._first_start.wait(_START_SECONDS):
            raise PpodcError(f"The services did not start within {_START_SECONDS:g} s.")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for process in self.processes():  # leave nothing behind
            hit(process.pid, signal.SIGKILL)
        shutil.rmtree(self.temporary, ignore_errors=True)

    def stop(self) -> int:
        """Stop the services and return the number of processes that are left."""
        self._over.set()
        self._keeper.join()
        for process in self.services.values():
            process.terminate()
        deadline = time.monotonic() + _START_SECONDS
        while self.processes() and time.monotonic() < deadline:
            for process in self.services.values():
                process.poll()  # a zombie does not count as a leak
            time.sleep(0.2)
        return len(self.processes())

    # --------------------------------------------------------------- processes

    def processes(self) -> list[psutil.Process]:
        """All running processes of this deployment."""
        return marked(self._mark)

    def strays(self) -> list[str]:
        """Command lines of processes that belong to no service: none between two jobs."""
        services = {process.pid for process in self.services.values()}

        def served(process: psutil.Process) -> bool:
            with contextlib.suppress(psutil.Error):
                return any(each.pid in services for each in (process, *process.parents()))
            return True  # it has just ended

        return [title(process) for process in self.processes() if not served(process)]

    def unready(self) -> list[str]:
        """Health checks that failed."""
        faults = []
        for name, port in zip(_CONFIGS, self._ports[4:], strict=True):
            try:
                found = health.ask(f"127.0.0.1:{port}")
            except PpodcError as error:
                faults.append(f"{name}: {error}")
            else:
                wrong = {check: word for check, word in found.checks.items() if word != "ok"}
                faults += [f"{name}: {check}: {word}" for check, word in wrong.items()]
        return faults

    # --------------------------------------------------------------- commands

    def command(
        self, *arguments: str, party: str, at: Deployment, seconds: float
    ) -> tuple[int, str]:
        """Run a command of a party. Return its exit code (-1 after a timeout) and last line."""
        config = at.party(party).config
        process = self._popen(*arguments, "--config", str(config), stderr=subprocess.PIPE)
        try:
            _, said = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            said, process.returncode = f"it took over {seconds:g} s", -1
        with (self.folder / "commands.log").open("a") as log:
            print(f"--- {' '.join(arguments)}: {process.returncode}", said, sep="\n", file=log)
        lines = said.strip().splitlines()
        return process.returncode, lines[-1] if lines else "it was killed"

    def _keep(self) -> None:
        """Start the services and restart them when they end, as systemd would."""
        while not self._over.is_set():
            for name in _CONFIGS:
                process = self.services.get(name)
                if process is None or process.poll() is not None:
                    with contextlib.suppress(PpodcError):  # killed before it was ready
                        self.services[name] = self._start(name)
            if len(self.services) == len(_CONFIGS):
                self._first_start.set()
            self._over.wait(_RESTART_SECONDS)

    def _start(self, name: str) -> "subprocess.Popen[str]":
        party = (self.reports if name == "collector" else self.clouds).party(name)
        command = ("cloud2" if name == "cloud2" else "cloud1", "serve", "--config")
        with (self.folder / f"{name}.log").open("a") as log:
            process = self._popen(*command, str(party.config), stdout=subprocess.PIPE, stderr=log)
        said = process.stdout.readline() if process.stdout is not None else ""
        if not said:
            process.wait()
            raise PpodcError(f"{name} did not start again. Its log says why.")
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


def hit(pid: int, number: int) -> bool:
    """Send a signal and return whether the process was still running."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def files_below(folders: Sequence[Path]) -> int:
    """The number of files in these folders and below."""
    return sum(len(files) for folder in folders for _, _, files in os.walk(folder))
