"""A Ray head of our own in a process of its own: `python -m ppodc.cluster.ray_head`."""

import contextlib
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from ppodc.cluster.offspring import end_session
from ppodc.cluster.ray_cluster import STARTING, end_with_ray, ray_module, settings, start_here
from ppodc.cluster.ray_folder import RayFolder
from ppodc.errors import RayUnusableError, printable

_STOP_SECONDS = 20.0
_ATTEMPTS = 3  # Ray gives up after half a minute in which its node did not come
# Its own driver, this process, has no work for workers that Ray would start ahead.
_NO_WORKERS_YET = {"RAY_prestart_worker_first_driver": "0"}

log = logging.getLogger(__name__)


class LocalRay:
    """A Ray head of our own on loopback, in processes that end with this one."""

    def __init__(self, resources: Mapping[str, float], port: int, log_file: Path | None) -> None:
        self._resources, self._port = dict(resources), port
        self._folder = RayFolder.new()
        self._log = log_file or self._folder.path / "log"
        token = self._folder.path / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        self.address = f"127.0.0.1:{port}" if port else ""
        self._process = self._started()

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
        started = cls.begin(resources, log_file=log_file)
        started.ready()
        return started

    @classmethod
    def begin(
        cls, resources: Mapping[str, float], port: int = 0, log_file: Path | None = None
    ) -> "LocalRay":
        """Start it in the background, until `ready`; its address is known now if the port is."""
        return cls(resources, port, log_file)

    def ready(self) -> None:
        """Wait until it is ready; on a machine that is too busy for it, start it up to 3 times."""
        for attempt in range(1, _ATTEMPTS + 1):
            assert self._process.stdout is not None  # noqa: S101 - it is a pipe
            address = self._process.stdout.readline().strip()
            if address:
                self.address = address
                return
            self._end()
            if attempt < _ATTEMPTS:
                log.warning("Ray did not start (%s), starting it again", self._last_words())
                self._process = self._started()
        said = self._last_words()
        self.stop()
        raise RayUnusableError(
            f"a local Ray could not be started in {_ATTEMPTS} attempts; is the machine very busy, "
            f"or short of memory or disk? It said: {said}"
        )

    def _started(self) -> "subprocess.Popen[str]":
        environment = {**os.environ, **self.environment, **STARTING, **_NO_WORKERS_YET}
        environment.pop("RAY_AUTH_TOKEN", None)
        environment.pop("RAY_ADDRESS", None)
        if self._port:
            environment["RAY_GCS_SERVER_PORT"] = str(self._port)
        command = [sys.executable, "-m", "ppodc.cluster.ray_head"]
        with self._log.open("ab") as screen:
            return subprocess.Popen(
                [*command, str(self._folder.path), json.dumps(self._resources)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=screen,
                env=environment,
                text=True,
                start_new_session=True,  # Ctrl-C is for our caller, who then stops us in order
            )

    def _last_words(self) -> str:
        said = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
        return printable(said) or "nothing"

    def _end(self) -> None:
        """End the processes."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        end_session(self._process.pid)

    def stop(self) -> None:
        """End it and remove its files; stopping twice is harmless."""
        self._end()
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
