"""Runs on this machine that calibrate and check the model of `ppodc bench simulate`.

Three runs of one pair, over few records but with numbers as wide as the whole job needs, calibrate
the model of `cost_model`: two sizes, and the smaller one again over an imitated link that is far.
Three more of another size, of one pair, of two pairs and of one pair over an imitated wide-area
link, are not used for that: the model predicts them, and the table shows by how much it errs.

Of every run the iteration counts during which other programs had least of the machine. What they
had then, and what this process took to imitate the link, are cores that were missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ppodc.bench import cost_model, document, fitted_costs
from ppodc.bench.cost_model import Costs, Portions, Setting
from ppodc.bench.document import Table
from ppodc.bench.estimate import Line
from ppodc.bench.fitted_costs import Measured
from ppodc.bench.iteration import Run, both_clouds, random_records
from ppodc.bench.machine import cores
from ppodc.bench.network_presets import LINKS, Link
from ppodc.bench.points import Points, Task, measure
from ppodc.errors import InputError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.shares.demand import Demand
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.suites import Suite
from ppodc.mpc.unmask import VALUES

QUIET = 0.2  # cores that others may use before a wall time is doubtful
FAR = Link("far", 100, 100, 0)  # waits stand out from the noise of a busy machine
USED = 3  # the first runs calibrate


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
    """Three runs to calibrate, three to check: one pair, two pairs, one pair over a slow link."""
    small, large, other = (min(max(rows, job.k), job.m) for rows in (*runs.sizes, runs.check))
    if small == large:
        small = max(job.k, large // 4)
    if other in (small, large):
        other = (small + large) // 2
    if len({small, large, other}) < 3:
        raise InputError(f"{job.m} records in {job.k} clusters are too few to calibrate with.")
    plain = Run(job.suite, job.k, 1, runs.iterations, of=job.m, ub=job.ub, key_bits=job.key_bits)
    over = replace(plain, iterations=max(1, runs.iterations // 2))
    chosen = [
        (small, plain),
        (large, plain),
        (small, replace(over, link=FAR)),
        (other, plain),
        (other, replace(plain, pairs=2)),
        (other, replace(over, link=LINKS["wan"])),
    ]
    tasks = [_task(job.l, rows, run) for rows, run in chosen]
    return [_quietest(run) for run in measure("simulate, calibration", tasks, points)]


def _task(l: int, rows: int, run: Run) -> Task:
    link = None if run.link is None else run.link.name
    key = {"bench": "simulate", "l": l, "rows": rows, "cores": cores(), **run.key()}
    label = f"{rows:,} rows, {run.pairs} pair(s){f', {link}' if link else ''}"
    return Task(
        label,
        key,
        lambda tell: {**run.exact(random_records(rows, l, run.ub), tell), "link": link},
    )


def _quietest(run: dict[str, Any]) -> dict[str, Any]:
    """A run by its iteration of least disturbance: its wall time, its CPU, the cores it had."""
    best = min(run["each"], key=lambda each: (each["others"] or 0.0, each["wall_s"]))
    slower = best["cpu_s"] / both_clouds(run)["cpu_s"]  # a busy machine's CPU seconds do less
    return {
        **run,
        "total_s": best["wall_s"],
        "cpu_c1_s": slower * run["cpu_c1_s"],
        "cpu_c2_s": slower * run["cpu_c2_s"],
        "steps": [{**step, "cpu_s": slower * step["cpu_s"]} for step in run["steps"]],
        "others": best["others"],
        "free_cores": max(0.1, cores() - (best["others"] or 0.0) - best["own"]),
    }


def calibrate(job: Job, runs: Sequence[dict[str, Any]]) -> Costs:
    """The model from the runs that make it."""
    small, large, far = runs[:USED]
    quiet = (large["others"] or 0.0) <= QUIET
    measured = Measured(small, large, far, FAR.one_way_ms / 1e3, large["free_cores"], quiet)
    return fitted_costs.calibrate(measured, portions(job))


def portions(job: Job) -> Portions:
    """How the suite cuts the job."""
    if job.suite != "shares":
        return Portions()
    p = Parameters(job.m, job.l, job.k, job.ub, Fraction(0))
    rings = Rings.of(p)
    demand = Demand(p, rings)
    rows = demand.chunks(job.m)[0][1]
    sizes = [demand.iteration([count]).size for count in (rows, 2 * rows)]
    supplies = Line.through((rows, 2 * rows), sizes)
    return Portions(rows, supplies, 8 * (job.k - 1) * rings.distance, VALUES / job.l)


def notes(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Whether the machine was free enough for the times to mean something."""
    busy = max(run["others"] or 0.0 for run in runs)
    if busy > QUIET:
        return [
            f"Other programs kept up to {busy:.1f} of {cores()} cores busy during the quietest "
            "iterations of the measured runs. The model counts them as missing cores and believes "
            "CPU time only. Repeat on a quiet machine, with a new --points."
        ]
    return []


def checks(costs: Costs, runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measured and predicted seconds of an iteration; the first runs made the model."""
    compared = []
    links = {**LINKS, FAR.name: FAR}
    for number, run in enumerate(runs):
        rows = cost_model.split(run["m"], run["pairs"])
        link = None if run["link"] is None else links[run["link"]]
        predicted = cost_model.predict(costs, rows, Setting(run["free_cores"], link))
        compared.append(
            {
                "rows": run["m"],
                "pairs": run["pairs"],
                "link": run["link"],
                "used_to_calibrate": number < USED,
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
    lead = [s for s in costs.steps if s.lead_only]
    both = 1 + costs.c2_share
    return {
        "rows": [run["m"] for run in runs[:2]],
        "cpu_us_per_record": [
            1e6 * sum(s.cpu.each for s in each),
            1e6 * sum(s.cpu.each for s in each) * costs.c2_share,
        ],
        "cpu_ms_per_pair": 1e3 * both * sum(s.cpu.fixed for s in each),
        "cpu_ms_once": 1e3 * both * sum(s.cpu.fixed for s in lead),
        "bytes_per_record": sum(2 * s.sent.each for s in each),
        "bytes_per_pair": sum(2 * s.sent.fixed for s in each),
        "bytes_once": sum(2 * s.sent.fixed for s in lead),
        "waits_per_chunk": sum(s.waits.fixed for s in each if s.name in cost_model.PER_CHUNK),
        "waits_once": sum(s.waits.fixed for s in lead),
        "round_ms": 1e3 * costs.round_s,
        "serial": costs.serial,
        "start_s": costs.start_s,
    }


_FIGURES = {
    "CPU for each record, C1 and C2, µs": "{cpu_us_per_record[0]:.1f} + {cpu_us_per_record[1]:.1f}",
    "CPU for each pair, ms": "{cpu_ms_per_pair:.1f}",
    "CPU on clusters, once for all pairs, ms": "{cpu_ms_once:.1f}",
    "bytes for each record": "{bytes_per_record:,.0f}",
    "bytes for each pair": "{bytes_per_pair:,.0f}",
    "bytes on clusters, once for all pairs": "{bytes_once:,.0f}",
    "latencies waited for, each chunk of records": "{waits_per_chunk:.1f}",
    "latencies waited for, on clusters": "{waits_once:.1f}",
    "a wait besides the latency, ms": "{round_ms:.2f}",
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
