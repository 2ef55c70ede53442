"""Runs on this machine that calibrate and check the model of `ppodc bench simulate`.

Two runs of one pair, over few records but with numbers as wide as the whole job needs, calibrate
the model of `cost_model`. Three more of another size, of one pair, of two pairs and of one pair
over an imitated wide-area link, are not used for that: the model predicts them, and the table shows
by how much it errs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ppodc.bench import cost_model, document, iteration
from ppodc.bench.cost_model import Costs, Setting
from ppodc.bench.document import Table
from ppodc.bench.machine import Load, cores
from ppodc.bench.network_presets import LINKS, Link
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.errors import InputError
from ppodc.kmeans.suites import Suite

QUIET = 0.2  # cores that others may use before a time is doubtful
_KEPT = (
    "m", "pairs", "iterations", "offline_s", "online_s", "total_s", "cpu_c1_s", "cpu_c2_s",
    "bytes_c1_to_c2", "bytes_c2_to_c1", "rounds", "exact", "start_s", "ingest_s", "ingest_cpu_s",
    "ingest_bytes", "ingest_rounds", "steps",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be clustered."""

    m: int
    l: int = 10
    k: int = 4
    ub: int = 1000
    suite: Suite = "shares"
    iterations: int = 20  # that the whole job is taken to need
    key_bits: int = 2048


@dataclass(frozen=True, slots=True)
class Runs:
    """Rows and iterations of the measured runs: two sizes that calibrate, one that checks."""

    sizes: tuple[int, int]
    check: int
    iterations: int


RUNS: dict[Suite, Runs] = {
    "shares": Runs((3_000, 12_000), 16_000, 4),
    "paillier": Runs((6, 18), 24, 1),
}


