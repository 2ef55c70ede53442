"""`ppodc bench platform`: cost of orchestration, growth of memory, and many owners at once.

A job over many iterations runs on this machine through the ordinary commands. Orchestration is
the part of the iterations' wall time in which no pair was at work on the protocol: scheduling,
moving states, checkpoints, control messages between the clouds. Memory is that of all workers and
services, sampled while the job runs.

Then owners upload at the same time, each by `ppodc upload` in a process of its own. On one machine
most of their wall time is the start of these processes, so the cost of the uploads to both clouds'
services is reported beside it.
"""

import json
import secrets
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ppodc.bench import document, machine
from ppodc.bench.document import Document, Table
from ppodc.bench.options import Attributes, Clusters, OneSuite, Pairs, Records
from ppodc.bench.points import Tell, measure_anew
from ppodc.errors import PpodcError
from ppodc.kmeans.job import Job
from ppodc.local.platform import LocalPlatform, RunningClouds
from ppodc.records.schema import Column, Schema
from ppodc.service.config import Cloud1Config, load
from ppodc.service.store import Store
from ppodc.spec import Spec

UB = 1000
_SAMPLE_SECONDS = 0.5
_ROWS_EACH = 1000
_SERVICES = ("ppodc.cli cloud1 serve", "ppodc.cli cloud2 serve")


def run(
    m: Records = 10_000,
    l: Attributes = 10,
    k: Clusters = 4,
    pairs: Pairs = 1,
    iterations: Annotated[int, typer.Option(min=2, help="Iterations of the job.")] = 50,
    owners: Annotated[int, typer.Option(min=1, help="Owners that upload at once.")] = 100,
    suite: OneSuite = "shares",
) -> Document:
    """The cost of orchestration, whether memory grows, and many owners uploading at once."""
    shape = {"suite": suite, "m": m, "l": l, "k": k, "pairs": pairs}

    def work(tell: Tell) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place:
            folder = Path(place)
            tell("starting")
            with LocalPlatform(folder / "platform", owners=owners, pairs=pairs) as platform:
                tell("a job")
                records = np.random.default_rng(1).integers(0, UB + 1, (m, l))
                figures = _job(platform, folder, records, make_job(k, iterations), suite)
                tell("uploads")
                return {**figures, **_uploads(platform, folder, owners, l)}

    figures = measure_anew("platform", suite, work)
    error = figures["upload_error"]
    notes = [
        "Owners: a process of `ppodc upload` each; on one machine their start takes most of the "
        "wall time, the clouds' CPU is what the uploads themselves cost.",
        *([f"first upload error: {error}"] if error else []),
    ]
    return document.make("platform", _tables, notes=notes, **shape, **figures)


# ------------------------------------------------------------- through the command


def make_job(k: int, iterations: int) -> Job:
    """Make a job of this many iterations; it ends before if the centres stand still."""
    return Job(k=k, max_iter=iterations, seed=1, min_size=1)


def create(clouds: RunningClouds, folder: Path, l: int, job: Job) -> Spec:
    """A new dataset of l columns 0..1,000 at both clouds, as the operator would make it."""
    columns = tuple(Column(f"x{i}", 0, UB) for i in range(l))
    owners = clouds.members(least=1)
    spec = Spec(f"bench-{secrets.token_hex(4)}", Schema(columns, UB), job, owners)
    file = folder / f"{spec.name}.toml"
    file.write_text(spec.to_toml())
    clouds.command("operator", "dataset", "create", file, "--accept-single-records")
    return spec


def write_table(file: Path, records: np.ndarray) -> Path:
    """An owner's CSV without a line of names."""
    np.savetxt(file, records, fmt="%d", delimiter=",")
    return file


def upload(clouds: RunningClouds, spec: Spec, owner: str, file: Path) -> None:
    """One owner's table to both clouds."""
    clouds.command(owner, "upload", spec.name, file, "--digest", spec.digest, "--no-header")


# ------------------------------------------------------------- measuring


