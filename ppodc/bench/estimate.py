"""An iteration of either suite on one pair; the paillier suite's is extrapolated from few records.

This is the only extrapolation in bench. A cost is a straight line: a part for each record and a
part that is paid once. The cost per record does not depend on the other records, only on the widths
of the job's numbers. So some records of the paillier suite run through the protocol with the widths
of all m, and then: seconds = m * (seconds per record) + (scaling, re-seeding and the stop test,
once). Whatever uses this says so beside its figures.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ppodc.bench import share_primitives
from ppodc.bench.paillier_steps import SOURCES, batch_of, make_case, measure
from ppodc.bench.points import Points, Task, Tell
from ppodc.bench.points import measure as measure_points
from ppodc.kmeans.suites import NAMES, Mode, named

ONCE = ("scale", "reseed", "stop test")
SPLIT = ("SSED_OP", "SBD", "SMIN_k", "sums")


def suites(chosen: str | None) -> list[str]:
    """The suites to measure: one, or all if none is chosen."""
    return list(NAMES) if chosen is None else [named(chosen)]


@dataclass(frozen=True, slots=True)
class Line:
    """fixed + each * rows, neither of them negative."""

    fixed: float = 0.0
    each: float = 0.0

    def at(self, rows: float) -> float:
        return self.fixed + self.each * rows

    @staticmethod
    def through(rows: Sequence[int], values: Sequence[float]) -> "Line":
        """The line through the first and the last of some measured sizes."""
        each = max(0.0, (values[-1] - values[0]) / (rows[-1] - rows[0]))
        fixed = values[-1] - each * rows[-1]
        if fixed < 0:
            return Line(0.0, values[-1] / rows[-1])
        return Line(fixed, each)


def note(records: int, more: str) -> str:
    """What must stand beside every estimate."""
    return (
        f"paillier: estimated, {records} measured records (in batches of {batch_of(records)}) "
        f"times m, plus what is done once. {more}"
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is estimated: a job, a mode, and the records that are measured for it."""

    m: int
    l: int
    k: int
    mode: Mode
    key_bits: int
    records: int

    def task(self, *, split: bool) -> Task:
        """Estimate an iteration on one pair, as a whole or primitive by primitive."""
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


def measure_suites(
    title: str,
    suites: Sequence[str],
    cases: Sequence[dict[str, int]],
    points: Points,
    split: bool = False,
    *,
    key_bits: int,
    records: int,
    iterations: int,
) -> list[tuple[str, dict[str, int], dict[str, Any]]]:
    """(suite, case, value): shares measured over all records, paillier estimated, pipelined."""

    def task(suite: str, m: int, l: int, k: int) -> Task:
        if suite == "shares":
            return share_primitives.task(m, l, k, iterations)
        return Estimate(m, l, k, "pipelined", key_bits, min(records, m)).task(split=split)

    grid = [(suite, case) for suite in suites for case in cases]
    values = measure_points(title, [task(suite, **case) for suite, case in grid], points)
    return [(*place, value) for place, value in zip(grid, values, strict=True)]
