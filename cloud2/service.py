"""C2 as a long-running service: owners at one port, C1's control operations at another.

Each has a gateway of its own, with its sockets, threads and budgets: whatever owners send, the
other cloud is served beside it, and only it is let in there.

A process beside it is the driver of C2's own Ray, which starts or joins it when the first job asks
for workers: whatever becomes of Ray, this one serves.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cloud2.follower import Follower
from ppodc.cluster.ray_cluster import RayPlacement
from ppodc.cluster.ray_workers import RayWorkers
from ppodc.errors import ProtocolError
from ppodc.pairs import control_messages
from ppodc.service.admitted import LOOK_SECONDS, Doorkeeper, callers
from ppodc.service.config import Cloud2Config, load, owners_of, peers
from ppodc.service.health import health_endpoint, service_checks
from ppodc.service.metrics import ServiceMetrics
from ppodc.service.operations import owner_operations
from ppodc.service.running import (
    forget_old,
    limits,
    raise_descriptor_limit,
    regularly,
    until_signal,
)
from ppodc.service.spec_check import spec_check
from ppodc.service.store import Store
from ppodc.transport.call_server import Answer, Handler, Operation, Peer
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from ppodc.transport.port_guard import Limits
from ppodc.transport.wire import Array, Body

# Of cloud 1, which seals long lists of uploads.
_CONTROL = Limits(
    connections=64, key_connections=16, key_bytes=48 << 20, bytes=64 << 20, request_bytes=32 << 20
)


def serve(config_file: Path, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready` hears the endpoint once the port is open."""
    config = load(config_file, Cloud2Config)
    raise_descriptor_limit()
    with Store.open(config.store, "cloud2") as store:
        workers = RayWorkers(RayPlacement(config.ray_address, "cloud2", config.max_pairs))
        follower = Follower(store, config, workers)
        keys, known = CurveKeys.load(config.key), owners_of(config)
        control = Gateway(
            config.listen_control,
            keys,
            {key: peer for key, peer in peers(config).items() if key not in known},
            control_operations(follower),
            limits=_CONTROL,
        )
        gateway = Gateway(
            config.listen,
            keys,
            callers(config_file, config),
            owner_operations(store, config.quotas, spec_check(config_file, config)),
            limits=limits(config),
        )
        gateways = {"owners": gateway, "cloud 1": control}
        chores = (follower.free_idle, partial(forget_old, store, config.quotas))
        try:
            with (
                regularly(*chores),
                control,
                gateway,
                regularly(
                    Doorkeeper(config_file, config, gateway, store).look, seconds=LOOK_SECONDS
                ),
                health_endpoint(
                    config.health,
                    ServiceMetrics(
                        store, gateways, config.pools, lambda: (workers.nodes(), workers.deaths())
                    ),
                    service_checks(store, gateways),
                ),
            ):
                until_signal(lambda: ready(gateway.endpoint))
        finally:
            follower.stop()
            workers.close()


def control_operations(follower: Follower) -> list[Operation]:
    """The operations for C1 alone."""
    offered: list[tuple[str, type[Body], Callable[..., Body]]] = [
        (control_messages.UPLOADS, control_messages.Uploads, follower.uploads),
        (control_messages.TERMS, control_messages.Terms, follower.terms),
        (control_messages.SEAL, control_messages.Seal, follower.seal),
        (control_messages.OPEN, control_messages.Open, follower.open),
        (control_messages.STEP, control_messages.RunStep, follower.step),
        (control_messages.POLL, control_messages.Poll, follower.poll),
        (control_messages.REPLACE, control_messages.Replace, follower.replace),
        (control_messages.SETTLE, control_messages.Settle, follower.settle),
    ]
    return [
        Operation(
            name, frozenset({"cloud1"}), request, _handler(do, int(name == control_messages.SEAL))
        )
        for name, request, do in offered
    ]


def _handler(do: Callable[..., Body], count: int) -> Handler:
    def handle(_peer: Peer, body: Any, arrays: tuple[Array, ...]) -> Answer:
        if len(arrays) != count:
            raise ProtocolError(f"this operation takes {count} arrays.")
        return do(body, *arrays), ()

    return handle
