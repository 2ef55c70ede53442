"""The listening end of a cloud: typed operations for known peers, each request done once.

Who calls is decided by the CURVE key alone: ZeroMQ refuses unknown keys, and each operation names
the roles that may call it. `CallDesk` answers; it takes a peer and the frames of a request and
returns the frames of the reply, whatever carries them. `Gateway` puts it behind a socket: one
thread owns the socket; operations run in small pools, owners apart from the other cloud, so that
neither can keep the other waiting.

What an operation raises as a PpodcError goes back as its code and text; anything else as "internal
error", with the details in the log only. Frames that do not decode are refused and logged, and the
service goes on.
"""

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import zmq

from ppodc.errors import (
    MAX_TEXT,
    AccessError,
    InternalError,
    PpodcError,
    StoppingError,
    WireError,
)
from ppodc.transport import wire
from ppodc.transport.call_client import REFUSAL, REPLY, Call, Refusal
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.wire import Array, Body
from ppodc.transport.zmq_socket import DEFAULT_GRACE, CurveSocket, Wake, proven_key

MAX_REQUEST_BYTES = 64 << 20
_THREADS = 8
_MAX_IN_FLIGHT = 32  # requests of one peer that wait or run
_KEPT_SESSIONS = 16  # per peer, each with its latest answer: a client has one request in flight
_QUEUE = 16  # messages per connection that ZeroMQ takes in or keeps ahead
_STOP_SECONDS = 10.0

log = logging.getLogger(__name__)

PeerRole = Literal["owner", "operator", "cloud1", "cloud2"]
Reply = list[wire.Part]
Answer = tuple[msgspec.Struct | None, Sequence[Array]]
Handler = Callable[["Peer", Any, tuple[Array, ...]], Answer]


@dataclass(frozen=True, slots=True)
class Peer:
    """Who a public key belongs to."""

    role: PeerRole
    name: str


@dataclass(frozen=True, slots=True)
class Operation:
    """What may be called: by whom, with which body, and who does it."""

    name: str
    roles: frozenset[PeerRole]
    request: type[Body]
    handler: Handler


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is to be performed, once; session and number are the client's."""

    peer: Peer
    session: bytes
    number: int
    call: Call
    message: wire.Message


@dataclass(slots=True)
class _ClientState:
    """One client of one peer: the numbers under way and the latest answer."""

    last: int = -1
    running: dict[int, bytes] = field(default_factory=dict)  # number -> digest
    answered: tuple[int, bytes, Reply] | None = None  # number, digest, reply


