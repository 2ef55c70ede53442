"""Processes that this one starts: none of them, nor of theirs, shall outlive its purpose."""

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_starter() -> None:
    """As `preexec_fn` of a new process: SIGTERM when the thread that started it is gone."""
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


def _in_session(leader: int) -> list[int]:
    """Processes of this session that run; a zombie does not."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # gone meanwhile
            # the name before the last ")" may hold blanks; then: state, parent, group, session
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found
