"""What an iteration costs a pair, step by step, and how psi pairs get through one.

Every step has a part that each pair pays and a part for each of its rows: CPU seconds of either
cloud, bytes of either direction, rounds. Since rounds overlap, its waits count apart: how often it
waits for the link's latency. Two more numbers say how a pair uses its time: `serial`, the share of
the work in which one cloud waits for the other, and `round_s`, what a wait takes besides the
latency. All of them are measured (`fitted_costs`).

In the model a pair goes through its steps one after the other; in each, the clouds work (`serial`
of it in turn, the rest at the same time), send to each other at the same time, and wait: for every
chunk of records anew where a step goes chunk by chunk. Some overlap sending with work: the look-up
in scaling, and supplies, of which a lot is on its way while the next is made, so that two lots
take a latency, their way and their work at least. Supplies beyond what may be kept in memory are
made online, with each chunk that needs them. Pairs on the same cores fill each other's waits: a
phase takes as long as one pair's path through it, or as the work of all pairs on these cores.
Update, stop test and the next centres run on one pair while the others wait.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ppodc.bench.estimate import Line
from ppodc.bench.network_presets import Link
from ppodc.kmeans.shares.half import AHEAD_BYTES
from ppodc.kmeans.shares.products import AHEAD_BYTES as PRODUCT_BYTES
from ppodc.kmeans.shares.sums import LARGE

LEAD_ONLY = ("re-seed", "scaling", "stop test", "update")
SUPPLIES = ("leaves", "pairs", "transfers")
STREAMED = ("scaling",)
PER_CHUNK = ("SSED_OP", "SMIN_k", "sums", "products")
TAKING_IN = "ingest"
NOTHING = Line()


@dataclass(frozen=True, slots=True)
class StepCost:
    """One step of a pair; CPU of C1, bytes of one direction; of PER_CHUNK the waits of a chunk."""

    name: str
    offline: bool
    cpu: Line
    sent: Line
    rounds: Line
    waits: Line = NOTHING

    @property
    def lead_only(self) -> bool:
        return self.name in LEAD_ONLY

    def sent_at(self, rows: float) -> float:
        """Bytes of one direction; sums of a large shard are half as wide (`shares.sums`)."""
        wide = self.sent.at(rows)
        return wide / 2 if self.name == "sums" and rows >= LARGE else wide


@dataclass(frozen=True, slots=True)
class Portions:
    """In what portions the shares suite works, and what it makes ahead."""

    chunk_rows: float = math.inf
    supplies: Line = NOTHING  # bytes of the supplies of an iteration
    product_bytes: float = 0.0  # of a row's random products
    taken_rows: float = math.inf  # at a time, when records are taken in

    def chunks(self, rows: float) -> int:
        return max(1, math.ceil(rows / self.chunk_rows))

    def times(self, step: str, rows: float) -> int:
        """How often a step's waits come."""
        if step == TAKING_IN:
            return max(1, math.ceil(rows / self.taken_rows))
        return self.chunks(rows) if step in PER_CHUNK else 1

    def ahead(self, step: str, rows: float) -> float:
        """The part of an offline step that is really done before the online part."""
        if step == "products":
            return float(self.product_bytes * rows <= PRODUCT_BYTES)
        size = self.supplies.at(rows) if step in SUPPLIES else 0.0
        return min(1.0, AHEAD_BYTES / size) if size else 1.0


