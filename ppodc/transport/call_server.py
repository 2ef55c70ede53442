"""The listening end of a cloud: one ROUTER with CURVE and an allow-list, and typed operations.

Who calls is decided by the CURVE key alone: ZeroMQ refuses unknown keys (ZAP), and each operation
names the roles that may call it. One thread owns the socket; handlers run in small pools, owners
apart from the other cloud, so that neither can keep the other waiting. What a handler raises as a
PpodcError goes back as text; anything else as "internal error", with the details in the log only.
Frames that do not decode are refused and logged, and the service goes on.
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

from ppodc.errors import MAX_TEXT, AccessError, InternalError, PpodcError, StoppingError, WireError
from ppodc.transport import wire
from ppodc.transport.call_client import REFUSAL, REPLY, Call, Refusal
from ppodc.transport.curve_keys import CurveKeys, check_public
from ppodc.transport.wire import Array, Body
from ppodc.transport.zmq_listener import DEFAULT_GRACE, _ServerLink
from ppodc.transport.zmq_socket import Wake

MAX_REQUEST_BYTES = 64 << 20
_THREADS = 8
_MAX_IN_FLIGHT = 32  # requests of one peer that wait or run
_KEPT_SESSIONS = 16  # per peer, each with its latest answer: a client has one request in flight
_QUEUE = 16  # messages per connection that ZeroMQ takes in or keeps ahead
_STOP_SECONDS = 10.0
_INTERNAL = "internal error; the service's log has it."

log = logging.getLogger(__name__)

PeerRole = Literal["owner", "operator", "cloud1", "cloud2"]
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
class _Request:
    address: bytes
    key: bytes
    peer: Peer
    frame: wire.Frame
    call: Call


@dataclass(slots=True)
class _Session:
    """One client of one peer: the numbers under way and the latest answer."""

    last: int = -1
    running: dict[int, bytes] = field(default_factory=dict)  # number -> digest
    answered: "_Answered | None" = None
    address: bytes = b""


@dataclass(frozen=True, slots=True)
class _Answered:
    number: int
    digest: bytes
    parts: list[wire.Part]


class _Router(_ServerLink):
    """The socket: hands every message with its sender's proven key to `receive`."""

    def __init__(self, own: CurveKeys, allowed: frozenset[bytes], grace: float) -> None:
        super().__init__(own, allowed, grace)
        self._socket.rcvhwm = self._socket.sndhwm = _QUEUE
        self.receive: Callable[[bytes, bytes, list[zmq.Frame]], None] = _ignore

    def bind(self, endpoint: str) -> str:
        self._socket.ipv6 = "[" in endpoint
        return super().bind(endpoint)

    def answer(self, address: bytes, parts: Sequence[wire.Part]) -> None:
        self._send(address, parts)  # a caller that is gone asks again when it is back

    def _on_event(self, event: int, value: int) -> None:
        pass

    def _on_message(self, parts: list[zmq.Frame]) -> None:
        # ZeroMQ sets this from the handshake; no message can carry another.
        key = str(parts[-1].get("User-Id")).encode()
        self.receive(parts[0].bytes, key, parts[1:])


