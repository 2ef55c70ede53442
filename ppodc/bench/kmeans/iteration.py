"""`ppodc bench iteration`: one iteration of a whole job, offline and online apart.

Every pair is two processes on loopback behind CURVE. This process plays the owners (it splits
random records and checks every iteration against the reference) and the masters of both clouds
(it hands states around). Times are wall-clock medians over the iterations, as the slowest pair
took them; bytes and CPU are means per iteration, summed over the pairs. Iterations to warm up
(kernels and memory are touched for the first time) are run and checked like all others, but their
costs do not count.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, network_presets, options, slow_network
from ppodc.bench.document import Document, Figures, Table
from ppodc.bench.kmeans.commanded_pairs import CommandedPairs, Phase, State
from ppodc.bench.network_presets import Link
from ppodc.bench.points import Tell, measure_anew
from ppodc.crypto import paillier
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.parameters import Products, Supplies
from ppodc.kmeans.reference import Trace, kmeans, spread_rows
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.suites import Suite, named
from ppodc.local.pair import ROLES, make_key, started, write_folders
from ppodc.local.pair_process import Setting
from ppodc.pairs.shards import split

WARM_UP: dict[Suite, int] = {"shares": 1, "paillier": 0}  # exponentiations need none
_SEED = 7
_PROGRAM = "ppodc.bench.kmeans.iteration_process"
_SPENT = ("wall_s", "cpu_s", "bytes", "rounds")


def _silent(_: str) -> None:
    """No-op progress callback."""


def run(
    suite: options.OneSuite = "shares",
    m: options.Records = 10_000,
    l: options.Attributes = 10,
    k: options.Clusters = 4,
    pairs: options.Pairs = 1,
    iterations: options.Iterations = 5,
    link: options.ImitatedLink = None,
    gbit: options.Gbit = None,
    latency_ms: options.LatencyMs = None,
    key_bits: options.KeyBits = 2048,
    products: Annotated[
        Products, typer.Option(help="How the shares suite multiplies with records.")
    ] = "auto",
    supplies: Annotated[
        Supplies, typer.Option(help="The transfers that the shares suite makes supplies from.")
    ] = "extension",
    audit: Annotated[
        bool, typer.Option("--audit", help="Measure the same with records for an auditor, too.")
    ] = False,
    split_key: Annotated[
        bool,
        typer.Option("--split-key", help="Measure the same with a split Paillier key, too."),
    ] = False,
) -> Document:
    """One iteration between two processes: offline, online, bytes, rounds, memory, by step.

    The records are random, with attributes 0..1,000.
    """
    over = network_presets.imitated(link, gbit, latency_ms)
    job = Run(
        suite, k, pairs, iterations, link=over, key_bits=key_bits, products=products,
        supplies=supplies,
    )  # fmt: skip
    figures = measure_anew("iteration", suite, lambda tell: job.over(random_records(m, l), tell))
    for name, wanted, other in (
        ("audited", audit, replace(job, audit=True)),
        ("split", split_key, replace(job, split_key=True)),
    ):
        if wanted:
            again = partial(other.over, random_records(m, l))
            figures[name] = measure_anew("iteration", suite, again)
    notes = [f"Emulated link: {figures['link']}."] if figures["link"] else []
    notes += ["Supplies from silent transfers."] if supplies == "silent" else []
    return document.make("iteration", _tables, notes=notes, **figures)


def random_records(m: int, l: int, ub: int = 1000) -> NDArray[np.int64]:
    """Make m random records with l attributes 0..ub; the seed is fixed."""
    return np.random.default_rng(_SEED).integers(0, ub + 1, (m, l))


@dataclass(frozen=True, slots=True)
class Run:
    """A job to measure, until it converges or `iterations` are done after those to warm up.

    With `link`, every pair's channel goes over an imitation of it; without, over loopback as it is.
    With `of`, all numbers are as wide as in a job over that many records, of which these are some.
    """

    suite: Suite = "shares"
    k: int = 4
    pairs: int = 1
    iterations: int = 5
    warm_up: int | None = None  # as many as the suite needs
    link: Link | None = None
    of: int | None = None
    ub: int = 1000
    key_bits: int = 2048
    starts: int = 0  # by k-means++, measured after the iterations
    products: Products = "auto"  # of the shares suite
    audit: bool = False  # each half keeps a record of its messages, as for an auditor
    supplies: Supplies = "extension"  # of the shares suite
    split_key: bool = False  # each cloud has a share of the Paillier key

    def key(self) -> dict[str, Any]:
        """Return the parameters that identify the points of this run."""
        told = {**asdict(self), "link": None if self.link is None else self.link.describe()}
        if self.products == "auto":
            del told["products"]  # points from before there was a choice
        for name in ("audit", "split_key"):
            if not told[name]:
                del told[name]
        if self.supplies == "extension":
            del told["supplies"]
        return told

    def exact(self, records: NDArray[np.int64], tell: Tell = _silent) -> dict[str, Any]:
        """The figures, which mean nothing unless the run gives what plaintext k-means gives."""
        figures = self.over(records, tell)
        if not figures["exact"]:
            raise PpodcError(f"the {self.suite} suite gave another result than plaintext k-means.")
        return figures

    def over(self, records: NDArray[np.int64], tell: Tell = _silent) -> dict[str, Any]:
        """The figures over these records, and whether every iteration was exact."""
        (m, l), pairs = records.shape, self.pairs
        if not 1 <= pairs <= m or self.iterations < 1 or (self.of or m) < m:
            raise InputError(
                "use 1 to m pairs, each with at least one record; at least one iteration."
            )
        warm_up = WARM_UP[named(self.suite)] if self.warm_up is None else self.warm_up
        insecure = self.key_bits < min(paillier.KEY_BITS)
        setting = Setting(
            1,
            self.suite,
            self.of or m,
            l,
            self.k,
            self.ub,
            "0",
            insecure_key=insecure,
            products=self.products,
            audit=self.audit,
            supplies=self.supplies,
            split_key=self.split_key,
        )
        most = warm_up + self.iterations
        trace = kmeans(records, self.k, beta=Fraction(0), max_iter=most, seed=_SEED)
        rings = Rings.of(setting.params)
        with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place, ExitStack() as stack:
            tell("keys and start")
            clouds = _start(Path(place), setting, records, self, stack)
            measured = _measure(clouds, records, trace, warm_up, tell)
            sizes = [file.stat().st_size for file in Path(place).rglob("*.record")]
            for start in range(self.starts):
                tell(f"start {start + 1} of {self.starts}")
                measured.setdefault("starts", []).append(_spread(clouds, records, self.k, start))
        return {
            "suite": self.suite,
            "m": m,
            "l": l,
            "k": self.k,
            "pairs": pairs,
            "ub": self.ub,
            "key_bits": self.key_bits,
            "link": self.key()["link"],
            "supplies": self.supplies,
            "distance_bits": rings.distance_bits,
            "distance_limbs": rings.distance,
            "start_s": clouds.start_s,
            **measured,
            "converged": trace.converged,
            "record_bytes": sum(sizes),
        }


def both_clouds(figures: Figures) -> dict[str, float]:
    """CPU seconds and bytes of an iteration, of both clouds together."""
    cpu = figures["cpu_c1_s"] + figures["cpu_c2_s"]
    return {"cpu_s": cpu, "bytes": figures["bytes_c1_to_c2"] + figures["bytes_c2_to_c1"]}


def _measure(
    clouds: CommandedPairs,
    records: NDArray[np.int64],
    trace: Trace,
    warm_up: int,
    tell: Tell,
) -> dict[str, Any]:
    """Costs of all iterations but those to warm up; of the last in any case."""
    m, k = len(records), len(trace.sizes)
    count = len(trace.iterations)
    unmeasured = min(warm_up, count - 1)
    tell("taking in the records")
    ingest = clouds.ingest()

    def assign(clusters: State) -> State:
        measured = len(clouds.offline) + 1 - unmeasured
        tell(f"iteration {measured} of {count - unmeasured}" if measured > 0 else "warm-up")
        return clouds.assign(clusters)

    def candidates(iteration: int) -> State:
        return clouds.records(reseed_rows(_SEED, iteration, m, k))

    clusters = clouds.records(initial_rows(_SEED, m, k))
    clouds.steps()  # steps of taking in the records are reported apart
    exact, steps = True, []
    for number, expected in enumerate(trace.iterations, 1):
        sums = assign(clusters)
        clusters, stop = clouds.update(clusters, sums, candidates(number))
        steps.append(clouds.steps())
        table = np.array(clouds.open(sums), object).reshape(k, -1)
        same = np.array_equal(table[:, :-1], expected.sums)
        same = same and np.array_equal(table[:, -1], expected.sizes)
        exact = exact and same and stop == expected.stop
        clouds.steps()  # those of this look at the sums are no part of an iteration
        if stop:
            break
    told = {"steps": _steps(steps[unmeasured:]), "exact": exact}
    return {**_figures(clouds, ingest, unmeasured), **told}


def _spread(
    clouds: CommandedPairs, records: NDArray[np.int64], k: int, start: int
) -> dict[str, Any]:
    """Choose the records of a start; return the cost and whether the reference agrees."""
    chosen, took = clouds.spread(_SEED, len(records), k, start)
    table = np.array(clouds.open(chosen), object).reshape(k, -1)
    rows = spread_rows(records, _SEED, k, start)
    return {
        "wall_s": took.wall,
        "cpu_s": max(took.cpu_c1, took.cpu_c2),
        "bytes": max(took.sent_c1, took.sent_c2),
        "rounds": took.rounds,
        "exact": np.array_equal(table[:, :-1], records[rows]),
    }


def _figures(clouds: CommandedPairs, ingest: Phase, unmeasured: int) -> dict[str, Any]:
    """Medians of the times and means of the rest."""
    offline, online = clouds.offline[unmeasured:], clouds.online[unmeasured:]
    offline_s = statistics.median(phase.wall for phase in offline)
    online_s = statistics.median(phase.wall for phase in online)
    whole = [a + b for a, b in zip(offline, online, strict=True)]
    sums, count = reduce(add, whole), len(whole)
    return {
        "iterations": count,
        "offline_s": offline_s,
        "online_s": online_s,
        "total_s": offline_s + online_s,
        "total_s_range": [min(both.wall for both in whole), max(both.wall for both in whole)],
        "each": [
            {
                "wall_s": both.wall,
                "cpu_s": both.cpu_c1 + both.cpu_c2,
                "others": load.others,
                "own": load.own,
            }
            for both, load in zip(whole, clouds.loads[unmeasured:], strict=True)
        ],
        "cluster_s": statistics.median(clouds.cluster[unmeasured:]),
        "cpu_c1_s": sums.cpu_c1 / count,
        "cpu_c2_s": sums.cpu_c2 / count,
        "bytes_c1_to_c2": round(sums.sent_c1 / count),
        "bytes_c2_to_c1": round(sums.sent_c2 / count),
        "rounds": round(sums.rounds / count),
        "peak_rss_mb": clouds.memory(),
        "ingest_s": ingest.wall,
        "ingest_cpu_s": [ingest.cpu_c1, ingest.cpu_c2],
        "ingest_bytes": [ingest.sent_c1, ingest.sent_c2],
        "ingest_rounds": ingest.rounds,
    }


def _steps(iterations: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Costs by step: means of the iterations, and the fastest."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for step in (step for steps in iterations for step in steps):
        # What the checks asked for is no part of an iteration.
        if step["step"] not in ("output", "start", "ingest"):
            found.setdefault((step["phase"], step["step"]), []).append(step)
    count = len(iterations)
    return [
        {
            "step": name,
            "phase": phase,
            **{what: sum(step[what] for step in steps) / count for what in _SPENT},
            "fastest_s": min(step["wall_s"] for step in steps),
        }
        for (phase, name), steps in found.items()
    ]


def _start(
    place: Path, setting: Setting, records: NDArray[np.int64], job: Run, stack: ExitStack
) -> CommandedPairs:
    """All pairs, started and connected."""
    key = None
    if setting.suite == "paillier":
        key = make_key(job.key_bits, insecure=setting.insecure_key)
    shards = split(len(records), job.pairs, 1, setting.l)  # as large as a job's may be
    per_pair = len(shards) // job.pairs
    route = nullcontext if job.link is None else partial(slow_network.slow, link=job.link)
    running, start_s = [], 0.0
    for number in range(job.pairs):
        own = shards[number * per_pair :][:per_pair]
        parts = [records[shard.first : shard.first + shard.rows] for shard in own]
        folders = write_folders(place / f"pair{number}", setting, key, parts)
        began = time.perf_counter()
        pair = stack.enter_context(started(folders, _PROGRAM, route))
        for role in ROLES:
            pair.answer(role)  # it is ready
        start_s = max(start_s, time.perf_counter() - began)
        running.append(pair)
    first_rows = [shard.first for shard in shards[::per_pair]]
    before, slow = range(0, len(shards), per_pair), job.link is not None
    return CommandedPairs(running, first_rows, before, start_s, in_waits=slow)


_FIGURES = {
    "offline, s": "{offline_s:.3f}",
    "online, s": "{online_s:.3f}",
    "both, s": "{total_s:.3f}",
    "both, fastest and slowest, s": "{total_s_range[0]:.3f}, {total_s_range[1]:.3f}",
    "of it on clusters only, s": "{cluster_s:.3f}",
    "CPU of C1 and C2, s": "{cpu_c1_s:.3f}, {cpu_c2_s:.3f}",
    "sent by C1 and C2, MB": "{bytes_c1_to_c2:/1e6 .1f}, {bytes_c2_to_c1:/1e6 .1f}",
    "rounds": "{rounds:,}",
    "peak memory of a worker, MB": "{peak_rss_mb:.0f}",
    "a distance, bits and limbs": "{distance_bits}, {distance_limbs}",
    "every iteration exact": "{exact:yes}",
    "once: start, taking in records, s": "{start_s:.2f}, {ingest_s:.2f}",
}


def _tables(result: Document) -> list[Table]:
    """Make a table of the figures, and one of the steps if the suite measures them."""
    title = f"{{suite}}: one iteration, {document.SHAPE}, {{pairs}} pair(s)".format(**result)
    tables = [document.figures_table(title, "figure | value", _FIGURES, result)]
    if "audited" in result:
        tables.append(
            document.table_of(
                "With records for an auditor",
                "records | both, s | CPU of C1, s | of C2, s | sent by C1, MB | kept in all, MB",
                "{kept} | {total_s:.3f} | {cpu_c1_s:.3f} | {cpu_c2_s:.3f} | "
                "{bytes_c1_to_c2:/1e6 .1f} | {record_bytes:/1e6 .1f}",
                [{"kept": "none", **result}, {"kept": "yes", **result["audited"]}],
            )
        )
    if "split" in result:
        tables.append(
            document.table_of(
                "With a split key",
                "key | both, s | CPU of C1, s | of C2, s | sent by C1, MB | by C2, MB | exact",
                "{key} | {total_s:.2f} | {cpu_c1_s:.2f} | {cpu_c2_s:.2f} | "
                "{bytes_c1_to_c2:/1e6 .2f} | {bytes_c2_to_c1:/1e6 .2f} | {exact:yes}",
                [{"key": "C2's", **result}, {"key": "split", **result["split"]}],
            )
        )
    if result["steps"]:
        steps = document.table_of(
            "Steps at C1 of the first pair, per iteration",
            "step | phase | wall ms | CPU ms | MB sent | rounds",
            "{step} | {phase} | {wall_s:/1e-3 .1f} | {cpu_s:/1e-3 .1f} | {bytes:/1e6 .2f} | "
            "{rounds:.0f}",
            sorted(result["steps"], key=lambda step: (step["phase"], -step["wall_s"])),
        )
        tables.append(steps)
    return tables
