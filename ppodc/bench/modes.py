"""`ppodc bench modes`: Figure 5.5, an iteration of the paillier suite in three modes over m.

online+offline makes randomisers when they are needed, as r^n; online takes them from pools that
were filled before the clock started; pipelined keeps several batches in flight as well. Every
point is a few records, run with the widths of all m, times m (see `estimate`). One pair.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ppodc.bench import estimate, figure
from ppodc.bench.estimate import Estimate
from ppodc.bench.figure import Series
from ppodc.bench.paillier_steps import MODES
from ppodc.bench.points import Points, measure
from ppodc.bench.published import ITERATION_MINUTES, SHAPE


def run(
    ms: Sequence[int] = (2000, 4000, 6000, 8000, 10_000),
    *,
    l: int = 10,
    k: int = 4,
    key_bits: int = 2048,
    records: int = 16,
    points: Points | None = None,
) -> dict[str, Any]:
    """Seconds per iteration for every m and mode; a document for JSON."""
    grid = [(m, mode) for m in ms for mode in MODES]
    cases = [Estimate(m, l, k, mode, key_bits, records) for m, mode in grid]
    tasks = [case.task(split=False) for case in cases]
    values = measure("modes", tasks, points or Points())
    found = [{"m": m, "mode": mode, **value} for (m, mode), value in zip(grid, values, strict=True)]
    return figure.document(
        "modes",
        {"m": list(ms), "l": l, "k": k, "key_bits": key_bits, "records": records, "pairs": 1},
        found,
        published=ITERATION_MINUTES if {"l": l, "k": k} == SHAPE else (),
        notes=[
            estimate.note(records) + f" One pair, key of {key_bits} bits.",
            "Published: 1,024 bits, l = 10, k = 4, only where the text states a number.",
        ],
    )


def show(result: dict[str, Any]) -> None:
    """Minutes by m and mode, and the published ones."""
    p = result["parameters"]
    found = {(point["m"], point["mode"]): point["iteration_s"] for point in result["points"]}
    rows = [
        (f"{m:,}", *(figure.seconds(found[m, mode]) for mode in MODES), _saved(found, m))
        for m in p["m"]
    ]
    headings = ("m", *(f"{mode}, estimated" for mode in MODES), "saved by both")
    title = f"paillier: one iteration, l = {p['l']}, k = {p['k']}, one pair"
    published = [
        (f"{entry['m']:,}", entry["mode"], str(entry["pairs"]), f"{entry['minutes']:,} min")
        for entry in result["published"]
    ]
    tables = [figure.table(title, headings, rows)]
    if published:
        columns = ("m", "mode", "pairs", "one iteration")
        tables.append(figure.table("Published, 1,024 bits", columns, published))
    figure.show(tables, result["notes"])


def _saved(found: dict[tuple[int, str], float], m: int) -> str:
    return f"{1 - found[m, MODES[-1]] / found[m, MODES[0]]:.0%}"


def plot(result: dict[str, Any], file: Path) -> None:
    """Minutes over m; published points where the text has them."""
    p = result["parameters"]
    series = []
    for mode in MODES:
        own = [point for point in result["points"] if point["mode"] == mode]
        minutes = [point["iteration_s"] / 60 for point in own]
        series.append(Series(mode, [point["m"] for point in own], minutes, estimated=True))
    for entry in result["published"]:
        pairs = f"{entry['pairs']} pair{'s' * (entry['pairs'] > 1)}"
        name = f"published, 1,024 bits: {entry['mode']}, {pairs}"
        series.append(Series(name, [entry["m"]], [entry["minutes"]], published=True))
    title = (
        f"Modes of the paillier suite, l = {p['l']}, k = {p['k']}, one pair, {p['key_bits']} bits"
    )
    figure.lines(file, series, "records m", "minutes per iteration", title, log="y")
