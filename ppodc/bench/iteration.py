"""`ppodc bench iteration`: one iteration of a whole job, offline and online apart.

Every pair is two processes on loopback behind CURVE. This process plays the owners (it splits
random records and checks every iteration against the reference) and the masters of both clouds
(it hands states around). Times are wall-clock medians over the iterations, as the slowest pair
took them; bytes and CPU are means per iteration, summed over the pairs. Iterations to warm up
(kernels and memory are touched for the first time) are run and checked like all others, but their
costs do not count.
"""

import json
import statistics
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.bench import document, network_presets, slow_network
from ppodc.bench.document import Document, Table
from ppodc.bench.network_presets import Link
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.crypto import paillier
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.half import iterate
from ppodc.kmeans.reference import Trace, kmeans
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.suites import Suite, named
from ppodc.local.pair import ROLES, LocalPair, make_key, started, write_folders
from ppodc.local.pair_process import Setting, load_half
from ppodc.records.output_half import open_output

WARM_UP: dict[Suite, int] = {"shares": 1, "paillier": 0}  # exponentiations need none
_SEED = 7
_PROGRAM = "ppodc.bench.iteration_process"

State = tuple[str, str]  # the files of both clouds
Answers = tuple[dict[str, Any], dict[str, Any]]  # of both clouds of a pair


@dataclass(frozen=True, slots=True)
class Phase:
    """What one phase of one iteration took; CPU and bytes sent of either cloud."""

    wall: float
    cpu: tuple[float, float]
    sent: tuple[int, int]
    rounds: int

    def __add__(self, other: "Phase") -> "Phase":
        """One after the other."""
        cpu = (self.cpu[0] + other.cpu[0], self.cpu[1] + other.cpu[1])
        sent = (self.sent[0] + other.sent[0], self.sent[1] + other.sent[1])
        return Phase(self.wall + other.wall, cpu, sent, self.rounds + other.rounds)


def run(
    suite: str,
    m: int,
    l: int,
    k: int,
    pairs: int,
    iterations: int,
    *,
    link: str | None,
    gbit: float | None,
    latency_ms: float | None,
    key_bits: int,
) -> Document:
    """Measure iterations of k-means over m random records with l attributes 0..1,000."""
    over = network_presets.imitated(link, gbit, latency_ms)

    def work(tell: Tell) -> dict[str, Any]:
        return run_records(
            random_records(m, l), suite, k, pairs, iterations,
            warm_up=WARM_UP[named(suite)], link=over, key_bits=key_bits, tell=tell,
        )  # fmt: skip

    # Every run measures anew: the point is kept nowhere.
    (figures,) = measure("iteration", [Task(suite, {}, work)], Points())
    notes = [f"Emulated link: {figures['link']}."] if figures["link"] else []
    return document.make("iteration", _tables, notes=notes, **figures)


def random_records(m: int, l: int, ub: int = 1000) -> NDArray[np.int64]:
    """The same m made-up records with l attributes 0..ub every time."""
    return np.random.default_rng(_SEED).integers(0, ub + 1, (m, l))


def run_exact(
    records: NDArray[np.int64], suite: str, *shape: int, **options: Any
) -> dict[str, Any]:
    """`run_records`, whose figures mean nothing unless it gives what plaintext k-means gives."""
    figures = run_records(records, suite, *shape, **options)
    if not figures["exact"]:
        raise PpodcError(f"the {suite} suite gave another result than plaintext k-means.")
    return figures


