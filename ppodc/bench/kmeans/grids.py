"""`ppodc bench sweep`, `breakdown` and `modes`: Figures 5.3 to 5.5, grids of one iteration.

The shares suite runs all m records, offline and online. The paillier suite runs a few records of
each cell with the widths of all m, and the cost per record is multiplied (`estimate`). One pair.

- `sweep` varies two of m, k and l at a time. The third has the middle value of its list. The
  paillier suite is pipelined, with pools filled before.
- `breakdown` gives the part of each primitive over k. Offline work counts with the primitive that
  uses it. SSED_OP includes scaling the clusters. `other` are the products with the one-hot, the
  re-seeding and the stop test, as in the figure.
- `modes` compares three modes of the paillier suite over m. online+offline makes randomisers when
  they are needed, as r^n; online takes them from pools filled before; pipelined also keeps several
  batches in flight.
"""

from collections.abc import Sequence
from typing import Any

from ppodc.bench import document, options, plot
from ppodc.bench.document import Document, Table, grouped, plural
from ppodc.bench.kmeans import estimate, share_primitives
from ppodc.bench.kmeans.estimate import Estimate
from ppodc.bench.kmeans.paillier_steps import MODES
from ppodc.bench.kmeans.published import COMPARING, ITERATION_MINUTES, SHAPE
from ppodc.bench.plot import Panel
from ppodc.bench.points import Points, Task, measure
from ppodc.kmeans.suites import Mode, Suite

Point = dict[str, Any]
Case = dict[str, int]  # m, l and k
Cell = tuple[Suite, Case, Mode]
SIZES = (2_000, 4_000, 6_000, 8_000, 10_000)
AXES = (("m", "k"), ("m", "l"), ("k", "l"))  # of a sweep: (horizontal, a line for each)
COMPARED = ("SBD", "SMIN_k", "SBD + SMIN_k")  # parts of a breakdown that are comparing
PARTS = ("SSED_OP", *COMPARED, "other")
_COSTS = ("total_s", "online_s", "offline_s", "bytes_c1_to_c2", "bytes_c2_to_c1", "exact")
_COLUMNS = {  # of a sweep
    "shares": " | shares: CPU of a cloud | wall | of it online",
    "paillier": " | paillier online, estimated",
}
_CELLS = {
    "shares": " | {shares[cpu_s]:time} | {shares[total_s]:time} | {shares[online_s]:time}",
    "paillier": " | {paillier[online_s]:time}",
}


def _measured(
    title: str,
    cells: Sequence[Cell],
    points: Points,
    split: bool,
    *,
    key_bits: int,
    records: int,
    iterations: int = 0,
) -> list[tuple[Cell, Any]]:
    """All cells with their costs. `split` measures the paillier suite primitive by primitive."""

    def task(suite: Suite, case: Case, mode: Mode) -> Task:
        if suite == "shares":
            return share_primitives.task(**case, iterations=iterations)
        few = min(records, case["m"])
        return Estimate(**case, mode=mode, key_bits=key_bits, records=few).task(split=split)

    values = measure(title, [task(*cell) for cell in cells], points)
    return list(zip(cells, values, strict=True))


# ------------------------------------------------------------- Figure 5.3


def sweep(
    suite: options.AnySuite = None,
    m: options.ManyRecords = SIZES,
    k: options.ManyClusters = (2, 4, 6, 8),
    l: options.ManyAttributes = (5, 10, 15, 20),
    key_bits: options.KeyBits = 2048,
    records: options.PaillierRecords = 8,
    iterations: options.Iterations = 3,
    *,
    points: options.KeptPoints,
) -> Document:
    """Figure 5.3: seconds per iteration over m, k and l."""
    suites, lists = estimate.suites(suite), {"m": sorted(m), "k": sorted(k), "l": sorted(l)}
    how = {"key_bits": key_bits, "records": records, "iterations": iterations}
    cells: list[Cell] = [(each, case, "pipelined") for each in suites for case in cases(lists)]
    more = f"Pipelined, pools filled before (online only), key of {key_bits} bits."
    return document.make(
        "sweep",
        _sweep_tables,
        parameters={**lists, "suites": suites, **how, "pairs": 1},
        points=[_sweep_point(*cell) for cell in _measured("sweep", cells, points, False, **how)],
        published=_pipelined(lists) if "paillier" in suites else [],
        notes=[
            "shares: all m records measured; CPU of the busier cloud. One pair in both suites.",
            *([estimate.note(records, more)] if "paillier" in suites else []),
        ],
    )