@dataclass(frozen=True, slots=True)
class Costs:
    """A job's costs on the kind of core that was measured."""

    steps: tuple[StepCost, ...]
    c2_share: float  # CPU of C2 for each second of C1
    ingest: StepCost
    start_s: float
    round_s: float
    portions: Portions = Portions()
    serial: float = 0.0

    def sent(self, rows: Sequence[int]) -> float:
        """Bytes between the clouds in one iteration, both directions, all pairs."""
        lead = sum(2 * s.sent.at(rows[0]) for s in self.steps if s.lead_only)
        each = [s for s in self.steps if not s.lead_only]
        return lead + sum(2 * s.sent_at(r) for r in rows for s in each)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the pairs run: `cores` for all workers, or None for a core each; and their link."""

    cores: float | None
    link: Link | None  # None: loopback, whose cost is in the measured CPU and waits
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


@dataclass(frozen=True, slots=True)
class _Piece:
    """So much of a step, with so many waits for the link."""

    step: StepCost
    part: float
    waits: float


def split(m: int, pairs: int) -> list[int]:
    """Rows of each pair; the largest first."""
    return [m // pairs + (1 if i < m % pairs else 0) for i in range(pairs)]


def predict(costs: Costs, rows: Sequence[int], setting: Setting) -> Prediction:
    """Let all pairs go through one iteration, phase after phase."""
    last = [_whole(costs, step, rows[0]) for step in costs.steps if step.lead_only]
    alike = replace(costs, c2_share=1.0, serial=0.0)
    return Prediction(
        _phase(costs, _offline(costs, rows[0]), rows, setting),
        _phase(costs, _online(costs, rows[0]), rows, setting)
        + _phase(costs, last, rows[:1], setting),
        _phase(alike, [_whole(costs, costs.ingest, rows[0])], rows, setting),
    )


def _offline(costs: Costs, rows: int) -> list[_Piece]:
    """What a pair makes before the online part; each kind of supplies waits once."""
    pieces = []
    for step in costs.steps:
        part = costs.portions.ahead(step.name, rows) if step.offline else 0.0
        if part:
            whole = _whole(costs, step, rows)
            pieces.append(replace(whole, part=part, waits=1.0) if _supplies(step) else whole)
    return pieces


def _online(costs: Costs, rows: int) -> list[_Piece]:
    """What a pair does with the centres; what supplies are missing, it makes for each chunk."""
    pieces = []
    for step in costs.steps:
        part = 1 - costs.portions.ahead(step.name, rows) if step.offline else 1.0
        if part and not step.lead_only:
            whole = _whole(costs, step, rows)
            waits = part * costs.portions.chunks(rows)
            pieces.append(replace(whole, part=part, waits=waits) if _supplies(step) else whole)
    return pieces


def _supplies(step: StepCost) -> bool:
    return step.name in SUPPLIES


def _whole(costs: Costs, step: StepCost, rows: int) -> _Piece:
    return _Piece(step, 1.0, costs.portions.times(step.name, rows) * step.waits.at(rows))


def _phase(costs: Costs, pieces: Sequence[_Piece], rows: Sequence[int], setting: Setting) -> float:
    """Seconds until the last pair is through these pieces.

    The largest pair needs its own path through them; cores that pairs share need to do the work of
    all. Whichever takes longer counts, since one pair works while another waits.
    """
    seconds = sum(_piece_s(costs, piece, rows[0], len(rows), setting) for piece in pieces)
    if setting.cores is not None:
        work = sum(piece.part * piece.step.cpu.at(each) for piece in pieces for each in rows)
        seconds = max(seconds, work * (1 + costs.c2_share) / setting.cores)
    return setting.dispatch_s * len(rows) + seconds


def _piece_s(costs: Costs, piece: _Piece, rows: int, pairs: int, setting: Setting) -> float:
    """One of so many pairs: work, sending and waiting."""
    step, cores = piece.step, setting.cores or math.inf
    first = piece.part * step.cpu.at(rows)
    second = first * costs.c2_share
    in_turns = (first + second) / min(1.0, cores)
    together = max(first, second, (first + second) / cores)
    work = costs.serial * in_turns + (1 - costs.serial) * together
    sending, latency = 0.0, 0.0
    if setting.link is not None:
        sending = piece.part * step.sent_at(rows) / setting.link.bytes_s_of(pairs)
        latency = setting.link.one_way_ms / 1e3
    waiting = piece.waits * (latency + costs.round_s)
    if _supplies(step):
        # of two lots one is on its way while the other is made
        lots = piece.part * step.rounds.at(rows)
        return max(work, sending, (lots * latency + work + sending) / 2) + waiting
    if step.name in STREAMED:
        return max(work, sending) + waiting
    return work + sending + waiting
