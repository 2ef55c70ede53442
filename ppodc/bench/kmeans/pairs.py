"""`ppodc bench pairs`: Figure 5.6, one iteration over psi worker pairs on Ray.

A job runs through the ordinary commands, once for every psi; the first iteration (compiling,
connecting) does not count. Three kinds of figures are kept apart:

- CPU seconds that each worker spent on an iteration, read from the operating system;
- the critical path they imply: an iteration cannot end before its busiest worker has done its
  work, whatever the number of cores. If the two halves of a pair always took turns, it would be the
  busiest worker of C1 plus the busiest of C2: the truth lies between;
- the wall time measured here, where all workers share this machine's cores.

With a deployment (a folder from `ppodc init` whose clouds are running) the job runs there, the
wall time is that of its cluster, and the CPU seconds of its nodes are not seen from here.
"""

import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ppodc.bench import document, machine, options, platform, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.kmeans.published import ITERATION_MINUTES
from ppodc.bench.plot import Panel, Series
from ppodc.bench.points import Task, Tell, measure
from ppodc.errors import PpodcError
from ppodc.kmeans.reference import kmeans
from ppodc.local.platform import LocalPlatform, RunningClouds
from ppodc.records.grid import decode_centres
from ppodc.service.config import Cloud1Config, load
from ppodc.service.store import Store

_LOOK_SECONDS = 0.05
_WORKERS = ("ray::Worker1", "ray::Worker2")  # of cloud 1, of cloud 2


@dataclass(frozen=True, slots=True)
class Case:
    """One run: which job, on how many pairs, and where."""

    pairs: int
    m: int
    l: int
    k: int
    suite: str
    iterations: int
    deployment: Path | None = None

    def parameters(self) -> dict[str, Any]:
        where = None
        if self.deployment is not None:
            # Another may have the same name; the whole path would say more than it should.
            path = self.deployment.resolve()
            where = f"{path.name}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
        job = {"m": self.m, "l": self.l, "k": self.k, "suite": self.suite}
        how = {"pairs": self.pairs, "iterations": self.iterations, "deployment": where}
        return {**job, **how}

    def task(self) -> Task:
        key = {"bench": "pairs", **self.parameters()}
        return Task(f"{self.pairs} pair(s)", key, partial(_measure, self))


def run(
    pairs: options.ManyPairs = (1, 2, 4, 8),
    m: options.Records = 10_000,
    l: options.Attributes = 10,
    k: options.Clusters = 4,
    suite: options.OneSuite = "shares",
    iterations: options.Iterations = 5,
    deployment: Annotated[
        Path | None,
        typer.Option(help="Folder of `ppodc init` whose clouds run; this machine if left out."),
    ] = None,
    *,
    points: options.KeptPoints,
) -> Document:
    """Figure 5.6: one iteration over worker pairs on Ray; CPU, critical path, wall time."""
    cases = [Case(psi, m, l, k, suite, iterations, deployment) for psi in sorted(set(pairs))]
    values = measure("pairs", [case.task() for case in cases], points)
    for value in values:
        value["speedup_wall"] = values[0]["wall_s"] / value["wall_s"]
        if value["critical_s"] is not None:
            value["speedup_critical"] = values[0]["critical_s"] / value["critical_s"]
    where = (
        f"Wall time: all workers, two per pair, shared {machine.cores()} cores of this machine."
        if deployment is None
        else "Wall time: measured on the deployment's cluster, where datasets named bench-... stay."
    )
    return document.make(
        "pairs",
        _tables,
        parameters={**cases[0].parameters(), "pairs": [case.pairs for case in cases]},
        points=values,
        published=[entry for entry in ITERATION_MINUTES if entry["mode"] == "pipelined"],
        notes=[
            "CPU: per worker and iteration, offline and online work. Critical path: the busiest "
            "worker; in turns: if the two halves of a pair never worked at the same time.",
            where,
        ],
    )


# ------------------------------------------------------------- measuring


def _measure(case: Case, tell: Tell) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place:
        folder = Path(place)
        tell("starting")
        with _clouds(case, folder / "platform") as clouds:
            return _measure_job(case, clouds, folder, tell)


@contextlib.contextmanager
def _clouds(case: Case, folder: Path) -> Iterator[RunningClouds]:
    if case.deployment is not None:
        yield RunningClouds(case.deployment)
        return
    with LocalPlatform(folder, owners=1, pairs=case.pairs) as clouds:
        yield clouds


def _measure_job(case: Case, clouds: RunningClouds, folder: Path, tell: Tell) -> dict[str, Any]:
    """One job from the spec to the centres, by the commands of operator, owner and cloud 1."""
    records = np.random.default_rng(1).integers(0, platform.UB + 1, (case.m, case.l))
    # One more iteration than is measured: the first does not count.
    job = platform.make_job(case.k, case.iterations + 1)
    spec = platform.create(clouds, folder, case.l, job)
    platform.upload(clouds, spec, "owner1", platform.write_table(folder / "records.csv", records))
    tell("running")
    ended, centres = folder / "run.json", folder / "result.json"
    options = ("--suite", case.suite, "--pairs", str(case.pairs), "--json", ended)
    with Store.open(load(clouds.config("cloud1"), Cloud1Config).store, "cloud1") as store:
        progress = _Progress(store, spec.name, local=case.deployment is None)
        with machine.looking(progress.look, _LOOK_SECONDS):
            clouds.command("cloud1", "run", spec.name, *options)
    clouds.command("owner1", "result", spec.name, "--json", centres)
    plain = kmeans(records, case.k, beta=0, max_iter=job.max_iter, seed=job.seed)
    exact = decode_centres(plain.sums, plain.sizes, spec.schema).tolist()
    expected = [centre if size else None for centre, size in zip(exact, plain.sizes, strict=True)]
    if json.loads(centres.read_text())["cluster_centers"] != expected:
        raise PpodcError("the job gave other centres than plaintext k-means.")
    end = json.loads(ended.read_text())
    return {
        "pairs": case.pairs,
        "protocol_s": end["worked"] / end["n_iter"],
        "exact": True,
        **progress.figures(),
    }


