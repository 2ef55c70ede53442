"""`ppodc bench primitives`: Table 5.3 for both suites, with costs beside Tables 5.1 and 5.2.

`paillier_steps` says how the paillier suite is measured, `share_primitives` how the shares suite
is. The mode online+offline makes randomisers as r^n like the published system does, and once more
with this system's fixed-base tables, reported as `ms_fixed_base`.
"""

from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

import typer

from ppodc.bench import document, plot
from ppodc.bench.document import Document, Figures, Table
from ppodc.bench.kmeans import estimate, share_primitives
from ppodc.bench.kmeans.paillier_steps import (
    MODES,
    SOURCES,
    Case,
    Randomisers,
    Sample,
    batch_of,
    make_case,
    measure,
)
from ppodc.bench.kmeans.published import StageCost, stage1, stage2, stage3, table_5_3
from ppodc.bench.options import AnySuite, Attributes, Clusters, Iterations, KeptPoints, KeyBits
from ppodc.bench.points import Points, Task, Tell
from ppodc.bench.points import measure as measure_points
from ppodc.kmeans.suites import Mode

SCALED = "SSED_OP with scale"  # as published: the factors are made anew for every record
PRIMITIVES = ("SMP", "SSED_OP", SCALED, "SBD", "SMIN_k", "record")
NOTES = (
    "paillier: key of {key_bits} bits, m = {m}, l = {l}, k = {k}, {records} records in batches of "
    "{batch}.",
    "online+offline makes randomisers as r^n, like the published system; the last column with "
    "fixed-base tables. CPU of both clouds in turns, of the busier one if pipelined. "
    "Exponentiations per stage include inversions, decryptions and randomisers, which the "
    "published formulas count too. The published SSED_OP has `scale` in it; an iteration here does "
    "that once, not for every record.",
)


def run(
    suite: AnySuite = None,
    key_bits: KeyBits = 2048,
    m: Annotated[int, typer.Option(help="Records of the job, which fix the widths.")] = 6000,
    l: Attributes = 10,
    k: Clusters = 4,
    records: Annotated[
        int, typer.Option(min=1, help="Records that the paillier suite measures.")
    ] = 24,
    iterations: Iterations = 3,
    *,
    points: KeptPoints,
) -> Document:
    """Table 5.3: SMP, SSED_OP, SBD, SMIN_k per invocation, both suites, with counts."""
    suites = estimate.suites(suite)
    shape = {"m": m, "l": l, "k": k, "key_bits": key_bits, "records": records}
    paillier: list[dict[str, Any]] = []
    shares: list[dict[str, Any]] = []
    stages: list[dict[str, Any]] = []
    notes: list[str] = []
    if "paillier" in suites:
        paillier, stages = _paillier(shape, points)
        notes += [note.format(**shape, batch=batch_of(records)) for note in NOTES]
    if "shares" in suites:
        shares = share_primitives.rows(m, l, k, iterations, points)
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
    shape: dict[str, int], points: Points
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and stages of the paillier suite."""
    case = make_case(**shape)
    tasks = [
        Task(
            f"paillier, {mode}, {source} randomisers",
            {"bench": "primitives", "suite": "paillier", "mode": mode, "source": source, **shape},
            partial(_mode, case, mode, source),
        )
        for mode, source in [*SOURCES.items(), (MODES[0], "fixed-base")]
    ]
    *measured, quick = measure_points("primitives", tasks, points)
    for row, other in zip(measured[0]["rows"], quick["rows"], strict=True):
        row["ms_fixed_base"] = other["ms"]
    rows = [{"suite": "paillier", **row} for mode in measured for row in mode["rows"]]
    rows.sort(key=lambda row: PRIMITIVES.index(row["primitive"]))
    return rows, measured[MODES.index("online")]["stages"]


def _mode(case: Case, mode: Mode, source: Randomisers, _: Tell) -> dict[str, Any]:
    """One mode's rows of Table 5.3, and its counts by stage."""
    samples = measure(case, mode, source)
    rows = [_row(case, name, mode, samples[name]) for name in PRIMITIVES if name != SCALED]
    rows.insert(PRIMITIVES.index(SCALED), _scaled(case, mode, rows[1], samples["scale"]))
    return {"rows": rows, "stages": _stages(case, samples)}


def _scaled(case: Case, mode: Mode, row: dict[str, Any], scale: Sample) -> dict[str, Any]:
    """SSED_OP as the chapter counts it; here `scale` is done once an iteration, not per record."""
    k, counts = case.params.k, asdict(scale.tally)
    if mode == "online+offline":
        counts["exponentiations"] += counts["randomisers"]
    more = {operation: round(row[operation] + n / k, 2) for operation, n in counts.items()}
    return {
        **row,
        **more,
        "primitive": SCALED,
        "ms": round(row["ms"] + 1000 * scale.seconds / k, 3),
        "bytes": round(row["bytes"] + _bytes(scale) / k),
        "rounds": row["rounds"] + scale.traffic.messages_sent,
        "published_ms": table_5_3("SSED_OP", mode, case.params.l, k),
    }


