"""`ppodc bench primitives`: Table 5.3 for both suites, with costs beside Tables 5.1 and 5.2.

`paillier_steps` says how the paillier suite is measured, `share_primitives` how the shares suite
is. The mode online+offline makes randomisers as r^n like the published system does, and once more
with this system's fixed-base tables, reported as `ms_fixed_base`.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

from ppodc.bench import figure, share_primitives
from ppodc.bench.paillier_steps import (
    MODES,
    SOURCES,
    Case,
    Sample,
    batch_of,
    make_case,
    measure,
)
from ppodc.bench.points import Points, Task, Tell
from ppodc.bench.points import measure as measure_points
from ppodc.bench.published import StageCost, stage1, stage2, stage3, table_5_3
from ppodc.local.pair_process import Mode, Randomisers

PRIMITIVES = ("SMP", "SSED_OP", "SBD", "SMIN_k")


def run(
    suites: Sequence[str] = ("shares", "paillier"),
    *,
    m: int = 6000,
    l: int = 10,
    k: int = 4,
    key_bits: int = 2048,
    records: int = 24,
    iterations: int = 3,
    points: Points | None = None,
) -> dict[str, Any]:
    """All primitives in all modes of each suite; a document for JSON."""
    points = points or Points()
    found: list[dict[str, Any]] = []
    stages: list[dict[str, Any]] = []
    if "paillier" in suites:
        rows, stages = _paillier(m, l, k, key_bits, records, points)
        found += [{"suite": "paillier", **row} for row in rows]
    if "shares" in suites:
        rows = share_primitives.rows(m, l, k, iterations, points)
        found += [{"suite": "shares", **row} for row in rows]
    shape = {"m": m, "l": l, "k": k, "key_bits": key_bits, "records": records}
    more = {"suites": list(suites), "iterations": iterations}
    document = figure.document("primitives", {**shape, **more}, found)
    table_5_3 = [row for row in found if row["suite"] == "paillier"]
    return {**document, "rows": table_5_3, "stages": stages}


def _paillier(
    m: int,
    l: int,
    k: int,
    key_bits: int,
    records: int,
    points: Points,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and stages of the paillier suite."""
    case = make_case(m, l, k, key_bits, records)
    insecure = key_bits < 2048
    shape = {"key_bits": key_bits, "m": m, "l": l, "k": k, "records": records}
    tasks = [
        Task(
            f"paillier, {mode}, {source} randomisers",
            {"bench": "primitives", "suite": "paillier", "mode": mode, "source": source, **shape},
            partial(_mode, case, mode, source, insecure),
        )
        for mode, source in [*((mode, SOURCES[mode]) for mode in MODES), (MODES[0], "fixed-base")]
    ]
    *measured, quick = measure_points("primitives", tasks, points)
    for row, other in zip(measured[0]["rows"], quick["rows"], strict=True):
        row["ms_fixed_base"] = other["ms"]
    order = (*PRIMITIVES, "record")
    rows = [row for mode in measured for row in mode["rows"]]
    rows.sort(key=lambda row: order.index(row["primitive"]))
    return rows, measured[MODES.index("online")]["stages"]


def _mode(case: Case, mode: Mode, source: Randomisers, insecure: bool, _: Tell) -> dict[str, Any]:
    """One mode's rows of Table 5.3, and its counts by stage."""
    samples = measure(case, mode, source, insecure=insecure)
    rows = [_row(case, name, mode, samples[name]) for name in (*PRIMITIVES, "record")]
    return {"rows": rows, "stages": _stages(case, samples)}


def _invocations(case: Case, name: str) -> int:
    """One record and cluster, one number, or one record, as in Table 5.3."""
    records = len(case.records)
    per_record = {
        "SMP": case.params.l, "SSED_OP": case.params.k, "SBD": case.params.k,
        "SMIN_k": 1, "record": 1,
    }  # fmt: skip
    return records * per_record[name]


