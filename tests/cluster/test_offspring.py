"""Processes end with whoever started them, and whole sessions at once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from ppodc.cluster.offspring import end_session
from tests.harness.patience import wait_for

_STARTER = """
import subprocess, sys, time
from ppodc.cluster.offspring import end_with_starter
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                         preexec_fn=end_with_starter, start_new_session={session})
print(child.pid, flush=True)
time.sleep(600)
"""


def start(session: bool) -> tuple["subprocess.Popen[str]", int]:
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTER.format(session=session)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert starter.stdout is not None
    return starter, int(starter.stdout.readline())


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_service_does_not_outlive_a_killed_starter():
    starter, child = start(session=True)
    assert running(child)
    os.kill(starter.pid, signal.SIGKILL)
    starter.communicate()
    wait_for(lambda: not running(child))


def test_a_session_ends_as_a_whole():
    starter, child = start(session=False)
    end_session(starter.pid)
    starter.communicate()
    assert not running(child)
