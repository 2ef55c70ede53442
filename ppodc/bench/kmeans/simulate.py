"""`ppodc bench simulate`: time and money of an iteration on many pairs. A simulation.

Three small runs on this machine calibrate the closed form of `closed_form`: two sizes, and the
smaller one again over an imitated link that is far. Three more, of one pair, of two pairs and of
one pair over an imitated wide-area link, are only predicted: a table shows the errors. Each run is
represented by the iteration that other programs disturbed least. The cores that they used then, and
those that this process used to imitate the link, count as missing.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Annotated

import typer

from ppodc.bench import document, network_presets, options, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.kmeans.closed_form import QUIET, Figures, Model, Portions, calibrate, portions
from ppodc.bench.kmeans.iteration import Run, both_clouds, random_records
from ppodc.bench.machine import cores
from ppodc.bench.network_presets import LINKS, Link, LinkName
from ppodc.bench.plot import Panel
from ppodc.bench.points import Points, Task, measure
from ppodc.errors import InputError
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares.products import lattice_for
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.suites import Suite
from ppodc.mpc.lattice.parameters import DEGREE

MOST_PAIRS = 1024
MOST_RECORDS = 10**9
FAR = Link("far", 100, 100, 0)  # its waits exceed the noise of a busy machine
USED = 3  # the first runs calibrate
# By suite: two sizes that calibrate and one that checks, in rows, and iterations
RUNS: dict[Suite, tuple[int, int, int, int]] = {
    "shares": (3_000, 12_000, 16_000, 4),
    "paillier": (6, 18, 24, 1),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A job to predict, with assumptions that no run here can measure."""

    m: int
    l: int = 10
    k: int = 4
    ub: int = 1000
    suite: Suite = "shares"
    iterations: int = 20
    key_bits: int = 2048
    within_s: float | None = None  # time within which the job should end
    usd_core_hour: float = network_presets.USD_PER_CORE_HOUR
    dispatch_ms: float = 2.0  # of the master, for each pair and phase

    @property
    def params(self) -> Parameters:
        return Parameters(self.m, self.l, self.k, self.ub, Fraction(0))


def run(
    m: Annotated[
        int, typer.Option(parser=options.whole, metavar="NUMBER", help="Records, up to 1e9.")
    ] = 1_000_000,
    l: options.Attributes = 10,
    k: options.Clusters = 4,
    suite: options.OneSuite = "shares",
    key_bits: options.KeyBits = 2048,
    pairs: options.ManyPairs = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    link: Annotated[
        LinkName | None, typer.Option(help="The link between the clouds; all three if left out.")
    ] = None,
    gbit: options.Gbit = None,
    latency_ms: options.LatencyMs = None,
    total_gbit: Annotated[
        float | None, typer.Option(help="Gbit/s of all pairs together, in each direction.")
    ] = None,
    usd_core_hour: Annotated[
        float, typer.Option(help="Price of a core for an hour.")
    ] = network_presets.USD_PER_CORE_HOUR,
    usd_gb: Annotated[
        float | None,
        typer.Option(help="Price of a GB between the clouds: 0, 0.01, 0.09 by link."),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            parser=options.duration,
            metavar="TIME",
            help="Find the number of pairs that finish the job in this time, such as 1h.",
        ),
    ] = None,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of the whole job.")] = 20,
    dispatch_ms: Annotated[
        float, typer.Option(min=0, help="Of the master, for each pair and phase (assumed).")
    ] = 2.0,
    *,
    points: options.KeptPoints,
) -> Document:
    """SIMULATION of many pairs, calibrated here: time and money of an iteration and of a job."""
    own = {"gbit_s": gbit, "one_way_ms": latency_ms, "usd_per_gb": usd_gb}
    names = [link] if link is not None else LINKS
    links = [network_presets.link(name, **own, total_gbit_s=total_gbit) for name in names]
    job = Job(m, l, k, 1000, suite, iterations, key_bits, within, usd_core_hour, dispatch_ms)
    if not k <= m <= MOST_RECORDS or not all(1 <= p <= MOST_PAIRS for p in pairs):
        raise InputError(f"Simulate k to {MOST_RECORDS:,} records on 1 to {MOST_PAIRS:,} pairs.")
    runs = measure_runs(job, points)
    cuts = portions(job.params) if suite == "shares" else Portions()
    model = calibrate(runs[:USED], FAR.one_way_ms / 1e3, cuts)
    predicted = []
    for each in links:
        possible = [psi for psi in pairs if psi <= m]  # each needs a record
        predicted += [point(job, model, psi, each) for psi in possible]
        if within is not None:
            predicted.append(fewest(job, model, each))
    return document.make(
        "simulate",
        _tables,
        parameters={
            **asdict(job),
            "links": [each.describe() for each in links],
            "calibration": _described(model, runs),
            "checks": _checks(model, runs),
        },
        points=predicted,
        published=[],
        notes=[*_answers(job, predicted), *_notes(job, max(run["others"] for run in runs))],
    )