def _row(case: Case, name: str, mode: Mode, sample: Sample) -> dict[str, Any]:
    """Costs per invocation: one record and cluster, one number, or one record, as in Table 5.3."""
    p = case.params
    count = len(case.records) * {"SMP": p.l, "SSED_OP": p.k, "SBD": p.k}.get(name, 1)
    counts = asdict(sample.tally)
    if mode == "online+offline":
        counts["exponentiations"] += counts["randomisers"]
    batches = -(-len(case.records) // case.batch)
    return {
        "primitive": name,
        "mode": mode,
        "ms": round(1000 * sample.seconds / count, 3),
        **{operation: round(number / count, 2) for operation, number in counts.items()},
        "bytes": round(_bytes(sample) / count),
        "rounds": round(sample.traffic.messages_sent / batches),
        "published_ms": None if name == "SSED_OP" else table_5_3(name, mode, p.l, p.k),
    }


def _bytes(sample: Sample) -> int:
    return sample.traffic.bytes_sent + sample.traffic.bytes_received


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
    tally, published = sample.tally, formula.exponentiations
    ours = tally.exponentiations + tally.inversions + tally.decryptions + tally.randomisers
    return {
        "stage": name,
        "exponentiations": round(ours / count, 1),
        "published_exponentiations": published and round(published / count, 1),
        "multiplications": round(tally.multiplications / count, 1),
        "published_multiplications": round(formula.multiplications / count, 1),
        "bytes": round(_bytes(sample) / count),
        "published_bytes": round(formula.bits / 8 / count),
    }


def _tables(result: Document) -> list[Table]:
    """Times beside Table 5.3, counts per invocation, and stages beside Tables 5.1 and 5.2."""
    rows, tables = result["rows"], []
    if rows:
        modes = [{**row, row["mode"]: _time(row)} for row in rows]
        quick = {row["primitive"]: row["ms_fixed_base"] for row in rows if "ms_fixed_base" in row}
        joined = document.joined(modes, "primitive")
        tables = [
            document.table_of(
                "paillier: milliseconds per invocation (published)",
                f"primitive | {' | '.join(MODES)} | {MODES[0]}, fixed-base tables",
                f"{{primitive}} | {' | '.join(f'{{{mode}}}' for mode in MODES)} | {{quick:,.1f}}",
                [{**row, "quick": quick.get(row["primitive"])} for row in joined],
            ),
            document.table_of(
                "paillier: counts per invocation, both clouds",
                "primitive | exp | mult | inv | dec | randomisers | kB | rounds",
                "{primitive} | {exponentiations:,.1f} | {multiplications:,.1f} | "
                "{inversions:,.1f} | {decryptions:,.1f} | {randomisers:,.1f} | "
                "{bytes:/1e3 ,.1f} | {rounds}",
                [row for row in rows if row["mode"] == "online"],
            ),
            document.table_of(
                "paillier: counts beside Tables 5.1 and 5.2 (ours / published)",
                "stage | exponentiations | multiplications | bytes",
                "{stage} | {exponentiations:,.0f} / {published_exponentiations:,.0f} | "
                "{multiplications:,.0f} / {published_multiplications:,.0f} | "
                "{bytes:,.0f} / {published_bytes:,.0f}",
                result["stages"],
            ),
        ]
    shares = [row for row in result["points"] if row["suite"] == "shares"]
    return tables + ([share_primitives.table(shares)] if shares else [])


def _time(row: Figures) -> str:
    published = "" if row["published_ms"] is None else f" ({row['published_ms']:,})"
    return f"{row['ms']:,.1f}{published}"


def draw(result: Document, file: plot.File) -> None:
    """Milliseconds per invocation beside the published ones, a panel for each suite."""
    panels = []
    for suite in result["parameters"]["suites"]:
        left_out = ("record", "SSED_OP") if suite == "paillier" else ("record",)
        points = [p for p in result["points"] if p["suite"] == suite]
        rows = [p for p in points if p["primitive"] not in left_out]
        groups = list(dict.fromkeys(row["primitive"] for row in rows))
        values: dict[str, list[float]] = {}
        for what, label in (("ms", ""), ("published_ms", ", published")):
            for mode in MODES:
                times = [row[what] for row in rows if row["mode"] == mode]
                if times and None not in times:
                    values[mode + label] = times
        panels.append(plot.Bars(f"{suite} suite", "primitive", "ms per invocation", groups, values))
    plot.bars(file, panels, "Primitives beside Table 5.3", stacked=False, log="y")
