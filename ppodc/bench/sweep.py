"""`ppodc bench sweep`: Figure 5.3, seconds per iteration over m, k and l.

The three plots of the figure: over m for every k, over m for every l, and over k for every l; what
does not vary has the middle value of its list. The shares suite runs all records, offline and
online. The paillier suite runs a few records of each case in pipelined mode with filled pools, and
the time per record is multiplied (see `estimate`). One pair.
"""

from collections.abc import Sequence
from typing import Any

from ppodc.bench import document, estimate, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.plot import Panel
from ppodc.bench.points import Points

AXES = (("m", "k"), ("m", "l"), ("k", "l"))  # (horizontal, a line for each)
_COSTS = ("total_s", "online_s", "offline_s", "bytes_c1_to_c2", "bytes_c2_to_c1", "exact")
_COLUMNS = {
    "shares": " | shares, measured | of it online",
    "paillier": " | paillier online, estimated",
}
_CELLS = {
    "shares": " | {shares[total_s]:time} | {shares[online_s]:time}",
    "paillier": " | {paillier[online_s]:time}",
}


def run(
    suite: str | None,
    m: Sequence[int],
    k: Sequence[int],
    l: Sequence[int],
    *,
    points: Points,
    **how: int,
) -> Document:
    """Seconds per iteration for every case and suite; `how` as in `estimate.measure_suites`."""
    suites = estimate.suites(suite)
    lists = {"m": sorted(m), "k": sorted(k), "l": sorted(l)}
    notes = ["shares: measured over all m records. One pair in both suites."]
    if "paillier" in suites:
        more = "Pipelined, pools filled before (online only), key of {key_bits} bits."
        notes.append(estimate.note(how["records"], more.format(**how)))
    measured = estimate.measure_suites("sweep", suites, cases(lists), points, False, **how)
    return document.make(
        "sweep",
        _tables,
        parameters={**lists, "suites": suites, **how, "pairs": 1},
        points=[_point(*place) for place in measured],
        published=[],
        notes=notes,
    )


def cases(lists: dict[str, list[int]]) -> list[dict[str, int]]:
    """Every m, k and l that one of the three plots shows, once."""
    middle = {name: _middle(values) for name, values in lists.items()}
    found = {
        tuple({**middle, across: x, line: y}.items())
        for across, line in AXES
        for x in lists[across]
        for y in lists[line]
    }
    return [dict(case) for case in sorted(found)]


def _middle(values: Sequence[int]) -> int:
    """Of 2, 4, 6, 8 it is 4, as in the published figure."""
    return values[(len(values) - 1) // 2]


def _point(suite: str, case: dict[str, int], value: dict[str, Any]) -> dict[str, Any]:
    point: dict[str, Any] = {"suite": suite, **case, "estimated": suite == "paillier"}
    if suite == "shares":
        return {**point, **{name: value[name] for name in _COSTS}}
    return {**point, "total_s": None, "online_s": value["iteration_s"]}


def _tables(result: Document) -> list[Table]:
    """A line for each case, the suites side by side."""
    points = [{**point, point["suite"]: point} for point in result["points"]]
    rows = document.joined(points, "m", "k", "l")
    columns, row = "m | k | l", "{m:,} | {k} | {l}"
    for suite in result["parameters"]["suites"]:
        columns, row = columns + _COLUMNS[suite], row + _CELLS[suite]
    return [document.table_of("One iteration, one pair", columns, row, rows)]


def draw(result: Document, file: plot.File) -> None:
    """Three plots for each suite."""
    suites = result["parameters"]["suites"]
    panels = [_panel(result, suite, across, line) for suite in suites for across, line in AXES]
    plot.lines(file, panels, "One iteration over m, k and l, one pair", columns=len(AXES))


def _panel(result: Document, suite: str, across: str, line: str) -> Panel:
    p, shares = result["parameters"], suite == "shares"
    (third,) = {"m", "k", "l"} - {across, line}
    fixed = _middle(p[third])
    points = [x for x in result["points"] if (x["suite"], x[third]) == (suite, fixed)]
    points.sort(key=lambda point: int(point[across]))
    what, unit, size = ("total_s", "seconds", 1) if shares else ("online_s", "minutes", 60)
    series = [
        plot.series(
            f"{line} = {value}",
            [point for point in points if point[line] == value],
            across,
            what,
            unit=size,
            estimated=not shares,
        )
        for value in p[line]
    ]
    how = "offline + online, measured" if shares else "pipelined online, estimated"
    title = f"{suite} ({how}), {third} = {fixed:,}"
    return Panel(title, plot.LABELS[across], f"{unit} per iteration", series)
