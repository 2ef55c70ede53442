"""The time of an iteration on many pairs as a closed form, calibrated by three small runs.

Each pair holds n = m / pairs rows. An iteration has three parts: supplies (offline), the steps on
records, and the steps on clusters, which one pair does for all. With work = CPU time of the clouds
and sending = bytes of one direction / bandwidth:

- supplies: max(work, sending, (rounds x latency + work + sending) / 2) + latency, because one lot
  travels while the next is made. Supplies beyond what may be kept in memory are made online.
- records: work + sending + chunks x waits x latency, since the waits recur with every chunk.
- clusters: max(work, sending) + waits x latency, because a table is streamed.

Work is the CPU time of the slower cloud, plus the share `serial` of the other's in which the clouds
take turns. CPU, bytes and rounds are straight lines through two runs of one pair, with numbers as
wide as those of the whole job. Waits are the latencies that an imitated far link adds. On an idle
machine `serial` makes the form agree with the larger run. Slow disks, other cores than this
machine's, and pairs that fail are unknown to it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ppodc.bench.kmeans.estimate import Line
from ppodc.bench.kmeans.iteration import both_clouds
from ppodc.bench.network_presets import Link
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares.assignment import AHEAD_BYTES
from ppodc.kmeans.shares.demand import Demand
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.shares.unmask import VALUES

QUIET = 0.2  # cores that others may use before a wall time is doubtful
_CLUSTERS = (
    "re-seed",
    "scaling",
    "centres",
    "stop test",
    "update",
)  # steps that one pair does for all
_IDLE = ("re-seed", "stop test")  # steps that hardly compute
_COSTS = ("cpu_s", "bytes", "rounds", "fastest_s")
_NOTHING = Line()

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Costs by rows: CPU of C1, bytes of one direction, rounds, and latencies waited for."""

    cpu: Line
    sent: Line
    rounds: Line
    waits: Line


@dataclass(frozen=True, slots=True)
class Portions:
    """Rows that the shares suite handles at a time."""

    chunk_rows: float = math.inf
    supplies: Line = _NOTHING  # bytes of the supplies of an iteration
    ingest_rows: float = math.inf


@dataclass(frozen=True, slots=True)
class Model:
    """A calibrated job on cores like this machine's."""

    supplies: Part
    records: Part
    clusters: Part
    ingest: Part
    c2_share: float  # CPU of C2 for each second of C1
    start_s: float
    round_s: float  # of a wait, besides the latency
    portions: Portions
    serial: float = 0.0

    def iteration_s(
        self, rows: Sequence[int], link: Link | None, cores: float = math.inf
    ) -> tuple[float, float]:
        """Seconds offline and online. `rows` are those of each pair, the largest first.

        Each worker has a core of its own, unless all share `cores`: then a part takes at least the
        work of all pairs on these cores. Without a link the pairs use loopback.
        """
        n, pairs, latency = rows[0], len(rows), 0.0 if link is None else link.one_way_ms / 1e3

        def costs(part: Part, count: int) -> tuple[float, float, float]:
            first = part.cpu.at(n)
            second = self.c2_share * first
            work = max(first, second, (first + second) / cores) + self.serial * min(first, second)
            work = max(work, count * (first + second) / cores)
            sending = 0.0 if link is None else part.sent.at(n) / link.bytes_s_of(count)
            return work, sending, part.waits.at(n) * (latency + self.round_s)

        work, sending, _ = costs(self.supplies, pairs)
        lots = self.supplies.rounds.at(n) * latency
        supplies = max(work, sending, (lots + work + sending) / 2) + latency
        work, sending, waiting = costs(self.records, pairs)
        online = work + sending + max(1, math.ceil(n / self.portions.chunk_rows)) * waiting
        work, sending, waiting = costs(self.clusters, 1)
        online += max(work, sending) + waiting
        ahead = min(1.0, AHEAD_BYTES / max(1.0, self.portions.supplies.at(n)))
        return ahead * supplies, (1 - ahead) * supplies + online

    def ingest_s(self, rows: int, pairs: int, link: Link) -> float:
        """Seconds to take in the records. Both clouds work as long as the slower one."""
        part, latency = self.ingest, link.one_way_ms / 1e3
        waits = max(1, math.ceil(rows / self.portions.ingest_rows)) * part.waits.at(rows)
        sending = part.sent.at(rows) / link.bytes_s_of(pairs)
        return part.cpu.at(rows) + sending + waits * (latency + self.round_s)

    def sent(self, rows: Sequence[int]) -> float:
        """Bytes between the clouds in one iteration, both directions, all pairs."""
        each = sum(part.sent.at(n) for part in (self.supplies, self.records) for n in rows)
        return 2 * (each + self.clusters.sent.at(rows[0]))


