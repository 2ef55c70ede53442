"""`python -m tests.campaigns.hostile`: one hostile owner beside honest ones and a running job.

The whole platform runs on this machine. The same job runs twice: first undisturbed, then while an
enrolled owner attacks both clouds (`hostile_owner`). Meanwhile honest owners ask both clouds for
the spec, and the time of every answer is recorded. The document reports whether honest requests
were answered, whether the job ended exact, and how much memory the gateways used. The command fails
if an honest request was not answered or a result is wrong.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from client.owner import Owner
from ppodc.bench import document, machine
from ppodc.bench.document import Document, Table
from ppodc.bench.platform import UB, create, make_job, upload, write_table
from ppodc.errors import PpodcError
from ppodc.kmeans.job import Job
from ppodc.kmeans.reference import kmeans
from ppodc.local.platform import LocalPlatform
from ppodc.service.config import OwnerConfig, Remote, load
from ppodc.service.messages import Named, SpecText
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys
from tests.campaigns.outcome import JsonFile, conclude

_SERVICES = {"cloud1": "ppodc.cli cloud1 serve", "cloud2": "ppodc.cli cloud2 serve"}
_ASK_SECONDS = 0.1  # between two requests of an honest owner
_SAMPLE_SECONDS = 0.1


@dataclass(slots=True)
class Observed:
    """Observations while one job ran."""

    latencies: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)  # peak of each service, in bytes
    job_s: float = 0.0
    exact: bool = False

    def figures(self) -> dict[str, Any]:
        """Figures for JSON, with quantiles in seconds."""
        cuts = statistics.quantiles(self.latencies, n=100)
        return {
            "requests": len(self.latencies) + len(self.failures),
            "failed": len(self.failures),
            "median_s": cuts[49],
            "p95_s": cuts[94],
            "p99_s": cuts[98],
            "longest_s": max(self.latencies),
            "job_s": self.job_s,
            "exact": self.exact,
            **{f"{name}_mb": most / 1e6 for name, most in self.memory.items()},
        }


def run(m: int, l: int, k: int, *, owners: int, iterations: int) -> Document:
    """Run the job undisturbed and under attack."""
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place:
        folder, names = Path(place), [f"owner{number + 1}" for number in range(owners)]
        with LocalPlatform(
            folder / "platform", owners=[*names, "mallory"], pairs=1, insecure_key_bits=512
        ) as platform:
            records = np.random.default_rng(1).integers(0, UB + 1, (m, l))
            scene = _Scene(platform, folder, names, records, make_job(k, iterations))
            quiet = scene.watch(contextlib.nullcontext())
            attacked = scene.watch(_attack(platform.config("mallory")))
    return document.make(
        "gateway",
        _tables,
        notes=attacked.failures[:5],
        m=m,
        l=l,
        k=k,
        owners=owners,
        quiet=quiet.figures(),
        attacked=attacked.figures(),
    )


class _Scene:
    """A platform, its honest owners and a job over the records of the first owner."""

    def __init__(
        self,
        platform: LocalPlatform,
        folder: Path,
        names: list[str],
        records: np.ndarray,
        job: Job,
    ) -> None:
        self._platform, self._folder, self._names = platform, folder, names
        self._records, self._job = records, job

    def watch(self, beside: contextlib.AbstractContextManager[None]) -> Observed:
        """Upload, run and open a job inside the context `beside`."""
        seen, over = Observed(), threading.Event()
        spec = create(self._platform, self._folder, self._records.shape[1], self._job)
        file = write_table(self._folder / "records.csv", self._records)
        with beside:
            asking = self._ask_all(spec.name, over, seen)
            try:
                with machine.looking(lambda: _look(seen), _SAMPLE_SECONDS):
                    upload(self._platform, spec, self._names[0], file)
                    began = time.monotonic()
                    self._platform.run(spec.name, "shares")
                    seen.job_s = time.monotonic() - began
                    seen.exact = self._is_exact(spec.name)
            finally:
                over.set()
                for thread in asking:
                    thread.join()
        return seen

    def _is_exact(self, dataset: str) -> bool:
        with Owner.connect(self._platform.config(self._names[0])) as owner:
            result = owner.result(dataset)
        job = self._job
        trace = kmeans(self._records, job.k, beta=job.beta, max_iter=job.max_iter, seed=job.seed)
        return bool(np.array_equal(result.sums_, trace.sums) and result.n_iter_ == trace.n_iter)

    def _ask_all(self, dataset: str, over: threading.Event, seen: Observed) -> list[Any]:
        threads = []
        for name in self._names:
            config = load(self._platform.config(name), OwnerConfig)
            for remote in (config.cloud1, config.cloud2):
                arguments = (CurveKeys.load(config.key), remote, dataset, over, seen)
                threads.append(threading.Thread(target=_ask, args=arguments, daemon=True))
                threads[-1].start()
        return threads


def _ask(
    keys: CurveKeys, remote: Remote, dataset: str, over: threading.Event, seen: Observed
) -> None:
    """Ask repeatedly, as an honest owner does."""
    with Client.connect(remote.endpoint, keys, remote.public_key.encode()) as client:
        while not over.wait(_ASK_SECONDS):
            began = time.monotonic()
            try:
                client.call("spec", Named(dataset), reply=SpecText)
            except PpodcError as error:
                seen.failures.append(str(error))
            else:
                seen.latencies.append(time.monotonic() - began)


def _look(seen: Observed) -> None:
    for process in machine.processes():
        for name, title in _SERVICES.items():
            if title in process.title:
                seen.memory[name] = max(seen.memory.get(name, 0), process.memory)


@contextlib.contextmanager
def _attack(config: Path) -> Iterator[None]:
    """Run the hostile owner while the block runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.campaigns.hostile_owner", str(config)], stdin=subprocess.PIPE
    )
    try:
        yield
    finally:
        process.communicate()


