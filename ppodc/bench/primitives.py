"""`ppodc bench primitives`: Table 5.3 for both suites, with costs beside Tables 5.1 and 5.2.

`paillier_steps` says how the paillier suite is measured, `share_primitives` how the shares suite
is. The mode online+offline makes randomisers as r^n like the published system does, and once more
with this system's fixed-base tables, reported as `ms_fixed_base`.
"""

from functools import partial
from typing import Any

from ppodc.bench import document, estimate, plot, share_primitives
from ppodc.bench.document import Document, Table
from ppodc.bench.paillier_steps import (
    MODES,
    SOURCES,
    Case,
    Randomisers,
    Sample,
    batch_of,
    make_case,
    measure,
)
from ppodc.bench.points import Points, Task, Tell
from ppodc.bench.points import measure as measure_points
from ppodc.bench.published import StageCost, stage1, stage2, stage3, table_5_3
from ppodc.kmeans.suites import Mode

PRIMITIVES = ("SMP", "SSED_OP", "SBD", "SMIN_k")
NOTES = (
    "paillier: key of {key_bits} bits, m = {m}, l = {l}, k = {k}, {records} records in batches of "
    "{batch}.",
    "online+offline makes randomisers as r^n, like the published system; in brackets with "
    "fixed-base tables. Exponentiations per stage include inversions, decryptions and randomisers, "
    "which the published formulas count too.",
)


def run(
    suite: str | None,
    *,
    m: int,
    l: int,
    k: int,
    key_bits: int,
    records: int,
    iterations: int = 3,
    points: Points,
) -> Document:
    """All primitives in all modes of each suite."""
    suites = estimate.suites(suite)
    shape = {"m": m, "l": l, "k": k, "key_bits": key_bits, "records": records}
    paillier: list[dict[str, Any]] = []
    shares: list[dict[str, Any]] = []
    stages: list[dict[str, Any]] = []
    notes: list[str] = []
    if "paillier" in suites:
        rows, stages = _paillier(m, l, k, key_bits, records, points)
        paillier = [{"suite": "paillier", **row} for row in rows]
        notes += [note.format(**shape, batch=batch_of(records)) for note in NOTES]
    if "shares" in suites:
        rows = share_primitives.rows(m, l, k, iterations, points)
        shares = [{"suite": "shares", **row} for row in rows]
        notes.append(share_primitives.NOTE.format(**shape))
    return document.make(
        "primitives",
        _tables,
        parameters={**shape, "suites": suites, "iterations": iterations},
        points=[*paillier, *shares],
        published=[],
        rows=paillier,
        stages=stages,
        notes=[*notes, "Published: 1,024 bits, m = 6,000, l = 10, k = 4, one pair."],
    )


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


def _tables(result: Document) -> list[Table]:
    """Times beside Table 5.3, counts per invocation, and stages beside Tables 5.1 and 5.2."""
    tables = []
    if result["rows"]:
        rows = {(row["primitive"], row["mode"]): row for row in result["rows"]}
        names = list(dict.fromkeys(row["primitive"] for row in result["rows"]))
        tables += [_times(rows, names), _counts(rows, names), _stage_table(result["stages"])]
    shares = [row for row in result["points"] if row["suite"] == "shares"]
    return tables + ([share_primitives.table(shares)] if shares else [])


def _times(rows: dict[tuple[str, str], dict[str, Any]], names: list[str]) -> Table:
    def cell(row: dict[str, Any]) -> str:
        quick = f" [{row['ms_fixed_base']:,.1f}]" if "ms_fixed_base" in row else ""
        published = "" if row["published_ms"] is None else f" ({row['published_ms']:,})"
        return f"{row['ms']:,.1f}{quick}{published}"

    lines = [(name, *(cell(rows[name, mode]) for mode in MODES)) for name in names]
    title = "paillier: milliseconds per invocation (published)"
    return document.table(title, ("primitive", *MODES), lines)


def _counts(rows: dict[tuple[str, str], dict[str, Any]], names: list[str]) -> Table:
    keys = ("exponentiations", "multiplications", "inversions", "decryptions", "randomisers")
    columns = ("primitive", "exp", "mult", "inv", "dec", "randomisers", "kB", "rounds")
    lines = []
    for name in names:
        row = rows[name, "online"]
        counts = (f"{row[key]:,.1f}" for key in keys)
        lines.append((name, *counts, f"{row['bytes'] / 1000:,.1f}", str(row["rounds"])))
    return document.table("paillier: counts per invocation, both clouds", columns, lines)


def _stage_table(stages: list[dict[str, Any]]) -> Table:
    keys = ("exponentiations", "multiplications", "bytes")

    def cell(ours: float, published: float | None) -> str:
        return f"{ours:,.0f} / {'-' if published is None else f'{published:,.0f}'}"

    lines = [
        (stage["stage"], *(cell(stage[key], stage["published_" + key]) for key in keys))
        for stage in stages
    ]
    title = "paillier: counts beside Tables 5.1 and 5.2 (ours / published)"
    return document.table(title, ("stage", *keys), lines)


def draw(result: Document, file: plot.File) -> None:
    """Milliseconds per invocation beside the published ones, a panel for each suite."""
    panels = []
    for suite in result["parameters"]["suites"]:
        rows = [
            row
            for row in result["points"]
            if row["suite"] == suite and row["primitive"] != "record"
        ]
        groups = list(dict.fromkeys(row["primitive"] for row in rows))
        values: dict[str, list[float]] = {}
        for what, label in (("ms", ""), ("published_ms", ", published")):
            for mode in MODES:
                times = [row[what] for row in rows if row["mode"] == mode]
                if times and None not in times:
                    values[mode + label] = times
        panels.append(plot.Bars(f"{suite} suite", "primitive", "ms per invocation", groups, values))
    plot.bars(file, panels, "Primitives beside Table 5.3", stacked=False, log="y")
