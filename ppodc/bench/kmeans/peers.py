"""`ppodc bench peers`: the same iteration in SecretFlow SPU, beside this one, on the same machine.

Both start from the same records and the same first centres, both run two processes over loopback,
or over the same imitated link: SPU's parties, too, connect to a forwarder (`slow_network`), one for
each party that listens.
SPU's Cheetah is a two-party protocol without a dealer, like the suites here; Semi2k relies on a
trusted dealer and is so far cheaper. SPU computes with fixed-point numbers, so its centres are not
exact: the largest error is reported. SPU's first run sets up its transfers and is reported apart.

SPU pins other versions of numpy than this package needs, so it usually lives in an environment of
its own; `--python` names its interpreter. Without SPU the rows are missing and the reason is said.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, network_presets, options, plot, slow_network
from ppodc.bench.document import Document, Table
from ppodc.bench.kmeans import iteration, spu_iteration
from ppodc.bench.machine import watched
from ppodc.bench.network_presets import Link
from ppodc.bench.points import Task, Tell, measure
from ppodc.errors import PpodcError
from ppodc.kmeans.reference import centres, kmeans
from ppodc.kmeans.row_choice import initial_rows
from ppodc.local.platform import free_ports

PROTOCOLS = {"CHEETAH": "SPU Cheetah", "SEMI2K": "SPU Semi2k (trusted dealer)"}
INSTALL = "`make peers`, or python3.11 -m venv spu-venv && spu-venv/bin/pip install spu"
_SEED = 7


def version(python: Path) -> str | None:
    """The version of SPU that an interpreter has; None if it has none."""
    command = [str(python), "-c", "import importlib.metadata as m; print(m.version('spu'))"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def run(
    m: options.Records = 10_000,
    l: options.Attributes = 10,
    k: options.Clusters = 4,
    runs: Annotated[int, typer.Option(min=1, help="Iterations to take the median of.")] = 3,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter that has the package `spu`, if not this one.")
    ] = None,
    link: options.ImitatedLink = None,
    gbit: options.Gbit = None,
    latency_ms: options.LatencyMs = None,
    *,
    points: options.KeptPoints,
) -> Document:
    """Compare an iteration in SecretFlow SPU (Cheetah, Semi2k) with the shares suite."""
    ub = 1000
    over = network_presets.imitated(link, gbit, latency_ms)
    interpreter = python or Path(sys.executable)
    spu = version(interpreter)
    shape = {"m": m, "l": l, "k": k, "ub": ub, "runs": runs}
    records = iteration.random_records(m, l, ub)
    tasks = [_ours(records, shape, over)]
    notes = _notes(shape, over)
    if spu is None:
        notes.append(
            f"SPU was skipped: {'this' if python is None else 'the named'} interpreter has no "
            f"package `spu`. Install it apart ({INSTALL}) and name its interpreter with --python."
        )
    else:
        tasks += [_theirs(records, shape, over, name, interpreter, spu) for name in PROTOCOLS]
    values = measure("peers", tasks, points)
    return document.make(
        "peers",
        _tables,
        parameters={**shape, "spu": spu, "link": _described(over)},
        points=values,
        published=[],
        notes=notes,
    )


def _notes(shape: dict[str, int], link: Link | None) -> list[str]:
    where = "loopback" if link is None else f"an imitated link ({link.describe()})"
    notes = [
        f"One iteration over the same records, two processes on {where}, median of "
        f"{shape['runs']} runs after one to warm up; MB are those of both directions. SPU runs the "
        "first iteration again and again, this suite goes on to the next, which costs the same. "
        "Its time is offline and online together, its set-up the base transfers and taking in the "
        "records; SPU's set-up is what its first run took longer than the others.",
        "SPU computes in fixed point (64 bits, 18 of them fraction); it neither re-seeds empty "
        "clusters nor tests whether to stop.",
    ]
    if overflows(shape["m"], shape["l"], shape["ub"]):
        notes.append(
            "At this size SPU's 64 bits overflow, so its error says nothing about SPU; it would "
            "have to scale the values down, or take 128 bits."
        )
    return notes


def overflows(m: int, l: int, ub: int) -> bool:
    """Whether a score or a sum leaves the signed numbers of 64 bits before it is rounded."""
    fraction = 2 * spu_iteration.FRACTION_BITS
    return max(2 * l * ub**2, m * ub) << fraction >= 1 << 63


def _described(link: Link | None) -> str | None:
    return None if link is None else link.describe()


def _ours(records: NDArray[np.int64], shape: dict[str, int], link: Link | None) -> Task:
    job = iteration.Run("shares", shape["k"], 1, shape["runs"], ub=shape["ub"], link=link)

    def work(tell: Tell) -> dict[str, Any]:
        with watched() as load:
            result = job.exact(records, tell)
        return {
            "system": "ppodc shares",
            "seconds": result["total_s"],
            "setup_s": result["start_s"] + result["ingest_s"],
            **iteration.both_clouds(result),
            "error": 0.0,
            "others": load.others,
        }

    key = {"bench": "peers", "system": "ppodc shares", **shape, "link": _described(link)}
    return Task("ppodc shares", key, work)


def _theirs(
    records: NDArray[np.int64],
    shape: dict[str, int],
    link: Link | None,
    name: str,
    python: Path,
    version: str,
) -> Task:
    key = {"bench": "peers", "system": name, "version": version, **shape, "link": _described(link)}

    def work(_: Tell) -> dict[str, Any]:
        with watched() as load:
            centres, runs = spu_run(records, shape["k"], name, python, shape["runs"] + 1, link)
        later = runs[1:]
        seconds = statistics.median(r["seconds"] for r in later)
        sent = [r["bytes"] for r in later]
        return {
            "system": PROTOCOLS[name],
            "seconds": seconds,
            "setup_s": max(0.0, runs[0]["seconds"] - seconds),
            "cpu_s": statistics.median(r["cpu_s"] for r in later),
            "bytes": None if None in sent else statistics.median(sent),
            "error": largest_error(centres, records, shape["k"]),
            "others": load.others,
        }

    return Task(PROTOCOLS[name], key, work)


def spu_run(
    records: NDArray[np.int64],
    k: int,
    protocol: str,
    python: Path,
    runs: int,
    link: Link | None = None,
) -> tuple[NDArray[np.float64], list[dict[str, Any]]]:
    """Centres and costs of one iteration in SPU, repeated, by an interpreter that has it."""
    with tempfile.TemporaryDirectory(prefix="ppodc-spu-") as place, _ports(link) as (ports, seen):
        folder = Path(place)
        np.save(folder / "points.npy", records.astype(np.float32))
        start = records[initial_rows(_SEED, len(records), k)]
        np.save(folder / "centres.npy", start.astype(np.float32))
        setting = {"protocol": protocol, "runs": runs, "ports": ports, "seen": seen}
        (folder / "setting.json").write_text(json.dumps(setting))
        # -P: the other files of that folder, `platform` for one, are not to be imported by name
        command = [str(python), "-P", spu_iteration.__file__, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            raise PpodcError(f"SPU ({protocol}) failed: {said[-1]}")
        result = json.loads((folder / "result.json").read_text())
        return np.load(folder / "result.npy", allow_pickle=False), result["runs"]


@contextmanager
def _ports(link: Link | None) -> Iterator[tuple[list[int], list[int]]]:
    """Free ports for both parties, and those at which they reach each other."""
    ports = seen = free_ports(2)
    with ExitStack() as forwarders:
        if link is not None:
            ends = [
                forwarders.enter_context(slow_network.slow(f"tcp://127.0.0.1:{port}", link))
                for port in ports
            ]
            seen = [urlsplit(end).port or 0 for end in ends]
        yield ports, seen


def largest_error(found: NDArray[np.float64], records: NDArray[np.int64], k: int) -> float:
    """The largest distance of a coordinate from the exact centre after one iteration."""
    last = kmeans(records, k, beta=0, max_iter=1, seed=_SEED).iterations[-1]
    return max(
        float(abs(Fraction(float(value)) - right)) if np.isfinite(value) else float("inf")
        for row, wanted in zip(found, centres(last.next_sums, last.next_sizes), strict=True)
        for value, right in zip(row, wanted, strict=True)
    )


def _tables(result: Document) -> list[Table]:
    """One row for each system."""
    errors = (f"{p['error']:.3g}" if p["error"] else "0 (exact)" for p in result["points"])
    return [
        document.table_of(
            _title(result),
            "system | wall | CPU, both | set-up, once | MB | largest error | others",
            "{system} | {seconds:time} | {cpu_s:time} | {setup_s:time} | {bytes:/1e6 ,.1f} | "
            "{largest} | {others:cores}",
            [{**p, "largest": e} for p, e in zip(result["points"], errors, strict=True)],
        )
    ]


def _title(result: Document) -> str:
    return f"One iteration, {document.SHAPE}".format(**result["parameters"])


def draw(result: Document, file: plot.File) -> None:
    """Seconds of each system, wall and CPU side by side."""
    points = result["points"]
    groups = [p["system"].replace(" (", "\n(") for p in points]
    kinds = {"wall": "seconds", "CPU of both parties": "cpu_s"}
    values = {name: [p[what] for p in points] for name, what in kinds.items()}
    bars = plot.Bars("", "system", "seconds", groups, values)
    plot.bars(file, [bars], _title(result), stacked=False)
