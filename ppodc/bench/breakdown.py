"""`ppodc bench breakdown`: Figure 5.4, what part of an iteration each primitive takes, over k.

The shares suite runs all m records; its offline work counts with the primitive it is made for. The
paillier suite runs a few records in pipelined mode with filled pools, primitive by primitive, and
what it takes per record is multiplied by m (see `estimate`). `other` are the products with the
one-hot, re-seeding and the stop test, as in the figure; scaling the clusters is part of SSED_OP.
"""

from collections.abc import Sequence
from typing import Any

from ppodc.bench import document, estimate, plot, share_primitives
from ppodc.bench.document import Document, Table
from ppodc.bench.estimate import Estimate
from ppodc.bench.points import Points, Task, measure
from ppodc.bench.published import COMPARING, SHAPE

PARTS = ("SSED_OP", "SBD", "SMIN_k", "SBD + SMIN_k", "other")


def run(
    suite: str | None,
    k: Sequence[int],
    *,
    m: int,
    l: int,
    key_bits: int,
    records: int,
    iterations: int,
    points: Points,
) -> Document:
    """Seconds and parts for every suite and k."""
    suites = estimate.suites(suite)
    grid = [(name, clusters) for name in suites for clusters in k]

    def task(name: str, clusters: int) -> Task:
        if name == "shares":
            return share_primitives.task(m, l, clusters, iterations)
        return Estimate(m, l, clusters, "pipelined", key_bits, records).task(split=True)

    values = measure("breakdown", [task(*case) for case in grid], points)
    notes = ["shares: measured, offline and online together; SBD is part of SMIN_k there."]
    if "paillier" in suites:
        notes.append(estimate.note(records) + f" Key of {key_bits} bits.")
    published = [{"k": k, "comparing": part} for k, part in COMPARING.items() if l == SHAPE["l"]]
    return document.make(
        "breakdown",
        _tables,
        parameters={
            "m": m, "l": l, "k": list(k), "suites": suites, "key_bits": key_bits,
            "records": records, "iterations": iterations, "mode": "pipelined",
        },
        points=[_point(name, m, k, value) for (name, k), value in zip(grid, values, strict=True)],
        published=published,
        notes=[*notes, "Published: part of SBD and SMIN_k; 1,024 bits, m = 6,000, l = 10, 8 pairs"],
    )  # fmt: skip


def _point(suite: str, m: int, k: int, value: dict[str, Any]) -> dict[str, Any]:
    seconds = _shares(value) if suite == "shares" else _paillier(value, m)
    total = sum(seconds.values())
    parts = {name: spent / total for name, spent in seconds.items()}
    comparing = sum(part for name, part in parts.items() if "SBD" in name or "SMIN" in name)
    return {
        "suite": suite,
        "k": k,
        "estimated": suite == "paillier",
        "seconds": seconds,
        "parts": parts,
        "comparing": comparing,
        "iteration_s": total,
    }


def _shares(value: dict[str, Any]) -> dict[str, float]:
    spent = {n: t["offline_s"] + t["online_s"] for n, t in value["primitives"].items()}
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
    published = {entry["k"]: entry["comparing"] for entry in result["published"]}
    tables = []
    for suite, points, parts in _by_suite(result):
        how = "estimated" if points[0]["estimated"] else "measured"
        rows = [
            (
                str(point["k"]),
                *(f"{point['parts'][part]:.1%}" for part in parts),
                f"{point['comparing']:.0%}",
                f"{published[point['k']]:.0%}" if point["k"] in published else "",
                document.seconds(point["iteration_s"]),
            )
            for point in points
        ]
        columns = ("k", *parts, "comparing", "published", f"iteration, {how}")
        shape = "m = {m}, l = {l}".format(**result["parameters"])
        tables.append(document.table(f"{suite}: parts of an iteration, {shape}", columns, rows))
    return tables


def draw(result: Document, file: plot.File) -> None:
    """Stacked bars over k, a panel for each suite."""
    panels = []
    for suite, points, parts in _by_suite(result):
        values = {part: [100 * point["parts"][part] for point in points] for part in parts}
        how = "estimated from few records" if points[0]["estimated"] else "measured"
        groups = [str(point["k"]) for point in points]
        title = f"{suite} suite, {how}"
        panels.append(plot.Bars(title, "clusters k", "part of the time (%)", groups, values))
    title = "Cost of an iteration by primitive, m = {m}, l = {l}, one pair"
    plot.bars(file, panels, title.format(**result["parameters"]))
