"""A deployment whose two clouds run as processes, for tests: start, kill, upload, run, compare."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from client.operator import Operator
from client.owner import Owner
from master.driver import JobEnd
from master.job import resume_job, run_job
from ppodc.cluster.offspring import end_with_starter
from ppodc.cluster.ray_head import LocalRay
from ppodc.kmeans.job import Job
from ppodc.kmeans.reference import Trace, kmeans
from ppodc.local.platform import free_ports
from ppodc.members import Members
from ppodc.pairs.progress import Event, Listener, ignore
from ppodc.records.schema import Column, Schema
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, Cloud2Config, load
from ppodc.service.store import Store
from ppodc.spec import Spec
from tests.harness.patience import LONG

UB = 20

_SERVE = """
import logging, pathlib
logging.basicConfig(level="INFO", format="%(message)s")
from {party}.service import serve
serve(pathlib.Path({config!r}), lambda endpoint: print("ready", flush=True))
"""
_MASTER = """
import pathlib, sys
from ppodc.service.config import Cloud1Config, load
from ppodc.errors import PpodcError
from master.job import run_job, resume_job
config = load(pathlib.Path({config!r}), Cloud1Config)
def tell(event):
    print(event.phase, event.iteration, flush=True)
try:
    {call}
except PpodcError as error:
    sys.exit(str(error))
"""


class TwoServices:
    """Both clouds of one deployment; `environment` lets each into its own Ray."""

    def __init__(
        self,
        folder: Path,
        addresses: Mapping[str, str],
        environment: Mapping[str, Mapping[str, str]],
        owners: int = 3,
        key_bits: int = 512,
    ) -> None:
        ports = free_ports(3)
        self.parties = deployment.create(
            folder,
            owners,
            cloud1_listen=f"tcp://127.0.0.1:{ports[0]}",
            cloud2_listen=f"tcp://127.0.0.1:{ports[1]}",
            cloud2_listen_control=f"tcp://127.0.0.1:{ports[2]}",
            insecure_key_bits=key_bits,
            suites=("shares", "paillier"),
        )
        self.environment = environment
        self.processes: dict[str, subprocess.Popen[str]] = {}
        for party, address in addresses.items():
            config = self.parties.party(party).config
            text = re.sub(r'ray_address = ".*"', f'ray_address = "{address}"', config.read_text())
            config.write_text(text)
        self.config1 = load(self.parties.party("cloud1").config, Cloud1Config)
        self.config2 = load(self.parties.party("cloud2").config, Cloud2Config)

    def start(self, party: str) -> None:
        config = str(self.parties.party(party).config)
        with self.log(party).open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _SERVE.format(party=party, config=config)],
                env={**os.environ, **self.environment[party]},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=end_with_starter,
            )
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready", self.log(party).read_text()
        self.processes[party] = process

    def kill(self, party: str) -> None:
        process = self.processes.pop(party)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            assert process.wait(LONG) == 0
            assert process.stdout is not None
            process.stdout.close()
        self.processes.clear()

    def log(self, party: str) -> Path:
        return self.parties.party(party).folder / "service.log"

    def store(self, party: str) -> Store:
        if party == "cloud1":
            return Store.open(self.config1.store, "cloud1")
        return Store.open(self.config2.store, "cloud2")

    def upload(self, spec: Spec, tables: Sequence[np.ndarray]) -> None:
        """Owner i uploads table i."""
        agreed = replace(spec, owners=Members.of(self.config1.owners, 1))
        with Operator.connect(self.parties.party("operator").config) as operator:
            operator.create(agreed, single_records=True)
        for number, table in enumerate(tables, 1):
            with Owner.connect(self.parties.party(f"owner{number}").config) as owner:
                owner.upload(
                    spec.name, table, spec=agreed, accept_differencing=None, progress=False
                )

    def run(
        self,
        dataset: str,
        suite: str = "shares",
        pairs: int = 2,
        progress: Listener = ignore,
    ) -> JobEnd:
        return run_job(self.config1, dataset, suite, pairs, progress)

    def resume(self, dataset: str) -> JobEnd:
        return resume_job(self.config1, dataset)

    def master(self, dataset: str, suite: str, pairs: int, *, resume: bool = False) -> "Master":
        call = f"run_job(config, {dataset!r}, {suite!r}, {pairs}, tell)"
        if resume:
            call = f"resume_job(config, {dataset!r}, None, tell)"
        config = str(self.parties.party("cloud1").config)
        return Master(config, call, {**os.environ, **self.environment["cloud1"]})

    def check(self, spec: Spec, tables: Sequence[np.ndarray]) -> None:
        """Every owner opens the reference's result, and its own labels if they are offered."""
        trace = reference(spec, tables)
        first = 0
        for number, table in enumerate(tables, 1):
            with Owner.connect(self.parties.party(f"owner{number}").config) as owner:
                result = owner.result(spec.name, timeout=LONG)
            told = trace.for_owner(number - 1)
            assert result.sums_.tolist() == told.sums.tolist()
            assert result.sizes_.tolist() == told.sizes.tolist()
            converged = trace.converged if spec.job.iterations is None else None
            assert (result.n_iter_, result.converged_) == (trace.n_iter, converged)
            if spec.job.labels:
                mine = trace.labels[first : first + len(table)]
                assert result.labels_ is not None
                assert result.labels_.tolist() == mine.tolist()
            else:
                assert result.labels_ is None
            first += len(table)