def cases(lists: dict[str, list[int]]) -> list[Case]:
    """Every m, k and l in one of the three plots, without repetition."""
    middle = {name: _middle(values) for name, values in lists.items()}
    found = {
        tuple({**middle, across: x, line: y}.items())
        for across, line in AXES
        for x in lists[across]
        for y in lists[line]
    }
    return [dict(case) for case in sorted(found)]


def _pipelined(lists: dict[str, list[int]]) -> list[Point]:
    """Published times that lie in one of the plots over m."""
    here = all(_middle(lists[name]) == SHAPE[name] for name in ("k", "l"))
    return [entry for entry in ITERATION_MINUTES if here and entry["mode"] == "pipelined"]


def _middle(values: Sequence[int]) -> int:
    """The lower middle value: 4 of 2, 4, 6, 8, as in the published figure."""
    return values[(len(values) - 1) // 2]


def _sweep_point(cell: Cell, value: Point) -> Point:
    suite, case, _ = cell
    costs = {"total_s": None, "online_s": value.get("iteration_s")}
    if suite == "shares":
        costs = {name: value[name] for name in _COSTS}
        costs["cpu_s"] = max(value["cpu_c1_s"], value["cpu_c2_s"])
    return {"suite": suite, **case, "estimated": suite == "paillier", **costs}


def _sweep_tables(result: Document) -> list[Table]:
    suites = result["parameters"]["suites"]
    columns = "m | k | l" + "".join(_COLUMNS[suite] for suite in suites)
    row = "{m:,} | {k} | {l}" + "".join(_CELLS[suite] for suite in suites)
    points = [{**point, point["suite"]: point} for point in result["points"]]
    rows = document.joined(points, "m", "k", "l")
    return [document.table_of("One iteration, one pair", columns, row, rows)]


def draw_sweep(result: Document, file: plot.File) -> None:
    """Three plots for each suite."""
    panels = [
        _sweep_panel(result, suite, points, *axes)
        for suite, points in grouped(result["points"], "suite").items()
        for axes in AXES
    ]
    log = "y" if result["published"] else ""
    plot.lines(file, panels, "One iteration over m, k and l, one pair", log=log, columns=len(AXES))


def _sweep_panel(
    result: Document, suite: str, points: Sequence[Point], across: str, line: str
) -> Panel:
    (third,) = {"m", "k", "l"} - {across, line}
    fixed, shares = _middle(result["parameters"][third]), suite == "shares"
    own = [point for point in points if point[third] == fixed]
    own.sort(key=lambda point: (point[line], point[across]))
    what, unit, size = ("cpu_s", "CPU seconds", 1) if shares else ("online_s", "minutes", 60)
    how = "offline + online, measured" if shares else "pipelined online, estimated"
    look = {"unit": size, "estimated": not shares}
    series = plot.series_by(f"{line} = {{{line}}}", own, line, across, what, **look)
    for entry in result["published"] if across == "m" and not shares else ():
        about = "published, k = {k}, l = {l}".format(**entry)
        name = f"{about}, {plural(entry['pairs'], 'pair')}"
        series.append(plot.series(name, [entry], "m", "minutes", published=True))
    title = f"{suite} ({how}), {third} = {fixed:,}"
    return Panel(title, plot.LABELS[across], f"{unit} per iteration", series)


# ------------------------------------------------------------- Figure 5.4


def breakdown(
    suite: options.AnySuite = None,
    k: options.ManyClusters = (2, 3, 4, 5, 6, 7, 8),
    m: options.Records = 6000,
    l: options.Attributes = 10,
    key_bits: options.KeyBits = 2048,
    records: options.PaillierRecords = 8,
    iterations: options.Iterations = 3,
    *,
    points: options.KeptPoints,
) -> Document:
    """Figure 5.4: the part of an iteration that each primitive takes, over k."""
    suites = estimate.suites(suite)
    how = {"key_bits": key_bits, "records": records, "iterations": iterations}
    cells: list[Cell] = [
        (each, {"m": m, "l": l, "k": clusters}, "pipelined") for each in suites for clusters in k
    ]
    measured = _measured("breakdown", cells, points, True, **how)
    note = estimate.note(records, f"Key of {key_bits} bits.")
    return document.make(
        "breakdown",
        _breakdown_tables,
        parameters={"m": m, "l": l, "k": list(k), "suites": suites, **how, "mode": "pipelined"},
        points=[_breakdown_point(*cell) for cell in measured],
        published=[{"k": k, "comparing": c} for k, c in COMPARING.items() if l == SHAPE["l"]],
        notes=[
            "shares: measured, offline and online together; SBD is part of SMIN_k there.",
            *([note] if "paillier" in suites else []),
            "Published: part of SBD and SMIN_k; 1,024 bits, m = 6,000, l = 10, 8 pairs. Its "
            "SSED_OP makes scaling factors for every record and packs nothing, which leaves "
            "comparisons a smaller part. More records in a batch pack better, and more so.",
        ],
    )


def _breakdown_point(cell: Cell, value: Point) -> Point:
    suite, case, _ = cell
    seconds = _shares_parts(value) if suite == "shares" else _paillier_parts(value, case["m"])
    total = sum(seconds.values())
    parts = {name: spent / total for name, spent in seconds.items()}
    return {
        "suite": suite,
        "k": case["k"],
        "estimated": suite == "paillier",
        "seconds": seconds,
        "parts": parts,
        "comparing": 1 - parts["SSED_OP"] - parts["other"],
        "iteration_s": total,
    }


def _shares_parts(value: Point) -> dict[str, float]:
    spent = {name: sum(times.values()) for name, times in value["primitives"].items()}
    return {
        "SSED_OP": spent["SSED_OP"] + spent["scaling"],
        "SBD + SMIN_k": spent["SBD + SMIN_k"],
        "other": spent["SMP"] + spent["other"],
    }


def _paillier_parts(value: Point, m: int) -> dict[str, float]:
    record, once = value["per_record_s"], value["once_s"]
    return {
        "SSED_OP": m * record["SSED_OP"] + once["scale"],
        "SBD": m * record["SBD"],
        "SMIN_k": m * record["SMIN_k"],
        "other": m * record["sums"] + once["reseed"] + once["stop test"],
    }


def _breakdown_tables(result: Document) -> list[Table]:
    published = {entry["k"]: f"{entry['comparing']:.0%}" for entry in result["published"]}
    title = "{suite}: parts of an iteration, m = {m}, l = {l}"
    tables = []
    for suite, points in grouped(result["points"], "suite").items():
        parts = [part for part in PARTS if part in points[0]["parts"]]
        how = "estimated" if points[0]["estimated"] else "measured"
        cells = " | ".join(f"{{parts[{part}]:.1%}}" for part in parts)
        tables.append(
            document.table_of(
                title.format(suite=suite, **result["parameters"]),
                f"k | {' | '.join(parts)} | comparing | published | iteration, {how}",
                f"{{k}} | {cells} | {{comparing:.0%}} | {{published}} | {{iteration_s:time}}",
                [{**point, "published": published.get(point["k"], "")} for point in points],
            )
        )
    return tables


def draw_breakdown(result: Document, file: plot.File) -> None:
    """Stacked bars over k, a panel for each suite."""
    panels = []
    for suite, points in grouped(result["points"], "suite").items():
        parts = [part for part in (*COMPARED, "SSED_OP", "other") if part in points[0]["parts"]]
        values = {part: [100 * point["parts"][part] for point in points] for part in parts}
        how = "estimated from few records" if points[0]["estimated"] else "measured"
        groups = [str(point["k"]) for point in points]
        title = f"{suite} suite, {how}"
        told = {str(e["k"]): 100 * e["comparing"] for e in result["published"]}
        told = {group: part for group, part in told.items() if group in groups}
        about = {"published: SBD and SMIN_k": told} if told else {}
        axes = (plot.LABELS["k"], "part of the time (%)")
        panels.append(plot.Bars(title, *axes, groups, values, about))
    title = "Cost of an iteration by primitive, m = {m}, l = {l}, one pair"
    plot.bars(file, panels, title.format(**result["parameters"]))


# ------------------------------------------------------------- Figure 5.5


def modes(
    m: options.ManyRecords = SIZES,
    l: options.Attributes = 10,
    k: options.Clusters = 4,
    key_bits: options.KeyBits = 2048,
    records: options.PaillierRecords = 16,
    *,
    points: options.KeptPoints,
) -> Document:
    """Figure 5.5: the paillier suite online + offline, online and pipelined, over m."""
    how = {"key_bits": key_bits, "records": records}
    grid = [({"m": size, "l": l, "k": k}, mode) for size in m for mode in MODES]
    cells: list[Cell] = [("paillier", case, mode) for case, mode in grid]
    measured = _measured("modes", cells, points, False, **how)
    return document.make(
        "modes",
        _modes_tables,
        parameters={"m": list(m), "l": l, "k": k, **how, "pairs": 1},
        points=[{"m": case["m"], "mode": mode, **value} for (_, case, mode), value in measured],
        published=list(ITERATION_MINUTES) if {"l": l, "k": k} == SHAPE else [],
        notes=[
            estimate.note(records, f"One pair, key of {key_bits} bits."),
            "Published: 1,024 bits, l = 10, k = 4, only where the text states a number.",
        ],
    )


def _modes_tables(result: Document) -> list[Table]:
    """Times by m and mode, and the published ones."""
    points = [{"m": p["m"], p["mode"]: p["iteration_s"]} for p in result["points"]]
    rows = document.joined(points, "m")
    for row in rows:
        row["saved"] = 1 - row[MODES[-1]] / row[MODES[0]]
    ours = document.table_of(
        "paillier: one iteration, l = {l}, k = {k}, one pair".format(**result["parameters"]),
        f"m | {' | '.join(f'{mode}, estimated' for mode in MODES)} | saved by both",
        f"{{m:,}} | {' | '.join(f'{{{mode}:time}}' for mode in MODES)} | {{saved:.0%}}",
        rows,
    )
    published = document.table_of(
        "Published, 1,024 bits",
        "m | mode | pairs | one iteration",
        "{m:,} | {mode} | {pairs} | {minutes:,} min",
        result["published"],
    )
    return [ours, published] if result["published"] else [ours]


def draw_modes(result: Document, file: plot.File) -> None:
    """Minutes over m, and published points where the text has them."""
    how = {"unit": 60, "estimated": True}
    series = plot.series_by("{mode}", result["points"], "mode", "m", "iteration_s", **how)
    for entry in result["published"]:
        name = f"published, 1,024 bits: {entry['mode']}, {plural(entry['pairs'], 'pair')}"
        series.append(plot.series(name, [entry], "m", "minutes", published=True))
    title = "Modes of the paillier suite, l = {l}, k = {k}, one pair, {key_bits} bits"
    panel = Panel("", plot.LABELS["m"], "minutes per iteration", series)
    plot.lines(file, [panel], title.format(**result["parameters"]), log="y")
