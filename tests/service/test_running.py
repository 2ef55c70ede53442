"""A service ends in order at a signal, whatever other signals come with it."""

import os
import signal
import subprocess
import sys

from tests.harness.patience import LONG

_SERVICE = """
from ppodc.service.running import until_signal
until_signal(lambda: print("ready", flush=True))
print("in order", flush=True)
input()  # further signals come during the shutdown, too
"""


def test_a_second_signal_neither_hangs_a_service_nor_cuts_its_end_short():
    """Some of these processes hung when a handler set an event, or put into a queue."""
    for _ in range(15):
        service = subprocess.Popen(
            [sys.executable, "-c", _SERVICE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert service.stdin is not None
        assert service.stdout is not None
        assert service.stdout.readline() == b"ready\n"
        for turn in range(200):
            os.kill(service.pid, (signal.SIGTERM, signal.SIGINT)[turn % 2])
        service.stdin.write(b"\n")
        rest, _ = service.communicate(timeout=LONG)
        assert (rest, service.returncode) == (b"in order\n", 0)
