"""The machine and the code of a measurement, the load of other programs, and child processes.

Wall times are only as good as the machine was idle. The CPU time of all cores minus that of the
measurement itself is the load of other programs.
"""

import contextlib
import hashlib
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = ("ppodc", "numpy", "gmpy2", "numba", "pyzmq", "cryptography", "ray")
_CODE = ("ppodc", "cloud1", "cloud2", "master", "client")
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")  # kinds of CPU time
# Files that present values. No measured value depends on them.
_PRESENTATION = (
    "bench/document", "bench/plot", "bench/report", "bench/kmeans/published",
    "bench/kmeans/closed_form", "bench/kmeans/simulate", "cli/bench",
)  # fmt: skip


# ------------------------------------------------------------- machine and code


def describe() -> dict[str, Any]:
    """Processor, cores, memory, system and versions, without names of the machine or its user."""
    return dict(_description())


@cache
def _description() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": cores(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "code": _code(),
        "packages": {package: _version(package) for package in _PACKAGES},
    }


def cores() -> int:
    """Cores that this process may use."""
    return len(_own_cores())


def _own_cores() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _code() -> str:
    """A fingerprint of all code on which a measured value may depend."""
    top = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for file in sorted(file for name in _CODE for file in (top / name).rglob("*.py")):
        path = file.relative_to(top)
        if "/".join(path.with_suffix("").parts[1:]) not in _PRESENTATION:
            digest.update(f"{path}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


# ------------------------------------------------------------- load of others


class Load:
    """Observes the cores until `stop` is called."""

    def __init__(self) -> None:
        self._busy, self._times, self._began = _busy(), os.times(), time.perf_counter()
        self.seconds = 0.0
        self.others = 0.0  # cores that other programs kept busy
        self.own = 0.0  # cores that this process used

    def stop(self, children: float | None = None) -> None:
        """End the observation.

        `children` are CPU seconds of child processes that run longer than the observation.
        """
        self.seconds = time.perf_counter() - self._began
        busy = _busy() - self._busy
        spent = [new - old for new, old in zip(os.times(), self._times, strict=True)]
        ours = sum(spent[:2]) + (sum(spent[2:4]) if children is None else children)
        self.own = sum(spent[:2]) / self.seconds
        self.others = max(0.0, (busy - ours) / self.seconds)


@contextlib.contextmanager
def watched() -> Iterator[Load]:
    """Observe the cores while the block runs. Child processes must start and end in it."""
    load = Load()
    yield load
    load.stop()


def _busy() -> float:
    """CPU seconds of the cores of this process since the system started."""
    own, every = _own_cores(), psutil.cpu_times(percpu=True)
    used = [times for core, times in enumerate(every) if core in own]
    return float(sum(getattr(times, name, 0.0) for times in used for name in _BUSY))


# ------------------------------------------------------------- child processes


@dataclass(frozen=True, slots=True)
class Process:
    """A process below this one."""

    pid: int
    title: str  # its command line
    cpu_s: float
    memory: int  # resident bytes


def own_peak_mb() -> float:
    """Peak memory of this process in MB.

    `ru_maxrss` would include the memory that its parent had when it started this process.
    """
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def processes() -> list[Process]:
    """All processes below this one."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error), child.oneshot():  # it may have just ended
            times = child.cpu_times()
            cpu, memory = times.user + times.system, child.memory_info().rss
            found.append(Process(child.pid, " ".join(child.cmdline()), cpu, memory))
    return found


@contextlib.contextmanager
def looking(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Call `look` repeatedly while the block runs, and once more at its end."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            look()
        look()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
