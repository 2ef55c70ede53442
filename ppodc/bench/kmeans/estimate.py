"""An iteration of the paillier suite on one pair, extrapolated from few records.

A cost is a straight line: a part for each record and a part that is paid once. The cost per record
does not depend on the other records, only on the widths of the job's numbers. So some records run
through the protocol with the widths of all m, and then: seconds = m * (seconds per record) +
(scaling, re-seeding and the stop test, once). Every figure that uses this says so.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ppodc.bench.kmeans.paillier_steps import SOURCES, batch_of, make_case, measure
from ppodc.bench.points import Task, Tell
from ppodc.kmeans.suites import NAMES, Mode, Suite

ONCE = ("scale", "reseed", "stop test")
SPLIT = ("SSED_OP", "SBD", "SMIN_k", "sums")


def suites(chosen: Suite | None) -> list[Suite]:
    """The suites to measure: the chosen one, or all."""
    return list(NAMES) if chosen is None else [chosen]


@dataclass(frozen=True, slots=True)
class Line:
    """The line fixed + each * rows. Neither of them is negative."""

    fixed: float = 0.0
    each: float = 0.0

    def at(self, rows: float) -> float:
        return self.fixed + self.each * rows

    @staticmethod
    def through(rows: Sequence[int], values: Sequence[float]) -> "Line":
        """The line through the first and the last measured size."""
        each = max(0.0, (values[-1] - values[0]) / (rows[-1] - rows[0]))
        fixed = values[-1] - each * rows[-1]
        if fixed < 0:
            return Line(0.0, values[-1] / rows[-1])
        return Line(fixed, each)


def note(records: int, more: str) -> str:
    """The note that every estimate carries."""
    return (
        f"paillier: estimated, {records} measured records (in batches of {batch_of(records)}) "
        "times m, plus the steps that are done once. CPU seconds: of both clouds in turns, of the "
        f"busier one where they overlap. {more}"
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate: a job, a mode, and the number of records to measure."""

    m: int
    l: int
    k: int
    mode: Mode
    key_bits: int
    records: int

    def task(self, *, split: bool) -> Task:
        """The task to estimate an iteration, as a whole or primitive by primitive."""
        kind = "split" if split else "whole"
        key = {"bench": "estimate", "suite": "paillier", "kind": kind, **asdict(self)}
        label = f"paillier, {self.mode}, m = {self.m}, l = {self.l}, k = {self.k}"
        return Task(label, key, partial(_measure, self, split))


def _measure(what: Estimate, split: bool, tell: Tell) -> dict[str, Any]:
    tell(f"{what.records} records")
    case = make_case(what.m, what.l, what.k, what.key_bits, what.records)
    samples = measure(case, what.mode, SOURCES[what.mode], whole=not split)
    steps = [name for name in (*SPLIT, "record") if name in samples]
    per_record = {name: samples[name].seconds / len(case.records) for name in steps}
    once = {name: samples[name].seconds for name in ONCE}
    return {
        "per_record_s": per_record,
        "once_s": once,
        "iteration_s": Line(sum(once.values()), per_record["record"]).at(what.m),
        "estimated": True,
    }
