"""`ppodc bench sweep`: Figure 5.3, seconds per iteration over m, k and l.

The three plots of the figure: over m for every k, over m for every l, and over k for every l; what
does not vary has the middle value of its list. The shares suite runs all records, offline and
online. The paillier suite runs a few records of each case in pipelined mode with filled pools, and
the time per record is multiplied (see `estimate`). One pair.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ppodc.bench import estimate, figure, share_primitives
from ppodc.bench.estimate import Estimate
from ppodc.bench.figure import Panel, Series
from ppodc.bench.points import Points, Task, measure

AXES = (("m", "k"), ("m", "l"), ("k", "l"))  # (horizontal, a line for each)
LABELS = {"m": "records m", "k": "clusters k", "l": "attributes l"}

Case = tuple[int, int, int]


def run(
    ms: Sequence[int] = (2000, 4000, 6000, 8000, 10_000),
    ks: Sequence[int] = (2, 4, 6, 8),
    ls: Sequence[int] = (5, 10, 15, 20),
    suites: Sequence[str] = ("shares", "paillier"),
    *,
    key_bits: int = 2048,
    records: int = 8,
    iterations: int = 3,
    points: Points | None = None,
) -> dict[str, Any]:
    """Seconds per iteration for every case and suite; a document for JSON."""
    lists = {"m": sorted(ms), "k": sorted(ks), "l": sorted(ls)}
    cases = _cases(lists)
    grid = [(suite, case) for suite in suites for case in cases]
    tasks = [_task(suite, case, key_bits, records, iterations) for suite, case in grid]
    values = measure("sweep", tasks, points or Points())
    found = [_point(*place, value) for place, value in zip(grid, values, strict=True)]
    notes = ["shares: measured over all m records. One pair in both suites."]
    if "paillier" in suites:
        notes.append(
            estimate.note(records)
            + f" Pipelined, pools filled before (online only), key of {key_bits} bits."
        )
    return figure.document(
        "sweep",
        {**lists, "suites": list(suites), "key_bits": key_bits, "records": records,
         "iterations": iterations, "pairs": 1},
        found,
        notes=notes,
    )  # fmt: skip


def _cases(lists: dict[str, list[int]]) -> list[Case]:
    """Every (m, k, l) that one of the three plots shows, once."""
    found: dict[Case, None] = {}
    for across, each in AXES:
        shape = {name: _middle(values) for name, values in lists.items()}
        for line in lists[each]:
            for x in lists[across]:
                at = {**shape, across: x, each: line}
                found[at["m"], at["k"], at["l"]] = None
    return sorted(found)


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


def show(result: dict[str, Any]) -> None:
    """A line for each case, the suites side by side."""
    suites = result["parameters"]["suites"]
    found = {(p["suite"], p["m"], p["k"], p["l"]): p for p in result["points"]}
    headings = ["m", "k", "l"]
    if "shares" in suites:
        headings += ["shares, measured", "of it online"]
    if "paillier" in suites:
        headings += ["paillier online, estimated"]
    rows = []
    for case in dict.fromkeys((p["m"], p["k"], p["l"]) for p in result["points"]):
        row = [f"{case[0]:,}", str(case[1]), str(case[2])]
        if "shares" in suites:
            point = found["shares", *case]
            row += [figure.seconds(point["total_s"]), figure.seconds(point["online_s"])]
        if "paillier" in suites:
            row.append(figure.seconds(found["paillier", *case]["online_s"]))
        rows.append(row)
    figure.show([figure.table("One iteration, one pair", headings, rows)], result["notes"])


def plot(result: dict[str, Any], file: Path) -> None:
    """Three plots for each suite."""
    p = result["parameters"]
    plots = [_panel(result, suite, across, each) for suite in p["suites"] for across, each in AXES]
    figure.panels(file, plots, "One iteration over m, k and l, one pair", columns=len(AXES))


def _panel(result: dict[str, Any], suite: str, across: str, each: str) -> Panel:
    p = result["parameters"]
    (third,) = {"m", "k", "l"} - {across, each}
    fixed = _middle(p[third])
    shares = suite == "shares"
    what, unit, size = ("total_s", "seconds", 1) if shares else ("online_s", "minutes", 60)
    series = []
    for line in p[each]:
        own = [
            point
            for point in result["points"]
            if (point["suite"], point[each], point[third]) == (suite, line, fixed)
        ]
        own.sort(key=lambda point: int(point[across]))
        times = [point[what] / size for point in own]
        x = [point[across] for point in own]
        series.append(Series(f"{each} = {line}", x, times, estimated=not shares))
    how = "offline + online, measured" if shares else "pipelined online, estimated"
    title = f"{suite} ({how}), {third} = {fixed:,}"
    return Panel(title, LABELS[across], f"{unit} per iteration", series)
