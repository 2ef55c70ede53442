"""A Ray that we start is on loopback only, asks for its token, and ends with its starter."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ppodc.cluster.ray_cluster import RayPlacement
from ppodc.cluster.ray_head import LocalRay
from ppodc.cluster.ray_workers import RayWorkers
from ppodc.errors import RayUnusableError
from ppodc.local.platform import free_ports
from tests.end_to_end.two_services import ancestors
from tests.harness.patience import wait_for

_LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
_LISTEN = "0A"
_STARTER = """
import sys
from ppodc.cluster.ray_head import LocalRay
head = LocalRay.start({"cloud1": 1})
print(head.pid, flush=True)
sys.stdin.read()
"""


def descendants(root: int) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if root in ancestors(pid)]


def listening(pid: int) -> list[str]:
    """The local addresses, in the kernel's hex, on which this process takes connections."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(descriptor))
        except OSError:
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in sockets:
                found.append(fields[1].partition(":")[0])
    return found


def test_all_ports_are_on_loopback(ray_head: LocalRay):
    addresses = [address for pid in descendants(ray_head.pid) for address in listening(pid)]
    assert addresses
    assert set(addresses) <= _LOOPBACK


def test_the_token_is_for_this_user_alone(ray_head: LocalRay):
    token = Path(ray_head.environment["RAY_AUTH_TOKEN_PATH"])
    for path in (token, token.parent):
        assert path.stat().st_mode & 0o077 == 0
    assert len(token.read_text()) == 64
    for pid in descendants(ray_head.pid):
        assert token.read_text().encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_nobody_there_is_said_at_once():
    with pytest.raises(RayUnusableError, match="no Ray head of cloud1 listens at"):
        RayWorkers(RayPlacement(f"127.0.0.1:{free_ports(1)[0]}", "cloud1", 1)).check(1)


def test_it_ends_when_its_starter_is_killed():
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    head = int(starter.stdout.readline())
    ours = [pid for pid in descendants(head) if pid != head]
    assert len(ours) >= 3
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    wait_for(lambda: not any(_running(pid) for pid in (head, *ours)))


def _running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
