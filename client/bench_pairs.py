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
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from client.bench_watch import Watch
from client.operator import Operator
from client.owner import Owner
from ppodc.bench import figure
from ppodc.bench.figure import Panel, Series
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.bench.published import ITERATION_MINUTES
from ppodc.errors import PpodcError
from ppodc.kmeans.job import Job, job_of
from ppodc.kmeans.reference import kmeans
from ppodc.local.platform import LocalPlatform
from ppodc.records.encode import decode_centres, encode
from ppodc.records.schema import Column, Schema
from ppodc.service.config import Cloud1Config, load
from ppodc.spec import Spec


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

    def spec(self) -> Spec:
        columns = tuple(Column(f"x{i}", 0, 1000) for i in range(self.l))
        # One more than is measured: the first does not count.
        job = Job(k=self.k, max_iter=self.iterations + 1, seed=1)
        return Spec(f"bench-{secrets.token_hex(4)}", Schema(columns, 1000), job)

    def key(self) -> dict[str, Any]:
        where = None
        if self.deployment is not None:
            # Another may have the same name, and the path is nobody's business.
            path = self.deployment.resolve()
            where = f"{path.name}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
        job = {"m": self.m, "l": self.l, "k": self.k, "suite": self.suite}
        how = {"pairs": self.pairs, "iterations": self.iterations, "deployment": where}
        return {"bench": "pairs", **job, **how}


def run(
    pairs: Sequence[int] = (1, 2, 4, 8),
    *,
    m: int = 10_000,
    l: int = 10,
    k: int = 4,
    suite: str = "shares",
    iterations: int = 5,
    deployment: Path | None = None,
    points: Points | None = None,
) -> dict[str, Any]:
    """All figures for every number of pairs; a document for JSON."""
    cases = [Case(psi, m, l, k, suite, iterations, deployment) for psi in sorted(set(pairs))]
    tasks = [Task(f"{case.pairs} pair(s)", case.key(), partial(_measure, case)) for case in cases]
    found = measure("pairs", tasks, points or Points())
    for value in found:
        value["speedup_wall"] = found[0]["wall_s"] / value["wall_s"]
        if value["critical_s"] is not None:
            value["speedup_critical"] = found[0]["critical_s"] / value["critical_s"]
    cores = figure.machine()["cores"]
    here = (
        f"Wall time: all workers, two per pair, shared {cores} cores of this machine."
        if deployment is None
        else "Wall time: measured on the deployment's cluster, where datasets named bench-... stay."
    )
    return figure.document(
        "pairs",
        {"pairs": [case.pairs for case in cases], "m": m, "l": l, "k": k, "suite": suite,
         "iterations": iterations, "deployment": cases[0].key()["deployment"]},
        found,
        published=[entry for entry in ITERATION_MINUTES if entry["mode"] == "pipelined"],
        notes=[
            "CPU: per worker and iteration, offline and online work. Critical path: the busiest "
            "worker; in turns: if the two halves of a pair never worked at the same time.",
            here,
        ],
    )  # fmt: skip


def _measure(case: Case, tell: Tell) -> dict[str, Any]:
    records = np.random.default_rng(1).integers(0, 1001, (case.m, case.l)).astype(float)
    spec = case.spec()
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place:
        folder = Path(place)
        tell("starting")
        with _platform(case, folder / "platform") as (config, start):
            with Operator.connect(config("operator")) as operator:
                operator.create(spec)
            with Owner.connect(config("owner1")) as owner:
                owner.upload(spec.name, records, progress=False)
                tell("running")
                local = case.deployment is None
                watch = Watch(load(config("cloud1"), Cloud1Config), spec.name, local=local)
                with watch:
                    start(spec.name, folder / "run.json")
                result = owner.result(spec.name)
        end = json.loads((folder / "run.json").read_text())
    data = encode(records, spec.schema)
    job = job_of(spec)
    plain = kmeans(data, case.k, beta=0, max_iter=job.max_iter, seed=job.seed)
    expected = decode_centres(plain.sums, plain.sizes, spec.schema)
    if not np.array_equal(result.cluster_centers_, expected):
        raise PpodcError("the job gave other centres than plaintext k-means.")
    return {
        "pairs": case.pairs,
        "protocol_s": end["worked"] / end["n_iter"],
        "exact": True,
        **watch.figures(),
    }