def _tables(result: Document) -> list[Table]:
    rows = []
    for name, title, show in (
        ("requests", "honest requests", "{:,}"),
        ("failed", "of them not answered", "{:,}"),
        ("median_s", "median answer, s", "{:.3f}"),
        ("p95_s", "95 % within, s", "{:.3f}"),
        ("p99_s", "99 % within, s", "{:.3f}"),
        ("longest_s", "longest, s", "{:.2f}"),
        ("job_s", "job, s", "{:.1f}"),
        ("cloud1_mb", "memory of cloud 1's gateway, MB", "{:.0f}"),
        ("cloud2_mb", "memory of cloud 2's service, MB", "{:.0f}"),
    ):
        rows.append([title, *(show.format(result[run][name]) for run in ("quiet", "attacked"))])
    exact = [document.yes(result[run]["exact"]) for run in ("quiet", "attacked")]
    rows.append(["result exact", *exact])
    shape = "{owners} honest owners, m = {m}, l = {l}, k = {k}".format(**result)
    return [document.table(f"Gateways: {shape}", ("", "quiet", "one hostile owner"), rows)]


def main(
    m: Annotated[int, typer.Option(help="Records.")] = 2000,
    l: Annotated[int, typer.Option(help="Attributes.")] = 4,
    k: Annotated[int, typer.Option(help="Clusters.")] = 3,
    owners: Annotated[int, typer.Option(min=1, help="Honest owners.")] = 9,
    iterations: Annotated[int, typer.Option(min=1, help="Most iterations of the job.")] = 10,
    json_file: JsonFile = None,
) -> None:
    """Attack both gateways as one owner while honest owners and a job need them."""
    found = run(m, l, k, owners=owners, iterations=iterations)
    both = found["quiet"], found["attacked"]
    wrong = any(figures["failed"] or not figures["exact"] for figures in both)
    conclude(found, json_file, wrong=wrong)


if __name__ == "__main__":
    typer.run(main)
