"""`ppodc bench breakdown`: Figure 5.4, what part of an iteration each primitive takes, over k.

The shares suite runs all m records; its offline work counts with the primitive it is made for. The
paillier suite runs a few records in pipelined mode with filled pools, primitive by primitive, and
what it takes per record is multiplied by m (see `estimate`). `other` are the products with the
one-hot, re-seeding and the stop test, as in the figure; scaling the clusters is part of SSED_OP.
"""

from collections.abc import Sequence
from typing import Any

from ppodc.bench import document, estimate, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.points import Points
from ppodc.bench.published import COMPARING, SHAPE

PARTS = ("SSED_OP", "SBD", "SMIN_k", "SBD + SMIN_k", "other")


def run(
    suite: str | None, k: Sequence[int], *, m: int, l: int, points: Points, **how: int
) -> Document:
    """Seconds and parts for every suite and k; `how` as in `estimate.measure_suites`."""
    suites = estimate.suites(suite)
    cases = [{"m": m, "l": l, "k": clusters} for clusters in k]
    measured = estimate.measure_suites("breakdown", suites, cases, points, True, **how)
    notes = ["shares: measured, offline and online together; SBD is part of SMIN_k there."]
    if "paillier" in suites:
        notes.append(estimate.note(how["records"], f"Key of {how['key_bits']} bits."))
    published = [{"k": k, "comparing": part} for k, part in COMPARING.items() if l == SHAPE["l"]]
    return document.make(
        "breakdown",
        _tables,
        parameters={"m": m, "l": l, "k": list(k), "suites": suites, **how, "mode": "pipelined"},
        points=[_point(*place) for place in measured],
        published=published,
        notes=[*notes, "Published: part of SBD and SMIN_k; 1,024 bits, m = 6,000, l = 10, 8 pairs"],
    )


def _point(suite: str, case: dict[str, int], value: dict[str, Any]) -> dict[str, Any]:
    seconds = _shares(value) if suite == "shares" else _paillier(value, case["m"])
    total = sum(seconds.values())
    parts = {name: spent / total for name, spent in seconds.items()}
    return {
        "suite": suite,
        "k": case["k"],
        "estimated": suite == "paillier",
        "seconds": seconds,
        "parts": parts,
        "comparing": sum(part for name, part in parts.items() if "SBD" in name or "SMIN" in name),
        "iteration_s": total,
    }


def _shares(value: dict[str, Any]) -> dict[str, float]:
    spent = {name: sum(times.values()) for name, times in value["primitives"].items()}
    return {
        "SSED_OP": spent["SSED_OP"] + spent["scaling"],
        "SBD + SMIN_k": spent["SBD + SMIN_k"],
        "other": spent["SMP"] + spent["other"],
    }


def _paillier(value: dict[str, Any], m: int) -> dict[str, float]:
    record, once = value["per_record_s"], value["once_s"]
    return {
        "SSED_OP": m * record["SSED_OP"] + once["scale"],
        "SBD": m * record["SBD"],
        "SMIN_k": m * record["SMIN_k"],
        "other": m * record["sums"] + once["reseed"] + once["stop test"],
    }


def _by_suite(result: Document) -> list[tuple[str, list[dict[str, Any]], list[str]]]:
    """For each suite its points and the parts that it tells apart."""
    found = []
    for suite in result["parameters"]["suites"]:
        points = [point for point in result["points"] if point["suite"] == suite]
        found.append((suite, points, [part for part in PARTS if part in points[0]["parts"]]))
    return found


def _tables(result: Document) -> list[Table]:
    published = {entry["k"]: f"{entry['comparing']:.0%}" for entry in result["published"]}
    title = "{suite}: parts of an iteration, m = {m}, l = {l}"
    tables = []
    for suite, points, parts in _by_suite(result):
        how = "estimated" if points[0]["estimated"] else "measured"
        tables.append(
            document.table_of(
                title.format(suite=suite, **result["parameters"]),
                f"k | {' | '.join(parts)} | comparing | published | iteration, {how}",
                f"{{k}} | {' | '.join(f'{{parts[{part}]:.1%}}' for part in parts)} | "
                "{comparing:.0%} | {published} | {iteration_s:time}",
                [{**point, "published": published.get(point["k"], "")} for point in points],
            )
        )
    return tables


def draw(result: Document, file: plot.File) -> None:
    """Stacked bars over k, a panel for each suite."""
    panels = []
    for suite, points, parts in _by_suite(result):
        values = {part: [100 * point["parts"][part] for point in points] for part in parts}
        how = "estimated from few records" if points[0]["estimated"] else "measured"
        groups = [str(point["k"]) for point in points]
        title = f"{suite} suite, {how}"
        panels.append(plot.Bars(title, plot.LABELS["k"], "part of the time (%)", groups, values))
    title = "Cost of an iteration by primitive, m = {m}, l = {l}, one pair"
    plot.bars(file, panels, title.format(**result["parameters"]))
