"""What a measurement ran on: the machine and the code, who else used its cores, its processes.

Wall times are only as good as the machine was free. Where the system tells how busy all cores were,
what the measurement itself used is subtracted; the rest were others. All that is read from `/proc`
is read here; where there is no such folder, nothing is claimed.
"""

import contextlib
import hashlib
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_SHARED = Path("/dev/shm")  # noqa: S108 - only looked at
_LISTENS = "0A"  # state of a socket in /proc/net/tcp
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TITLE_BYTES = 256
_PACKAGES = ("ppodc", "numpy", "gmpy2", "numba", "pyzmq", "cryptography", "ray")
_CODE = ("ppodc", "cloud1", "cloud2", "master", "client")
# What only shows values; a measured value does not depend on it.
_LOOKS = (
    "bench/document", "bench/plot", "bench/report", "bench/report_page", "bench/published",
    "bench/cost_model", "bench/fitted_costs", "bench/simulate", "cli/bench", "cli/measurement",
)  # fmt: skip


# ------------------------------------------------------------- machine and code


def describe() -> dict[str, Any]:
    """Processor, cores, memory, system and versions; no name of the machine or its user."""
    return dict(_description())


@cache
def _description() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": cores(),
        "memory_gb": round(_PAGE * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "code": _code(),
        "packages": {package: _version(package) for package in _PACKAGES},
    }


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in (_PROC / "cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _code() -> str:
    """A fingerprint of all code that a measured value may depend on."""
    top = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for file in sorted(file for name in _CODE for file in (top / name).rglob("*.py")):
        path = file.relative_to(top)
        if "/".join(path.with_suffix("").parts[1:]) not in _LOOKS:
            digest.update(f"{path}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


# ------------------------------------------------------------- others' load


class Load:
    """Watches the cores from its making to `stop`."""

    def __init__(self) -> None:
        self._busy, self._times, self._began = _busy(), os.times(), time.perf_counter()
        self.seconds = 0.0
        self.others: float | None = None  # cores that others kept busy; None: not known here
        self.own = 0.0  # cores that this process itself used

    def stop(self, children: float | None = None) -> None:
        """`children`: CPU seconds of children, where they began before or go on after this."""
        self.seconds = time.perf_counter() - self._began
        busy = _busy()
        spent = [new - old for new, old in zip(os.times(), self._times, strict=True)]
        if self.seconds <= 0:
            return
        self.own = sum(spent[:2]) / self.seconds
        if self._busy is None or busy is None:
            return
        ours = sum(spent[:2]) + (sum(spent[2:4]) if children is None else children)
        self.others = max(0.0, (busy - self._busy - ours) / self.seconds)


@contextlib.contextmanager
def watched() -> Iterator[Load]:
    """Watch the cores while the block runs; children that it starts end in it."""
    load = Load()
    yield load
    load.stop()


def _busy() -> float | None:
    """Seconds that the cores this process may use have worked since the system started."""
    try:
        lines = (_PROC / "stat").read_text().splitlines()
    except OSError:
        return None
    usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    total = 0
    for name, *counts in (line.split() for line in lines if line.startswith("cpu")):
        if name in usable:
            user, nice, system, _idle, _wait, irq, soft, steal = (int(x) for x in counts[:8])
            total += user + nice + system + irq + soft + steal
    return total / _TICK


# ------------------------------------------------------------- our processes


@dataclass(frozen=True, slots=True)
class Process:
    """A process below this one, as the system counts it now."""

    pid: int
    parent: int
    title: str  # its command line, as far as it tells processes apart
    cpu_s: float
    memory: int  # resident bytes


def own_peak_mb() -> float:
    """The most memory that this process has had, in MB.

    Not `ru_maxrss`: that begins with what its parent had when it started this process.
    """
    status = (_PROC / "self" / "status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def processes() -> list[Process]:
    """All processes below this one; none where the system does not tell."""
    running: dict[int, Process] = {}
    folders = _PROC.iterdir() if _PROC.is_dir() else ()
    for folder in folders:
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                running[int(folder.name)] = _read(folder)
    return [process for process in running.values() if _is_below(process, running)]


def marked(mark: str) -> list[Process]:
    """All processes with this NAME=VALUE in their environment, whoever their parent is now."""
    found = []
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended, or is not ours
                if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(_read(folder))
    return found


def open_files(pid: int) -> list[str]:
    """What the descriptors of a process stand for; none where the system does not tell."""
    links = []
    with contextlib.suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                links.append(str(entry.readlink()))
    return links


def threads(pid: int) -> int:
    """How many threads a process has; 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        return len(list((_PROC / str(pid) / "task").iterdir()))
    return 0


def listening(pids: Iterable[int]) -> int:
    """How many TCP ports these processes listen on."""
    waiting = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS:
                    waiting.add(f"socket:[{fields[9]}]")
    return len(waiting & {link for pid in pids for link in open_files(pid)})


def shared_bytes(pid: int) -> int:
    """Shared memory that a process has in use; 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("RssShmem:"):
                return int(line.split()[1]) << 10
    return 0


def forgotten_shared_memory() -> set[str]:
    """Names of shared memory that no process has mapped any more."""
    there = {str(entry) for entry in _SHARED.iterdir()} if _SHARED.is_dir() else set()
    for folder in _PROC.iterdir() if there else ():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                maps = (folder / "maps").read_text().splitlines()
                there -= {line.split(maxsplit=5)[-1] for line in maps}
    return there


def _read(folder: Path) -> Process:
    status = (folder / "stat").read_text().rpartition(")")[2].split()
    with (folder / "cmdline").open("rb") as file:
        title = file.read(_TITLE_BYTES).replace(b"\0", b" ").decode(errors="replace")
    pages = int((folder / "statm").read_text().split()[1])
    cpu = (int(status[11]) + int(status[12])) / _TICK
    return Process(int(folder.name), int(status[1]), title, cpu, pages * _PAGE)


def _is_below(process: Process, running: dict[int, Process]) -> bool:
    parent = process.parent
    while parent in running and parent != os.getpid():
        parent = running[parent].parent
    return parent == os.getpid()


def resident_bytes(pid: int | None = None) -> int:
    """Memory of this process or another; 0 where the system does not tell."""
    try:
        return _read(_PROC / str(pid or os.getpid())).memory
    except OSError:
        return 0


@contextlib.contextmanager
def looking(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Look again and again while the block runs, and once more at its end."""
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
