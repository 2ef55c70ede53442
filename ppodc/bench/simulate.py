"""`ppodc bench simulate`: how long and how dear an iteration would be on psi pairs. A simulation.

Two runs of one pair on this machine, over few records but with numbers as wide as the whole job
needs, calibrate the model of `cost_model`. Three more of another size, of one pair, of two pairs
and of one pair over an imitated wide-area link, are not used for that: the model predicts them,
and the table shows by how much it errs. Then the model runs psi pairs, each worker on a core like
this machine's, over the chosen link.

What it does not know: slow disks once shares no longer fit in memory, slower or faster cores than
this machine's, and pairs that fail.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ppodc.bench import cost_model, figure, iteration
from ppodc.bench.cost_model import Costs, Prediction, Setting
from ppodc.bench.figure import Series
from ppodc.bench.machine import Load, cores
from ppodc.bench.network_presets import LINKS, USD_PER_CORE_HOUR, Link
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.shares.ring_sizes import Rings

MOST_PAIRS = 1024
MOST_RECORDS = 10**9
PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SIZES = {"shares": (3_000, 12_000), "paillier": (6, 18)}  # rows of the runs that calibrate
CHECK = {"shares": 16_000, "paillier": 24}  # rows of the runs that the model must predict
ITERATIONS = {"shares": 4, "paillier": 1}  # of each of these runs
DISPATCH_MS = 2.0
QUIET = 0.2  # cores that others may use before a time is doubtful
_SEED = 7
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
    suite: str = "shares"
    iterations: int = 20  # that the whole job is taken to need
    key_bits: int = 2048


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars; traffic is priced with its link."""

    core_hour: float = USD_PER_CORE_HOUR


def run(
    job: Job,
    *,
    pairs: Sequence[int] = PAIRS,
    links: Sequence[Link] = tuple(LINKS.values()),
    prices: Prices = Prices(),  # noqa: B008 - immutable
    within_s: float | None = None,
    dispatch_ms: float = DISPATCH_MS,
    sizes: tuple[int, int] | None = None,
    check: int | None = None,
    measured_iterations: int | None = None,
    points: Points | None = None,
) -> dict[str, Any]:
    """Calibrate, check, predict; with `within_s`, the fewest pairs whose job takes no longer."""
    if not job.k <= job.m <= MOST_RECORDS or not all(1 <= p <= MOST_PAIRS for p in pairs):
        raise InputError(f"simulate k to {MOST_RECORDS:,} records on 1 to {MOST_PAIRS:,} pairs.")
    rows = (*(sizes or SIZES[job.suite]), check or CHECK[job.suite])
    kept = points if points is not None else Points()
    runs = _measure(job, rows, measured_iterations or ITERATIONS[job.suite], kept)
    costs = cost_model.calibrate(runs[0], runs[1], runs[1]["free_cores"])
    shown = []
    for link in links:
        setting = Setting(None, link, dispatch_ms / 1e3)
        shown += [_point(job, costs, number, setting, prices) for number in usable(job, pairs)]
        if within_s is not None:
            shown.append(_fewest(job, costs, setting, prices, within_s))
    parameters = {
        "m": job.m, "l": job.l, "k": job.k, "ub": job.ub, "suite": job.suite,
        "key_bits": job.key_bits, "iterations": job.iterations, "within_s": within_s,
        "dispatch_ms": dispatch_ms, "usd_core_hour": prices.core_hour,
        "links": [link.describe() for link in links],
        "calibration": _describe(costs, runs), "checks": _checks(costs, runs),
    }  # fmt: skip
    return figure.document("simulate", parameters, shown, notes=_notes(job, dispatch_ms, runs))


def usable(job: Job, pairs: Sequence[int]) -> list[int]:
    """No more pairs than records."""
    return [number for number in pairs if number <= job.m]


def _notes(job: Job, dispatch_ms: float, runs: Sequence[dict[str, Any]]) -> list[str]:
    notes = [
        "SIMULATION: every time and price below the calibration is predicted, not measured. Each "
        "worker has one core like this machine's; offline and online work are both counted.",
        f"Assumed: {dispatch_ms:g} ms of the master for each pair and phase, prices as given, a "
        f"job of {job.iterations} iterations. GB: sent in an iteration, both ways. GB kept: what a "
        "worker holds of its records, in memory and on disk.",
    ]
    busy = max(run["others"] or 0.0 for run in runs)
    if busy > QUIET:
        notes.append(
            f"Other programs kept up to {busy:.1f} of {cores()} cores busy during the measured "
            "runs. The model counts them as missing cores, so its error then says little more "
            "than how well CPU time is predicted. Repeat on a quiet machine, with a new --points."
        )
    return notes


