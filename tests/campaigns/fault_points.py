"""Named points in a fault schedule and the faults that can strike at each of them.

A fault strikes at the n-th pass of its point, counted from the start of the schedule or within a
phase. A phase is the most recent call, or the step of the job that this call began. Half of all
faults name a phase, because uploads and the first steps make up most passes.
"""

import contextlib
import errno
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ppodc.crypto import single_use
from tests.harness.thread_workers import WorkerDiedError

_CONTROL = (
    "lose",
    "repeat",
    "kill master",
    "kill cloud2",
    "cloud2 away",
    "cancel",
    "second master",
)

# Faults by the point at which they strike.
ACTIONS: dict[str, tuple[str, ...]] = {
    "worker1 message": ("die", "stall", "cut"),
    "worker2 message": ("die", "stall", "cut"),
    "worker1 call": ("die", "Ray dies"),
    "worker2 call": ("die", "Ray dies"),
    "pool write": ("disk full", "die"),
    "control request": _CONTROL,
    "control reply": _CONTROL,
    "owner request": ("lose", "repeat", "kill owner", "kill gateway"),
    "owner reply": ("lose", "repeat", "kill owner", "kill gateway"),
    "cloud1 write": ("disk full", "kill before", "kill after"),
    "cloud2 write": ("disk full", "kill before", "kill after"),
}
_ITERATION = ("iterate", "assign", "update")
_KMEANS = ("start", "spread", "pick", *_ITERATION, "better", "tally", "output", "labels")
_STEPS = ("prepare", "ingest", *_KMEANS, "sum", "link")
_CALLS = ("uploads", "seal", "open", "replace", "settle")
_STARTS = ("uploads", "open", "replace")  # calls around which workers are started
_OWNERS = ("begin", "chunk", "seed", "missing", "commit", "result", "rows")


@dataclass(frozen=True, slots=True)
class Fault:
    """`action` strikes at the `count`-th pass of `point`, in all or in one phase."""

    point: str
    count: int
    action: str
    phase: str = ""

    @property
    def kind(self) -> str:
        """The action and its point, without the pass and the phase."""
        return f"{self.action} at {self.point}"

    def __str__(self) -> str:
        return f"{self.kind} {self.count}" + (f" of {self.phase}" if self.phase else "")


def phases(point: str) -> tuple[str, ...]:
    """Phases in which a point is passed."""
    who = point.partition(" ")[0]
    if who == "owner":
        return _OWNERS
    if point in ("worker1 call", "worker2 call"):
        return (*_STEPS, *_STARTS)
    if who in ("worker1", "worker2", "pool"):
        return _STEPS
    return (*_STEPS, *_CALLS) if who == "control" else (*_STEPS, *_CALLS, *_OWNERS)


class Fate:
    """Counts passes and decides which faults strike. Safe to call from several threads."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._due = {(fault.point, fault.phase, fault.count): fault for fault in faults}
        self._passed: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self.phase = ""
        self.struck: list[Fault] = []  # with the phase in which each one struck

    def at(self, point: str) -> str | None:
        """Count a pass and return the action that strikes at it, if any."""
        with self._lock:
            due = []
            for phase in {"", self.phase}:
                self._passed[point, phase] += 1
                due.append(self._due.get((point, phase, self._passed[point, phase])))
            fault = next((fault for fault in due if fault is not None), None)
            if fault is None:
                return None
            self.struck.append(replace(fault, phase=self.phase))
            return fault.action


class RowWatch:
    """Records every row that single-use pools hand out and counts rows handed out twice."""

    def __init__(self, fate: Fate) -> None:
        self._left: dict[Path, set[int]] = {}
        self._lock = threading.Lock()
        self._fate = fate
        self.reused = 0

    def __call__(self, folder: Path, event: str, first: int, end: int) -> None:
        rows = set(range(first, end))
        with self._lock:
            left = self._left.setdefault(folder, set())
            if event == "added":
                left |= rows
            elif event == "emptied":
                left.clear()
            else:
                self.reused += len(rows - left)
                left -= rows
        action = self._fate.at("pool write")
        if action == "die":
            raise WorkerDiedError
        if action == "disk full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def watched_rows(fate: Fate) -> Iterator[RowWatch]:
    """Watch all pools of this process while the block runs."""
    watch = RowWatch(fate)
    single_use.observer = watch
    try:
        yield watch
    finally:
        single_use.observer = None
