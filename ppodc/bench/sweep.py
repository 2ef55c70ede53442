"""`ppodc bench sweep`: Figure 5.3, seconds per iteration over m, k and l.

The three plots of the figure: over m for every k, over m for every l, and over k for every l; what
does not vary has the middle value of its list. The shares suite runs all records, offline and
online. The paillier suite runs a few records of each case in pipelined mode with filled pools, and
the time per record is multiplied (see `estimate`). One pair.
"""

from collections.abc import Sequence
from typing import Any

from ppodc.bench import document, estimate, plot, share_primitives
from ppodc.bench.document import Document, Table
from ppodc.bench.estimate import Estimate
from ppodc.bench.plot import Panel, Series
from ppodc.bench.points import Points, Task, measure

AXES = (("m", "k"), ("m", "l"), ("k", "l"))  # (horizontal, a line for each)
LABELS = {"m": "records m", "k": "clusters k", "l": "attributes l"}

Case = tuple[int, int, int]


def run(
    suite: str | None,
    m: Sequence[int],
    k: Sequence[int],
    l: Sequence[int],
    *,
    key_bits: int,
    records: int,
    iterations: int,
    points: Points,
) -> Document:
    """Seconds per iteration for every case and suite."""
    suites = estimate.suites(suite)
    lists = {"m": sorted(m), "k": sorted(k), "l": sorted(l)}
    grid = [(name, case) for name in suites for case in _cases(lists)]
    tasks = [_task(name, case, key_bits, records, iterations) for name, case in grid]
    values = measure("sweep", tasks, points)
    notes = ["shares: measured over all m records. One pair in both suites."]
    if "paillier" in suites:
        notes.append(
            estimate.note(records)
            + f" Pipelined, pools filled before (online only), key of {key_bits} bits."
        )
    return document.make(
        "sweep",
        _tables,
        parameters={
            **lists, "suites": suites, "key_bits": key_bits, "records": records,
            "iterations": iterations, "pairs": 1,
        },
        points=[_point(*place, value) for place, value in zip(grid, values, strict=True)],
        published=[],
        notes=notes,
    )  # fmt: skip


def _cases(lists: dict[str, list[int]]) -> list[Case]:
    """Every (m, k, l) that one of the three plots shows, once."""
    middle = {name: _middle(values) for name, values in lists.items()}
    cases: set[Case] = set()
    for across, line in AXES:
        for x in lists[across]:
            for y in lists[line]:
                case = {**middle, across: x, line: y}
                cases.add((case["m"], case["k"], case["l"]))
    return sorted(cases)


def _middle(values: Sequence[int]) -> int:
    """Of 2, 4, 6, 8 it is 4, as in the published figure."""
    return values[(len(values) - 1) // 2]


def _task(suite: str, case: Case, key_bits: int, records: int, iterations: int) -> Task:
    m, k, l = case
    if suite == "shares":
        return share_primitives.task(m, l, k, iterations)
    return Estimate(m, l, k, "pipelined", key_bits, min(records, m)).task(split=False)


def _point(suite: str, case: Case, value: dict[str, Any]) -> dict[str, Any]:
    point: dict[str, Any] = {"suite": suite, **dict(zip("mkl", case, strict=True))}
    if suite == "shares":
        costs = ("total_s", "online_s", "offline_s", "bytes_c1_to_c2", "bytes_c2_to_c1", "exact")
        return {**point, "estimated": False, **{name: value[name] for name in costs}}
    return {**point, "estimated": True, "total_s": None, "online_s": value["iteration_s"]}


def _tables(result: Document) -> list[Table]:
    """A line for each case, the suites side by side."""
    suites = result["parameters"]["suites"]
    points = {(p["suite"], p["m"], p["k"], p["l"]): p for p in result["points"]}
    columns = ["m", "k", "l"]
    if "shares" in suites:
        columns += ["shares, measured", "of it online"]
    if "paillier" in suites:
        columns += ["paillier online, estimated"]
    rows = []
    for m, k, l in dict.fromkeys((p["m"], p["k"], p["l"]) for p in result["points"]):
        row = [f"{m:,}", str(k), str(l)]
        if "shares" in suites:
            point = points["shares", m, k, l]
            row += [document.seconds(point["total_s"]), document.seconds(point["online_s"])]
        if "paillier" in suites:
            row.append(document.seconds(points["paillier", m, k, l]["online_s"]))
        rows.append(row)
    return [document.table("One iteration, one pair", columns, rows)]


def draw(result: Document, file: plot.File) -> None:
    """Three plots for each suite."""
    suites = result["parameters"]["suites"]
    panels = [_panel(result, suite, across, line) for suite in suites for across, line in AXES]
    plot.lines(file, panels, "One iteration over m, k and l, one pair", columns=len(AXES))


def _panel(result: Document, suite: str, across: str, line: str) -> Panel:
    p = result["parameters"]
    (third,) = {"m", "k", "l"} - {across, line}
    fixed = _middle(p[third])
    shares = suite == "shares"
    what, unit, size = ("total_s", "seconds", 1) if shares else ("online_s", "minutes", 60)
    series = []
    for value in p[line]:
        points = [
            point
            for point in result["points"]
            if (point["suite"], point[line], point[third]) == (suite, value, fixed)
        ]
        points.sort(key=lambda point: int(point[across]))
        times = [point[what] / size for point in points]
        x = [point[across] for point in points]
        series.append(Series(f"{line} = {value}", x, times, estimated=not shares))
    how = "offline + online, measured" if shares else "pipelined online, estimated"
    title = f"{suite} ({how}), {third} = {fixed:,}"
    return Panel(title, LABELS[across], f"{unit} per iteration", series)
