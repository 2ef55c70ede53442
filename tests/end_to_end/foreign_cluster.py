"""A Ray cluster that is not ours, for tests: a head on loopback whose nodes come and go.

When a raylet of it is killed nobody mends or ends the rest, as with `ray start` on a machine.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ppodc.cluster.offspring import end_session

_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster()
for line in sys.stdin:
    node = cluster.add_node(
        resources={"cloud2": 1}, include_dashboard=False, node_ip_address="127.0.0.1"
    )
    (raylet,) = node.all_processes["raylet"]
    print(cluster.address, raylet.process.pid, flush=True)
"""


class ForeignCluster:
    """Nodes with one worker of cloud 2 each; the first has the GCS too."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.address, self.raylet = "", 0

    def add_node(self) -> None:
        """Another node; `raylet` is its process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.address, raylet = self._process.stdout.readline().split()
        self.raylet = int(raylet)

    def kill(self) -> None:
        """All of its processes, at once."""
        end_session(self._process.pid)

    @classmethod
    @contextmanager
    def start(cls, folder: Path) -> "Iterator[ForeignCluster]":
        """Without a node; its files, and the token that lets in, are in a folder with a short name.

        The caller's environment must say where the token is.
        """
        token = folder / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        with subprocess.Popen(
            [sys.executable, "-c", _CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "RAY_AUTH_TOKEN_PATH": str(token), "RAY_TMPDIR": str(folder)},
            text=True,
            start_new_session=True,
        ) as process:
            cluster = cls(process)
            try:
                yield cluster
            finally:
                cluster.kill()
