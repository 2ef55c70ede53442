"""A call server behind a port: it counts, decodes and performs requests, and sends the answers.

Bytes pass the port guard, which holds every key to its budget, and ZeroMQ, which decrypts and
authenticates. One thread owns ZeroMQ's socket and only hands messages on: a limited number at a
time, then answers go out. Another thread decodes, in order of arrival; a small pool performs.
A message counts against its sender's budget until it is answered.

A gateway serves one kind of callers. A cloud that has owners and another cloud as callers gives
each a gateway of its own, so that neither can keep the other waiting.
"""

import logging
import queue
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import zmq

from ppodc.errors import ChannelError, StoppingError
from ppodc.transport.call_server import CallServer, Operation, Peer, Reply, Request
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.port_guard import Limits, PortGuard
from ppodc.transport.zmq_socket import DEFAULT_GRACE, CurveSocket, Wake, proven_key, wire_size

_THREADS = 4
_WAITING = 256  # messages taken from ZeroMQ that are not decoded yet
_AT_ONCE = 32  # messages, then answers go out
_QUEUE = 16  # messages per connection that ZeroMQ takes in or keeps ahead
_STOP_SECONDS = 10.0
_BEHIND = "tcp://127.0.0.1:0"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A message and the receiver of its answer; `place` names its connection at the port guard."""

    peer: Peer
    address: bytes
    place: str
    size: int


class Gateway:
    """Serves operations to the peers it knows, from `start` to `stop`."""

    def __init__(
        self,
        endpoint: str,
        own: CurveKeys,
        peers: Mapping[bytes, Peer],
        operations: Iterable[Operation],
        *,
        limits: Limits | None = None,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        limits = limits or Limits()
        self._peers = dict(peers)
        self._keys = {peer: key for key, peer in self._peers.items()}
        self._server = CallServer(
            operations,
            max_in_flight=limits.key_requests,
            max_request_bytes=limits.request_bytes,
            on_offence=lambda peer: self._guard.offence(self._keys.get(peer, peer.key.encode())),
        )
        self._guard = PortGuard(endpoint, limits)
        self.endpoint = self._guard.endpoint
        try:
            self._socket = CurveSocket.listening(
                _BEHIND, own, self._peers, grace, _QUEUE, self._guard.admit
            )
        except ChannelError:
            self._guard.close()
            raise
        self._in_flight = 0  # changed by the socket's thread alone
        self._finished: queue.SimpleQueue[tuple[_Arrival, Reply | None]] = queue.SimpleQueue()
        self._wake = Wake()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._decoder = ThreadPoolExecutor(1, "decode")
        self._pool = ThreadPoolExecutor(_THREADS, "perform")

    def __enter__(self) -> "Gateway":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to serve, in threads of its own."""
        self._thread.start()
        self._guard.open(int(self._socket.endpoint.rpartition(":")[2]))
        log.info("serving %d peers at %s", len(self._peers), self.endpoint)

    def let_in(self, peers: Mapping[bytes, Peer]) -> None:
        """Serve these peers from now on. Messages of others are dropped."""
        self._peers = dict(peers)
        self._keys = {peer: key for key, peer in self._peers.items()}
        self._socket.let_in(self._peers)

    def stop(self) -> None:
        """Take no more requests, finish those that run, answer them, and close the port.

        Safe to call twice and from a signal handler's thread.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._rouse()
        if self._thread.ident is not None:
            self._thread.join()
        deadline = time.monotonic() + _STOP_SECONDS
        while self._in_flight and time.monotonic() < deadline:
            self._send_finished(block=0.1)
        for pool in (self._decoder, self._pool):
            pool.shutdown(wait=False)
        self._socket.close(linger=1.0)
        self._guard.close()
        log.info("stopped serving at %s", self.endpoint)

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive() and not self._stopping.is_set()

    def outcomes(self) -> dict[tuple[str, str], int]:
        """Return the counts of outcomes by operation (`CallServer.outcomes`)."""
        return self._server.outcomes()

    def inside(self) -> tuple[int, int]:
        """(connections, bytes that are on their way in or out)."""
        return self._guard.inside()

    def on_event(self, event: int, value: int) -> None:
        """Connections come and go; a client that reconnects asks again by itself."""

    def on_message(self, parts: list[zmq.Frame]) -> None:
        """Hand one message on. Decoding it finds every fault."""
        peer = self._peers.get(proven_key(parts))
        place = str(parts[-1].get("Peer-Address"))
        frames = [part.buffer for part in parts[1:]]
        size = wire_size(frames)
        if peer is None or self._stopping.is_set():
            self._guard.finished(place, size)
            return
        arrival = _Arrival(peer, parts[0].bytes, place, size)
        self._in_flight += 1
        self._decoder.submit(self._take, arrival, frames)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._socket.lock:
                    self._send_finished()
                    room = max(0, _WAITING - self._in_flight)
                    empty = self._socket.pump(self, min(_AT_ONCE, room))
                    self._server.tidy()
                    # Whoever finishes or stops sets the wake under the lock: none is missed.
                    if (empty or not room) and not self._stopping.is_set():
                        self._socket.wait(self._wake, 1.0)
            except Exception:
                log.exception("taking in messages failed; going on")
                self._stopping.wait(0.1)

    def _rouse(self) -> None:
        with self._socket.lock:
            self._wake.set()

    def _take(self, arrival: _Arrival, frames: list[memoryview]) -> None:
        """In the decoder's thread."""
        taken: Request | Reply | None = None
        try:
            taken = self._server.take(arrival.peer, frames)
        except Exception:
            log.exception("a message of %s could not be taken in", arrival.peer)
        if isinstance(taken, Request):
            self._pool.submit(self._perform, arrival, taken)
        else:
            self._finish(arrival, taken)

    def _perform(self, arrival: _Arrival, request: Request) -> None:
        """In a pool's thread."""
        if self._stopping.is_set():
            stopping = StoppingError("the service is stopping; do the same again once it runs.")
            self._finish(arrival, self._server.refuse(request, stopping))
        else:
            self._finish(arrival, self._server.perform(request))

    def _finish(self, arrival: _Arrival, reply: Reply | None) -> None:
        """Hand a reply to the socket's thread."""
        self._finished.put((arrival, reply))
        self._rouse()

    def _send_finished(self, block: float = 0.0) -> None:
        while True:
            try:
                arrival, reply = self._finished.get(block > 0, block or None)
            except queue.Empty:
                return
            self._in_flight -= 1
            if reply is not None:
                size = wire_size(reply)
                self._guard.answering(arrival.place, size)
                with self._socket.lock:
                    sent = self._socket.send(reply, arrival.address)
                if not sent:  # a caller that is gone, or does not read, asks again
                    self._guard.answering(arrival.place, -size)
            self._guard.finished(arrival.place, arrival.size)
