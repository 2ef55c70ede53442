"""Runs on this machine that calibrate and check the model of `ppodc bench simulate`.

Two runs of one pair, over few records but with numbers as wide as the whole job needs, calibrate
the model of `cost_model`. Three more of another size, of one pair, of two pairs and of one pair
over an imitated wide-area link, are not used for that: the model predicts them, and the table shows
by how much it errs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ppodc.bench import cost_model, document
from ppodc.bench.cost_model import Costs, Setting
from ppodc.bench.document import Table
from ppodc.bench.iteration import Run, both_clouds, random_records
from ppodc.bench.machine import Load, cores
from ppodc.bench.network_presets import LINKS
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.errors import InputError
from ppodc.kmeans.suites import Suite

QUIET = 0.2  # cores that others may use before a time is doubtful


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
    plain = Run(job.suite, job.k, 1, runs.iterations, of=job.m, ub=job.ub, key_bits=job.key_bits)
    far = replace(plain, iterations=max(1, runs.iterations // 2), link=LINKS["wan"])
    chosen = [(small, plain), (large, plain), (other, plain), (other, replace(plain, pairs=2))]
    tasks = [_task(job.l, rows, run) for rows, run in (*chosen, (other, far))]
    return measure("simulate, calibration", tasks, points)


def _task(l: int, rows: int, run: Run) -> Task:
    link = None if run.link is None else run.link.name

    def work(tell: Tell) -> dict[str, Any]:
        watch: list[Load] = []

        def listen(what: str) -> None:
            if what.startswith("iteration") and not watch:  # the start is not of interest
                watch.append(Load())
            tell(what)

        figures = run.exact(random_records(rows, l, run.ub), listen)
        load = watch[0]
        load.stop(figures["iterations"] * both_clouds(figures)["cpu_s"])
        free_cores = max(0.1, cores() - (load.others or 0.0))
        return {**figures, "link": link, "others": load.others, "free_cores": free_cores}

    key = {"bench": "simulate", "l": l, "rows": rows, "cores": cores(), **run.key()}
    return Task(f"{rows:,} rows, {run.pairs} pair(s){f', {link}' if link else ''}", key, work)


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


_FIGURES = {
    "CPU for each record, C1 and C2, µs": "{cpu_us_per_record[0]:.1f} + {cpu_us_per_record[1]:.1f}",
    "CPU for each pair, ms": "{cpu_ms_per_pair:.1f}",
    "bytes for each record": "{bytes_per_record:,.0f}",
    "bytes for each pair": "{bytes_per_pair:,.0f}",
    "rounds for each pair": "{rounds_per_pair:.0f}",
    "rounds for each 1,000 records": "{rounds_per_1000_records:.1f}",
    "a round besides CPU, ms": "{round_ms:.2f}",
    "share of work in turns": "{serial:.2f}",
}


def tables(calibration: dict[str, Any], checks: Sequence[dict[str, Any]]) -> list[Table]:
    """The calibrated numbers, and by how much the model errs."""
    title = "Calibration of one iteration, measured over {rows[0]:,} and {rows[1]:,} rows"
    runs = [
        {
            **c,
            "link": c["link"] or "loopback",
            "use": "calibrates" if c["used_to_calibrate"] else "checks",
        }
        for c in checks
    ]
    return [
        document.figures_table(title.format(**calibration), "what | value", _FIGURES, calibration),
        document.table_of(
            f"Model against measurement, seconds per iteration on {checks[0]['cores']} cores",
            "rows | pairs | link | run | measured | model | error | others' cores",
            "{rows:,} | {pairs} | {link} | {use} | {measured_s:time} | {predicted_s:time} | "
            "{error:+.1%} | {others:cores}",
            runs,
        ),
    ]
