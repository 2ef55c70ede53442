"""Processes that this one starts: none of them, nor of theirs, shall outlive its purpose."""

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
_GONE = "X"
_ENDED = (_GONE, "Z")  # states of a process that is no more, but for its name
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_starter() -> None:
    """Send SIGTERM to a new process when its starting thread is gone; a `preexec_fn`."""
    _libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)


def end_session(leader: int) -> None:
    """Kill a process that was started with a session of its own, and all that are still in it.

    Ray's agents are children of its raylet; when that is killed they may stay behind.
    """
    while left := _in_session(leader):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def children() -> dict[int, tuple[str, bool]]:
    """The processes that this one has started: name, and whether it runs or has ended just now."""
    stats = {pid: _stat(pid) for task in Path("/proc/self/task").iterdir() for pid in _below(task)}
    return {pid: (name, state not in _ENDED) for pid, (name, state, _) in stats.items()}


def _in_session(leader: int) -> list[int]:
    """Processes of this session that run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            _, state, session = _stat(int(entry.name))
            if session == leader and state not in _ENDED:
                found.append(int(entry.name))
    return found


def _below(task: Path) -> list[int]:
    """The processes that a thread of this process has started; none if it is gone."""
    with contextlib.suppress(OSError):
        return [int(pid) for pid in (task / "children").read_text().split()]
    return []


def _stat(pid: int) -> tuple[str, str, int]:
    """(name, state, session) of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", _GONE, 0
    # the name, in brackets, may hold blanks and brackets; then: state, parent, group, session
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return name, fields[0], int(fields[3])