@dataclass(frozen=True, slots=True)
class _Reached:
    """Time at which an iteration was first seen as done, and each worker's CPU seconds by then."""

    time: float
    cpu: dict[int, tuple[int, float]]  # by process: (cloud, seconds)


class _Progress:
    """Watch the cost of a running job from outside: wall time and CPU of each worker.

    Looks again and again which iteration the job has finished, as `ppodc status` would say it, and
    what the operating system has counted for each worker by then (in ticks of a hundredth of a
    second). With `local`, the workers run below this process. Counting starts with the end of the
    first iteration, which compiles and connects.
    """

    def __init__(self, store: Store, dataset: str, *, local: bool) -> None:
        self._dataset, self._local = dataset, local
        self._reached: dict[int, _Reached] = {}
        self._cpu: dict[int, tuple[int, float]] = {}
        self._store = store

    def look(self) -> None:
        """Called again and again while the job runs."""
        for process in machine.processes() if self._local else ():
            for cloud, title in enumerate(_WORKERS, 1):
                if process.title.startswith(title):  # one that has ended keeps its last figure
                    self._cpu[process.pid] = (cloud, process.cpu_s)
        iteration = self._store.jobs.get(self._dataset).iteration
        if iteration:
            self._reached.setdefault(iteration, _Reached(time.monotonic(), dict(self._cpu)))

    def figures(self) -> dict[str, Any]:
        """Per iteration between the first one seen and the last."""
        if len(self._reached) < 2:
            raise PpodcError("the job was over before it could be watched; use more records.")
        first, last = min(self._reached), max(self._reached)
        count = last - first
        begin, end = self._reached[first], self._reached[last]
        cpu: tuple[list[float], list[float]] = ([], [])
        for pid, (cloud, seconds) in end.cpu.items():
            if pid in begin.cpu:
                cpu[cloud - 1].append((seconds - begin.cpu[pid][1]) / count)
        busiest = [max(cloud) for cloud in cpu] if all(cpu) else None
        return {
            "iterations": count,
            "wall_s": (end.time - begin.time) / count,
            "cpu_c1_s": sorted(cpu[0]),
            "cpu_c2_s": sorted(cpu[1]),
            "critical_s": max(busiest) if busiest else None,
            "turns_s": sum(busiest) if busiest else None,
        }


# ------------------------------------------------------------- showing


def _tables(result: Document) -> list[Table]:
    """Make tables of times implied by the workers' CPU, of measured and of published times."""
    p, points, tables = result["parameters"], result["points"], []
    shape = document.SHAPE.format(**p)
    if points[0]["critical_s"] is not None:
        tables.append(
            document.table_of(
                f"{p['suite']}: CPU per iteration and what it implies, {shape}",
                "pairs | C1 worker, s | C2 worker, s | critical path | in turns | speed-up",
                "{pairs} | {c1} | {c2} | {critical_s:time} | {turns_s:time} | "
                "{speedup_critical:.2f}",
                [{**x, "c1": _span(x["cpu_c1_s"]), "c2": _span(x["cpu_c2_s"])} for x in points],
            )
        )
    return [
        *tables,
        document.table_of(
            f"{p['suite']}: measured wall time, {shape}",
            "pairs | one iteration | speed-up",
            "{pairs} | {wall_s:time} | {speedup_wall:.2f}",
            points,
        ),
        document.table_of(
            "published wall time, m = 10,000, l = 10, k = 4",
            "pairs | one iteration",
            "{pairs} | {minutes:,} min",
            _published(result),
        ),
    ]


def _span(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    low, high = f"{seconds[0]:.3g}", f"{seconds[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


def _published(result: Document) -> list[dict[str, Any]]:
    return sorted(result["published"], key=lambda entry: int(entry["pairs"]))


def draw(result: Document, file: plot.File) -> None:
    """Seconds over pairs, and speed-up over pairs beside the published one."""
    points = result["points"]
    kinds = [("measured wall time", "wall_s", "speedup_wall", False)]
    if points[0]["critical_s"] is not None:
        kinds.append(("critical path from CPU time", "critical_s", "speedup_critical", True))
    seconds, gains = [], []
    for name, time_s, gain, estimated in kinds:
        seconds.append(plot.series(name, points, "pairs", time_s, estimated=estimated))
        gains.append(plot.series(name, points, "pairs", gain, estimated=estimated))
    told = _published(result)
    if points[0]["pairs"] == told[0]["pairs"]:  # else the speed-ups have different bases
        gained = [told[0]["minutes"] / entry["minutes"] for entry in told]
        gains.append(Series("published", [e["pairs"] for e in told], gained, published=True))
    panels = [
        Panel("time", "worker pairs", "seconds per iteration", seconds),
        Panel("speed-up over the fewest pairs", "worker pairs", "times faster", gains),
    ]
    title = "{suite} suite over worker pairs, m = {m:,}, l = {l}, k = {k}"
    plot.lines(file, panels, title.format(**result["parameters"]))