# ------------------------------------------------------------- measuring


def _measure(
    job: Job, sizes: tuple[int, int, int], iterations: int, points: Points
) -> list[dict[str, Any]]:
    """Two runs to calibrate, three to check: one pair, two pairs, one pair over a slow link."""
    small, large, other = (min(max(rows, job.k), job.m) for rows in sizes)
    if small == large:
        small = max(job.k, large // 4)
    if other in (small, large):
        other = (small + large) // 2
    if len({small, large, other}) < 3:
        raise InputError(f"{job.m} records in {job.k} clusters are too few to calibrate with.")
    wan, fewer = LINKS["wan"], max(1, iterations // 2)
    tasks = [
        _run(job, small, 1, iterations),
        _run(job, large, 1, iterations),
        _run(job, other, 1, iterations),
        _run(job, other, 2, iterations),
        _run(job, other, 1, fewer, wan),
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
        records = np.random.default_rng(_SEED).integers(0, job.ub + 1, (rows, job.l))
        watch: list[Load] = []

        def listen(what: str) -> None:
            if what.startswith("iteration") and not watch:  # the start is not of interest
                watch.append(Load())
            tell(what)

        result = iteration.run_records(
            records, job.suite, job.k, pairs, iterations,
            warm_up=iteration.WARM_UP[job.suite], link=link,
            of=job.m, ub=job.ub, key_bits=job.key_bits, tell=listen,
        )  # fmt: skip
        if not result["exact"]:
            raise PpodcError(f"the {job.suite} suite gave another result than plaintext k-means.")
        load = watch[0]
        load.stop(result["iterations"] * (result["cpu_c1_s"] + result["cpu_c2_s"]))
        return {
            **{name: result[name] for name in _KEPT},
            "link": over,
            "others": load.others,
            "free_cores": max(0.1, cores() - (load.others or 0.0)),
        }

    return Task(f"{rows:,} rows, {pairs} pair(s){f', {over}' if over else ''}", key, work)


def _checks(costs: Costs, runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measured and predicted seconds of an iteration; the first two runs made the model."""
    found = []
    for number, run in enumerate(runs):
        rows = cost_model.split(run["m"], run["pairs"])
        link = None if run["link"] is None else LINKS[run["link"]]
        predicted = cost_model.predict(costs, rows, Setting(run["free_cores"], link))
        found.append(
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
    return found


def _describe(costs: Costs, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
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


# ------------------------------------------------------------- predicting


def _point(job: Job, costs: Costs, pairs: int, setting: Setting, prices: Prices) -> dict[str, Any]:
    rows = cost_model.split(job.m, pairs)
    predicted = cost_model.predict(costs, rows, setting)
    link = setting.link or LINKS["lan"]
    whole = whole_s(job, costs, predicted)
    sent = costs.sent(rows)
    taken_in = sum(2 * costs.ingest.sent.at(each) for each in rows)
    hour = 2 * pairs * prices.core_hour
    usd = predicted.iteration_s / 3600 * hour + sent / 1e9 * link.usd_per_gb
    all_sent = job.iterations * sent + taken_in
    return {
        "simulated": True,
        "link": link.name,
        "pairs": pairs,
        "offline_s": predicted.offline_s,
        "online_s": predicted.online_s,
        "iteration_s": predicted.iteration_s,
        "ingest_s": predicted.ingest_s,
        "job_s": whole,
        "bytes": sent,
        "worker_gb": worker_bytes(job, rows[0]) / 1e9,
        "usd_iteration": usd,
        "usd_job": whole / 3600 * hour + all_sent / 1e9 * link.usd_per_gb,
    }


def worker_bytes(job: Job, rows: int) -> float:
    """What a worker keeps of its records between iterations: in memory, and on disk beyond it."""
    if job.suite != "shares":
        return float(rows * job.l * job.key_bits / 4)  # ciphertexts modulo n^2
    rings = Rings.of(Parameters(job.m, job.l, job.k, job.ub, Fraction(0)))
    return float(rows * job.l * (32 * rings.bits + 8 * rings.distance + 4))


def whole_s(job: Job, costs: Costs, predicted: Prediction) -> float:
    """Start, taking in the records, and all iterations."""
    return costs.start_s + predicted.ingest_s + job.iterations * predicted.iteration_s


def _fewest(
    job: Job, costs: Costs, setting: Setting, prices: Prices, within_s: float
) -> dict[str, Any]:
    """The fewest pairs whose job ends in time; the fastest number if none does.

    More pairs are faster up to some number, and slower beyond it, since the master has more to do.
    """

    @cache
    def seconds(pairs: int) -> float:
        rows = cost_model.split(job.m, pairs)
        return whole_s(job, costs, cost_model.predict(costs, rows, setting))

    tried = usable(job, PAIRS)
    enough = next((number for number in tried if seconds(number) <= within_s), None)
    if enough is None:
        best = min(tried, key=seconds)
        enough = _fastest(seconds, max(1, best // 2), min(2 * best, MOST_PAIRS, job.m))
        if seconds(enough) > within_s:
            return {**_point(job, costs, enough, setting, prices), "answer": False}
    low, high = enough // 2, enough  # low does not suffice, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        if seconds(middle) <= within_s:
            high = middle
        else:
            low = middle
    return {**_point(job, costs, high, setting, prices), "answer": True}


def _fastest(seconds: Callable[[int], float], low: int, high: int) -> int:
    """Where a time that first falls and then rises is least."""
    while high - low > 2:
        third = (high - low) // 3
        if seconds(low + third) <= seconds(high - third):
            high -= third
        else:
            low += third
    return min(range(low, high + 1), key=seconds)


# ------------------------------------------------------------- showing


def tables(document: dict[str, Any]) -> list[Any]:
    """Calibration, its errors, and the predictions."""
    p = document["parameters"]
    made = [_calibration_table(p["calibration"]), _check_table(p["checks"])]
    title = "SIMULATED: m = {m:,}, l = {l}, k = {k}, {suite}".format(**p)
    job = f"job of {p['iterations']}"
    headings = ("link", "pairs", "iteration", "online", "USD", "GB", job, "USD", "GB kept")
    rows = [
        (
            x["link"], f"{x['pairs']:,}", figure.seconds(x["iteration_s"]),
            figure.seconds(x["online_s"]), _short(x["usd_iteration"]),
            _short(x["bytes"] / 1e9), figure.seconds(x["job_s"]), _short(x["usd_job"]),
            _short(x["worker_gb"]),
        )
        for x in document["points"]
        if "answer" not in x
    ]  # fmt: skip
    return [*made, figure.table(title, headings, rows)]


def show(result: dict[str, Any]) -> None:
    """Calibration, predictions, answer, and what to keep in mind."""
    figure.show(tables(result), [*answers(result), *result["notes"]])


def answers(document: dict[str, Any]) -> list[str]:
    """ "How many pairs do I need?", one line for each link."""
    within = document["parameters"]["within_s"]
    most = min(MOST_PAIRS, document["parameters"]["m"])
    told = []
    for x in document["points"]:
        if "answer" not in x:
            continue
        limit, took = figure.seconds(within), figure.seconds(x["job_s"])
        if x["answer"]:
            told.append(
                f"{x['link']}: {x['pairs']:,} pair(s) do the whole job within {limit} "
                f"(simulated: {took}, {_short(x['usd_job'])} USD)."
            )
        else:
            told.append(
                f"{x['link']}: no number of pairs up to {most:,} does it within {limit}; "
                f"the fastest simulated is {x['pairs']:,} pairs with {took}."
            )
    return told


def _calibration_table(c: dict[str, Any]) -> Any:
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
    ]  # fmt: skip
    sizes = " and ".join(f"{rows:,}" for rows in c["rows"])
    title = f"Calibration of one iteration, measured over {sizes} rows"
    return figure.table(title, ("what", "value"), rows)


def _check_table(checks: Sequence[dict[str, Any]]) -> Any:
    rows = [
        (
            f"{c['rows']:,}", str(c["pairs"]), c["link"] or "loopback",
            "calibrates" if c["used_to_calibrate"] else "checks",
            figure.seconds(c["measured_s"]), figure.seconds(c["predicted_s"]),
            f"{c['error']:+.1%}", "-" if c["others"] is None else f"{c['others']:.1f}",
        )
        for c in checks
    ]  # fmt: skip
    title = f"Model against measurement, seconds per iteration on {checks[0]['cores']} cores"
    headings = ("rows", "pairs", "link", "run", "measured", "model", "error", "others' cores")
    return figure.table(title, headings, rows)


def _short(value: float) -> str:
    """Three digits, or whole numbers."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(document: dict[str, Any], file: figure.File) -> None:
    """Seconds per iteration over the number of pairs, a line for each link."""
    shown = [x for x in document["points"] if "answer" not in x]
    series = []
    for name in dict.fromkeys(x["link"] for x in shown):
        own = [x for x in shown if x["link"] == name]
        y = [x["iteration_s"] for x in own]
        series.append(Series(name, [x["pairs"] for x in own], y, estimated=True))
    title = "Simulated: m = {m:,}, l = {l}, k = {k}".format(**document["parameters"])
    figure.lines(file, series, "worker pairs", "seconds per iteration", title, log="xy")
