"""An enrolled owner that attacks both gateways, as a process of its own.

`python -m tests.campaigns.hostile_owner CONFIG` runs one attack after another, each for some
seconds at full speed and against both clouds at once, until its standard input is closed. It is for
gateways on this machine only.
"""

import contextlib
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import zmq

from ppodc.service.config import OwnerConfig, Remote, load
from ppodc.transport import wire
from ppodc.transport.call_client import Call
from ppodc.transport.curve_keys import CurveKeys

_TURN_SECONDS = 2.0
_LONGEST_SECONDS = 900.0  # after which it ends by itself
_MEGABYTE = bytes(1 << 20)
_CONNECTIONS = 200
_SILENT = 400


class HostileOwner:
    """Attacks on one gateway, one after another."""

    def __init__(self, remote: Remote, keys: CurveKeys) -> None:
        self._endpoint, self._server = remote.endpoint, remote.public_key.encode()
        self._keys = keys
        self._chance = random.Random(1)
        self._until = 0.0

    def turns(self) -> list[Callable[[], None]]:
        return [
            self.large_messages,
            self.unknown_operations,
            self.many_connections,
            self.bad_frames,
            self.endless_message,
            self.silent_connections,
        ]

    def attack(self) -> None:
        """Repeat all attacks forever."""
        while True:
            for turn in self.turns():
                self.take(turn)

    def take(self, turn: Callable[[], None]) -> None:
        """Run one attack, whatever the gateway does about it."""
        self._until = time.monotonic() + _TURN_SECONDS
        with contextlib.suppress(zmq.ZMQError, OSError):
            turn()
        time.sleep(0.01)

    def large_messages(self) -> None:
        with self._dealer() as dealer:
            while self._goes_on():
                _send(dealer, [_MEGABYTE] * 300)

    def unknown_operations(self) -> None:
        array, raw = np.zeros(900_000, np.uint64), wire.encode_body(None)
        body = wire.encode_body(Call(bytes(wire.DIGEST_BYTES), raw))
        with self._dealer() as dealer:
            number = 0
            while self._goes_on():
                number += 1
                parts = wire.encode(bytes(wire.SESSION_BYTES), number, "nothing", body, [array])
                _send(dealer, [bytes(part) for part in parts])

    def many_connections(self) -> None:
        while self._goes_on():
            with contextlib.ExitStack() as stack:
                for _ in range(_CONNECTIONS):
                    dealer = stack.enter_context(self._dealer())
                    _send(dealer, [b"x"])
                time.sleep(0.5)

    def bad_frames(self) -> None:
        with self._dealer() as dealer:
            while self._goes_on():
                _send(dealer, [self._chance.randbytes(200) for _ in range(3)])

    def endless_message(self) -> None:
        """Send a message that never ends: a forwarder passes on its first megabytes only."""
        with socket.create_server(("127.0.0.1", 0)) as between:
            threading.Thread(target=self._pass_on, args=(between,), daemon=True).start()
            with self._dealer(f"tcp://127.0.0.1:{between.getsockname()[1]}") as dealer:
                _send(dealer, [_MEGABYTE] * 64)
                while self._goes_on():
                    time.sleep(0.05)

    def silent_connections(self) -> None:
        host, port = self._address()
        with contextlib.ExitStack() as stack:
            for _ in range(_SILENT):
                stack.enter_context(socket.create_connection((host, port), 1.0))
            while self._goes_on():
                time.sleep(0.05)

    def _pass_on(self, between: socket.socket) -> None:
        with contextlib.suppress(OSError):
            source, _ = between.accept()
            with source, socket.create_connection(self._address()) as target:
                back = threading.Thread(target=_copy, args=(target, source, 1 << 40), daemon=True)
                back.start()
                _copy(source, target, 6 << 20)
                back.join(_TURN_SECONDS)

    def _address(self) -> tuple[str, int]:
        host, _, port = self._endpoint.removeprefix("tcp://").rpartition(":")
        return host, int(port)

    def _goes_on(self) -> bool:
        return time.monotonic() < self._until

    @contextlib.contextmanager
    def _dealer(self, endpoint: str = "") -> "Iterator[zmq.Socket[bytes]]":
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.curve_publickey, dealer.curve_secretkey = self._keys.public, self._keys.secret
            dealer.curve_serverkey = self._server
            dealer.linger, dealer.sndhwm, dealer.sndtimeo = 0, 2, 500
            dealer.connect(endpoint or self._endpoint)
            yield dealer


def _send(dealer: "zmq.Socket[bytes]", parts: list[bytes]) -> None:
    with contextlib.suppress(zmq.Again):
        dealer.send_multipart(parts, copy=False)


def _copy(source: socket.socket, target: socket.socket, limit: int) -> None:
    with contextlib.suppress(OSError):
        while limit > 0 and (piece := source.recv(min(limit, 65536))):
            limit -= len(piece)
            target.sendall(piece)


def _main() -> None:
    config = load(Path(sys.argv[1]), OwnerConfig)
    keys = CurveKeys.load(config.key)
    for remote in (config.cloud1, config.cloud2):
        if remote is not None:
            at = HostileOwner(remote, keys)
            threading.Thread(target=at.attack, daemon=True).start()
    threading.Timer(_LONGEST_SECONDS, lambda: os._exit(0)).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _main()
