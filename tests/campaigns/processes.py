"""Processes of a soak and the resources of the machine that they hold."""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

_SHARED = Path("/dev/shm")  # noqa: S108 - only looked at


def marked(mark: Mapping[str, str]) -> list[psutil.Process]:
    """All processes with these variables in their environment, whatever their parent is now."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it has ended, or belongs to another user
            if mark.items() <= process.environ().items():
                found.append(process)
    return found


def title(process: psutil.Process) -> str:
    """The start of the command line, or nothing if the process has ended."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())[:256]
    return ""


def listening_ports(processes: Iterable[psutil.Process]) -> int:
    """The number of TCP addresses on which these processes listen."""
    found = set()
    for process in processes:
        with contextlib.suppress(psutil.Error):
            connections = process.net_connections("tcp")
            found |= {c.laddr for c in connections if c.status == psutil.CONN_LISTEN}
    return len(found)


def shared_bytes(process: psutil.Process) -> int:
    """Resident shared memory of a process, which psutil does not report by itself."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("RssShmem:"):
                return int(line.split()[1]) << 10
    return 0


def orphaned_shared_memory() -> set[str]:
    """Names of shared memory that no process has mapped."""
    there = {str(entry) for entry in _SHARED.iterdir()} if _SHARED.is_dir() else set()
    for process in psutil.process_iter() if there else ():
        with contextlib.suppress(psutil.Error):
            there -= {mapped.path for mapped in process.memory_maps()}
    return there