def measure_runs(job: Job, runs: Runs, points: Points) -> list[dict[str, Any]]:
    """Two runs to calibrate, three to check: one pair, two pairs, one pair over a slow link."""
    small, large, other = (min(max(rows, job.k), job.m) for rows in (*runs.sizes, runs.check))
    if small == large:
        small = max(job.k, large // 4)
    if other in (small, large):
        other = (small + large) // 2
    if len({small, large, other}) < 3:
        raise InputError(f"{job.m} records in {job.k} clusters are too few to calibrate with.")
    fewer = max(1, runs.iterations // 2)
    tasks = [
        _run(job, small, 1, runs.iterations),
        _run(job, large, 1, runs.iterations),
        _run(job, other, 1, runs.iterations),
        _run(job, other, 2, runs.iterations),
        _run(job, other, 1, fewer, LINKS["wan"]),
    ]
    return measure("simulate, calibration", tasks, points)


def _run(job: Job, rows: int, pairs: int, iterations: int, link: Link | None = None) -> Task:
    over = None if link is None else link.name
    key = {
        "bench": "simulate", "suite": job.suite, "m": job.m, "l": job.l, "k": job.k, "ub": job.ub,
        "rows": rows, "pairs": pairs, "iterations": iterations, "cores": cores(),
        "key_bits": job.key_bits, "link": None if link is None else link.describe(),
    }  # fmt: skip

    def work(tell: Tell) -> dict[str, Any]:
        watch: list[Load] = []

        def listen(what: str) -> None:
            if what.startswith("iteration") and not watch:  # the start is not of interest
                watch.append(Load())
            tell(what)

        result = iteration.run_exact(
            iteration.random_records(rows, job.l, job.ub), job.suite, job.k, pairs, iterations,
            warm_up=iteration.WARM_UP[job.suite], link=link,
            of=job.m, ub=job.ub, key_bits=job.key_bits, tell=listen,
        )  # fmt: skip
        load = watch[0]
        load.stop(result["iterations"] * (result["cpu_c1_s"] + result["cpu_c2_s"]))
        return {
            **{name: result[name] for name in _KEPT},
            "link": over,
            "others": load.others,
            "free_cores": max(0.1, cores() - (load.others or 0.0)),
        }

    return Task(f"{rows:,} rows, {pairs} pair(s){f', {over}' if over else ''}", key, work)


def notes(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Whether the machine was free enough for the times to mean something."""
    busy = max(run["others"] or 0.0 for run in runs)
    if busy > QUIET:
        return [
            f"Other programs kept up to {busy:.1f} of {cores()} cores busy during the measured "
            "runs. The model counts them as missing cores, so its error then says little more "
            "than how well CPU time is predicted. Repeat on a quiet machine, with a new --points."
        ]
    return []


def checks(costs: Costs, runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measured and predicted seconds of an iteration; the first two runs made the model."""
    compared = []
    for number, run in enumerate(runs):
        rows = cost_model.split(run["m"], run["pairs"])
        link = None if run["link"] is None else LINKS[run["link"]]
        predicted = cost_model.predict(costs, rows, Setting(run["free_cores"], link))
        compared.append(
            {
                "rows": run["m"],
                "pairs": run["pairs"],
                "link": run["link"],
                "used_to_calibrate": number < 2,
                "measured_s": run["total_s"],
                "predicted_s": predicted.iteration_s,
                "error": predicted.iteration_s / run["total_s"] - 1,
                "cores": cores(),
                "others": run["others"],
            }
        )
    return compared


def describe(costs: Costs, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The calibrated numbers: for each record and for each pair."""
    each = [s for s in costs.steps if not s.lead_only]
    return {
        "rows": [run["m"] for run in runs[:2]],
        "cpu_us_per_record": [
            1e6 * sum(s.cpu.each for s in each),
            1e6 * sum(s.cpu.each for s in each) * costs.c2_share,
        ],
        "cpu_ms_per_pair": 1e3 * sum(s.cpu.fixed for s in costs.steps) * (1 + costs.c2_share),
        "bytes_per_record": sum(2 * s.sent.each for s in each),
        "bytes_per_pair": sum(2 * s.sent.fixed for s in costs.steps),
        "rounds_per_pair": sum(s.rounds.fixed for s in costs.steps),
        "rounds_per_1000_records": 1e3 * sum(s.rounds.each for s in costs.steps),
        "round_ms": 1e3 * costs.round_s,
        "serial": costs.serial,
        "start_s": costs.start_s,
    }


def figures_table(c: dict[str, Any]) -> Table:
    cpu = " + ".join(f"{x:.1f}" for x in c["cpu_us_per_record"])
    rows = [
        ("CPU for each record, C1 and C2, µs", cpu),
        ("CPU for each pair, ms", f"{c['cpu_ms_per_pair']:.1f}"),
        ("bytes for each record", f"{c['bytes_per_record']:,.0f}"),
        ("bytes for each pair", f"{c['bytes_per_pair']:,.0f}"),
        ("rounds for each pair", f"{c['rounds_per_pair']:.0f}"),
        ("rounds for each 1,000 records", f"{c['rounds_per_1000_records']:.1f}"),
        ("a round besides CPU, ms", f"{c['round_ms']:.2f}"),
        ("share of work in turns", f"{c['serial']:.2f}"),
    ]
    sizes = " and ".join(f"{rows:,}" for rows in c["rows"])
    title = f"Calibration of one iteration, measured over {sizes} rows"
    return document.table(title, ("what", "value"), rows)


def checks_table(checks: Sequence[dict[str, Any]]) -> Table:
    rows = [
        (
            f"{c['rows']:,}", str(c["pairs"]), c["link"] or "loopback",
            "calibrates" if c["used_to_calibrate"] else "checks",
            document.seconds(c["measured_s"]), document.seconds(c["predicted_s"]),
            f"{c['error']:+.1%}", document.cores(c["others"]),
        )
        for c in checks
    ]  # fmt: skip
    title = f"Model against measurement, seconds per iteration on {checks[0]['cores']} cores"
    columns = ("rows", "pairs", "link", "run", "measured", "model", "error", "others' cores")
    return document.table(title, columns, rows)
