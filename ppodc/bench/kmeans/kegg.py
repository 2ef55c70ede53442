"""`ppodc bench kegg`: a real data set to convergence, every iteration checked against plaintext.

The data are KEGG Metabolic Reaction Network (Undirected), given as a file without header. A first
column of names and rows with a missing value (`?`) are left out. So did the chapter with such rows:
64,608 of 65,554 records were left, of 29 attributes. The stored results are of another version of
the set: 63,608 records, 28 columns of centred numbers, no value missing. The first 27
columns are scaled to whole numbers 0..1,000, each by its own smallest and largest value.
Samples are rows drawn at random with a fixed seed. The shares suite runs every job to the end.

The paillier suite runs one iteration over a few records of a job, at the widths of the whole job;
its time for all records is a straight line through two such runs, and says so. With a size of a
part it does the iteration over all records instead, part by part (`whole_iteration`): hours at the
published size, which an interrupted run continues.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, options, plot
from ppodc.bench.document import Document, Table, plural
from ppodc.bench.kmeans import published, whole_iteration
from ppodc.bench.kmeans.estimate import Line
from ppodc.bench.kmeans.iteration import Run, both_clouds
from ppodc.bench.kmeans.whole_iteration import WholeIteration
from ppodc.bench.machine import watched
from ppodc.bench.plot import Panel
from ppodc.bench.points import Points, Task, Tell, measure, notices
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
_PARTS = ("offline_s", "online_s", "cluster_s", "peak_rss_mb", "start_s", "ingest_s")
_KEPT = {"shares": (*_COSTS, "iterations", "converged", *_PARTS), "paillier": _COSTS}
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
        raw = pd.read_csv(file, header=None, na_values="?", low_memory=False)
        named = raw.shape[1] > columns and pd.to_numeric(raw[0], errors="coerce").isna().all()
        table = (raw.iloc[:, 1:] if named else raw).to_numpy(np.float64)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {file} as a table of numbers: {error}") from None
    whole = np.isfinite(table).all(axis=1)
    if named or not whole.all():
        names = "names left out, " if named else ""
        notices.print(f"{file.name}: {names}{(~whole).sum():,} of {len(whole):,} rows incomplete")
    if table.shape[1] < columns or not whole.any():
        raise InputError(f"{file} must have at least {columns} columns of numbers.")
    return scaled(table[whole, :columns])


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
    data: Annotated[
        Path | None,
        typer.Argument(help="The data set (.csv or .csv.gz); without it, the stored results."),
    ] = None,
    m: Annotated[
        Sequence[int] | None,
        typer.Option(parser=options.numbers, metavar="LIST", help="Records, with all l and k."),
    ] = None,
    l: options.ManyAttributes = ATTRIBUTES,
    k: options.ManyClusters = CLUSTERS,
    pairs: options.Pairs = 1,
    max_iter: Annotated[int, typer.Option(min=1, help="Most iterations of a job.")] = 100,
    paillier_rows: Annotated[
        Sequence[int],
        typer.Option(
            parser=options.numbers,
            metavar="LIST",
            help="Records of the paillier suite; 'none' skips it.",
        ),
    ] = (8, 32),
    paillier_part: Annotated[
        int,
        typer.Option(min=0, help="One paillier iteration over all records, so many in a part."),
    ] = 0,
    key_bits: options.ManyKeyBits = (1024, 2048),
    kept: Annotated[
        Path | None,
        typer.Option(help="Measure nothing: how far --paillier-part is, by its points file."),
    ] = None,
    *,
    points: options.KeptPoints,
) -> Document:
    """KEGG to convergence with the shares suite, every iteration compared with plaintext.

    Without --m: m, l and k vary one at a time around 10,000 records, 10 attributes, 4 clusters, and
    all records run with 27 and 10 attributes. With --m: every combination of the lists.
    """
    if kept is not None:
        return finished(kept)
    if data is None:
        notices.print("These results are stored with this release. Name the data set to measure.")
        return stored()
    records = load(data)
    shapes = star(len(records)) if m is None else grid(m, l, k)
    how: dict[str, Any] = {"paillier_rows": paillier_rows, "key_bits": key_bits}
    how["paillier_part"] = paillier_part
    return run_shapes(records, shapes, pairs=pairs, max_iter=max_iter, **how, points=points)


def run_shapes(
    records: NDArray[np.int64],
    shapes: Sequence[Shape],
    *,
    pairs: int = 1,
    max_iter: int = 100,
    paillier_rows: Sequence[int] = (),
    paillier_part: int = 0,
    key_bits: Sequence[int] = (),
    points: Points,
) -> Document:
    """Every shape with the shares suite, one with the paillier suite over this many rows."""
    middle = next((s for s in shapes if (s.m, s.l, s.k) == MIDDLE), shapes[0])
    few = sorted({min(rows, middle.m) for rows in paillier_rows})
    if few and few[0] < middle.k:
        raise InputError(f"run the paillier suite on {middle.k} records or more, one a cluster.")
    jobs = [_job(records, shape, pairs, max_iter) for shape in shapes]
    values = measure("kegg", jobs, points)
    notes = [note.format(max_iter=max_iter, pairs=pairs) for note in NOTES]
    if few and key_bits:
        notes.append(PAILLIER_NOTE.format(rows=" and ".join(map(str, few))))
        for bits in key_bits:
            values += _paillier(records, middle, few, bits, points)
    if paillier_part:
        notes.append(whole_iteration.NOTE)
        chosen = sample(records, middle)
        for bits in key_bits:
            whole = WholeIteration(middle.k, bits, paillier_part, UB, fingerprint(chosen))
            values.append(whole.run(chosen, points))
    return document.make(
        "kegg",
        _tables,
        parameters={"pairs": pairs, "max_iter": max_iter, "ub": UB, "records": len(records)},
        points=values,
        published=list(published.ITERATION_MINUTES),
        notes=notes,
    )


def stored() -> Document:
    """The experiment as it was run for this release; its machine is described in it."""
    document: Document = json.loads(STORED.read_text())
    return {**document, "tables": _tables(document)}


def finished(file: Path) -> Document:
    """The finished parts of the iterations that a file of points holds, of any release."""
    try:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        values = whole_iteration.kept(lines)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{file} is no file of measured points: {error}") from None
    return document.make(
        "kegg",
        _tables,
        parameters={"pairs": 1, "ub": UB},
        points=values,
        published=list(published.ITERATION_MINUTES),
        notes=[whole_iteration.NOTE],
    )


def _task(
    label: str, records: NDArray[np.int64], shape: Shape, job: Run, few: slice, **more: int
) -> Task:
    """One run over some rows of a sample, with its figures and the load of other programs."""
    about = {"suite": job.suite, **asdict(shape), **more}

    def work(tell: Tell) -> dict[str, Any]:
        with watched() as load:
            figures = job.over(sample(records, shape)[few], tell)
        kept = {name: figures[name] for name in _KEPT[job.suite]}
        return {**about, **kept, "job_s": load.seconds, "others": load.others}

    key = {"bench": "kegg", **job.key(), **about, "table": fingerprint(records)}
    return Task(label, key, work)


def _job(records: NDArray[np.int64], shape: Shape, pairs: int, max_iter: int) -> Task:
    label = document.SHAPE.format(**asdict(shape))
    job = Run("shares", shape.k, pairs, max_iter, warm_up=0, ub=UB)
    return _task(label, records, shape, job, slice(None), pairs=pairs)


def _few(records: NDArray[np.int64], shape: Shape, rows: int, key_bits: int) -> Task:
    label = f"paillier, {key_bits} bits, {rows} records"
    job = Run("paillier", shape.k, 1, 1, of=shape.m, ub=UB, key_bits=key_bits)
    return _task(label, records, shape, job, slice(rows), rows=rows, key_bits=key_bits)


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
    cpu = Line.through(sizes, [both_clouds(run)["cpu_s"] for run in runs])
    whole = {
        "suite": "paillier",
        **asdict(shape),
        "pairs": 1,
        "key_bits": key_bits,
        "extrapolated_from_rows": list(sizes),
        "fixed_s": wall.fixed,
        "per_record_s": wall.each,
        "total_s": wall.at(shape.m),
        "cpu_s": cpu.at(shape.m),
    }
    return [*runs, whole]


def _tables(result: Document) -> list[Table]:
    """Jobs of the shares suite, and the paillier suite beside the published times."""
    slow = _points(result, "paillier")
    shares = document.table_of(
        "KEGG, shares suite: seconds per iteration, and of the whole job",
        "m | l | k | its | ok | off | on | CPU | MB | job | others",
        "{m:,} | {l} | {k} | {iterations}{cap} | {exact:yes} | {offline_s:.2f} | {online_s:.2f} | "
        "{cpu_s:.2f} | {bytes:/1e6 ,.0f} | {job_s:,.0f} | {others:cores}",
        [{**p, "cap": "" if p["converged"] else " (cap)"} for p in _points(result, "shares")],
    )
    by_key = [
        document.table_of(
            f"KEGG, paillier suite, key of {bits} bits: one iteration, one pair",
            "records | l | k | how | wall | CPU | exact",
            "{rows:,} | {l} | {k} | {how} | {total_s:time} | {cpu_s:time} | {exact}",
            [_few_words(p) for p in slow if p["key_bits"] == bits],
        )
        for bits in dict.fromkeys(p["key_bits"] for p in slow)
    ]
    title = "Published: one iteration, key of 1,024 bits"
    return [
        *([shares] if shares["rows"] else []),
        *by_key,
        published.minutes_table(title, result["published"]),
    ]


def _few_words(p: dict[str, Any]) -> dict[str, Any]:
    """A run over few records, or what these runs imply for all."""
    if "parts" in p:
        how = whole_iteration.how(p)
        return {**p, "rows": p["done"], "how": how, "exact": document.yes(p["exact"])}
    if "rows" in p:
        return {**p, "how": "measured", "exact": document.yes(p["exact"])}
    return {**p, "rows": p["m"], "how": "extrapolated", "exact": "-"}


def _points(result: Document, suite: str) -> list[dict[str, Any]]:
    """A suite's points, with costs of both clouds together; extrapolated ones have them already."""
    points = [p for p in result["points"] if p["suite"] == suite]
    return [p if "cpu_s" in p else {**p, **both_clouds(p)} for p in points]


def draw(result: Document, file: plot.File) -> None:
    """Seconds per iteration over m, l and k, one at a time; what is fixed is in each title."""
    lines = {
        "wall, offline and online": "total_s",
        "wall, online": "online_s",
        "CPU of both clouds": "cpu_s",
    }
    panels = []
    for name in "mlk":
        fixed, points = _along(_points(result, "shares"), name)
        series = [plot.series(label, points, name, what) for label, what in lines.items()]
        title = ", ".join(f"{key} = {value:,}" for key, value in fixed.items())
        panels.append(Panel(title, plot.LABELS[name], "seconds per iteration", series))
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
