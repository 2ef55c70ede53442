"""How much of the machine others used during a measurement, so that a reader can judge its times.

Wall times of a measurement are only as good as the machine was free. Where the system tells how
busy all cores were, what the measurement itself used is subtracted; the rest were others.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STAT = Path("/proc/stat")


class Load:
    """Watches the cores from its making to `stop`."""

    def __init__(self) -> None:
        self._busy, self._times, self._began = _busy(), os.times(), time.perf_counter()
        self.seconds = 0.0
        self.others: float | None = None  # cores that others kept busy; None: not known here

    def stop(self, children: float | None = None) -> None:
        """`children`: CPU seconds of children, where they began before or go on after this."""
        self.seconds = time.perf_counter() - self._began
        now = _busy()
        if self._busy is None or now is None or self.seconds <= 0:
            return
        spent = [new - old for new, old in zip(os.times(), self._times, strict=True)]
        own = sum(spent[:2]) + (sum(spent[2:4]) if children is None else children)
        self.others = max(0.0, (now - self._busy - own) / self.seconds)


@contextmanager
def watched() -> Iterator[Load]:
    """Watch the cores while the block runs; children that it starts end in it."""
    load = Load()
    yield load
    load.stop()


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _busy() -> float | None:
    """Seconds that the cores this process may use have worked since the system started."""
    try:
        lines = _STAT.read_text().splitlines()
    except OSError:
        return None
    own = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    total = 0
    for name, *counts in (line.split() for line in lines if line.startswith("cpu")):
        if name in own:
            user, nice, system, _idle, _wait, irq, soft, steal = (int(x) for x in counts[:8])
            total += user + nice + system + irq + soft + steal
    return total / os.sysconf("SC_CLK_TCK")