def _job(
    platform: LocalPlatform, folder: Path, records: np.ndarray, job: Job, suite: str
) -> dict[str, Any]:
    spec = create(platform, folder, records.shape[1], job)
    upload(platform, spec, "owner1", write_table(folder / "records.csv", records))
    memory: list[int] = []

    def look() -> None:
        memory.append(sum(process.memory for process in machine.processes()))

    with machine.looking(look, _SAMPLE_SECONDS):
        platform.run(spec.name, suite, json_file=folder / "run.json")
    end = json.loads((folder / "run.json").read_text())
    return {
        "iterations": end["n_iter"],
        "iteration_s": end["seconds"] / end["n_iter"],
        "protocol_s": end["worked"] / end["n_iter"],
        "overhead": 1 - end["worked"] / end["seconds"],
        **_growth(memory[-max(1, round(end["seconds"] / _SAMPLE_SECONDS)) :]),
    }


def _growth(samples: list[int]) -> dict[str, float]:
    """Medians of the second and of the last fifth, while iterations ran: a start is no growth.

    A job that ends sooner than five samples has its first and its last one; there is always one.
    """
    fifth = len(samples) // 5
    early = samples[fifth : 2 * fifth] or samples[:1]
    late = samples[-max(1, fifth) :]
    return {
        "memory_samples": len(samples),
        "memory_early_mb": statistics.median(early) / 1e6,
        "memory_late_mb": statistics.median(late) / 1e6,
    }


def _uploads(platform: LocalPlatform, folder: Path, owners: int, l: int) -> dict[str, Any]:
    spec = create(platform, folder, l, make_job(2, 1))
    generator = np.random.default_rng(2)
    names = [f"owner{number + 1}" for number in range(owners)]
    for name in names:
        records = generator.integers(0, UB + 1, (_ROWS_EACH, l))
        write_table(folder / f"{name}.csv", records)
    errors: list[str] = []

    def send(owner: str) -> None:
        try:
            upload(platform, spec, owner, folder / f"{owner}.csv")
        except PpodcError as error:
            errors.append(str(error))

    cpu, began = _services_cpu(), time.perf_counter()
    with ThreadPoolExecutor(owners) as threads:
        list(threads.map(send, names))
    seconds, spent = time.perf_counter() - began, _services_cpu() - cpu
    with Store.open(load(platform.config("cloud1"), Cloud1Config).store, "cloud1") as store:
        rows = store.datasets.get(spec.name).rows
    return {
        "owners": owners,
        "upload_errors": len(errors),
        "upload_error": errors[0] if errors else "",
        "uploaded_rows": rows,
        "upload_s": seconds,
        "upload_clouds_cpu_s": spent,
    }


def _services_cpu() -> float:
    """CPU seconds of both clouds' services so far."""
    return sum(
        process.cpu_s
        for process in machine.processes()
        if any(service in process.title for service in _SERVICES)
    )


_FIGURES = {
    "wall seconds per iteration": "{iteration_s:.3f}",
    "protocol seconds per iteration": "{protocol_s:.3f}",
    "orchestration, share of an iteration": "{overhead:.1%}",
    "memory of all processes, early, MB": "{memory_early_mb:.0f}",
    "memory of all processes, late, MB": "{memory_late_mb:.0f}",
    "growth of memory, from {memory_samples} samples": "{grown:+.1%}",
    "seconds for {owners} owners at once, with their start": "{upload_s:.1f}",
    "CPU seconds of both clouds for them": "{upload_clouds_cpu_s:.2f}",
    "their records at the clouds (of {sent})": "{uploaded_rows}",
    "upload errors": "{upload_errors}",
}


def _tables(result: Document) -> list[Table]:
    grown = result["memory_late_mb"] / result["memory_early_mb"] - 1
    figures = {**result, "grown": grown, "sent": result["owners"] * _ROWS_EACH}
    shape = "{suite}, m = {m}, l = {l}, k = {k}, {pairs} pair(s), {iterations} iterations"
    title = f"Platform on this machine: {shape.format(**result)}"
    return [document.figures_table(title, "figure | value", _FIGURES, figures)]
