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
from ppodc.bench.plot import Panel
from ppodc.bench.points import Points, measure
from ppodc.bench.published import ITERATION_MINUTES, SHAPE


def run(
    m: Sequence[int], *, l: int, k: int, key_bits: int, records: int, points: Points
) -> Document:
    """Seconds per iteration for every m and mode."""
    grid = [(size, mode) for size in m for mode in MODES]
    cases = [Estimate(size, l, k, mode, key_bits, records) for size, mode in grid]
    values = measure("modes", [case.task(split=False) for case in cases], points)
    how = {"l": l, "k": k, "key_bits": key_bits, "records": records, "pairs": 1}
    return document.make(
        "modes",
        _tables,
        parameters={"m": list(m), **how},
        points=[
            {"m": size, "mode": mode, **value}
            for (size, mode), value in zip(grid, values, strict=True)
        ],
        published=list(ITERATION_MINUTES) if {"l": l, "k": k} == SHAPE else [],
        notes=[
            estimate.note(records, f"One pair, key of {key_bits} bits."),
            "Published: 1,024 bits, l = 10, k = 4, only where the text states a number.",
        ],
    )


def _tables(result: Document) -> list[Table]:
    """Times by m and mode, and the published ones."""
    points = [{"m": p["m"], p["mode"]: p["iteration_s"]} for p in result["points"]]
    rows = document.joined(points, "m")
    for row in rows:
        row["saved"] = 1 - row[MODES[-1]] / row[MODES[0]]
    tables = [
        document.table_of(
            "paillier: one iteration, l = {l}, k = {k}, one pair".format(**result["parameters"]),
            f"m | {' | '.join(f'{mode}, estimated' for mode in MODES)} | saved by both",
            f"{{m:,}} | {' | '.join(f'{{{mode}:time}}' for mode in MODES)} | {{saved:.0%}}",
            rows,
        )
    ]
    if result["published"]:
        published = document.table_of(
            "Published, 1,024 bits",
            "m | mode | pairs | one iteration",
            "{m:,} | {mode} | {pairs} | {minutes:,} min",
            result["published"],
        )
        tables.append(published)
    return tables


def draw(result: Document, file: plot.File) -> None:
    """Minutes over m; published points where the text has them."""
    series = []
    for mode in MODES:
        points = [point for point in result["points"] if point["mode"] == mode]
        series.append(plot.series(mode, points, "m", "iteration_s", unit=60, estimated=True))
    for entry in result["published"]:
        name = f"published, 1,024 bits: {entry['mode']}, {plural(entry['pairs'], 'pair')}"
        series.append(plot.series(name, [entry], "m", "minutes", published=True))
    title = "Modes of the paillier suite, l = {l}, k = {k}, one pair, {key_bits} bits"
    panel = Panel("", plot.LABELS["m"], "minutes per iteration", series)
    plot.lines(file, [panel], title.format(**result["parameters"]), log="y")