def _ignore(address: bytes, key: bytes, parts: list[zmq.Frame]) -> None:
    pass


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
        self._operations = {operation.name: operation for operation in operations}
        self._peers = {check_public(key): peer for key, peer in peers.items()}
        self._router = _Router(own, frozenset(self._peers), grace)
        self._router.receive = self._receive
        self.endpoint = self._router.bind(endpoint)
        self._sessions: dict[bytes, OrderedDict[bytes, _Session]] = {}
        self._in_flight: dict[bytes, int] = {}
        self._finished: queue.SimpleQueue[tuple[_Request, list[wire.Part]]] = queue.SimpleQueue()
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
        while any(self._in_flight.values()) and time.monotonic() < deadline:
            self._send_finished(block=0.1)
        self._router.close(linger=1.0)
        log.info("stopped serving at %s", self.endpoint)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._router.lock:
                    self._send_finished()
                    self._router.pump()
                    # Whoever finishes or stops sets the wake under the lock: none is missed.
                    if not self._stopping.is_set():
                        self._router.wait(self._wake, 1.0)
            except Exception:
                log.exception("taking in messages failed; going on")
                self._stopping.wait(0.1)

    def _rouse(self) -> None:
        with self._router.lock:
            self._wake.set()

    def _send_finished(self, block: float = 0.0) -> None:
        while True:
            try:
                request, parts = self._finished.get(block > 0, block or None)
            except queue.Empty:
                return
            self._in_flight[request.key] -= 1
            session = self._session(request)
            session.running.pop(request.frame.seq, None)
            session.answered = _Answered(request.frame.seq, request.call.digest, parts)
            with self._router.lock:
                self._router.answer(session.address or request.address, parts)

    def _receive(self, address: bytes, key: bytes, parts: list[zmq.Frame]) -> None:
        """Take in one message; whatever is wrong with it stays here."""
        peer = self._peers.get(key)
        if peer is None or self._stopping.is_set():
            return
        session, number = bytes(wire.SESSION_BYTES), 0
        try:
            frame = wire.decode([part.buffer for part in parts], MAX_REQUEST_BYTES)
            session, number = frame.session, frame.seq
            call = frame.message.decode(Call)
            content = (frame.message.kind, call.body, frame.message.arrays)
            if wire.content_digest(*content) != call.digest:
                raise WireError("the content of a request does not fit its digest.")  # noqa: TRY301
            self._admit(_Request(address, key, peer, frame, call))
        except PpodcError as error:
            log.warning("refused %s %s: %s", peer.role, peer.name, error)
            with self._router.lock:
                self._router.answer(address, _refusal(session, number, error))
        except Exception:
            log.exception("a message of %s %s could not be taken in", peer.role, peer.name)

    def _admit(self, request: _Request) -> None:
        """Start a new request, answer a repeated one from the store, refuse a forged one."""
        session, number = self._session(request), request.frame.seq
        session.address = request.address
        answered = session.answered
        if answered is not None and answered.number == number:
            _check_same(number, answered.digest, request.call.digest)
            self._router.answer(request.address, answered.parts)
            return
        if number in session.running:  # its answer goes to the address it came from last
            _check_same(number, session.running[number], request.call.digest)
            return
        if number <= session.last:
            raise WireError(f"request {number} was answered long ago.")
        if self._in_flight.get(request.key, 0) >= _MAX_IN_FLIGHT:
            raise WireError(f"over {_MAX_IN_FLIGHT} requests at once; wait for their answers.")
        session.last = number
        session.running[number] = request.call.digest
        self._in_flight[request.key] = self._in_flight.get(request.key, 0) + 1
        pool = self._owners if request.peer.role in ("owner", "operator") else self._clouds
        pool.submit(self._serve, request)

    def _session(self, request: _Request) -> _Session:
        sessions = self._sessions.setdefault(request.key, OrderedDict())
        session = sessions.setdefault(request.frame.session, _Session())
        sessions.move_to_end(request.frame.session)
        while len(sessions) > _KEPT_SESSIONS:
            sessions.popitem(last=False)
        return session

    def _serve(self, request: _Request) -> None:
        """In a pool's thread: do it, and hand the answer to the socket's thread."""
        frame, peer = request.frame, request.peer
        try:
            parts = self._perform(request)
        except PpodcError as error:
            log.warning("refused %s %s %s: %s", peer.role, peer.name, frame.message.kind, error)
            parts = _refusal(frame.session, frame.seq, error)
        except BaseException:
            log.exception("%s of %s %s failed", frame.message.kind, peer.role, peer.name)
            parts = _refusal(frame.session, frame.seq, InternalError(_INTERNAL))
        self._finished.put((request, parts))
        self._rouse()

    def _perform(self, request: _Request) -> list[wire.Part]:
        name, peer = request.frame.message.kind, request.peer
        if self._stopping.is_set():
            raise StoppingError("the service is stopping; do the same again once it runs.")
        operation = self._operations.get(name)
        if operation is None:
            raise AccessError(f"there is no operation {name!r} here.")
        if peer.role not in operation.roles:
            raise AccessError(f"{name!r} is not for the role {peer.role!r}.")
        body = wire.decode_body(request.call.body, operation.request, name)
        reply, arrays = operation.handler(peer, body, request.frame.message.arrays)
        raw = wire.encode_body(reply)
        parts = wire.encode(request.frame.session, request.frame.seq, REPLY, raw, arrays)
        return [bytes(part) for part in parts]  # kept for a resend; the arrays may change


def _check_same(number: int, before: bytes, now: bytes) -> None:
    if before != now:
        raise WireError(f"request {number} came again with other content.")


def _refusal(session: bytes, number: int, error: PpodcError) -> list[wire.Part]:
    body = wire.encode_body(Refusal(error.code, str(error)[:MAX_TEXT]))
    return wire.encode(session, number, REFUSAL, body)
