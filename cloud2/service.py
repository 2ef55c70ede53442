"""C2 as a long-running service: owners' operations and C1's control operations on one socket.

It is a driver of C2's own Ray, which it starts or joins when the first job asks for workers.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloud2.follower import Follower
from ppodc import control
from ppodc.config import Cloud2Config, Peer, load, peers
from ppodc.curve_keys import CurveKeys
from ppodc.errors import InputError
from ppodc.gateway import Answer, Gateway, Handler, Operation
from ppodc.owner_operations import owner_operations
from ppodc.serving import until_signal
from ppodc.store import Store
from ppodc.wire import Array, Body

_TIDY_SECONDS = 30.0

log = logging.getLogger(__name__)


def serve(config_file: Path, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; `ready` hears the endpoint once the port is open."""
    config = load(config_file, Cloud2Config)
    with Store.open(config.store, "cloud2") as store:
        follower = Follower(store, config)
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


def control_operations(follower: Follower) -> list[Operation]:
    """What C1, and nobody else, may ask."""
    offered: list[tuple[str, type[Body], Callable[..., Body]]] = [
        (control.UPLOADS, control.Uploads, follower.uploads),
        (control.SEAL, control.Seal, follower.seal),
        (control.OPEN, control.Open, follower.open),
        (control.STEP, control.RunStep, follower.step),
        (control.POLL, control.Poll, follower.poll),
        (control.REPLACE, control.Replace, follower.replace),
        (control.SETTLE, control.Settle, follower.settle),
    ]
    return [
        Operation(name, frozenset({"cloud1"}), request, _handler(do, int(name == control.SEAL)))
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
