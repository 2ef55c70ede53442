"""A Ray head of our own in a process of its own: `python -m ppodc.cluster.ray_head`."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from ppodc.cluster.offspring import end_session
from ppodc.cluster.ray_cluster import end_with_ray, ray_module, settings, start_here
from ppodc.cluster.ray_folder import RayFolder
from ppodc.errors import RayUnusableError, printable

_STOP_SECONDS = 20.0


class LocalRay:
    """A Ray head of our own on loopback, in processes that end with this one."""

    def __init__(self, process: "subprocess.Popen[str]", folder: RayFolder, address: str) -> None:
        self._process = process
        self._folder = folder
        self.address = address

    @property
    def pid(self) -> int:
        """The process that all others of this Ray descend from."""
        return self._process.pid

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that let a process join."""
        return {**settings(loopback=True), "RAY_AUTH_TOKEN_PATH": str(self._folder.path / "token")}

    @classmethod
    def start(cls, resources: Mapping[str, float], log_file: Path | None = None) -> "LocalRay":
        """Start it and wait until it is ready; `resources` such as {"cloud1": 4, "cloud2": 4}."""
        folder = RayFolder.new()
        token = folder.path / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        environment = {**os.environ, **settings(loopback=True), "RAY_AUTH_TOKEN_PATH": str(token)}
        environment.pop("RAY_AUTH_TOKEN", None)
        environment.pop("RAY_ADDRESS", None)
        command = [
            sys.executable,
            "-m",
            "ppodc.cluster.ray_head",
            str(folder.path),
            json.dumps(resources),
        ]
        told = log_file or folder.path / "log"
        with open(told, "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,  # Ctrl-C is for our caller, who then stops us in order
            )
        started = cls(process, folder, "")
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        started.address = process.stdout.readline().strip()
        if not started.address:
            said = told.read_text(errors="replace").strip().rpartition("\n")[2]
            started.stop()
            raise RayUnusableError(
                "a local Ray could not be started; is the machine very busy, or short of memory or "
                f"disk? It said: {printable(said) or 'nothing'}"
            )
        return started

    def stop(self) -> None:
        """End it and remove its files; stopping twice is harmless."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        end_session(self._process.pid)
        self._folder.remove()

    def __enter__(self) -> "LocalRay":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _main() -> None:
    """Run a head until the starter closes our standard input or is gone."""
    folder, resources = RayFolder.join(Path(sys.argv[1])), json.loads(sys.argv[2])
    leaving = threading.Event()
    threading.Thread(target=end_with_ray, args=(leaving,), daemon=True).start()
    address = start_here(resources, folder)
    sys.stdout.write(address + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    leaving.set()
    ray_module().shutdown()
    folder.remove()  # the starter may be gone


if __name__ == "__main__":
    _main()