class Master:
    """A master in a process of its own, which tests may kill."""

    def __init__(self, config: str, call: str, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MASTER.format(config=config, call=call)],
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, *lines: str) -> None:
        """Wait until the master says one of these."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() in lines:
                return
        raise AssertionError(f"the master ended without saying {' or '.join(lines)}")

    def end(self, signal_number: int | None = None) -> tuple[int, str]:
        """(exit code, last words), after a signal if one is given."""
        if signal_number is not None:
            self.process.send_signal(signal_number)
        _, said = self.process.communicate(timeout=LONG)
        return self.process.returncode, said


def make_spec(name: str, columns: int, k: int, **options: object) -> Spec:
    schema = Schema(tuple(Column(f"c{i}", 0.0, float(UB)) for i in range(columns)), UB)
    job = Job(k=k, seed=7, **{"labels": True, "max_iter": 6, "beta": Fraction(0), **options})
    return Spec(name, schema, job)


def slow_job(name: str, iterations: int = 30) -> tuple[Spec, list[np.ndarray]]:
    """A job of many iterations: what interrupts it early does not come too late."""
    return make_spec(name, 2, k=3, iterations=iterations), make_tables(17, (13, 11), 2)


def make_tables(seed: int, rows: Sequence[int], columns: int) -> list[np.ndarray]:
    g = np.random.default_rng(seed)
    return [g.integers(0, UB + 1, (count, columns)).astype(float) for count in rows]


def reference(spec: Spec, tables: Sequence[np.ndarray]) -> Trace:
    records = np.concatenate(tables).astype(np.int64)
    job = spec.job
    return kmeans(
        records,
        job.k,
        beta=job.beta,
        max_iter=job.max_iter,
        seed=job.seed,
        centres=spec.job.initial_centres(spec.schema),
        min_size=job.min_size,
        stops=job.iterations is None,
        owners=np.repeat(np.arange(len(tables)), [len(table) for table in tables]),
    )


def workers(head: LocalRay, title: str) -> list[int]:
    """Processes of this Ray head whose title starts so, such as "ray::Worker1"."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            named = (entry / "cmdline").read_bytes().startswith(title.encode())
        except OSError:
            continue
        if named and head.pid in ancestors(int(entry.name)):
            found.append(int(entry.name))
    return sorted(found)


def ancestors(pid: int) -> list[int]:
    """The process, its parent, and so on up."""
    found: list[int] = []
    while pid > 1:
        found.append(pid)
        try:
            # the name before the last ")" may hold blanks; then: state, parent
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return found


def kill_worker(head: LocalRay, title: str, number: int = signal.SIGKILL) -> None:
    """Send a signal to the first of these workers."""
    os.kill(workers(head, title)[0], number)


class Once:
    """A watcher of a job's progress that does something at one moment."""

    def __init__(self, phase: str, iteration: int, action: Callable[[], None]) -> None:
        self._moment, self._action = (phase, iteration), action
        self.done = False

    def __call__(self, event: Event) -> None:
        if not self.done and (event.phase, event.iteration) == self._moment:
            self.done = True
            self._action()