Start = Callable[[str, Path], None]


@contextlib.contextmanager
def _platform(case: Case, folder: Path) -> Iterator[tuple[Callable[[str], Path], Start]]:
    """Where each party's configuration is, and how to run a job with a file for its figures."""
    if case.deployment is not None:
        there = case.deployment

        def config(party: str) -> Path:
            return there / party / f"{'owner' if party.startswith('owner') else party}.toml"

        yield config, partial(_run_command, config("cloud1"), case)
        return
    with LocalPlatform(folder, owners=1, pairs=case.pairs) as platform:
        yield (
            platform.config,
            lambda name, file: platform.run(name, case.suite, json_file=file),
        )


def _run_command(config: Path, case: Case, name: str, file: Path) -> None:
    """`ppodc run`, as cloud 1's operator would."""
    options = ["--suite", case.suite, "--pairs", str(case.pairs), "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "ppodc.cli", "run", name, "--config", str(config), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PpodcError((done.stderr.strip().splitlines() or ["the job was killed"])[-1])


def show(result: dict[str, Any]) -> None:
    """What the workers' CPU time implies, what was measured, what was published: a table each."""
    p = result["parameters"]
    shape = "m = {m:,}, l = {l}, k = {k}".format(**p)
    points = result["points"]
    tables = []
    if points[0]["critical_s"] is not None:
        rows = [
            (
                str(point["pairs"]),
                _span(point["cpu_c1_s"]),
                _span(point["cpu_c2_s"]),
                figure.seconds(point["critical_s"]),
                figure.seconds(point["turns_s"]),
                f"{point['speedup_critical']:.2f}",
            )
            for point in points
        ]
        headings = (
            "pairs",
            "C1 worker, s",
            "C2 worker, s",
            "critical path",
            "in turns",
            "speed-up",
        )
        title = f"{p['suite']}: CPU per iteration and what it implies, {shape}"
        tables.append(figure.table(title, headings, rows))
    walls = [
        (str(point["pairs"]), figure.seconds(point["wall_s"]), f"{point['speedup_wall']:.2f}")
        for point in points
    ]
    columns = ("pairs", "one iteration", "speed-up")
    tables.append(figure.table(f"{p['suite']}: measured wall time, {shape}", columns, walls))
    told = [(str(e["pairs"]), f"{e['minutes']:,} min") for e in _published(result)]
    title = "published wall time, m = 10,000, l = 10, k = 4"
    tables.append(figure.table(title, columns[:2], told))
    figure.show(tables, result["notes"])


def _span(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    low, high = f"{seconds[0]:.3g}", f"{seconds[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


def _published(result: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(result["published"], key=lambda entry: int(entry["pairs"]))


def plot(result: dict[str, Any], file: Path) -> None:
    """Seconds over pairs, and speed-up over pairs beside the published one."""
    points = result["points"]
    psi = [point["pairs"] for point in points]
    seconds = [Series("measured wall time", psi, [point["wall_s"] for point in points])]
    gains = [Series("measured wall time", psi, [point["speedup_wall"] for point in points])]
    known = [point for point in points if point["critical_s"] is not None]
    if known:
        at = [point["pairs"] for point in known]
        name = "critical path from CPU time"
        path = [point["critical_s"] for point in known]
        seconds.append(Series(name, at, path, estimated=True))
        implied = [point["speedup_critical"] for point in known]
        gains.append(Series(name, at, implied, estimated=True))
    told = _published(result)
    if psi[0] == told[0]["pairs"]:  # else the speed-ups have different bases
        gained = [told[0]["minutes"] / entry["minutes"] for entry in told]
        gains.append(Series("published", [e["pairs"] for e in told], gained, published=True))
    title = "{suite} suite over worker pairs, m = {m:,}, l = {l}, k = {k}"
    panels = [
        Panel("time", "worker pairs", "seconds per iteration", seconds),
        Panel("speed-up over the fewest pairs", "worker pairs", "times faster", gains),
    ]
    figure.panels(file, panels, title.format(**result["parameters"]))
