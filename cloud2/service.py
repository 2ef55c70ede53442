"""C2 as a long-running service: owners' operations and C1's control operations on one socket.

It is a driver of C2's own Ray, which it starts or joins when the first job asks for workers.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloud2.follower import Follower
from ppodc.cluster.ray_cluster import Place
from ppodc.cluster.ray_workers import RayWorkers
from ppodc.errors import InputError
from ppodc.pairs import control_messages
from ppodc.service.config import Cloud2Config, load, peers
from ppodc.service.operations import owner_operations, until_signal
from ppodc.service.store import Store
from ppodc.transport.call_server import Answer, Handler, Operation, Peer
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from ppodc.transport.wire import Array, Body

_TIDY_SECONDS = 30.0

log = logging.getLogger(__name__)


def serve(config_file: Path, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready` hears the endpoint once the port is open."""
    config = load(config_file, Cloud2Config)
    with Store.open(config.store, "cloud2") as store:
        workers = RayWorkers(Place(config.ray_address, "cloud2", config.max_pairs))
        follower = Follower(store, config, workers)
        gateway = Gateway(
            config.listen,
            CurveKeys.load(config.key),
            peers(config),
            [*owner_operations(store), *control_operations(follower)],
        )
        stopped = threading.Event()
        tidy = threading.Thread(target=_tidy, args=(follower, stopped), daemon=True)
        tidy.start()
        try:
            with gateway:
                until_signal(lambda: ready(gateway.endpoint))
        finally:
            stopped.set()
            follower.stop()
            workers.close()


def control_operations(follower: Follower) -> list[Operation]:
    """What C1, and nobody else, may ask."""
    offered: list[tuple[str, type[Body], Callable[..., Body]]] = [
        (control_messages.UPLOADS, control_messages.Uploads, follower.uploads),
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
            raise InputError(f"this operation takes {count} arrays.")
        return do(body, *arrays), ()

    return handle


def _tidy(follower: Follower, stopped: threading.Event) -> None:
    while not stopped.wait(_TIDY_SECONDS):
        follower.free_idle()
