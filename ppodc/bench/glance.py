"""The first table of a report: what its sections found, in a line each.

Lines come from the documents that the sections wrote; a section that was not run has none.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ppodc.bench import figure
from ppodc.bench.published import ITERATION_MINUTES

HEADINGS = ("what", "published", "here", "times faster", "how", "section")
_SHAPE = {"m": 10_000, "l": 10, "k": 4}
_WHAT = "one iteration, 10,000 records, l = 10, k = 4"

Line = tuple[str, str, str, str, str]


def lines(folder: Path, sections: Sequence[str]) -> list[tuple[str, ...]]:
    """One line or more for each of these sections whose document is in the folder."""
    found: list[tuple[str, ...]] = []
    for section, summary in _SUMMARIES.items():
        file = folder / f"{section}.json"
        if section in sections and file.exists():
            found += [(*line, section) for line in summary(json.loads(file.read_text()))]
    return found


def _faster(what: str, pairs: int, seconds: float, how: str) -> Line:
    """A time beside the published pipelined one on so many pairs."""
    minutes = next(
        entry["minutes"]
        for entry in ITERATION_MINUTES
        if entry["mode"] == "pipelined" and entry["pairs"] == pairs
    )
    before = 60 * float(str(minutes))
    published = f"{minutes:,} min, {pairs} pair{'s' * (pairs > 1)}"
    return (what, published, figure.seconds(seconds), _digits(before / seconds), how)


def _digits(value: float) -> str:
    """Three digits, or whole numbers."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _iteration(result: dict[str, Any]) -> list[Line]:
    if any(result[name] != value for name, value in _SHAPE.items()) or result["pairs"] != 1:
        return []
    exact = "exact" if result["exact"] else "NOT EXACT"
    return [_faster(f"{_WHAT}: {result['suite']}", 8, result["total_s"], f"1 pair, {exact}")]


def _modes(document: dict[str, Any]) -> list[Line]:
    p = document["parameters"]
    if (p["l"], p["k"]) != (_SHAPE["l"], _SHAPE["k"]):
        return []
    return [
        _faster(
            f"{_WHAT}: paillier, {p['key_bits']} bits, pipelined", 1, x["iteration_s"],
            f"1 pair, estimated from {p['records']} records",
        )
        for x in document["points"]
        if x["mode"] == "pipelined" and x["m"] == _SHAPE["m"]
    ]  # fmt: skip


def _simulate(document: dict[str, Any]) -> list[Line]:
    checks = [c for c in document["parameters"]["checks"] if not c["used_to_calibrate"]]
    worst = max(abs(c["error"]) for c in checks)
    runs = (f"{c['pairs']}{' (' + c['link'] + ')' if c['link'] else ''}" for c in checks)
    how = f"pairs: {', '.join(runs)}"
    return [("simulation against measured runs", "", f"{worst:.1%} off at most", "", how)]


def _kegg(document: dict[str, Any]) -> list[Line]:
    jobs = [p for p in document["points"] if p["suite"] == "shares"]
    exact = sum(p["exact"] for p in jobs)
    told = [("KEGG jobs to convergence", "", f"{exact} of {len(jobs)} exact", "", "shares suite")]
    largest = max(jobs, key=lambda p: (p["m"], p["l"], p["k"]))
    what = "KEGG, {m:,} records, l = {l}, k = {k}: whole job".format(**largest)
    how = f"{largest['iterations']} iterations, shares suite"
    return [*told, (what, "", figure.seconds(largest["job_s"]), "", how)]


def _peers(document: dict[str, Any]) -> list[Line]:
    shape = "m = {m:,}, l = {l}, k = {k}".format(**document["parameters"])
    return [
        (
            f"one iteration, {shape}: {p['system']}", "", figure.seconds(p["seconds"]), "",
            "exact" if p["error"] == 0 else f"error up to {p['error']:.2g}",
        )
        for p in document["points"]
    ]  # fmt: skip


_SUMMARIES: dict[str, Callable[[dict[str, Any]], list[Line]]] = {
    "iteration": _iteration,
    "modes": _modes,
    "peers": _peers,
    "simulate": _simulate,
    "kegg": _kegg,
}