# ------------------------------------------------------------- measured runs


def measure_runs(job: Job, points: Points) -> list[Figures]:
    """Three runs to calibrate, three to check: one pair, two pairs, one pair over a slow link.

    All multiply records in one way, that of the job over a fast link.
    """
    *sizes, iterations = RUNS[job.suite]
    small, large, other = (min(max(rows, job.k), job.m) for rows in sizes)
    if small == large:
        small = max(job.k, large // 4)
    if other in (small, large):
        other = (small + large) // 2
    if len({small, large, other}) < 3:
        raise InputError(f"{job.m} records in {job.k} clusters are too few to calibrate with.")
    plain = Run(job.suite, job.k, 1, iterations, of=job.m, ub=job.ub, key_bits=job.key_bits)
    if job.suite == "shares":
        lattice = lattice_for(job.params, Rings.of(job.params))
        plain = replace(plain, products="transfers" if lattice is None else "lattice")
    over = replace(plain, iterations=max(1, iterations // 2))
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
    records = random_records(rows, l, run.ub)
    return Task(label, key, lambda tell: {**run.exact(records, tell), "link": link})


def _quietest(run: Figures) -> Figures:
    """A run by its least disturbed iteration: wall time, CPU, and the cores that were free."""
    best = min(run["each"], key=lambda each: (each["others"], each["wall_s"]))
    slower = best["cpu_s"] / both_clouds(run)["cpu_s"]  # a busy machine does less in a CPU second
    return {
        **run,
        "total_s": best["wall_s"],
        "cpu_c1_s": slower * run["cpu_c1_s"],
        "cpu_c2_s": slower * run["cpu_c2_s"],
        "steps": [{**step, "cpu_s": slower * step["cpu_s"]} for step in run["steps"]],
        "others": best["others"],
        "free_cores": max(0.1, cores() - best["others"] - best["own"]),
    }


# ------------------------------------------------------------- prediction


def split(m: int, pairs: int) -> list[int]:
    """Rows of each pair, the largest first."""
    return [m // pairs + (1 if i < m % pairs else 0) for i in range(pairs)]


def point(job: Job, model: Model, pairs: int, link: Link) -> Figures:
    """The prediction for one number of pairs over a link."""
    rows, master = split(job.m, pairs), job.dispatch_ms / 1e3 * pairs
    offline, online = (seconds + master for seconds in model.iteration_s(rows, link))
    ingest = model.ingest_s(rows[0], pairs, link) + master
    job_s = model.start_s + ingest + job.iterations * (offline + online)
    sent, taken_in = model.sent(rows), sum(2 * model.ingest.sent.at(each) for each in rows)
    second, byte = 2 * pairs * job.usd_core_hour / 3600, link.usd_per_gb / 1e9
    return {
        "simulated": True,
        "link": link.name,
        "pairs": pairs,
        "offline_s": offline,
        "online_s": online,
        "iteration_s": offline + online,
        "ingest_s": ingest,
        "job_s": job_s,
        "bytes": sent,
        "worker_gb": worker_bytes(job, rows[0]) / 1e9,
        "usd_iteration": (offline + online) * second + sent * byte,
        "usd_job": job_s * second + (job.iterations * sent + taken_in) * byte,
    }


def worker_bytes(job: Job, rows: int) -> float:
    """Bytes that a worker keeps of its records between iterations, in memory or on disk."""
    if job.suite != "shares":
        return float(rows * job.l * job.key_bits / 4)  # ciphertexts modulo n^2
    rings = Rings.of(job.params)
    shares = 8 * rings.distance
    lattice = lattice_for(job.params, rings)
    if lattice is None:
        return float(rows * job.l * (32 * rings.bits + 4 + shares))  # keys of transfers, bits
    blocks = -(-rows // DEGREE)
    encrypted = 8 * len(lattice.primes) * lattice.digits * DEGREE
    return float(job.l * (rows * shares + blocks * encrypted))


def fewest(job: Job, model: Model, link: Link) -> Figures:
    """The fewest pairs whose job ends in time; the fastest number if none does.

    More pairs are faster up to some number, and slower beyond it, since the master has more to do.
    """
    fastest: Figures = {"job_s": math.inf}
    for pairs in range(1, min(MOST_PAIRS, job.m) + 1):
        found = point(job, model, pairs, link)
        if found["job_s"] <= (job.within_s or 0.0):
            return {**found, "answer": True}
        fastest = min(fastest, found, key=lambda each: float(each["job_s"]))
    return {**fastest, "answer": False}


# ------------------------------------------------------------- document


def _checks(model: Model, runs: Sequence[Figures]) -> list[Figures]:
    """Measured and predicted seconds of an iteration. The first runs made the model."""
    compared: list[Figures] = []
    links = {**LINKS, FAR.name: FAR}
    for number, run in enumerate(runs):
        rows = split(run["m"], run["pairs"])
        predicted = sum(model.iteration_s(rows, links.get(run["link"]), run["free_cores"]))
        compared.append(
            {
                "rows": run["m"],
                "pairs": run["pairs"],
                "link": run["link"],
                "used_to_calibrate": number < USED,
                "measured_s": run["total_s"],
                "predicted_s": predicted,
                "error": predicted / run["total_s"] - 1,
                "cores": cores(),
                "others": run["others"],
            }
        )
    return compared


def _described(model: Model, runs: Sequence[Figures]) -> Figures:
    """The calibrated numbers, for each record and for each pair."""
    each, once, both = (model.supplies, model.records), model.clusters, 1 + model.c2_share
    cpu = 1e6 * sum(part.cpu.each for part in each)
    return {
        "rows": [run["m"] for run in runs[:2]],
        "cpu_us_per_record": [cpu, cpu * model.c2_share],
        "cpu_ms_per_pair": 1e3 * both * sum(part.cpu.fixed for part in each),
        "cpu_ms_once": 1e3 * both * once.cpu.fixed,
        "bytes_per_record": sum(2 * part.sent.each for part in each),
        "bytes_per_pair": sum(2 * part.sent.fixed for part in each),
        "bytes_once": 2 * once.sent.fixed,
        "waits_per_chunk": model.records.waits.fixed,
        "waits_once": once.waits.fixed,
        "round_ms": 1e3 * model.round_s,
        "serial": model.serial,
        "start_s": model.start_s,
    }


_CALIBRATION = {
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


def _tables(result: Document) -> list[Table]:
    """Calibration, its errors, and the predictions."""
    p = result["parameters"]
    found, uses = p["calibration"], {True: "calibrates", False: "checks"}
    title = "Calibration of one iteration, measured over {rows[0]:,} and {rows[1]:,} rows"
    checks = [
        {**check, "link": check["link"] or "loopback", "use": uses[check["used_to_calibrate"]]}
        for check in p["checks"]
    ]
    return [
        document.figures_table(title.format(**found), "what | value", _CALIBRATION, found),
        document.table_of(
            f"Model against measurement, seconds per iteration on {checks[0]['cores']} cores",
            "rows | pairs | link | run | measured | model | error | others' cores",
            "{rows:,} | {pairs} | {link} | {use} | {measured_s:time} | {predicted_s:time} | "
            "{error:+.1%} | {others:cores}",
            checks,
        ),
        document.table_of(
            f"SIMULATED: {document.SHAPE}, {{suite}}".format(**p),
            f"link | pairs | iteration | online | USD | GB | job of {p['iterations']} | USD | "
            "GB kept",
            "{link} | {pairs:,} | {iteration_s:time} | {online_s:time} | {usd_iteration:digits} | "
            "{bytes:/1e9 .3g} | {job_s:time} | {usd_job:digits} | {worker_gb:digits}",
            [x for x in result["points"] if "answer" not in x],
        ),
    ]


def _answers(job: Job, points: Sequence[Figures]) -> list[str]:
    """The number of pairs that are needed, one line for each link."""
    enough = (
        "{link}: {pairs:,} pair(s) do the whole job within {limit} (simulated: {job_s:time}, "
        "{usd_job:digits} USD)."
    )
    too_few = (
        "{link}: no number of pairs up to {most:,} does it within {limit}; the fastest simulated "
        "is {pairs:,} pairs with {job_s:time}."
    )
    facts = {"limit": document.seconds(job.within_s), "most": min(MOST_PAIRS, job.m)}
    found = [x for x in points if "answer" in x]
    return [document.fill(enough if x["answer"] else too_few, {**x, **facts}) for x in found]


def _notes(job: Job, busy: float) -> list[str]:
    notes = [
        "SIMULATION: every time and price below the calibration is predicted, not measured. Each "
        "worker has one core like this machine's; offline and online work are both counted.",
        f"Assumed: {job.dispatch_ms:g} ms of the master for each pair and phase, prices as given, "
        f"a job of {job.iterations} iterations. GB: sent in an iteration, both ways. GB kept: "
        "records that a worker holds, in memory and on disk.",
    ]
    if busy > QUIET:
        notes.append(
            f"Other programs kept up to {busy:.1f} of {cores()} cores busy during the quietest "
            "iterations of the measured runs. The model counts them as missing cores and believes "
            "CPU time only. Repeat on a quiet machine, with a new --points."
        )
    return notes


def draw(result: Document, file: plot.File) -> None:
    """Seconds per iteration over the number of pairs, a line for each link."""
    points = [x for x in result["points"] if "answer" not in x]
    series = plot.series_by("{link}", points, "link", "pairs", "iteration_s", estimated=True)
    title = f"Simulated: {document.SHAPE}".format(**result["parameters"])
    plot.lines(file, [Panel("", "worker pairs", "seconds per iteration", series)], title, log="xy")
