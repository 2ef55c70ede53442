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
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.bench import document, network_presets, slow_network
from ppodc.bench.document import Document, Table
from ppodc.bench.iteration_half import Setting
from ppodc.bench.network_presets import Link
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.crypto import paillier, paillier_keys
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.reference import Trace, kmeans
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.suites import Suite, named
from ppodc.records.output_half import OutputHalf, open_output
from ppodc.records.sharing import mask, split
from ppodc.transport.curve_keys import CurveKeys

WARM_UP: dict[Suite, int] = {"shares": 1, "paillier": 0}  # exponentiations need none
ROLES = (0, 1)
_SEED = 7


@dataclass(frozen=True, slots=True)
class Pair:
    """Two running halves and the rows they hold."""

    processes: tuple[subprocess.Popen[str], subprocess.Popen[str]]
    folders: tuple[Path, Path]
    first_row: int
    start_s: float

    def order(self, role: int, **order: Any) -> None:
        """Send a command to one half."""
        pipe = self.processes[role].stdin
        assert pipe is not None  # noqa: S101 - opened as a pipe
        pipe.write(json.dumps(order) + "\n")
        pipe.flush()

    def answer(self, role: int) -> dict[str, Any]:
        """The next answer of one half."""
        return _line(self.processes[role], self.folders[role])


@dataclass(slots=True)
class Phase:
    """What one phase of one iteration took."""

    wall: float
    cpu: tuple[float, float]
    sent: tuple[int, int]
    rounds: int


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
    named(suite)  # refuses others
    m, l = records.shape
    if not 1 <= pairs <= m or iterations < 1 or (of or m) < m:
        raise InputError("use 1 to m pairs, each with at least one record; at least one iteration.")
    say = tell or (lambda _: None)
    trace = kmeans(records, k, beta=Fraction(0), max_iter=warm_up + iterations, seed=_SEED)
    rings = Rings.of(Parameters(of or m, l, k, ub, Fraction(0)))
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place, ExitStack() as stack:
        say("keys and start")
        setting = Setting(1, suite, of or m, l, k, ub, "0", key_bits < min(paillier.KEY_BITS))
        halves = _start(Path(place), setting, records, pairs, key_bits, link, stack)
        job = _Job(halves, records, k, trace, say)
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
            "start_s": max(pair.start_s for pair in halves),
            **job.measure(warm_up),
            "converged": trace.converged,
        }


