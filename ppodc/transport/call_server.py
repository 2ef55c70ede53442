"""Calls to a cloud: typed operations for known peers, each request performed once.

The CURVE key alone identifies the caller: ZeroMQ refuses unknown keys, and each operation names
the roles that may call it. `CallServer` takes a peer and the frames of a request and returns the
frames of the reply. It does not depend on the transport.

A PpodcError of an operation goes back as its code and text, without names of files; any other
exception as "internal error". The log has the details. Frames that do not decode are refused
and logged, and the service goes on.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ppodc.errors import (
    MAX_TEXT,
    AccessError,
    InternalError,
    LimitError,
    PpodcError,
    WireError,
    without_places,
)
from ppodc.transport import wire
from ppodc.transport.call_client import REFUSAL, REPLY, Call, Refusal
from ppodc.transport.peer_log import PeerLog
from ppodc.transport.wire import Array, Body

MAX_IN_FLIGHT = 32  # requests of one peer that wait or run
MAX_REQUEST_BYTES = 8 << 20
_KEPT_SESSIONS = 16  # per peer, each with its latest answer: a client has one request in flight
_KEPT_SECONDS = 60.0
_KEPT_REPLY_BYTES = 64 << 10  # a longer one is made again; asking twice is harmless
_KEPT_BYTES = 16 << 20  # of all replies
_OFFENCES = (WireError, AccessError, LimitError)

log = logging.getLogger(__name__)

PeerRole = Literal["owner", "operator", "auditor", "cloud1", "cloud2"]
Reply = list[wire.Part]
Answer = tuple[msgspec.Struct | None, Sequence[Array]]
Handler = Callable[["Peer", Any, tuple[Array, ...]], Answer]


@dataclass(frozen=True, slots=True)
class Peer:
    """The holder of a public key; the name is the configuration's, the key was proven.

    `former`: keys that this one replaces. They are refused, and what specs name by them is its own.
    """

    role: PeerRole
    name: str
    key: str = ""
    former: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation: its callers, the type of its body, and its handler."""

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


