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

import hashlib
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ppodc.bench import document, machine, platform, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.platform import WatchedJob
from ppodc.bench.plot import Panel
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.bench.published import ITERATION_MINUTES
from ppodc.errors import PpodcError
from ppodc.kmeans.reference import kmeans
from ppodc.local.platform import LocalPlatform, RunningClouds
from ppodc.records.encode import decode_centres
from ppodc.service.store import Store

_LOOK_SECONDS = 0.05
_WORKERS = ("ray::Worker1", "ray::Worker2")  # of cloud 1, of cloud 2


def run(
    pairs: Sequence[int],
    *,
    m: int,
    l: int,
    k: int,
    suite: str,
    iterations: int,
    deployment: Path | None,
    points: Points,
) -> Document:
    """All figures for every number of pairs."""
    # One more iteration than is measured: the first does not count.
    job = platform.make_job(k, iterations + 1)
    shape = {"m": m, "l": l, "k": k, "suite": suite}
    how = {"iterations": iterations, "deployment": _name(deployment)}
    numbers = sorted(set(pairs))
    tasks = [
        Task(
            f"{psi} pair(s)",
            {"bench": "pairs", **shape, "pairs": psi, **how},
            partial(_measure, WatchedJob(m, l, job, suite, psi), deployment),
        )
        for psi in numbers
    ]
    values = measure("pairs", tasks, points)
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
        parameters={**shape, "pairs": numbers, **how},
        points=values,
        published=[entry for entry in ITERATION_MINUTES if entry["mode"] == "pipelined"],
        notes=[
            "CPU: per worker and iteration, offline and online work. Critical path: the busiest "
            "worker; in turns: if the two halves of a pair never worked at the same time.",
            where,
        ],
    )


def _name(deployment: Path | None) -> str | None:
    """Another may have the same name; the whole path would say more than it should."""
    if deployment is None:
        return None
    path = deployment.resolve()
    return f"{path.name}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


# ------------------------------------------------------------- measuring


def _measure(job: WatchedJob, deployment: Path | None, tell: Tell) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place, ExitStack() as stack:
        folder = Path(place)
        tell("starting")
        clouds = (
            stack.enter_context(LocalPlatform(folder / "platform", owners=1, pairs=job.pairs))
            if deployment is None
            else RunningClouds(deployment)
        )
        tell("running")
        store = stack.enter_context(platform.store_of_cloud1(clouds))
        progress = _Progress(store, local=deployment is None)
        spec, records, end = job.run(clouds, folder, progress.look, _LOOK_SECONDS)
        clouds.command("owner1", "result", spec.name, "--json", folder / "result.json")
        found = json.loads((folder / "result.json").read_text())["cluster_centers"]
    plain = kmeans(records, job.job.k, beta=0, max_iter=job.job.max_iter, seed=job.job.seed)
    if not np.array_equal(found, decode_centres(plain.sums, plain.sizes, spec.schema)):
        raise PpodcError("the job gave other centres than plaintext k-means.")
    return {
        "pairs": job.pairs,
        "protocol_s": end["worked"] / end["n_iter"],
        "exact": True,
        **progress.figures(),
    }


@dataclass(frozen=True, slots=True)
class _Reached:
    """When an iteration was first seen to be done, and each worker's CPU seconds by then."""

    time: float
    cpu: dict[int, tuple[int, float]]  # by process: (cloud, seconds)


class _Progress:
    """What a running job costs, seen from outside: wall time and CPU of each worker.

    Looks again and again which iteration the job has finished, as `ppodc status` would say it, and
    what the operating system has counted for each worker by then (in ticks of a hundredth of a
    second). With `local`, the workers run below this process. Counting starts with the end of the
    first iteration, which compiles and connects.
    """

    def __init__(self, store: Store, *, local: bool) -> None:
        self._store, self._local = store, local
        self._reached: dict[int, _Reached] = {}
        self._cpu: dict[int, tuple[int, float]] = {}

    def look(self, dataset: str) -> None:
        """Called again and again while the job runs."""
        for process in machine.processes() if self._local else ():
            for cloud, title in enumerate(_WORKERS, 1):
                if process.title.startswith(title):  # one that has ended keeps its last figure
                    self._cpu[process.pid] = (cloud, process.cpu_s)
        iteration = self._store.jobs.get(dataset).iteration
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
    """What the workers' CPU time implies, what was measured, what was published: a table each."""
    points, suite = result["points"], result["parameters"]["suite"]
    shape = document.SHAPE.format(**result["parameters"])
    tables = []
    if points[0]["critical_s"] is not None:
        implied = document.table_of(
            f"{suite}: CPU per iteration and what it implies, {shape}",
            "pairs | C1 worker, s | C2 worker, s | critical path | in turns | speed-up",
            "{pairs} | {c1} | {c2} | {critical_s:time} | {turns_s:time} | {speedup_critical:.2f}",
            [{**p, "c1": _span(p["cpu_c1_s"]), "c2": _span(p["cpu_c2_s"])} for p in points],
        )
        tables.append(implied)
    return [
        *tables,
        document.table_of(
            f"{suite}: measured wall time, {shape}",
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
    points, told = result["points"], _published(result)
    kinds = [("measured wall time", "wall_s", "speedup_wall", False)]
    if points[0]["critical_s"] is not None:
        kinds.append(("critical path from CPU time", "critical_s", "speedup_critical", True))
    seconds, gains = [], []
    for name, time_s, gain, estimated in kinds:
        seconds.append(plot.series(name, points, "pairs", time_s, estimated=estimated))
        gains.append(plot.series(name, points, "pairs", gain, estimated=estimated))
    if points[0]["pairs"] == told[0]["pairs"]:  # else the speed-ups have different bases
        gained = [{**entry, "gain": told[0]["minutes"] / entry["minutes"]} for entry in told]
        gains.append(plot.series("published", gained, "pairs", "gain", published=True))
    panels = [
        Panel("time", "worker pairs", "seconds per iteration", seconds),
        Panel("speed-up over the fewest pairs", "worker pairs", "times faster", gains),
    ]
    title = f"{{suite}} suite over worker pairs, {document.SHAPE}"
    plot.lines(file, panels, title.format(**result["parameters"]))
