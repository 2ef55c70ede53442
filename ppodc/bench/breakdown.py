"""`ppodc bench breakdown`: Figure 5.4, what part of an iteration each primitive takes, over k.

The shares suite runs all m records; its offline work counts with the primitive it is made for. The
paillier suite runs a few records in pipelined mode with filled pools, primitive by primitive, and
what it takes per record is multiplied by m (see `estimate`). `other` are the products with the
one-hot, re-seeding and the stop test, as in the figure; scaling the clusters is part of SSED_OP.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ppodc.bench import estimate, figure, share_primitives
from ppodc.bench.estimate import Estimate
from ppodc.bench.points import Points, measure
from ppodc.bench.published import COMPARING, SHAPE

PARTS = ("SSED_OP", "SBD", "SMIN_k", "SBD + SMIN_k", "other")


def run(
    ks: Sequence[int] = (2, 3, 4, 5, 6, 7, 8),
    suites: Sequence[str] = ("shares", "paillier"),
    *,
    m: int = 6000,
    l: int = 10,
    key_bits: int = 2048,
    records: int = 8,
    iterations: int = 3,
    points: Points | None = None,
) -> dict[str, Any]:
    """Seconds and parts for every suite and k; a document for JSON."""
    tasks = []
    for suite in suites:
        for k in ks:
            if suite == "shares":
                tasks.append(share_primitives.task(m, l, k, iterations))
            else:
                few = Estimate(m, l, k, "pipelined", key_bits, records)
                tasks.append(few.task(split=True))
    values = iter(measure("breakdown", tasks, points or Points()))
    found = [_point(suite, m, k, next(values)) for suite in suites for k in ks]
    notes = ["shares: measured, offline and online together; SBD is part of SMIN_k there."]
    if "paillier" in suites:
        notes.append(estimate.note(records) + f" Key of {key_bits} bits.")
    return figure.document(
        "breakdown",
        {"m": m, "l": l, "k": list(ks), "suites": list(suites), "key_bits": key_bits,
         "records": records, "iterations": iterations, "mode": "pipelined"},
        found,
        published=[{"k": k, "comparing": part} for k, part in COMPARING.items() if l == SHAPE["l"]],
        notes=[*notes, "Published: part of SBD and SMIN_k; 1,024 bits, m = 6,000, l = 10, 8 pairs"],
    )  # fmt: skip


def _point(suite: str, m: int, k: int, value: dict[str, Any]) -> dict[str, Any]:
    seconds = _shares(value) if suite == "shares" else _paillier(value, m)
    total = sum(seconds.values())
    parts = {name: each / total for name, each in seconds.items()}
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
    each, once = value["per_record_s"], value["once_s"]
    return {
        "SSED_OP": m * each["SSED_OP"] + once["scale"],
        "SBD": m * each["SBD"],
        "SMIN_k": m * each["SMIN_k"],
        "other": m * each["sums"] + once["reseed"] + once["stop test"],
    }


def show(result: dict[str, Any]) -> None:
    """A table for each suite."""
    published = {entry["k"]: entry["comparing"] for entry in result["published"]}
    tables = []
    for suite in result["parameters"]["suites"]:
        points = [point for point in result["points"] if point["suite"] == suite]
        names = [name for name in PARTS if name in points[0]["parts"]]
        how = "estimated" if points[0]["estimated"] else "measured"
        rows = [
            (
                str(point["k"]),
                *(f"{point['parts'][name]:.1%}" for name in names),
                f"{point['comparing']:.0%}",
                f"{published[point['k']]:.0%}" if point["k"] in published else "",
                figure.seconds(point["iteration_s"]),
            )
            for point in points
        ]
        headings = ("k", *names, "comparing", "published", f"iteration, {how}")
        title = "{suite}: parts of an iteration, m = {m}, l = {l}"
        tables.append(figure.table(title.format(suite=suite, **_shape(result)), headings, rows))
    figure.show(tables, result["notes"])


def plot(result: dict[str, Any], file: Path) -> None:
    """Stacked bars over k, a panel for each suite."""
    plots = []
    for suite in result["parameters"]["suites"]:
        points = [point for point in result["points"] if point["suite"] == suite]
        names = [name for name in PARTS if name in points[0]["parts"]]
        values = {name: [100 * point["parts"][name] for point in points] for name in names}
        groups = [str(point["k"]) for point in points]
        how = "estimated from few records" if points[0]["estimated"] else "measured"
        plots.append(
            figure.Bars(
                f"{suite} suite, {how}", "clusters k", "part of the time (%)", groups, values
            )
        )
    title = "Cost of an iteration by primitive, m = {m}, l = {l}, one pair"
    figure.bar_panels(file, plots, title.format(**_shape(result)))


def _shape(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result["parameters"][name] for name in ("m", "l")}
