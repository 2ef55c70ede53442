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

from ppodc.bench import cost_model, document, iteration, network_presets, plot
from ppodc.bench.cost_model import Costs, Prediction, Setting
from ppodc.bench.document import Document, Table, digits
from ppodc.bench.machine import Load, cores
from ppodc.bench.network_presets import LINKS, Link
from ppodc.bench.plot import Panel, Series
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.errors import InputError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.suites import Suite

MOST_PAIRS = 1024
MOST_RECORDS = 10**9
PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
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
class Assumed:
    """What no measurement here can tell: US dollars (traffic is priced with its link), overhead."""

    core_hour: float = network_presets.USD_PER_CORE_HOUR
    dispatch_ms: float = 2.0  # of the master, for each pair and phase


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


def run(
    m: int,
    l: int,
    k: int,
    *,
    suite: Suite,
    key_bits: int,
    pairs: Sequence[int],
    link: str | None,
    gbit: float | None,
    latency_ms: float | None,
    total_gbit: float | None,
    usd_core_hour: float,
    usd_gb: float | None,
    within: float | None,
    iterations: int,
    dispatch_ms: float,
    points: Points,
) -> Document:
    """A job on these numbers of pairs over a link, or over all presets."""
    links = [
        network_presets.link(
            name, gbit_s=gbit, one_way_ms=latency_ms, usd_per_gb=usd_gb, total_gbit_s=total_gbit
        )
        for name in ([link] if link is not None else LINKS)
    ]
    job = Job(m, l, k, suite=suite, iterations=iterations, key_bits=key_bits)
    assumed = Assumed(usd_core_hour, dispatch_ms)
    return simulate(job, pairs, links, assumed, within_s=within, points=points)


def simulate(
    job: Job,
    pairs: Sequence[int],
    links: Sequence[Link],
    assumed: Assumed,
    *,
    within_s: float | None = None,
    runs: Runs | None = None,
    points: Points,
) -> Document:
    """Calibrate, check, predict; with `within_s`, the fewest pairs whose job takes no longer."""
    if not job.k <= job.m <= MOST_RECORDS or not all(1 <= p <= MOST_PAIRS for p in pairs):
        raise InputError(f"simulate k to {MOST_RECORDS:,} records on 1 to {MOST_PAIRS:,} pairs.")
    measured = _measure(job, runs or RUNS[job.suite], points)
    costs = cost_model.calibrate(measured[0], measured[1], measured[1]["free_cores"])
    predicted = []
    for link in links:
        setting = Setting(None, link, assumed.dispatch_ms / 1e3)
        predicted += [_point(job, costs, psi, setting, assumed) for psi in usable(job, pairs)]
        if within_s is not None:
            predicted.append(_fewest(job, costs, setting, assumed, within_s))
    return document.make(
        "simulate",
        _tables,
        parameters={
            "m": job.m, "l": job.l, "k": job.k, "ub": job.ub, "suite": job.suite,
            "key_bits": job.key_bits, "iterations": job.iterations, "within_s": within_s,
            "dispatch_ms": assumed.dispatch_ms, "usd_core_hour": assumed.core_hour,
            "links": [link.describe() for link in links],
            "calibration": _describe(costs, measured), "checks": _checks(costs, measured),
        },
        points=predicted,
        published=[],
        notes=[
            *_answers(job, within_s, predicted),
            *_notes(job, assumed.dispatch_ms, measured),
        ],
    )  # fmt: skip


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


def _measure(job: Job, runs: Runs, points: Points) -> list[dict[str, Any]]:
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


def _point(
    job: Job, costs: Costs, pairs: int, setting: Setting, assumed: Assumed
) -> dict[str, Any]:
    rows = cost_model.split(job.m, pairs)
    predicted = cost_model.predict(costs, rows, setting)
    link = setting.link or LINKS["lan"]
    whole = whole_s(job, costs, predicted)
    sent = costs.sent(rows)
    taken_in = sum(2 * costs.ingest.sent.at(each) for each in rows)
    hour = 2 * pairs * assumed.core_hour
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
    job: Job, costs: Costs, setting: Setting, assumed: Assumed, within_s: float
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
            return {**_point(job, costs, enough, setting, assumed), "answer": False}
    low, high = enough // 2, enough  # low does not suffice, or is 0
    while high - low > 1:
        middle = (low + high) // 2
        if seconds(middle) <= within_s:
            high = middle
        else:
            low = middle
    return {**_point(job, costs, high, setting, assumed), "answer": True}


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


def _tables(result: Document) -> list[Table]:
    """Calibration, its errors, and the predictions."""
    p = result["parameters"]
    title = "SIMULATED: m = {m:,}, l = {l}, k = {k}, {suite}".format(**p)
    job = f"job of {p['iterations']}"
    columns = ("link", "pairs", "iteration", "online", "USD", "GB", job, "USD", "GB kept")
    rows = [
        (
            x["link"], f"{x['pairs']:,}", document.seconds(x["iteration_s"]),
            document.seconds(x["online_s"]), digits(x["usd_iteration"]),
            digits(x["bytes"] / 1e9), document.seconds(x["job_s"]), digits(x["usd_job"]),
            digits(x["worker_gb"]),
        )
        for x in result["points"]
        if "answer" not in x
    ]  # fmt: skip
    calibration, checks = _calibration_table(p["calibration"]), _check_table(p["checks"])
    return [calibration, checks, document.table(title, columns, rows)]


def _answers(job: Job, within_s: float | None, points: Sequence[dict[str, Any]]) -> list[str]:
    """ "How many pairs do I need?", one line for each link."""
    limit, answers = document.seconds(within_s), []
    for x in (x for x in points if "answer" in x):
        took = document.seconds(x["job_s"])
        if x["answer"]:
            answers.append(
                f"{x['link']}: {x['pairs']:,} pair(s) do the whole job within {limit} "
                f"(simulated: {took}, {digits(x['usd_job'])} USD)."
            )
        else:
            answers.append(
                f"{x['link']}: no number of pairs up to {min(MOST_PAIRS, job.m):,} does it within "
                f"{limit}; the fastest simulated is {x['pairs']:,} pairs with {took}."
            )
    return answers


def _calibration_table(c: dict[str, Any]) -> Table:
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


def _check_table(checks: Sequence[dict[str, Any]]) -> Table:
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


def draw(result: Document, file: plot.File) -> None:
    """Seconds per iteration over the number of pairs, a line for each link."""
    points = [x for x in result["points"] if "answer" not in x]
    series = []
    for name in dict.fromkeys(x["link"] for x in points):
        along = [x for x in points if x["link"] == name]
        times = [x["iteration_s"] for x in along]
        series.append(Series(name, [x["pairs"] for x in along], times, estimated=True))
    title = "Simulated: m = {m:,}, l = {l}, k = {k}".format(**result["parameters"])
    panel = Panel("", "worker pairs", "seconds per iteration", series)
    plot.lines(file, [panel], title, log="xy")
