"""`ppodc bench simulate`: time and money of an iteration on psi pairs. A simulation.

The model of `cost_model` is calibrated by a few small runs on this machine and checked against
others (see `calibration`). Then it runs psi pairs, each worker on a core like this machine's, over
the chosen link.

What it does not know: slow disks once shares no longer fit in memory, slower or faster cores than
this machine's, and pairs that fail.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from ppodc.bench import calibration, cost_model, document, network_presets, plot
from ppodc.bench.calibration import RUNS, Job, Runs
from ppodc.bench.cost_model import Costs, Prediction, Setting
from ppodc.bench.document import Document, Table
from ppodc.bench.network_presets import LINKS, Link
from ppodc.bench.plot import Panel
from ppodc.bench.points import Points
from ppodc.errors import InputError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.shares.products import lattice_for
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.suites import Suite
from ppodc.mpc.lattice_parameters import DEGREE

MOST_PAIRS = 1024
MOST_RECORDS = 10**9


@dataclass(frozen=True, slots=True)
class Assumed:
    """What no measurement here can tell: US dollars (traffic is priced with its link), overhead."""

    usd_core_hour: float = network_presets.USD_PER_CORE_HOUR
    dispatch_ms: float = 2.0  # of the master, for each pair and phase


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
    own = {"gbit_s": gbit, "one_way_ms": latency_ms, "usd_per_gb": usd_gb}
    links = [
        network_presets.link(name, **own, total_gbit_s=total_gbit)
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
    measured = calibration.measure_runs(job, runs or RUNS[job.suite], points)
    costs = calibration.calibrate(job, measured)
    predicted = []
    for link in links:
        setting = Setting(None, link, assumed.dispatch_ms / 1e3)
        possible = [psi for psi in pairs if psi <= job.m]  # each needs a record
        predicted += [_point(job, costs, psi, setting, assumed) for psi in possible]
        if within_s is not None:
            predicted.append(_fewest(job, costs, setting, assumed, within_s))
    return document.make(
        "simulate",
        _tables,
        parameters={
            **asdict(job),
            "within_s": within_s,
            **asdict(assumed),
            "links": [link.describe() for link in links],
            "calibration": calibration.describe(costs, measured),
            "checks": calibration.checks(costs, measured),
        },
        points=predicted,
        published=[],
        notes=[
            *_answers(job, within_s, predicted),
            *_notes(job, assumed.dispatch_ms),
            *calibration.notes(measured),
        ],
    )


def _notes(job: Job, dispatch_ms: float) -> list[str]:
    return [
        "SIMULATION: every time and price below the calibration is predicted, not measured. Each "
        "worker has one core like this machine's; offline and online work are both counted.",
        f"Assumed: {dispatch_ms:g} ms of the master for each pair and phase, prices as given, a "
        f"job of {job.iterations} iterations. GB: sent in an iteration, both ways. GB kept: what a "
        "worker holds of its records, in memory and on disk.",
    ]


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
    hour = 2 * pairs * assumed.usd_core_hour
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
    p = Parameters(job.m, job.l, job.k, job.ub, Fraction(0))
    rings = Rings.of(p)
    shares = 8 * rings.distance
    lattice = lattice_for(p, rings)
    if lattice is None:
        return float(rows * job.l * (32 * rings.bits + 4 + shares))  # keys of transfers, bits
    blocks = -(-rows // DEGREE)
    encrypted = 8 * len(lattice.primes) * lattice.digits * DEGREE
    return float(job.l * (rows * shares + blocks * encrypted))


def whole_s(job: Job, costs: Costs, predicted: Prediction) -> float:
    """Start, taking in the records, and all iterations."""
    return costs.start_s + predicted.ingest_s + job.iterations * predicted.iteration_s


def _fewest(
    job: Job, costs: Costs, setting: Setting, assumed: Assumed, within_s: float
) -> dict[str, Any]:
    """The fewest pairs whose job ends in time; the fastest number if none does.

    More pairs are faster up to some number, and slower beyond it, since the master has more to do.
    """
    times = {}
    for pairs in range(1, min(MOST_PAIRS, job.m) + 1):
        predicted = cost_model.predict(costs, cost_model.split(job.m, pairs), setting)
        times[pairs] = whole_s(job, costs, predicted)
        if times[pairs] <= within_s:
            return {**_point(job, costs, pairs, setting, assumed), "answer": True}
    fastest = min(times, key=lambda pairs: times[pairs])
    return {**_point(job, costs, fastest, setting, assumed), "answer": False}


# ------------------------------------------------------------- showing


def _tables(result: Document) -> list[Table]:
    """Calibration, its errors, and the predictions."""
    p = result["parameters"]
    predicted = document.table_of(
        f"SIMULATED: {document.SHAPE}, {{suite}}".format(**p),
        f"link | pairs | iteration | online | USD | GB | job of {p['iterations']} | USD | GB kept",
        "{link} | {pairs:,} | {iteration_s:time} | {online_s:time} | {usd_iteration:digits} | "
        "{gb:digits} | {job_s:time} | {usd_job:digits} | {worker_gb:digits}",
        [{**x, "gb": x["bytes"] / 1e9} for x in result["points"] if "answer" not in x],
    )
    return [*calibration.tables(p["calibration"], p["checks"]), predicted]


def _answers(job: Job, within_s: float | None, points: Sequence[dict[str, Any]]) -> list[str]:
    """ "How many pairs do I need?", one line for each link."""
    enough = (
        "{link}: {pairs:,} pair(s) do the whole job within {limit} (simulated: {job_s:time}, "
        "{usd_job:digits} USD)."
    )
    too_few = (
        "{link}: no number of pairs up to {most:,} does it within {limit}; the fastest simulated "
        "is {pairs:,} pairs with {job_s:time}."
    )
    facts = {"limit": document.seconds(within_s), "most": min(MOST_PAIRS, job.m)}
    return [
        document.fill(enough if x["answer"] else too_few, {**x, **facts})
        for x in points
        if "answer" in x
    ]


def draw(result: Document, file: plot.File) -> None:
    """Seconds per iteration over the number of pairs, a line for each link."""
    points = [x for x in result["points"] if "answer" not in x]
    series = []
    for name in dict.fromkeys(x["link"] for x in points):
        along = [x for x in points if x["link"] == name]
        series.append(plot.series(name, along, "pairs", "iteration_s", estimated=True))
    title = f"Simulated: {document.SHAPE}".format(**result["parameters"])
    panel = Panel("", "worker pairs", "seconds per iteration", series)
    plot.lines(file, [panel], title, log="xy")
