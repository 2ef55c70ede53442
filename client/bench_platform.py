"""`ppodc bench platform`: what orchestration costs, whether memory grows, many owners at once.

A job over many iterations runs on this machine through the ordinary commands. Orchestration is
the part of the iterations' wall time in which no pair was at work on the protocol: scheduling,
moving states, checkpoints, control messages between the clouds. Memory is that of all workers and
services, sampled while the job runs. Then owners upload at the same time, each a thread with its
own key and connections.
"""

import json
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from client.operator import Operator
from client.owner import Owner
from ppodc.errors import PpodcError
from ppodc.kmeans.job import Job
from ppodc.local.platform import LocalPlatform
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec

_SAMPLE_SECONDS = 0.5
_ROWS_EACH = 1000


def run(
    m: int = 10_000,
    l: int = 10,
    k: int = 4,
    *,
    pairs: int = 1,
    iterations: int = 50,
    owners: int = 100,
    suite: str = "shares",
) -> dict[str, Any]:
    """All figures, as a dictionary for JSON."""
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as folder:
        job = _job(Path(folder, "job"), m, l, k, pairs, iterations, suite)
        uploads = _uploads(Path(folder, "uploads"), owners, l)
    shape = {"suite": suite, "m": m, "l": l, "k": k, "pairs": pairs}
    return {**shape, **job, **uploads}


def _spec(l: int, k: int, iterations: int) -> Spec:
    columns = tuple(Column(f"x{i}", 0, 1000) for i in range(l))
    return Spec("bench", Schema(columns, 1000), Job(k=k, max_iter=iterations, seed=1))


def _job(
    folder: Path,
    m: int,
    l: int,
    k: int,
    pairs: int,
    iterations: int,
    suite: str,
) -> dict[str, Any]:
    records = np.random.default_rng(1).integers(0, 1001, (m, l)).astype(float)
    spec = _spec(l, k, iterations)
    with LocalPlatform(folder, owners=1, pairs=pairs) as platform:
        with Operator.connect(platform.config("operator")) as operator:
            operator.create(spec)
        with Owner.connect(platform.config("owner1")) as owner:
            owner.upload(spec.name, records, progress=False)
        memory = _Memory(platform)
        figures = folder / "run.json"
        with memory:
            platform.run(spec.name, suite, json_file=figures)
    end = json.loads(figures.read_text())
    return {
        "iterations": end["n_iter"],
        "iteration_s": end["seconds"] / end["n_iter"],
        "protocol_s": end["worked"] / end["n_iter"],
        "overhead": 1 - end["worked"] / end["seconds"],
        **memory.figures(),
    }


class _Memory:
    """Samples the memory of everything that the platform has started."""

    def __init__(self, platform: LocalPlatform) -> None:
        self._platform = platform
        self._samples: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "_Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self._samples.append(self._platform.memory())

    def figures(self) -> dict[str, Any]:
        """Medians of the second fifth and of the last fifth: the start is not growth."""
        fifth = len(self._samples) // 5
        if not fifth:
            raise PpodcError("the job was over before its memory could be sampled.")
        early = float(np.median(self._samples[fifth : 2 * fifth]))
        late = float(np.median(self._samples[-fifth:]))
        return {"memory_early_mb": early / 1e6, "memory_late_mb": late / 1e6}


def _uploads(folder: Path, owners: int, l: int) -> dict[str, Any]:
    spec = _spec(l, 2, 1)
    generator = np.random.default_rng(2)
    tables = [generator.integers(0, 1001, (_ROWS_EACH, l)).astype(float) for _ in range(owners)]
    errors: list[str] = []

    def upload(number: int) -> None:
        try:
            with Owner.connect(platform.config(f"owner{number + 1}")) as owner:
                owner.upload(spec.name, tables[number], progress=False)
        except PpodcError as error:
            errors.append(str(error))

    with (
        LocalPlatform(folder, owners=owners, pairs=1) as platform,
        Operator.connect(platform.config("operator")) as operator,
    ):
        operator.create(spec)
        began = time.perf_counter()
        with ThreadPoolExecutor(owners) as threads:
            list(threads.map(upload, range(owners)))
        seconds = time.perf_counter() - began
        (listed,) = operator.datasets()
    return {
        "owners": owners,
        "upload_errors": len(errors),
        "upload_error": errors[0] if errors else "",
        "uploaded_rows": listed.rows,
        "upload_s": seconds,
    }


def show(result: dict[str, Any]) -> None:
    """A table for people."""
    table = Table(title="Platform on this machine, suite {suite}, m = {m}, l = {l}, k = {k}, "
                        "{pairs} pair(s)".format(**result))  # fmt: skip
    table.add_column("figure")
    table.add_column("value", justify="right")
    grown = result["memory_late_mb"] / result["memory_early_mb"] - 1
    rows = [
        (f"wall seconds per iteration (over {result['iterations']})", "iteration_s", "{:.3f}"),
        ("protocol seconds per iteration", "protocol_s", "{:.3f}"),
        ("orchestration, share of an iteration", "overhead", "{:.1%}"),
        ("memory of all processes, early, MB", "memory_early_mb", "{:.0f}"),
        ("memory of all processes, late, MB", "memory_late_mb", "{:.0f}"),
        (f"seconds for {result['owners']} owners at once", "upload_s", "{:.1f}"),
        (
            f"their records at the clouds (of {result['owners'] * _ROWS_EACH})",
            "uploaded_rows",
            "{}",
        ),
        ("upload errors", "upload_errors", "{}"),
    ]
    for label, key, form in rows:
        table.add_row(label, form.format(result[key]))
    table.add_row("growth of memory", f"{grown:+.1%}")
    Console().print(table)
    if result["upload_error"]:
        Console().print(f"first upload error: {result['upload_error']}", markup=False)
