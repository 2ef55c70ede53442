"""What an iteration costs a pair, from measured runs, and how psi pairs get through one.

Every step has a part that each pair pays and a part for each of its rows: CPU seconds of either
cloud, bytes of either direction, rounds. Both come from two measured runs of different size. Two
more numbers say how a pair uses its time: `serial`, the share of the work in which one cloud waits
for the other, and `round_s`, what a round takes besides CPU. They are chosen so that the model
gives the wall time of the larger of the two runs.

In the model a pair goes through its steps one after the other; in each, the clouds work (`serial`
of it in turn, the rest at the same time), then send to each other at the same time, then wait for
the rounds: each once the one-way latency. In supplies and products, which are most of the bytes, a
cloud works on the next part while one is on its way: sending overlaps with work, and a part waits
for half a latency at least. A question of the paillier suite waits for there and back, but several
are under way. Nothing overlaps between steps, which errs on the slow side. Pairs on the same cores
fill each other's waits: a phase takes as long as one pair's path through it, or as the work of all
pairs on these cores. Update and stop test run on one pair while the others wait. It has the next
centres from there; each other pair computes them itself, which takes about as much again.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ppodc.bench.estimate import Line
from ppodc.bench.network_presets import Link
from ppodc.kmeans.paillier.half import IN_FLIGHT
from ppodc.kmeans.shares.sums import LARGE

LEAD_ONLY = ("re-seed", "scaling", "stop test", "update")
CENTRES = ("stop test", "scaling")  # where the lead computes them
OVERLAPPING = ("leaves", "pairs", "transfers", "products")
PER_CHUNK = ("SSED_OP", "SMIN_k", "sums")  # the rounds of other steps grow with their bytes
CHUNK_ROWS = 1 << 14  # rows that the shares suite takes at a time
_BISECTIONS = 30


@dataclass(frozen=True, slots=True)
class StepCost:
    """One step of a pair; CPU of C1, bytes of one direction."""

    name: str
    offline: bool
    cpu: Line
    sent: Line
    rounds: Line

    @property
    def lead_only(self) -> bool:
        return self.name in LEAD_ONLY

    def sent_at(self, rows: float) -> float:
        """Bytes of one direction; sums of a large shard are half as wide (`shares.sums`)."""
        wide = self.sent.at(rows)
        return wide / 2 if self.name == "sums" and rows >= LARGE else wide

    def rounds_at(self, rows: float) -> float:
        """Steps that work chunk by chunk take their rounds for each."""
        if self.name not in PER_CHUNK or rows <= CHUNK_ROWS:
            return self.rounds.at(rows)
        return math.ceil(rows / CHUNK_ROWS) * self.rounds.at(CHUNK_ROWS)


@dataclass(frozen=True, slots=True)
class Costs:
    """A job's costs on the kind of core that was measured."""

    steps: tuple[StepCost, ...]
    c2_share: float  # CPU of C2 for each second of C1
    ingest: StepCost
    start_s: float
    round_s: float
    latencies: float = 1.0  # one-way latencies that a round waits for
    serial: float = 0.0

    def sent(self, rows: Sequence[int]) -> float:
        """Bytes between the clouds in one iteration, both directions, all pairs."""
        lead = sum(2 * s.sent.at(rows[0]) for s in self.steps if s.lead_only)
        each = [s for s in self.steps if not s.lead_only]
        others = [*each, *(s for s in self.steps if s.name in CENTRES)]
        first, *rest = rows
        return lead + sum(
            2 * s.sent_at(r)
            for r, steps in ((first, each), *((r, others) for r in rest))
            for s in steps
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the pairs run: `cores` for all workers, or None for a core each; and their link."""

    cores: float | None
    link: Link | None  # None: loopback, whose cost is in the measured CPU and rounds
    dispatch_s: float = 0.0  # of the master for each pair and step


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of one iteration, and what came before the first."""

    offline_s: float
    online_s: float
    ingest_s: float

    @property
    def iteration_s(self) -> float:
        return self.offline_s + self.online_s


def split(m: int, pairs: int) -> list[int]:
    """Rows of each pair; the largest first."""
    return [m // pairs + (1 if i < m % pairs else 0) for i in range(pairs)]


def predict(costs: Costs, rows: Sequence[int], setting: Setting) -> Prediction:
    """Let all pairs go through one iteration, phase after phase."""
    offline = [s for s in costs.steps if s.offline]
    online = [s for s in costs.steps if not s.offline and not s.lead_only]
    last = [s for s in costs.steps if s.lead_only]
    if len(rows) > 1:
        online += [s for s in last if s.name in CENTRES]
    assign = _phase(costs, online, rows, setting)
    update = _phase(costs, last, rows[:1], setting)
    taking_in = _phase(replace(costs, c2_share=1.0, serial=0.0), [costs.ingest], rows, setting)
    return Prediction(_phase(costs, offline, rows, setting), assign + update, taking_in)


def _phase(costs: Costs, steps: Sequence[StepCost], rows: Sequence[int], setting: Setting) -> float:
    """Seconds until the last pair is through these steps.

    The largest pair needs its own path through them; cores that pairs share need to do the work of
    all. Whichever takes longer counts, since one pair works while another waits.
    """
    seconds = sum(_step_s(costs, step, rows[0], len(rows), setting) for step in steps)
    if setting.cores is not None:
        work = sum(step.cpu.at(each) for step in steps for each in rows) * (1 + costs.c2_share)
        seconds = max(seconds, work / setting.cores)
    return setting.dispatch_s * len(rows) + seconds


def _step_s(costs: Costs, step: StepCost, rows: int, pairs: int, setting: Setting) -> float:
    """A step of one of so many pairs: work, then sending, then waiting."""
    cores = setting.cores or math.inf
    first = step.cpu.at(rows)
    second = first * costs.c2_share
    in_turns = (first + second) / min(1.0, cores)
    together = max(first, second, (first + second) / cores)
    work = costs.serial * in_turns + (1 - costs.serial) * together
    sending, latency = 0.0, 0.0
    if setting.link is not None:
        sending = step.sent_at(rows) / setting.link.bytes_s_of(pairs)
        latency = costs.latencies * setting.link.one_way_ms / 1e3
    rounds = step.rounds_at(rows)
    if step.name in OVERLAPPING:
        busy = max(work, sending)
        return busy + latency + max(0.0, rounds * latency / 2 - busy) + rounds * costs.round_s
    return work + sending + rounds * (latency + costs.round_s)


def calibrate(small: dict[str, Any], large: dict[str, Any], cores: float) -> Costs:
    """Costs from two results of `iteration.Run` with one pair on this many cores."""
    rows = (int(small["m"]), int(large["m"]))
    steps = _steps(small, large, rows)
    costs = Costs(
        steps=steps,
        c2_share=large["cpu_c2_s"] / large["cpu_c1_s"],
        ingest=_ingest(small, large, rows),
        start_s=large["start_s"],
        round_s=_round_s(large),
        latencies=1.0 if large["steps"] else 2 / IN_FLIGHT,
    )
    return _fit(costs, rows[1], large["total_s"], cores)


def _ingest(small: dict[str, Any], large: dict[str, Any], rows: tuple[int, int]) -> StepCost:
    """Taking in the records; both clouds are taken to work as long as the one that works more."""
    costs = [
        (max(run["ingest_cpu_s"]), sum(run["ingest_bytes"]) / 2, run["ingest_rounds"])
        for run in (small, large)
    ]
    return _step("ingest", True, rows, costs)


def _step(
    name: str, offline: bool, rows: Sequence[int], costs: Sequence[tuple[float, float, float]]
) -> StepCost:
    """A step from its CPU seconds, bytes and rounds in two runs."""
    cpu, sent, rounds = (Line.through(rows, values) for values in zip(*costs, strict=True))
    return StepCost(name, offline, cpu, sent, rounds)


def _steps(
    small: dict[str, Any], large: dict[str, Any], rows: tuple[int, int]
) -> tuple[StepCost, ...]:
    """Each step's lines; what no step was charged with is a step of its own."""
    runs = (small, large)
    tables = [
        {(s["phase"], s["step"]): (s["cpu_s"], s["bytes"], s["rounds"]) for s in run["steps"]}
        for run in runs
    ]
    steps = []
    for phase, name in sorted({*tables[0], *tables[1]}):
        costs = [table.get((phase, name), (0.0, 0.0, 0.0)) for table in tables]
        steps.append(_step(name, phase == "offline", rows, costs))
    rest = [
        (
            max(0.0, run["cpu_c1_s"] - sum(s["cpu_s"] for s in run["steps"])),
            max(0.0, _sent(run) - sum(s["bytes"] for s in run["steps"])),
            0.0 if large["steps"] else run["rounds"],
        )
        for run in runs
    ]
    return (*steps, _step("other", False, rows, rest))


def _sent(run: dict[str, Any]) -> float:
    return float(run["bytes_c1_to_c2"] + run["bytes_c2_to_c1"]) / 2


def _round_s(run: dict[str, Any]) -> float:
    """What a round takes besides CPU, from steps on clusters, which hardly compute."""
    small = [s for s in run["steps"] if s["step"] in LEAD_ONLY and s["rounds"]]
    rounds = sum(s["rounds"] for s in small)
    idle = sum(max(0.0, s["wall_s"] - s["cpu_s"]) for s in small)
    return float(idle / rounds) if rounds else 0.0


def _fit(costs: Costs, rows: int, measured_s: float, cores: float) -> Costs:
    """Choose `serial` so that the model takes as long as the measured run.

    If it takes longer even without any turns, rounds were measured too long: on a busy machine a
    worker that waits for a core looks as if it waited for its peer. They are then shortened.
    """

    def too_fast(changed: Costs) -> bool:
        return predict(changed, [rows], Setting(cores, None)).iteration_s < measured_s

    if too_fast(costs):
        serial = _largest(lambda share: too_fast(replace(costs, serial=share)))
        return replace(costs, serial=serial)
    part = _largest(lambda share: too_fast(replace(costs, round_s=share * costs.round_s)))
    return replace(costs, round_s=part * costs.round_s)


def _largest(holds: Callable[[float], bool]) -> float:
    """The largest share, 0 to 1, for which something still holds; 0 if it never does."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