def _row(case: Case, name: str, mode: Mode, sample: Sample) -> dict[str, Any]:
    count = _invocations(case, name)
    tally, traffic = sample.tally, sample.traffic
    made = tally.randomisers if mode == "online+offline" else 0
    return {
        "primitive": name,
        "mode": mode,
        "ms": round(1000 * sample.seconds / count, 3),
        "exponentiations": round((tally.exponentiations + made) / count, 2),
        "multiplications": round(tally.multiplications / count, 2),
        "decryptions": round(tally.decryptions / count, 2),
        "inversions": round(tally.inversions / count, 2),
        "randomisers": round(tally.randomisers / count, 2),
        "bytes": round((traffic.bytes_sent + traffic.bytes_received) / count),
        "rounds": round(sample.questions / -(-len(case.records) // case.batch)),
        "published_ms": table_5_3(name, mode, case.params.l, case.params.k),
    }


def _stages(case: Case, samples: dict[str, Sample]) -> list[dict[str, Any]]:
    """Costs per record (Stages 1, 2) and per iteration (Stage 3) beside Tables 5.1 and 5.2."""
    p, w, rows = case.params, case.widths, len(case.records)
    formula1 = stage1(rows, p.l, case.key_bits)
    formula2 = stage2(rows, p.l, p.k, w.distance, case.key_bits)
    formula3 = stage3(p.l, p.k, w.stop, case.key_bits)
    return [
        _stage("Stage 1, per record", samples["ingest"], formula1, rows),
        _stage("Stage 2, per record", samples["record"], formula2, rows),
        _stage("Stage 3, per iteration", samples["stop test"], formula3, 1),
    ]


def _stage(name: str, sample: Sample, formula: StageCost, count: int) -> dict[str, Any]:
    tally, traffic = sample.tally, sample.traffic
    ours = tally.exponentiations + tally.inversions + tally.decryptions + tally.randomisers
    return {
        "stage": name,
        "exponentiations": round(ours / count, 1),
        "published_exponentiations": (
            None if formula.exponentiations is None else round(formula.exponentiations / count, 1)
        ),
        "multiplications": round(tally.multiplications / count, 1),
        "published_multiplications": round(formula.multiplications / count, 1),
        "bytes": round((traffic.bytes_sent + traffic.bytes_received) / count),
        "published_bytes": round(formula.bits / 8 / count),
    }


def show(result: dict[str, Any]) -> None:
    """Times beside Table 5.3, counts per invocation, and stages beside Tables 5.1 and 5.2."""
    p = result["parameters"]
    tables, notes = [], []
    own = [row for row in result["points"] if row["suite"] == "paillier"]
    if own:
        rows = {(row["primitive"], row["mode"]): row for row in own}
        names = list(dict.fromkeys(row["primitive"] for row in own))
        tables += [_times(rows, names), _counts(rows, names), _stage_table(result["stages"])]
        notes += [
            "paillier: key of {key_bits} bits, m = {m}, l = {l}, k = {k}, {records} records in "
            "batches of {batch}.".format(**p, batch=batch_of(p["records"])),
            "online+offline makes randomisers as r^n, like the published system; in brackets with "
            "fixed-base tables. Exponentiations per stage include inversions, decryptions and "
            "randomisers, which the published formulas count too.",
        ]
    shares = [row for row in result["points"] if row["suite"] == "shares"]
    if shares:
        tables.append(share_primitives.table(shares))
        notes.append(share_primitives.NOTE.format(**p))
    figure.show(tables, [*notes, "Published: 1,024 bits, m = 6,000, l = 10, k = 4, one pair."])


def plot(result: dict[str, Any], file: Path) -> None:
    """Milliseconds per invocation beside the published ones, a panel for each suite."""
    plots = []
    for suite in result["parameters"]["suites"]:
        own = [
            row
            for row in result["points"]
            if row["suite"] == suite and row["primitive"] != "record"
        ]
        groups = list(dict.fromkeys(row["primitive"] for row in own))
        values: dict[str, list[float]] = {}
        for what, label in (("ms", ""), ("published_ms", ", published")):
            for mode in MODES:
                times = [row[what] for row in own if row["mode"] == mode]
                if times and None not in times:
                    values[mode + label] = times
        plots.append(
            figure.Bars(f"{suite} suite", "primitive", "ms per invocation", groups, values)
        )
    figure.bar_panels(file, plots, "Primitives beside Table 5.3", stacked=False, log="y")


def _times(rows: dict[tuple[str, str], dict[str, Any]], names: list[str]) -> Table:
    lines = []
    for name in names:
        cells = []
        for mode in MODES:
            row = rows[name, mode]
            quick = f" [{row['ms_fixed_base']:,.1f}]" if "ms_fixed_base" in row else ""
            published = row["published_ms"]
            beside = "" if published is None else f" ({published:,})"
            cells.append(f"{row['ms']:,.1f}{quick}{beside}".replace("[", "\\["))
        lines.append((name, *cells))
    title = "paillier: milliseconds per invocation (published)"
    return figure.table(title, ("primitive", *MODES), lines)


def _counts(rows: dict[tuple[str, str], dict[str, Any]], names: list[str]) -> Table:
    keys = ("exponentiations", "multiplications", "inversions", "decryptions", "randomisers")
    short = ("exp", "mult", "inv", "dec", "randomisers", "kB", "rounds")
    lines = []
    for name in names:
        row = rows[name, "online"]
        counts = (f"{row[key]:,.1f}" for key in keys)
        lines.append((name, *counts, f"{row['bytes'] / 1000:,.1f}", str(row["rounds"])))
    return figure.table(
        "paillier: counts per invocation, both clouds", ("primitive", *short), lines
    )


def _stage_table(stages: list[dict[str, Any]]) -> Table:
    keys = ("exponentiations", "multiplications", "bytes")
    lines = []
    for stage in stages:
        published = [stage["published_" + key] for key in keys]
        ours = [stage[key] for key in keys]
        cells = [
            f"{a:,.0f} / {'-' if b is None else f'{b:,.0f}'}"
            for a, b in zip(ours, published, strict=True)
        ]
        lines.append((stage["stage"], *cells))
    title = "paillier: counts beside Tables 5.1 and 5.2 (ours / published)"
    return figure.table(title, ("stage", *keys), lines)