def run_records(
    records: NDArray[np.int64],
    suite: str = "shares",
    k: int = 4,
    pairs: int = 1,
    iterations: int = 5,
    *,
    warm_up: int = 0,
    link: Link | None = None,
    of: int | None = None,
    ub: int = 1000,
    key_bits: int = 2048,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The same over given records, until they converge or `iterations` are done after `warm_up`.

    With `link`, every pair's channel goes over an imitation of it; without, over loopback as it is.
    With `of`, all numbers are as wide as in a job over that many records, of which these are some.
    """
    m, l = records.shape
    if not 1 <= pairs <= m or iterations < 1 or (of or m) < m:
        raise InputError("use 1 to m pairs, each with at least one record; at least one iteration.")
    insecure = key_bits < min(paillier.KEY_BITS)
    setting = Setting(1, named(suite), of or m, l, k, ub, "0", insecure_key=insecure)
    say = tell or (lambda _: None)
    trace = kmeans(records, k, beta=Fraction(0), max_iter=warm_up + iterations, seed=_SEED)
    rings = Rings.of(setting.params)
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place, ExitStack() as stack:
        say("keys and start")
        clouds = _start(Path(place), setting, records, pairs, key_bits, link, stack)
        measured = _measure(clouds, records, trace, warm_up, say)
        return {
            "suite": suite,
            "m": m,
            "l": l,
            "k": k,
            "pairs": pairs,
            "ub": ub,
            "key_bits": key_bits,
            "link": None if link is None else link.describe(),
            "distance_bits": rings.distance_bits,
            "distance_limbs": rings.distance,
            "start_s": clouds.start_s,
            **measured,
            "converged": trace.converged,
        }


class _Clouds:
    """All pairs of both clouds: the steps of a job by command, and what they took."""

    def __init__(
        self, pairs: Sequence[LocalPair], first_rows: Sequence[int], start_s: float
    ) -> None:
        self._pairs, self._lead = pairs, pairs[:1]
        self._first_rows = first_rows
        self.start_s = start_s
        self.offline: list[Phase] = []  # by iteration
        self.online: list[Phase] = []
        self.cluster: list[float] = []  # seconds of `update`

    def ingest(self) -> Phase:
        """All records at their pairs."""
        began = time.perf_counter()
        return _phase(began, self._command(self._pairs, "ingest"))

    def records(self, rows: Sequence[int]) -> State:
        """Clusters of single records, from whichever pairs hold them."""
        states = []
        for row in rows:
            place = bisect_right(self._first_rows, row) - 1
            holder, within = self._pairs[place], row - self._first_rows[place]
            states.append(_results(self._command([holder], "records", rows=[within])[0]))
        return _results(self._command(self._lead, "join", states=_by_cloud(states))[0])

    def assign(self, clusters: State) -> State:
        """The sums over all pairs, once their supplies for an iteration are made."""
        began = time.perf_counter()
        self.offline.append(_phase(began, self._command(self._pairs, "prepare", iterations=1)))
        began = time.perf_counter()
        answers = self._command(self._pairs, "assign", clusters=clusters)
        states = _by_cloud([_results(pair) for pair in answers])
        sums = _results(self._command(self._lead, "add", states=states)[0])
        self.online.append(_phase(began, answers))
        return sums

    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        """New clusters and the stop bit, from the first pair."""
        began = time.perf_counter()
        states = {"clusters": clusters, "sums": sums, "candidates": candidates}
        answers = self._command(self._lead, "update", **states)
        self.online[-1] += _phase(began, answers)
        self.cluster.append(max(answer["wall"] for answer in answers[0]))
        (first, stop), (second, _) = (answer["result"] for answer in answers[0])
        return (first, second), stop

    def open(self, clusters: State) -> list[int]:
        """What an owner sees of the clusters."""
        files = _results(self._command(self._lead, "output", clusters=clusters)[0])
        return open_output(load_half(Path(files[0])), load_half(Path(files[1])))

    def steps(self) -> list[dict[str, Any]]:
        """Costs by step of the first pair's C1 since this was asked last."""
        steps: list[dict[str, Any]] = self._command(self._lead, "steps")[0][0]["result"]
        return steps

    def memory(self) -> float:
        """The peak memory of the largest worker, in MB."""
        answers = self._command(self._pairs, "memory")
        return max(float(answer["result"]) for pair in answers for answer in pair)

    def _command(self, pairs: Sequence[LocalPair], do: str, **values: Any) -> list[Answers]:
        """A command to these pairs at once; of a tuple each cloud gets its own part."""
        for pair in pairs:
            for index, role in enumerate(ROLES):
                own = {n: v[index] if isinstance(v, tuple) else v for n, v in values.items()}
                pair.write(role, json.dumps({"do": do, **own}))
        return [(pair.answer(1), pair.answer(2)) for pair in pairs]


def _results(answers: Answers) -> State:
    return answers[0]["result"], answers[1]["result"]


def _by_cloud(states: Sequence[State]) -> tuple[list[str], list[str]]:
    return [first for first, _ in states], [second for _, second in states]


def _phase(began: float, answers: Sequence[Answers]) -> Phase:
    """What commands to several pairs took, which work at the same time."""
    wall = time.perf_counter() - began
    c1, c2 = ([pair[index] for pair in answers] for index in (0, 1))
    cpu = (sum(a["cpu"] for a in c1), sum(a["cpu"] for a in c2))
    sent = (sum(a["bytes"] for a in c1), sum(a["bytes"] for a in c2))
    return Phase(wall, cpu, sent, max(a["rounds"] for a in c1))


def _measure(
    clouds: _Clouds,
    records: NDArray[np.int64],
    trace: Trace,
    warm_up: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Costs of all iterations but those to warm up; of the last in any case."""
    m, k = len(records), len(trace.sizes)
    count = len(trace.iterations)
    unmeasured = min(warm_up, count - 1)
    say("taking in the records")
    ingest = clouds.ingest()

    def assign(clusters: State) -> State:
        measured = len(clouds.offline) + 1 - unmeasured
        say(f"iteration {measured} of {count - unmeasured}" if measured > 0 else "warm-up")
        return clouds.assign(clusters)

    def candidates(iteration: int) -> State:
        return clouds.records(reseed_rows(_SEED, iteration, m, k))

    start = clouds.records(initial_rows(_SEED, m, k))
    exact = True
    for done in iterate(start, assign, clouds.update, candidates, count):
        expected = trace.iterations[done.iteration - 1]
        table = np.array(clouds.open(done.clusters), object).reshape(k, -1)
        same = np.array_equal(table[:, :-1], expected.sums)
        same = same and np.array_equal(table[:, -1], expected.sizes)
        exact = exact and same and done.stop == expected.stop
        if done.iteration == unmeasured:
            clouds.steps()  # those so far do not count
    return {**_figures(clouds, ingest, unmeasured), "exact": exact}


def _figures(clouds: _Clouds, ingest: Phase, unmeasured: int) -> dict[str, Any]:
    """Medians of the times and means of the rest."""
    offline, online = clouds.offline[unmeasured:], clouds.online[unmeasured:]
    offline_s = statistics.median(phase.wall for phase in offline)
    online_s = statistics.median(phase.wall for phase in online)
    both = [*offline, *online]
    walls = [a.wall + b.wall for a, b in zip(offline, online, strict=True)]
    count = len(online)
    return {
        "iterations": count,
        "offline_s": offline_s,
        "online_s": online_s,
        "total_s": offline_s + online_s,
        "total_s_range": [min(walls), max(walls)],
        "cluster_s": statistics.median(clouds.cluster[unmeasured:]),
        "cpu_c1_s": sum(phase.cpu[0] for phase in both) / count,
        "cpu_c2_s": sum(phase.cpu[1] for phase in both) / count,
        "bytes_c1_to_c2": round(sum(phase.sent[0] for phase in both) / count),
        "bytes_c2_to_c1": round(sum(phase.sent[1] for phase in both) / count),
        "rounds": round(sum(phase.rounds for phase in both) / count),
        "peak_rss_mb": clouds.memory(),
        "ingest_s": ingest.wall,
        "ingest_cpu_s": list(ingest.cpu),
        "ingest_bytes": list(ingest.sent),
        "ingest_rounds": ingest.rounds,
        "steps": _steps(clouds.steps(), count),
    }


def _steps(steps: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Costs by step, per iteration."""
    # What the checks asked for is no part of an iteration.
    shown = [step for step in steps if step["step"] not in ("output", "start", "ingest")]
    for step in shown:
        for name in ("wall_s", "cpu_s", "bytes", "rounds"):
            step[name] /= count
    return shown


def _start(
    place: Path,
    setting: Setting,
    records: NDArray[np.int64],
    pairs: int,
    key_bits: int,
    link: Link | None,
    stack: ExitStack,
) -> _Clouds:
    """All pairs, started and connected."""
    key = make_key(key_bits, insecure=setting.insecure_key)
    edges = [len(records) * i // pairs for i in range(pairs + 1)]
    route = nullcontext if link is None else partial(slow_network.slow, link=link)
    running, start_s = [], 0.0
    for number, (first, end) in enumerate(pairwise(edges)):
        folders = write_folders(place / f"pair{number}", setting, key, [records[first:end]])
        began = time.perf_counter()
        pair = stack.enter_context(started(folders, _PROGRAM, route))
        for role in ROLES:
            pair.answer(role)  # it is ready
        start_s = max(start_s, time.perf_counter() - began)
        running.append(pair)
    return _Clouds(running, edges[:-1], start_s)


def _tables(result: Document) -> list[Table]:
    """The figures, and the steps where the suite tells them apart."""
    megabytes = [f"{result[f'bytes_{way}'] / 1e6:.1f}" for way in ("c1_to_c2", "c2_to_c1")]
    rows = [
        ("offline, s", f"{result['offline_s']:.3f}"),
        ("online, s", f"{result['online_s']:.3f}"),
        ("both, s", f"{result['total_s']:.3f}"),
        ("both, fastest and slowest, s", "{:.3f}, {:.3f}".format(*result["total_s_range"])),
        ("of it on clusters only, s", f"{result['cluster_s']:.3f}"),
        ("CPU of C1 and C2, s", f"{result['cpu_c1_s']:.3f}, {result['cpu_c2_s']:.3f}"),
        ("sent by C1 and C2, MB", ", ".join(megabytes)),
        ("rounds", f"{result['rounds']:,}"),
        ("peak memory of a worker, MB", f"{result['peak_rss_mb']:.0f}"),
        ("a distance, bits and limbs", "{distance_bits}, {distance_limbs}".format(**result)),
        ("every iteration exact", document.yes(result["exact"])),
        ("once: start, taking in records, s", f"{result['start_s']:.2f}, {result['ingest_s']:.2f}"),
    ]
    title = "{suite}: one iteration, m = {m:,}, l = {l}, k = {k}, {pairs} pair(s)".format(**result)
    tables = [document.table(title, ("figure", "value"), rows)]
    return tables + ([_step_table(result["steps"])] if result["steps"] else [])


def _step_table(steps: list[dict[str, Any]]) -> Table:
    columns = ("step", "phase", "wall ms", "CPU ms", "MB sent", "rounds")
    rows = [
        (
            step["step"],
            step["phase"],
            f"{1e3 * step['wall_s']:.1f}",
            f"{1e3 * step['cpu_s']:.1f}",
            f"{step['bytes'] / 1e6:.2f}",
            f"{step['rounds']:.0f}",
        )
        for step in sorted(steps, key=lambda step: (step["phase"], -step["wall_s"]))
    ]
    return document.table("Steps at C1 of the first pair, per iteration", columns, rows)