class CallServer:
    """Answers requests, each once: one that comes again gets the stored reply, byte for byte.

    A number that comes again with other content is refused. The client's digest identifies the
    content. The server does not compute it again: a client with a false digest only gets an
    earlier answer of its own. Replies that are long, or older than a minute, are not kept:
    the request is then performed once more, which is harmless. Any thread may call.
    """

    def __init__(
        self,
        operations: Iterable[Operation],
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        on_offence: Callable[[Peer], None] = lambda _peer: None,
    ) -> None:
        """`on_offence` hears of requests that no honest client makes."""
        self._operations = {operation.name: operation for operation in operations}
        self._max_in_flight = max_in_flight
        self._max_request_bytes = max_request_bytes
        self._on_offence = on_offence
        self._clients: dict[Peer, OrderedDict[bytes, _ClientState]] = {}
        self._kept: OrderedDict[tuple[Peer, bytes], tuple[float, int]] = OrderedDict()
        self._kept_bytes = 0
        self._notes = PeerLog(log)
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def answer(self, peer: Peer, parts: Sequence[wire.Part]) -> Reply | None:
        """The reply to these frames; None if the same request is being performed just now."""
        taken = self.take(peer, parts)
        return self.perform(taken) if isinstance(taken, Request) else taken

    def take(self, peer: Peer, parts: Sequence[wire.Part]) -> Request | Reply | None:
        """A new request to `perform`, or the reply to an old or bad one, or None as above."""
        session, number = bytes(wire.SESSION_BYTES), 0
        try:
            frame = wire.decode(parts, self._max_request_bytes)
            session, number, message = frame.session, frame.seq, frame.message
            call = message.decode(Call)
            with self._lock:
                return self._admit(Request(peer, session, number, call, message))
        except PpodcError as error:
            self._note(peer, "refused: %s", error)
            self._count("", error.code)
            return _refusal(session, number, error)

    def perform(self, request: Request) -> Reply:
        """Perform the request and keep the reply."""
        try:
            reply = self._perform(request)
        except PpodcError as error:
            return self.refuse(request, error)
        except Exception:
            log.exception("%r of %s failed", request.message.kind, request.peer)
            return self.refuse(request, InternalError("internal error; the service's log has it."))
        self._count(request.message.kind, "answered")
        return self._keep(request, reply)

    def refuse(self, request: Request, error: PpodcError) -> Reply:
        """Answer a request with this error; that is its answer for good."""
        self._note(request.peer, "refused %r: %s", request.message.kind, error)
        self._count(request.message.kind, error.code)
        return self._keep(request, _refusal(request.session, request.number, error))

    def outcomes(self) -> dict[tuple[str, str], int]:
        """Count the outcomes of each operation: (its name, "answered" or a refusal's code).

        What is no operation here goes under no name: callers choose no words of ours.
        """
        with self._lock:
            return dict(self._outcomes)

    def tidy(self) -> None:
        """Forget replies that no client will ask for again."""
        with self._lock:
            self._forget(time.monotonic() - _KEPT_SECONDS)

    def _count(self, name: str, outcome: str) -> None:
        with self._lock:
            self._outcomes[name if name in self._operations else "", outcome] += 1

    def _note(self, peer: Peer, text: str, *values: object) -> None:
        """The last of the values is the error."""
        self._notes.warning(str(peer), text, *values)
        if isinstance(values[-1], _OFFENCES):
            self._on_offence(peer)

    def _admit(self, request: Request) -> Request | Reply | None:
        client, number, digest = self._client(request), request.number, request.call.digest
        if client.answered is not None and client.answered[0] == number:
            _check_same(number, client.answered[1], digest)
            return client.answered[2]
        if number in client.running:
            _check_same(number, client.running[number], digest)
            return None
        if number < client.last or (number == client.last and client.answered is not None):
            raise WireError(f"request {number} was answered long ago.")
        running = sum(len(other.running) for other in self._clients[request.peer].values())
        if running >= self._max_in_flight:
            raise LimitError(f"over {self._max_in_flight} requests at once; wait for the answers.")
        client.last = number
        client.running[number] = digest
        return request

    def _client(self, request: Request) -> _ClientState:
        clients = self._clients.setdefault(request.peer, OrderedDict())
        client = clients.setdefault(request.session, _ClientState())
        clients.move_to_end(request.session)
        idle = [session for session, other in clients.items() if not other.running]
        for session in idle[:-_KEPT_SESSIONS]:
            self._drop(request.peer, session)
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
        now = time.monotonic()
        with self._lock:
            client = self._client(request)
            client.running.pop(request.number, None)
            self._drop(request.peer, request.session)
            size = wire.frame_bytes(reply)
            if size <= _KEPT_REPLY_BYTES:
                client.answered = request.number, request.call.digest, reply
                self._kept[request.peer, request.session] = now, size
                self._kept_bytes += size
            self._forget(now - _KEPT_SECONDS)
        return reply

    def _forget(self, before: float) -> None:
        """Drop the oldest replies: those from before this time, and as many as are too much."""
        while self._kept:
            (peer, session), (when, _) = next(iter(self._kept.items()))
            if when >= before and self._kept_bytes <= _KEPT_BYTES:
                return
            self._drop(peer, session)

    def _drop(self, peer: Peer, session: bytes) -> None:
        _, size = self._kept.pop((peer, session), (0.0, 0))
        self._kept_bytes -= size
        self._clients[peer][session].answered = None


def _check_same(number: int, before: bytes, now: bytes) -> None:
    if before != now:
        raise WireError(f"request {number} came again with other content.")


def _refusal(session: bytes, number: int, error: PpodcError) -> Reply:
    body = wire.encode_body(Refusal(error.code, without_places(str(error))[:MAX_TEXT]))
    return wire.encode(session, number, REFUSAL, body)