class CallDesk:
    """Answers requests, each once: one that comes again gets the stored reply, byte for byte.

    The same number with other content is refused. Whether content is the same is told by the
    digest that the client made; it is not made again here, in the thread that serves all peers,
    since who lies about it gets nothing but an earlier answer of its own. Any thread may call.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._operations = {operation.name: operation for operation in operations}
        self._clients: dict[Peer, OrderedDict[bytes, _ClientState]] = {}
        self._lock = threading.Lock()

    def answer(self, peer: Peer, parts: Sequence[wire.Part]) -> Reply | None:
        """The reply to these frames; None if the same request is being performed just now."""
        taken = self.take(peer, parts)
        return self.perform(taken) if isinstance(taken, Request) else taken

    def take(self, peer: Peer, parts: Sequence[wire.Part]) -> Request | Reply | None:
        """A new request to `perform`, or the reply to an old or bad one, or None as above."""
        session, number = bytes(wire.SESSION_BYTES), 0
        try:
            frame = wire.decode(parts, MAX_REQUEST_BYTES)
            session, number, message = frame.session, frame.seq, frame.message
            call = message.decode(Call)
            with self._lock:
                return self._admit(Request(peer, session, number, call, message))
        except PpodcError as error:
            log.warning("refused %s %s: %s", peer.role, peer.name, error)
            return _refusal(session, number, error)

    def perform(self, request: Request) -> Reply:
        """Do what is asked and keep the reply."""
        try:
            reply = self._perform(request)
        except PpodcError as error:
            return self.refuse(request, error)
        except Exception:
            peer = request.peer
            log.exception("%s of %s %s failed", request.message.kind, peer.role, peer.name)
            return self.refuse(request, InternalError("internal error; the service's log has it."))
        return self._keep(request, reply)

    def refuse(self, request: Request, error: PpodcError) -> Reply:
        """Answer a request with this error; that is its answer for good."""
        peer = request.peer
        log.warning("refused %s %s %s: %s", peer.role, peer.name, request.message.kind, error)
        return self._keep(request, _refusal(request.session, request.number, error))

    def _admit(self, request: Request) -> Request | Reply | None:
        client, number, digest = self._client(request), request.number, request.call.digest
        if client.answered is not None and client.answered[0] == number:
            _check_same(number, client.answered[1], digest)
            return client.answered[2]
        if number in client.running:
            _check_same(number, client.running[number], digest)
            return None
        if number <= client.last:
            raise WireError(f"request {number} was answered long ago.")
        if sum(len(c.running) for c in self._clients[request.peer].values()) >= _MAX_IN_FLIGHT:
            raise WireError(f"over {_MAX_IN_FLIGHT} requests at once; wait for their answers.")
        client.last = number
        client.running[number] = digest
        return request

    def _client(self, request: Request) -> _ClientState:
        clients = self._clients.setdefault(request.peer, OrderedDict())
        client = clients.setdefault(request.session, _ClientState())
        clients.move_to_end(request.session)
        idle = [session for session, other in clients.items() if not other.running]
        for session in idle[:-_KEPT_SESSIONS]:
            del clients[session]
        return client

    def _perform(self, request: Request) -> Reply:
        op, peer = request.message.kind, request.peer
        operation = self._operations.get(op)
        if operation is None:
            raise AccessError(f"there is no operation {op!r} here.")
        if peer.role not in operation.roles:
            raise AccessError(f"{op!r} is not for the role {peer.role!r}.")
        body = wire.decode_body(request.call.body, operation.request, op)
        reply, arrays = operation.handler(peer, body, request.message.arrays)
        parts = wire.encode(request.session, request.number, REPLY, wire.encode_body(reply), arrays)
        return [bytes(part) for part in parts]  # kept for a resend; the arrays may change

    def _keep(self, request: Request, reply: Reply) -> Reply:
        with self._lock:
            client = self._client(request)
            client.running.pop(request.number, None)
            client.answered = request.number, request.call.digest, reply
        return reply


def _check_same(number: int, before: bytes, now: bytes) -> None:
    if before != now:
        raise WireError(f"request {number} came again with other content.")


def _refusal(session: bytes, number: int, error: PpodcError) -> Reply:
    body = wire.encode_body(Refusal(error.code, str(error)[:MAX_TEXT]))
    return wire.encode(session, number, REFUSAL, body)


class Gateway:
    """Serves operations to the peers it knows, from `start` to `stop`."""

    def __init__(
        self,
        endpoint: str,
        own: CurveKeys,
        peers: Mapping[bytes, Peer],
        operations: Iterable[Operation],
        *,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        self._desk = CallDesk(operations)
        self._peers = dict(peers)
        self._socket = CurveSocket.listening(endpoint, own, self._peers, grace, _QUEUE)
        self.endpoint = self._socket.endpoint
        self._in_flight = 0  # changed by the socket's thread alone
        self._finished: queue.SimpleQueue[tuple[bytes, Reply]] = queue.SimpleQueue()
        self._wake = Wake()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._owners = ThreadPoolExecutor(_THREADS, "owners")
        self._clouds = ThreadPoolExecutor(_THREADS, "clouds")

    def __enter__(self) -> "Gateway":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to serve, in threads of its own."""
        self._thread.start()
        log.info("serving %d peers at %s", len(self._peers), self.endpoint)

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
        for pool in (self._owners, self._clouds):
            pool.shutdown(wait=False)
        deadline = time.monotonic() + _STOP_SECONDS
        while self._in_flight and time.monotonic() < deadline:
            self._send_finished(block=0.1)
        self._socket.close(linger=1.0)
        log.info("stopped serving at %s", self.endpoint)

    def on_event(self, event: int, value: int) -> None:
        """Connections come and go; a client that reconnects asks again by itself."""

    def on_message(self, parts: list[zmq.Frame]) -> None:
        """Take in one message; whatever is wrong with it stays here."""
        peer, address = self._peers.get(proven_key(parts)), parts[0].bytes
        if peer is None or self._stopping.is_set():
            return
        try:
            taken = self._desk.take(peer, [part.buffer for part in parts[1:]])
        except Exception:
            log.exception("a message of %s %s could not be taken in", peer.role, peer.name)
            return
        if isinstance(taken, Request):
            self._in_flight += 1
            pool = self._owners if peer.role in ("owner", "operator") else self._clouds
            pool.submit(self._serve, address, taken)
        elif taken is not None:
            self._socket.send(taken, address)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._socket.lock:
                    self._send_finished()
                    self._socket.pump(self)
                    # Whoever finishes or stops sets the wake under the lock: none is missed.
                    if not self._stopping.is_set():
                        self._socket.wait(self._wake, 1.0)
            except Exception:
                log.exception("taking in messages failed; going on")
                self._stopping.wait(0.1)

    def _rouse(self) -> None:
        with self._socket.lock:
            self._wake.set()

    def _serve(self, address: bytes, request: Request) -> None:
        """In a pool's thread: do it, and hand the reply to the socket's thread."""
        if self._stopping.is_set():
            stopping = StoppingError("the service is stopping; do the same again once it runs.")
            reply = self._desk.refuse(request, stopping)
        else:
            reply = self._desk.perform(request)
        self._finished.put((address, reply))
        self._rouse()

    def _send_finished(self, block: float = 0.0) -> None:
        while True:
            try:
                address, reply = self._finished.get(block > 0, block or None)
            except queue.Empty:
                return
            self._in_flight -= 1
            with self._socket.lock:
                self._socket.send(reply, address)  # a caller that is gone asks again