class _Job:
    """The loop over the iterations, with this process as master of both clouds."""

    def __init__(
        self,
        pairs: list[Pair],
        records: NDArray[np.int64],
        k: int,
        trace: Trace,
        say: Callable[[str], None],
    ) -> None:
        self._pairs, self._records, self._k = pairs, records, k
        self._trace, self._say = trace, say
        self._offline: list[Phase] = []
        self._online: list[Phase] = []
        self._cluster: list[float] = []
        self._exact = True
        self._stages: list[list[list[dict[str, Any]]]] = []  # stage, pair, role

    def measure(self, warm_up: int) -> dict[str, Any]:
        """Costs of all iterations but those to warm up; of the last in any case."""
        m = len(self._records)
        count = len(self._trace.iterations)
        unmeasured = min(warm_up, count - 1)
        self._say("taking in the records")
        _, ingest = self._timed(partial(self._all, "ingest"))
        clusters = self._gather(initial_rows(_SEED, m, self._k))
        for number, expected in enumerate(self._trace.iterations, 1):
            measured = number - unmeasured
            self._say(
                f"iteration {measured} of {count - unmeasured}" if measured > 0 else "warm-up"
            )
            if measured == 1:
                self._forget()
            candidates = self._gather(reseed_rows(_SEED, number, m, self._k))
            self._offline.append(self._timed(partial(self._all, "prepare", iterations=1))[1])
            step = partial(self._iterate, clusters, candidates)
            (clusters, stop), online = self._timed(step)
            self._online.append(online)
            table = self._open(clusters)
            same = np.array_equal(table[:, :-1], expected.sums)
            same = same and np.array_equal(table[:, -1], expected.sizes)
            self._exact = self._exact and same and stop == expected.stop
        return self._result(ingest)

    def _forget(self) -> None:
        """Costs count from here."""
        self._offline, self._online, self._cluster = [], [], []
        self._all("steps")

    def _iterate(self, clusters: list[Any], candidates: list[Any]) -> Any:
        """One iteration: `assign` on all pairs, `update` on the first."""
        done = self._all("assign", clusters=clusters)
        states = [[answer[role]["result"] for answer in done] for role in ROLES]
        lead = self._pairs[:1]
        sums = [a["result"] for a in self._each(lead, "add", states=states)[0]]
        answers = self._each(lead, "update", clusters=clusters, sums=sums, candidates=candidates)[0]
        self._cluster.append(max(a["wall"] for a in answers))
        self._stages = [done, [answers]]
        return [a["result"][0] for a in answers], answers[0]["result"][1]

    def _timed(self, work: Callable[[], Any]) -> tuple[Any, Phase]:
        """The result of some commands, and what all of them took."""
        started = time.perf_counter()
        result = work()
        wall = time.perf_counter() - started

        def total(what: str, role: int) -> Any:
            return sum(answer[role][what] for answers in self._stages for answer in answers)

        cpu = (total("cpu", 0), total("cpu", 1))
        sent = (total("bytes", 0), total("bytes", 1))
        # Pairs work at the same time, stages one after the other.
        rounds = sum(max(answer[0]["rounds"] for answer in answers) for answers in self._stages)
        return result, Phase(wall, cpu, sent, rounds)

    def _all(self, do: str, **values: Any) -> list[list[dict[str, Any]]]:
        """A command to all pairs at once; lists of two are one value per role."""
        answers = self._each(self._pairs, do, **values)
        self._stages = [answers]
        return answers

    def _each(self, pairs: Sequence[Pair], do: str, **values: Any) -> list[list[dict[str, Any]]]:
        for pair in pairs:
            for role in ROLES:
                own = {n: v[role] if isinstance(v, list) else v for n, v in values.items()}
                pair.order(role, do=do, **own)
        return [[pair.answer(role) for role in ROLES] for pair in pairs]

    def _gather(self, rows: list[int]) -> list[Any]:
        """Clusters of single records, from whichever pairs hold them: a state per role."""
        states: list[list[Any]] = [[], []]
        for row in rows:
            holder = max(
                (pair for pair in self._pairs if pair.first_row <= row), key=lambda p: p.first_row
            )
            for role in ROLES:
                holder.order(role, do="records", rows=[row - holder.first_row])
                states[role].append(holder.answer(role)["result"])
        return [a["result"] for a in self._each(self._pairs[:1], "join", states=states)[0]]

    def _open(self, clusters: list[Any]) -> NDArray[np.object_]:
        """What an owner sees of the clusters."""
        answers = self._each(self._pairs[:1], "output", clusters=clusters)[0]
        halves = [
            OutputHalf.of(int(a["result"][0]), [int(x) for x in a["result"][1]]) for a in answers
        ]
        return np.array(open_output(halves[0], halves[1]), object).reshape(self._k, -1)

    def _result(self, ingest: Phase) -> dict[str, Any]:
        offline = statistics.median(phase.wall for phase in self._offline)
        online = statistics.median(phase.wall for phase in self._online)
        both = [*self._offline, *self._online]
        walls = [a.wall + b.wall for a, b in zip(self._offline, self._online, strict=True)]
        count = len(self._online)
        memory = [self._each([pair], "memory")[0] for pair in self._pairs]
        return {
            "iterations": count,
            "offline_s": offline,
            "online_s": online,
            "total_s": offline + online,
            "total_s_range": [min(walls), max(walls)],
            "cluster_s": statistics.median(self._cluster),
            "cpu_c1_s": sum(phase.cpu[0] for phase in both) / count,
            "cpu_c2_s": sum(phase.cpu[1] for phase in both) / count,
            "bytes_c1_to_c2": round(sum(phase.sent[0] for phase in both) / count),
            "bytes_c2_to_c1": round(sum(phase.sent[1] for phase in both) / count),
            "rounds": round(sum(phase.rounds for phase in both) / count),
            "peak_rss_mb": max(a["result"] for answers in memory for a in answers),
            "exact": self._exact,
            "ingest_s": ingest.wall,
            "ingest_cpu_s": list(ingest.cpu),
            "ingest_bytes": list(ingest.sent),
            "ingest_rounds": ingest.rounds,
            "steps": self._steps(count),
        }

    def _steps(self, count: int) -> list[dict[str, Any]]:
        """Costs by step of the first pair's C1, per iteration."""
        steps = self._each(self._pairs[:1], "steps")[0][0]["result"]
        # What the checks above asked for is no part of an iteration.
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
) -> list[Pair]:
    """All pairs, started and connected."""
    secret = (paillier.generate_insecure if setting.insecure_key else paillier.generate)(key_bits)
    edges = [len(records) * i // pairs for i in range(pairs + 1)]
    started = []
    for number in range(pairs):
        part = records[edges[number] : edges[number + 1]]
        folders = (place / f"pair{number}-cloud1", place / f"pair{number}-cloud2")
        _write(folders, setting, part, secret)
        started.append(stack.enter_context(_pair(folders, edges[number], link)))
    return started


def _write(
    folders: tuple[Path, Path],
    setting: Setting,
    records: NDArray[np.int64],
    secret: paillier.SecretKey,
) -> None:
    """The folder of each half, with what that cloud may know."""
    curves = (CurveKeys.generate(), CurveKeys.generate())
    for role, folder in enumerate(folders):
        folder.mkdir(mode=0o700)
        curves[role].save(folder / "curve")
        (folder / "peer.public").write_bytes(curves[1 - role].public)
        own = msgspec.structs.replace(setting, role=role + 1)
        (folder / "half.json").write_bytes(msgspec.json.encode(own))
    paillier_keys.save_public(folders[0] / "paillier.pub", secret.public)
    paillier_keys.save_secret(folders[1] / "paillier.key", secret)
    share, seed = split(records)
    np.save(folders[0] / "share.npy", share)
    np.save(folders[1] / "share.npy", mask(seed, 0, *records.shape))


@contextmanager
def _pair(folders: tuple[Path, Path], first_row: int, link: Link | None) -> Iterator[Pair]:
    """Both halves as processes; ended when the block is left."""
    began = time.perf_counter()
    with ExitStack() as stack:
        first, second = (stack.enter_context(_process(folder)) for folder in folders)
        assert first.stdin is not None  # noqa: S101 - opened as a pipe
        endpoint = _line(second, folders[1])["endpoint"]
        if link is not None:
            endpoint = stack.enter_context(slow_network.slow(endpoint, link))
        first.stdin.write(endpoint + "\n")
        first.stdin.flush()
        for process, folder in zip((first, second), folders, strict=True):
            _line(process, folder)
        yield Pair((first, second), folders, first_row, time.perf_counter() - began)


@contextmanager
def _process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "ppodc.bench.iteration_half", str(folder)]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def _line(process: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    """The next line a half says; its last words if it has ended."""
    assert process.stdout is not None  # noqa: S101 - opened as a pipe
    line = process.stdout.readline()
    if not line:
        said = (folder / "log.txt").read_text().strip().splitlines()
        raise PpodcError(f"{folder.name} stopped: {said[-1] if said else 'without a word'}")
    value: dict[str, Any] = json.loads(line)
    return value


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