def calibrate(runs: Sequence[Figures], latency_s: float, portions: Portions) -> Model:
    """The model from runs of two sizes, and of the smaller one over a link of this latency."""
    small, large, far = runs
    rows = int(small["m"]), int(large["m"])

    def part(name: str) -> Part:
        near, wide, away = (_costs(run, name) for run in (small, large, far))
        cpu, sent, rounds, _ = (Line.through(rows, both) for both in zip(near, wide, strict=True))
        waits = max(0.0, away[3] - near[3]) / latency_s
        # Without steps, as in the paillier suite, waits grow with the rounds.
        grown = waits if large["steps"] else waits * wide[2] / max(1.0, near[2])
        return Part(cpu, sent, rounds, Line.through(rows, (waits, grown)))

    clusters = part("clusters")
    idle = [step for step in large["steps"] if step["step"] in _IDLE]
    waited = sum(max(0.0, step["fastest_s"] - step["cpu_s"]) for step in idle)
    model = Model(
        part("supplies"),
        part("records"),
        clusters,
        part("ingest"),
        large["cpu_c2_s"] / large["cpu_c1_s"],
        large["start_s"],
        waited / clusters.waits.fixed if clusters.waits.fixed >= 1 else 0.0,
        portions,
    )
    if large["others"] > QUIET:  # its wall time is not reliable
        return model
    missing = large["total_s"] - sum(model.iteration_s(rows[1:], None, large["free_cores"]))
    in_turns = min(1.0, model.c2_share) * large["cpu_c1_s"]
    return replace(model, serial=min(1.0, max(0.0, missing / in_turns)))


def _costs(run: Figures, part: str) -> tuple[float, float, float, float]:
    """CPU of C1, bytes of one direction, rounds and seconds of one part of a run."""
    if part == "ingest":
        cpu, sent = max(run["ingest_cpu_s"]), sum(run["ingest_bytes"]) / 2
        return cpu, sent, run["ingest_rounds"], run["ingest_s"]
    own = [step for step in run["steps"] if _part_of(step) == part]
    cpu, sent, rounds, seconds = (sum(step[name] for step in own) for name in _COSTS)
    if part == "records":  # with all costs that no step was charged with
        all_cpu, all_sent = (sum(step[name] for step in run["steps"]) for name in _COSTS[:2])
        cpu += max(0.0, run["cpu_c1_s"] - all_cpu)
        sent += max(0.0, both_clouds(run)["bytes"] / 2 - all_sent)
        if not run["steps"]:
            rounds, seconds = run["rounds"], run["total_s"]
    return cpu, sent, rounds, seconds


def _part_of(step: Figures) -> str:
    if step["step"] in _CLUSTERS:
        return "clusters"
    return "supplies" if step["phase"] == "offline" else "records"


def portions(params: Parameters) -> Portions:
    """Return the portions into which the shares suite divides a job."""
    demand = Demand(params, Rings.of(params))
    rows = demand.chunks(params.m)[0][1]
    sizes = [demand.iteration([count]).size for count in (rows, 2 * rows)]
    return Portions(rows, Line.through((rows, 2 * rows), sizes), VALUES / params.l)
