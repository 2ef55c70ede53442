"""Joining a Ray cluster as a driver, or starting one inside this process.

Whoever reaches a Ray cluster can run code on it, so a Ray that is started here listens on loopback
only, asks for a random token, has no dashboard and keeps its files where only this user may look.
It belongs to the process that started it and ends with it, however that process ends; no other Ray
on the machine is touched. That process is never a gateway or a master (`driver_process`).
"""

import contextlib
import json
import os
import secrets
import select
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from ppodc.cluster.offspring import children
from ppodc.cluster.ray_folder import RayFolder, private_files
from ppodc.errors import RayUnusableError
from ppodc.extras import named_if_missing

NAMESPACE = "ppodc"
_OBJECT_STORE_BYTES = 256 << 20
_REACH_SECONDS = 5.0
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_LOOK_SECONDS = 1.0
# Ray's GCS takes a raylet that does not answer for dead after 15 s instead of a minute.
_HEALTH_CHECKS = {
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
}
# Ray ends a node whose agents have not come after 30 s, which a busy machine needs to load them.
STARTING = {"RAY_agent_register_timeout_ms": "120000"}
# Ray would wait a minute for a node of somebody else's cluster to appear on this machine.
_WAITS = {"RAY_gcs_server_request_timeout_seconds": "15"}
_NEEDED = ("gcs_server", "raylet")  # processes without which Ray is dead
_CREDENTIALS = struct.Struct("3i")  # of a socket's other end: pid, user, group


@dataclass(frozen=True, slots=True)
class RayPlacement:
    """Placement of a cloud's workers: `address` is "local", "auto" or HOST:PORT of a Ray head."""

    address: str
    resource: str  # offered by the nodes of this cloud, one for each worker
    workers: int  # how many a "local" Ray offers

    @property
    def foreign(self) -> bool:
        """Whether another party starts and repairs this Ray."""
        return self.address != "local"

    def __str__(self) -> str:
        at = f" at {self.address!r}" if self.foreign else ""
        return f"the Ray of {self.resource}{at}"


def connect(place: RayPlacement, folder: RayFolder) -> RayPlacement:
    """Make this process a driver at that place; `folder` is for the files of a Ray it starts.

    What is given back names the head that was found for "auto".
    """
    _environment(place)
    place = _found(place)
    _check_reachable(place)
    try:
        if not place.foreign:
            start_here({place.resource: float(place.workers)}, folder)
        else:
            ray_module().init(
                address=place.address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level="ERROR",
            )
    except (ConnectionError, RuntimeError, OSError, ValueError) as error:
        raise RayUnusableError(
            f"no Ray cluster of {place.resource} can be used at {place.address!r} "
            f"({type(error).__name__}). Check ray_address in its configuration, Ray's token "
            "(RAY_AUTH_TOKEN_PATH), and that the head and a Ray node on this machine are running."
        ) from error
    return place


def _found(place: RayPlacement) -> RayPlacement:
    """The placement with HOST:PORT for "auto", looked up where Ray would: it may be dead.

    Ray would take the one that was started last, whosever it is; here several are refused.
    """
    if place.address != "auto":
        return place
    ray_module()
    from ray._private.services import canonicalize_bootstrap_address, find_gcs_addresses

    known: Any = find_gcs_addresses
    several = [] if os.environ.get("RAY_ADDRESS") else sorted(known())
    if len(several) > 1:
        raise RayUnusableError(
            f"several Ray clusters run on this machine ({', '.join(several)}), and one of them may "
            f"be somebody else's. Name the head of {place.resource}: HOST:PORT as ray_address in "
            "the configuration, or in RAY_ADDRESS."
        )
    address = None
    with contextlib.suppress(ConnectionError, ValueError):
        address = canonicalize_bootstrap_address("auto")
    if address is None:
        raise RayUnusableError(
            f"no Ray cluster of {place.resource} is known on this machine. Start it here, or name "
            "its head: HOST:PORT as ray_address in the configuration, or in RAY_ADDRESS."
        )
    return replace(place, address=address)


