"""`ppodc bench modes`: Figure 5.5, an iteration of the paillier suite in three modes over m.

online+offline makes randomisers when they are needed, as r^n; online takes them from pools that
were filled before the clock started; pipelined keeps several batches in flight as well. Every
point is a few records, run with the widths of all m, times m (see `estimate`). One pair.
"""

from collections.abc import Sequence

from ppodc.bench import document, estimate, plot
from ppodc.bench.document import Document, Table, plural
from ppodc.bench.estimate import Estimate
from ppodc.bench.paillier_steps import MODES
from ppodc.bench.plot import Panel, Series
from ppodc.bench.points import Points, measure
from ppodc.bench.published import ITERATION_MINUTES, SHAPE


def run(
    m: Sequence[int], *, l: int, k: int, key_bits: int, records: int, points: Points
) -> Document:
    """Seconds per iteration for every m and mode."""
    grid = [(size, mode) for size in m for mode in MODES]
    cases = [Estimate(size, l, k, mode, key_bits, records) for size, mode in grid]
    values = measure("modes", [case.task(split=False) for case in cases], points)
    return document.make(
        "modes",
        _tables,
        parameters={
            "m": list(m), "l": l, "k": k, "key_bits": key_bits, "records": records, "pairs": 1,
        },
        points=[
            {"m": size, "mode": mode, **value}
            for (size, mode), value in zip(grid, values, strict=True)
        ],
        published=list(ITERATION_MINUTES) if {"l": l, "k": k} == SHAPE else [],
        notes=[
            estimate.note(records) + f" One pair, key of {key_bits} bits.",
            "Published: 1,024 bits, l = 10, k = 4, only where the text states a number.",
        ],
    )  # fmt: skip


def _tables(result: Document) -> list[Table]:
    """Times by m and mode, and the published ones."""
    p = result["parameters"]
    times = {(point["m"], point["mode"]): point["iteration_s"] for point in result["points"]}
    rows = [
        (
            f"{m:,}",
            *(document.seconds(times[m, mode]) for mode in MODES),
            f"{1 - times[m, MODES[-1]] / times[m, MODES[0]]:.0%}",
        )
        for m in p["m"]
    ]
    columns = ("m", *(f"{mode}, estimated" for mode in MODES), "saved by both")
    title = f"paillier: one iteration, l = {p['l']}, k = {p['k']}, one pair"
    tables = [document.table(title, columns, rows)]
    if result["published"]:
        published = [
            (f"{entry['m']:,}", entry["mode"], str(entry["pairs"]), f"{entry['minutes']:,} min")
            for entry in result["published"]
        ]
        columns = ("m", "mode", "pairs", "one iteration")
        tables.append(document.table("Published, 1,024 bits", columns, published))
    return tables


def draw(result: Document, file: plot.File) -> None:
    """Minutes over m; published points where the text has them."""
    p = result["parameters"]
    series = []
    for mode in MODES:
        points = [point for point in result["points"] if point["mode"] == mode]
        minutes = [point["iteration_s"] / 60 for point in points]
        series.append(Series(mode, [point["m"] for point in points], minutes, estimated=True))
    for entry in result["published"]:
        name = f"published, 1,024 bits: {entry['mode']}, {plural(entry['pairs'], 'pair')}"
        series.append(Series(name, [entry["m"]], [entry["minutes"]], published=True))
    title = "Modes of the paillier suite, l = {l}, k = {k}, one pair, {key_bits} bits".format(**p)
    plot.lines(file, [Panel("", "records m", "minutes per iteration", series)], title, log="y")
