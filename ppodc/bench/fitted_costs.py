"""The numbers of `cost_model` from measured runs of one pair.

CPU, bytes and rounds of every step are lines through two runs of different size. Waits come from a
third, of the smaller size over an imitated link that is far and otherwise fast: what a step takes
longer there, in latencies. On a quiet machine `serial` and `round_s` are chosen so that the model
gives the wall time of the larger run; on a busy one only CPU time is believed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ppodc.bench.cost_model import TAKING_IN, Costs, Portions, Setting, StepCost, predict
from ppodc.bench.estimate import Line

_IDLE = ("re-seed", "stop test")  # on clusters only: they hardly compute
_BISECTIONS = 30


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of `iteration.Run` with one pair: two sizes, and the smaller one over a far link."""

    small: dict[str, Any]
    large: dict[str, Any]
    far: dict[str, Any]
    latency_s: float  # of that link
    cores: float  # that the large run had
    quiet: bool  # whether its wall time is to be believed


def calibrate(runs: Measured, portions: Portions) -> Costs:
    """The costs of a job that works in these portions."""
    large, waits = runs.large, _waits(runs)
    costs = Costs(
        steps=_steps(runs, waits),
        c2_share=large["cpu_c2_s"] / large["cpu_c1_s"],
        ingest=_ingest(runs),
        start_s=large["start_s"],
        round_s=_round_s(large, waits),
        portions=portions,
    )
    return _fit(costs, large["m"], large["total_s"], runs.cores) if runs.quiet else costs


def _waits(runs: Measured) -> dict[str, float]:
    """Latencies by which each step took longer over the far link; of the fastest iterations."""
    near = {s["step"]: s["fastest_s"] for s in runs.small["steps"]}
    return {
        s["step"]: max(0.0, s["fastest_s"] - near.get(s["step"], 0.0)) / runs.latency_s
        for s in runs.far["steps"]
    }


def _ingest(runs: Measured) -> StepCost:
    """Taking in the records; both clouds are taken to work as long as the one that works more."""
    costs = [
        (max(run["ingest_cpu_s"]), sum(run["ingest_bytes"]) / 2, run["ingest_rounds"])
        for run in (runs.small, runs.large)
    ]
    longer = runs.far["ingest_s"] - runs.small["ingest_s"]
    step = _step(runs, TAKING_IN, True, costs)
    return replace(step, waits=Line(max(0.0, longer) / runs.latency_s))


def _step(
    runs: Measured, name: str, offline: bool, costs: Sequence[tuple[float, float, float]]
) -> StepCost:
    """A step from its CPU seconds, bytes and rounds in two runs."""
    rows = int(runs.small["m"]), int(runs.large["m"])
    cpu, sent, rounds = (Line.through(rows, values) for values in zip(*costs, strict=True))
    return StepCost(name, offline, cpu, sent, rounds)


def _steps(runs: Measured, waits: dict[str, float]) -> tuple[StepCost, ...]:
    """Each step's lines; what no step was charged with is a step of its own."""
    tables = [
        {(s["phase"], s["step"]): (s["cpu_s"], s["bytes"], s["rounds"]) for s in run["steps"]}
        for run in (runs.small, runs.large)
    ]
    steps = []
    for phase, name in sorted({*tables[0], *tables[1]}):
        costs = [table.get((phase, name), (0.0, 0.0, 0.0)) for table in tables]
        step = _step(runs, name, phase == "offline", costs)
        steps.append(replace(step, waits=Line(waits.get(name, 0.0))))
    return (*steps, _rest(runs))


def _rest(runs: Measured) -> StepCost:
    """What no step was charged with: the whole paillier suite, whose waits grow with its rounds."""
    split_up = bool(runs.large["steps"])
    costs = [
        (
            max(0.0, run["cpu_c1_s"] - sum(s["cpu_s"] for s in run["steps"])),
            max(0.0, _sent(run) - sum(s["bytes"] for s in run["steps"])),
            0.0 if split_up else run["rounds"],
        )
        for run in (runs.small, runs.large)
    ]
    rest = _step(runs, "other", False, costs)
    longer = max(0.0, runs.far["total_s"] - runs.small["total_s"]) / runs.latency_s
    share = 0.0 if split_up else longer / max(1.0, runs.small["rounds"])
    return replace(rest, waits=Line(share * rest.rounds.fixed, share * rest.rounds.each))


def _sent(run: dict[str, Any]) -> float:
    return float(run["bytes_c1_to_c2"] + run["bytes_c2_to_c1"]) / 2


def _round_s(run: dict[str, Any], waits: dict[str, float]) -> float:
    """What a wait takes besides the latency, from steps that hardly compute."""
    steps = [s for s in run["steps"] if s["step"] in _IDLE]
    idle = sum(max(0.0, s["fastest_s"] - s["cpu_s"]) for s in steps)
    count = sum(waits.get(s["step"], 0.0) for s in steps)
    return float(idle / count) if count >= 1 else 0.0


def _fit(costs: Costs, rows: int, measured_s: float, cores: float) -> Costs:
    """Choose `serial` so that the model takes as long as the measured run.

    If it takes longer even without any turns, waits were measured too long: a worker that waits for
    a core looks as if it waited for its peer. They are then shortened.
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
