"""Ray as this program uses it: connecting to a cluster, or running one on this machine.

Whoever reaches a Ray cluster can run code on it, so a Ray that is started here listens on loopback
only, asks for a random token, and has no dashboard. It belongs to the process that started it and
ends with it, however that process ends; no other Ray on the machine is touched.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppodc.errors import RayUnusableError

NAMESPACE = "ppodc"
_OBJECT_STORE_BYTES = 256 << 20
_REACH_SECONDS = 5.0
_STOP_SECONDS = 20.0
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cloud's workers run: `address` is "local", "auto" or HOST:PORT of a Ray head."""

    address: str
    resource: str  # what the nodes of this cloud offer, one for each worker
    workers: int  # how many a "local" Ray offers


def connect(place: Place) -> bool:
    """Make this process a driver at that place; False if it is a driver already."""
    _environment(place)
    _check_reachable(place.address)
    ray = _ray()
    if ray.is_initialized():
        return False
    try:
        if place.address == "local":
            _start_here({place.resource: float(place.workers)})
        else:
            ray.init(
                address=place.address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level="ERROR",
            )
    except (ConnectionError, RuntimeError, OSError, ValueError) as error:
        raise RayUnusableError(
            f"no Ray cluster can be used at {place.address!r} ({type(error).__name__}). Check "
            "ray_address in the configuration, Ray's token (RAY_AUTH_TOKEN_PATH), and that the "
            "head is running."
        ) from error
    return True


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes before it says that nobody is there."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
    except OSError as error:
        raise RayUnusableError(
            f"no Ray head listens at {address}. Start it, or correct ray_address in the "
            "configuration."
        ) from error


@contextlib.contextmanager
def connected(place: Place) -> Iterator[None]:
    """A driver for the time of the block, unless this process is one anyway."""
    ours = connect(place)
    try:
        yield
    finally:
        if ours:
            disconnect()


def disconnect() -> None:
    """Leave the cluster; workers that this process started end."""
    if "ray" in sys.modules:
        _ray().shutdown()


def offers(resource: str) -> bool:
    """Whether the cluster this process is a driver of has nodes with this resource."""
    return bool(_ray().cluster_resources().get(resource, 0))


def check_workers(place: Place, wanted: int) -> None:
    """Refuse at once what the cluster could never place."""
    offered = int(_ray().cluster_resources().get(place.resource, 0))
    if offered < wanted:
        raise RayUnusableError(
            f"{wanted} workers are wanted, but the Ray cluster offers {offered} "
            f"{place.resource!r} resources. Use fewer pairs, or start nodes with "
            f"--resources '{json.dumps({place.resource: wanted})}'."
        )


class LocalRay:
    """A Ray head of our own on loopback, in processes that end with this one."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path, address: str) -> None:
        self._process = process
        self._folder = folder
        self.address = address

    @property
    def pid(self) -> int:
        """The process that all others of this Ray descend from."""
        return self._process.pid

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to be let in."""
        return {**_settings(loopback=True), "RAY_AUTH_TOKEN_PATH": str(self._folder / "token")}

    @classmethod
    def start(cls, resources: Mapping[str, float], log_file: Path | None = None) -> "LocalRay":
        """Start it and wait until it is ready; `resources` such as {"cloud1": 4, "cloud2": 4}."""
        # Ray puts Unix sockets below this folder, whose path must stay short.
        folder = Path(tempfile.mkdtemp(prefix="ppodc-ray-"))
        token = folder / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        environment = {**os.environ, **_settings(loopback=True), "RAY_AUTH_TOKEN_PATH": str(token)}
        environment.pop("RAY_AUTH_TOKEN", None)
        environment.pop("RAY_ADDRESS", None)
        command = [
            sys.executable,
            "-m",
            "ppodc.cluster.ray_cluster",
            str(folder),
            json.dumps(resources),
        ]
        with open(log_file or folder / "log", "ab") as log:
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
            started.stop()
            raise RayUnusableError(
                "a local Ray could not be started; is there enough memory and disk?"
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
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "LocalRay":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _settings(*, loopback: bool) -> dict[str, str]:
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    if loopback:
        # Despite its name: with 0 Ray binds loopback instead of all interfaces, on Linux too.
        settings["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    return settings


def _environment(place: Place) -> None:
    """Ray reads these once, when it is imported."""
    host = place.address.rpartition(":")[0]
    loopback = place.address == "local" or host in _LOOPBACK
    for name, value in _settings(loopback=loopback).items():
        os.environ.setdefault(name, value)
    if place.address == "local" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _ray() -> Any:
    import ray

    return ray


def _start_here(resources: Mapping[str, float], folder: Path | None = None) -> str:
    """A Ray head whose processes die with this one; its address."""
    context = _ray().init(
        num_cpus=os.cpu_count() or 1,
        resources=dict(resources),
        namespace=NAMESPACE,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=_OBJECT_STORE_BYTES,
        _node_ip_address="127.0.0.1",
        _temp_dir=None if folder is None else str(folder),
    )
    return str(context.address_info["gcs_address"])


def _main() -> None:
    """Run a head until the starter closes our standard input or is gone."""
    folder, resources = Path(sys.argv[1]), json.loads(sys.argv[2])
    # Ray opens its own folder to everyone; ours around it, with the token, stays closed.
    address = _start_here(resources, folder / "r")
    sys.stdout.write(address + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    _ray().shutdown()
    shutil.rmtree(folder, ignore_errors=True)  # the starter may be gone


if __name__ == "__main__":
    _main()
