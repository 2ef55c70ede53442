"""`ppodc bench kegg`: a real data set to convergence, every iteration checked against plaintext.

The data are KEGG Metabolic Reaction Network (Undirected), given as a file without header; the first
27 columns are scaled to whole numbers 0..1,000, each by its own smallest and largest value. Samples
are rows drawn at random with a fixed seed. The shares suite runs every job to the end. The paillier
suite runs one iteration over a few records of a job, at the widths of the whole job; its time for
all records is a straight line through two such runs, and says so.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.bench import document, iteration, plot
from ppodc.bench.document import Document, Table, plural
from ppodc.bench.estimate import Line
from ppodc.bench.machine import watched
from ppodc.bench.plot import Panel, Series
from ppodc.bench.points import Points, Task, Tell, measure, notices
from ppodc.bench.published import ITERATION_MINUTES
from ppodc.errors import InputError

STORED = Path(__file__).parent / "results" / "kegg.json"
UB = 1000
COLUMNS = 27
SIZES = (2_000, 4_000, 6_000, 8_000, 10_000)
CLUSTERS = (2, 4, 6, 8)
ATTRIBUTES = (5, 10, 15, 20, 27)
MIDDLE = (10_000, 10, 4)  # m, l, k around which one parameter at a time varies
_SEED = 1
_COSTS = ("exact", "total_s", "cpu_c1_s", "cpu_c2_s", "bytes_c1_to_c2", "bytes_c2_to_c1")
_KEPT = {
    "shares": (
        *_COSTS, "iterations", "converged", "offline_s", "online_s", "cluster_s", "peak_rss_mb",
        "start_s", "ingest_s",
    ),
    "paillier": _COSTS,
}  # fmt: skip
NOTES = (
    "Shares suite to convergence, at most {max_iter} iterations, beta = 0, {pairs} pair(s); sums, "
    "sizes and stop bit of every iteration compared with exact plaintext k-means.",
    "its: iterations; off, on, CPU and MB: of one iteration, CPU and MB of both clouds; job: the "
    "whole run in seconds, with its start and with the checks after every iteration.",
    "`others` are the cores that other programs kept busy meanwhile: where it is not near 0, wall "
    "times are too long, CPU times hold.",
)
PAILLIER_NOTE = (
    "Paillier was run on {rows} records, one iteration, randomisers made when needed; its time for "
    "m records is a straight line through these runs, not a measurement."
)


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """One job of the experiment."""

    m: int
    l: int
    k: int


def load(file: Path, columns: int = COLUMNS) -> NDArray[np.int64]:
    """The table as whole numbers 0..1,000; a constant column becomes 0."""
    import pandas as pd

    try:
        table = pd.read_csv(file, header=None).to_numpy(np.float64)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {file} as a table of numbers: {error}") from None
    if table.shape[1] < columns or not np.isfinite(table).all():
        raise InputError(f"{file} must have at least {columns} columns of numbers, none missing.")
    return scaled(table[:, :columns])


def scaled(table: NDArray[np.float64]) -> NDArray[np.int64]:
    """Each column by its own smallest and largest value to 0..1,000, rounded."""
    low, high = table.min(axis=0), table.max(axis=0)
    width = np.where(high > low, high - low, 1)
    whole: NDArray[np.int64] = np.rint((table - low) / width * UB).astype(np.int64)
    return whole


def sample(records: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
    """m rows at random (all of them in their order), the first l columns."""
    if shape.m > len(records) or shape.l > records.shape[1]:
        raise InputError(
            f"the data have {len(records)} rows and {records.shape[1]} columns; "
            f"m = {shape.m}, l = {shape.l} is more."
        )
    if shape.m == len(records):
        return records[:, : shape.l]
    order = np.random.default_rng(_SEED).permutation(len(records))
    return records[order[: shape.m], : shape.l]


def fingerprint(records: NDArray[np.int64]) -> str:
    """Tells one table from another."""
    content = np.ascontiguousarray(records, "<i8")
    return hashlib.sha256(f"{content.shape}".encode() + content.tobytes()).hexdigest()[:16]


def star(whole: int) -> list[Shape]:
    """One parameter at a time around m = 10,000, l = 10, k = 4; and all records."""
    m, l, k = MIDDLE
    shapes = [Shape(each, l, k) for each in SIZES]
    shapes += [Shape(m, l, each) for each in CLUSTERS]
    shapes += [Shape(m, each, k) for each in ATTRIBUTES]
    shapes += [Shape(whole, COLUMNS, k), Shape(whole, l, k)]
    return list(dict.fromkeys(shape for shape in shapes if shape.m <= whole))


def grid(sizes: Sequence[int], attributes: Sequence[int], clusters: Sequence[int]) -> list[Shape]:
    """All combinations, the small ones first."""
    return sorted(Shape(m, l, k) for m in sizes for l in attributes for k in clusters)


def run(
    data: Path | None,
    m: Sequence[int] | None,
    l: Sequence[int],
    k: Sequence[int],
    *,
    pairs: int,
    max_iter: int,
    paillier_rows: Sequence[int],
    key_bits: Sequence[int],
    points: Points,
) -> Document:
    """The experiment over a data set; without one, as it was run for this release."""
    if data is None:
        notices.print("results stored with this release; name the data set to measure")
        return stored()
    records = load(data)
    shapes = star(len(records)) if m is None else grid(m, l, k)
    return run_shapes(
        records, shapes, pairs=pairs, max_iter=max_iter,
        paillier_rows=paillier_rows, key_bits=key_bits, points=points,
    )  # fmt: skip


def run_shapes(
    records: NDArray[np.int64],
    shapes: Sequence[Shape],
    *,
    pairs: int = 1,
    max_iter: int = 100,
    paillier_rows: Sequence[int] = (),
    key_bits: Sequence[int] = (),
    points: Points,
) -> Document:
    """Every shape with the shares suite, one with the paillier suite over so many rows."""
    middle = next((s for s in shapes if (s.m, s.l, s.k) == MIDDLE), shapes[0])
    few = sorted({min(rows, middle.m) for rows in paillier_rows})
    if few and few[0] < middle.k:
        raise InputError(f"run the paillier suite on {middle.k} records or more, one a cluster.")
    jobs = [_job(records, shape, pairs, max_iter) for shape in shapes]
    values = measure("kegg", jobs, points)
    slow = [
        point
        for bits in (key_bits if few else ())
        for point in _paillier(records, middle, few, bits, points)
    ]
    notes = [note.format(max_iter=max_iter, pairs=pairs) for note in NOTES]
    if slow:
        notes.append(PAILLIER_NOTE.format(rows=" and ".join(map(str, few))))
    return document.make(
        "kegg",
        _tables,
        parameters={"pairs": pairs, "max_iter": max_iter, "ub": UB, "records": len(records)},
        points=[*values, *slow],
        published=list(ITERATION_MINUTES),
        notes=notes,
    )


def stored() -> Document:
    """The experiment as it was run for this release; its machine is described in it."""
    document: Document = json.loads(STORED.read_text())
    return {**document, "tables": _tables(document)}


def _task(
    records: NDArray[np.int64],
    label: str,
    about: dict[str, Any],
    key: dict[str, Any],
    work: Callable[[Tell], dict[str, Any]],
) -> Task:
    """One run of `iteration.run_records`: what of its figures is kept, and who else was busy."""

    def watched_work(tell: Tell) -> dict[str, Any]:
        with watched() as load:
            figures = work(tell)
        kept = {name: figures[name] for name in _KEPT[about["suite"]]}
        return {**about, **kept, "job_s": load.seconds, "others": load.others}

    return Task(label, {"bench": "kegg", **about, **key, "of": fingerprint(records)}, watched_work)


def _job(records: NDArray[np.int64], shape: Shape, pairs: int, max_iter: int) -> Task:
    def work(tell: Tell) -> dict[str, Any]:
        rows = sample(records, shape)
        return iteration.run_records(rows, "shares", shape.k, pairs, max_iter, ub=UB, tell=tell)

    about = {"suite": "shares", **asdict(shape), "pairs": pairs}
    label = f"m = {shape.m:,}, l = {shape.l}, k = {shape.k}"
    return _task(records, label, about, {"max_iter": max_iter}, work)


def _paillier(
    records: NDArray[np.int64],
    shape: Shape,
    sizes: Sequence[int],
    key_bits: int,
    points: Points,
) -> list[dict[str, Any]]:
    """One iteration of one shape over few records, and the line through these runs."""
    tasks = [_few(records, shape, rows, key_bits) for rows in sizes]
    runs = measure("kegg, paillier", tasks, points)
    if len(runs) < 2:
        return runs
    wall = Line.through(sizes, [run["total_s"] for run in runs])
    cpu = Line.through(sizes, [run["cpu_c1_s"] + run["cpu_c2_s"] for run in runs])
    whole = {
        "suite": "paillier", **asdict(shape), "pairs": 1,
        "key_bits": key_bits, "extrapolated_from_rows": list(sizes), "fixed_s": wall.fixed,
        "per_record_s": wall.each, "total_s": wall.at(shape.m), "cpu_s": cpu.at(shape.m),
    }  # fmt: skip
    return [*runs, whole]


def _few(records: NDArray[np.int64], shape: Shape, rows: int, key_bits: int) -> Task:
    def work(tell: Tell) -> dict[str, Any]:
        first = sample(records, shape)[:rows]
        return iteration.run_records(
            first, "paillier", shape.k, 1, 1, of=shape.m, ub=UB, key_bits=key_bits, tell=tell
        )

    about = {"suite": "paillier", **asdict(shape), "rows": rows, "key_bits": key_bits}
    return _task(records, f"paillier, {key_bits} bits, {rows} records", about, {}, work)


def _tables(result: Document) -> list[Table]:
    """Jobs of the shares suite, and the paillier suite beside the published times."""
    slow = [p for p in result["points"] if p["suite"] == "paillier"]
    published = [
        (f"{p['m']:,}", str(p["l"]), str(p["k"]), str(p["pairs"]), p["mode"], f"{p['minutes']:,}")
        for p in result["published"]
    ]
    columns = ("m", "l", "k", "pairs", "mode", "minutes")
    return [
        _shares_table([p for p in result["points"] if p["suite"] == "shares"]),
        *(
            _paillier_table(bits, [p for p in slow if p["key_bits"] == bits])
            for bits in dict.fromkeys(p["key_bits"] for p in slow)
        ),
        document.table("Published: one iteration, key of 1,024 bits", columns, published),
    ]


def _shares_table(jobs: list[dict[str, Any]]) -> Table:
    rows = []
    for p in jobs:
        traffic = p["bytes_c1_to_c2"] + p["bytes_c2_to_c1"]
        end = f"{p['iterations']}" + ("" if p["converged"] else " (cap)")
        rows.append((
            f"{p['m']:,}", str(p["l"]), str(p["k"]), end, document.yes(p["exact"]),
            f"{p['offline_s']:.2f}", f"{p['online_s']:.2f}",
            f"{p['cpu_c1_s'] + p['cpu_c2_s']:.2f}", f"{traffic / 1e6:,.0f}",
            f"{p['job_s']:,.0f}", document.cores(p["others"]),
        ))  # fmt: skip
    columns = ("m", "l", "k", "its", "ok", "off", "on", "CPU", "MB", "job", "others")
    title = "KEGG, shares suite: seconds per iteration, and of the whole job"
    return document.table(title, columns, rows)


def _paillier_table(bits: int, slow: list[dict[str, Any]]) -> Table:
    """The few records that were run, and what they imply."""
    rows = []
    for p in slow:
        measured = "rows" in p
        rows.append((
            f"{p['rows']:,}" if measured else f"{p['m']:,}", str(p["l"]), str(p["k"]),
            "measured" if measured else "extrapolated",
            document.seconds(p["total_s"]),
            document.seconds(p["cpu_c1_s"] + p["cpu_c2_s"] if measured else p["cpu_s"]),
            document.yes(p["exact"]) if measured else "-",
        ))  # fmt: skip
    columns = ("records", "l", "k", "how", "wall", "CPU", "exact")
    title = f"KEGG, paillier suite, key of {bits} bits: one iteration, one pair"
    return document.table(title, columns, rows)


def draw(result: Document, file: plot.File) -> None:
    """Seconds per iteration over m, l and k, one at a time; what is fixed is in each title."""
    shares = [p for p in result["points"] if p["suite"] == "shares"]
    labels = {"m": "records m", "l": "attributes l", "k": "clusters k"}
    panels = []
    for name, label in labels.items():
        fixed, points = _along(shares, name)
        x = [p[name] for p in points]
        series = [
            Series("wall, offline and online", x, [p["total_s"] for p in points]),
            Series("wall, online", x, [p["online_s"] for p in points]),
            Series("CPU of both clouds", x, [p["cpu_c1_s"] + p["cpu_c2_s"] for p in points]),
        ]
        title = ", ".join(f"{key} = {value:,}" for key, value in fixed.items())
        panels.append(Panel(title, label, "seconds per iteration", series))
    pairs = plural(result["parameters"]["pairs"], "pair")
    plot.lines(file, panels, f"KEGG, shares suite, {pairs} of workers")


def _along(shares: list[dict[str, Any]], name: str) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """The longest row of points that differ in one parameter only; the middle one if several."""
    others = [key for key in ("m", "l", "k") if key != name]
    middle = dict(zip(("m", "l", "k"), MIDDLE, strict=True))
    rows: dict[tuple[int, ...], list[dict[str, Any]]] = {}
    for p in sorted(shares, key=lambda p: int(p[name])):
        rows.setdefault(tuple(p[key] for key in others), []).append(p)
    wanted = tuple(middle[key] for key in others)
    best = max(rows, key=lambda fixed: (len(rows[fixed]), fixed == wanted))
    return dict(zip(others, best, strict=True)), rows[best]