def _check_reachable(place: RayPlacement) -> None:
    """Fail at once if nothing listens there; Ray itself would retry for minutes."""
    host, _, port = place.address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise RayUnusableError(
            f"no Ray head of {place.resource} listens at {place.address}. Start it, or correct "
            "ray_address in the configuration."
        ) from error


def end_with_ray(leaving: threading.Event) -> None:
    """End this process at once when the Ray that it starts, or has started, loses a process.

    For a thread of its own, begun before Ray, which would itself notice after half a minute and
    not let the process go in order. It is over once we are `leaving`.
    """
    seen: dict[int, str] = {}
    while not leaving.wait(_LOOK_SECONDS):
        now = children()
        seen |= {pid: name for pid, (name, _) in now.items() if name in _NEEDED}
        gone = [name for pid, name in seen.items() if pid not in now or not now[pid][1]]
        if gone and not leaving.is_set():
            end_at_once(f"its process {gone[0]} is gone")


def end_at_once(reason: str) -> NoReturn:
    """End this process with a last message, even if Ray's threads still wait."""
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()
    os._exit(1)


def offers(resource: str) -> bool:
    """Whether the cluster this process is a driver of has nodes with this resource."""
    return bool(ray_module().cluster_resources().get(resource, 0))


def living_nodes() -> dict[str, str]:
    """The nodes of the cluster that its GCS takes for alive: sockets of their raylets by id."""
    listed = ray_module().nodes()
    return {node["NodeID"]: node["RayletSocketName"] for node in listed if node["Alive"]}


class OwnNode:
    """The node that this driver belongs to: when it is gone no worker starts any more, not even on
    other nodes or on one that takes its place, whereas another driver would start them.

    Ray's GCS may take a quarter of a minute to notice; the process of the raylet shows it at once.
    """

    def __init__(self) -> None:
        self._id = ray_module().get_runtime_context().get_node_id()
        self._raylet = _process_behind(living_nodes().get(self._id, ""))

    def fault(self, living: Mapping[str, str]) -> str:
        """The fault of the cluster if the GCS takes these nodes for alive; empty: none."""
        if self._raylet is not None and select.select([self._raylet], [], [], 0)[0]:
            return "its raylet is gone"
        return "" if self._id in living else "its raylet does not answer"


def _process_behind(socket_name: str) -> int | None:
    """A descriptor to be read from when the process ends that listens there; None if not seen."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
        line.connect(socket_name)
        told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return os.pidfd_open(_CREDENTIALS.unpack(told)[0])
    return None


def check_workers(place: RayPlacement, wanted: int) -> None:
    """Refuse a request at once if the cluster can never place it."""
    offered = int(ray_module().cluster_resources().get(place.resource, 0))
    if offered < wanted:
        raise RayUnusableError(
            f"{wanted} workers are wanted, but the Ray cluster at {place.address!r} offers "
            f"{offered} {place.resource!r} resources. Use fewer pairs, or start nodes with "
            f"--resources '{json.dumps({place.resource: wanted})}'."
        )


def settings(*, loopback: bool) -> dict[str, str]:
    """Environment variables for Ray."""
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    if loopback:
        # Despite its name: with 0 Ray binds loopback instead of all interfaces, on Linux too.
        settings["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    return settings


def _environment(place: RayPlacement) -> None:
    """Ray reads these once, when it is imported."""
    host = place.address.rpartition(":")[0]
    loopback = not place.foreign or host in _LOOPBACK
    times = _WAITS if place.foreign else {**_HEALTH_CHECKS, **STARTING}
    for name, value in {**settings(loopback=loopback), **times}.items():
        os.environ.setdefault(name, value)
    if not place.foreign and "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def ray_module() -> Any:
    """Ray, loaded when it is used: it reads its settings from the environment then."""
    with named_if_missing():
        import ray

    return ray


def start_here(resources: Mapping[str, float], folder: RayFolder) -> str:
    """A Ray head whose processes die with this one; its address."""
    with private_files():
        context = ray_module().init(
            num_cpus=os.cpu_count() or 1,
            resources=dict(resources),
            namespace=NAMESPACE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=_OBJECT_STORE_BYTES,
            _node_ip_address="127.0.0.1",
            _temp_dir=str(folder.for_ray),
        )
    return str(context.address_info["gcs_address"])
