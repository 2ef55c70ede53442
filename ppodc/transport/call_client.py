"""The calling end of a gateway: one request at a time, sent again until it is answered.

A request is a wire frame whose session is this client's, whose number counts its calls and whose
body holds the operation's own body and a digest over the whole content. Whenever it may have been
lost it is sent again under its number; the gateway then gives the stored answer instead of doing
it twice. A gateway that was restarted in between has no stored answers, so operations must be
harmless when repeated.

How frames travel is the carrier's business: over ZeroMQ here, inside one process in tests.
"""

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

import msgspec
import zmq

from ppodc.errors import MAX_TEXT, ChannelError, RefusedError, WireError, printable
from ppodc.transport import wire
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.wire import Array, Body, Empty
from ppodc.transport.zmq_socket import DEFAULT_GRACE, Connection, CurveSocket, Wake

DEFAULT_TIMEOUT = 30.0
REPLY, REFUSAL = "reply", "refusal"
_PATIENCE_SECONDS = 3.0  # without an answer, before the caller hears that it waits

log = logging.getLogger(__name__)

T = TypeVar("T")


class Call(Body, frozen=True):
    """Body of a request; the frame's kind is the operation, its number the request's."""

    digest: Annotated[
        bytes, msgspec.Meta(min_length=wire.DIGEST_BYTES, max_length=wire.DIGEST_BYTES)
    ]
    body: msgspec.Raw


class Refusal(Body, frozen=True):
    """Body of a refusal: why, as the code of an error and in words, without secrets."""

    code: Annotated[str, msgspec.Meta(pattern=r"\A[a-z][a-z-]{0,31}\Z")]
    text: Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]


class Carrier(Protocol):
    """Brings frames to one gateway and back; it may lose, delay or repeat them.

    ChannelError from it ends the call at once.
    """

    def send(self, request: Sequence[wire.Part]) -> None:
        """Put a request on its way."""

    def receive(self, seconds: float) -> Sequence[wire.Part] | None:
        """The next frame from there; None if none came, or if some may have been lost."""

    def why_silent(self, seconds: float) -> str:
        """Explain why no answer came, and what to do."""

    def close(self) -> None:
        """Give up the connection; closing twice is harmless."""


class Client:
    """A connection to one gateway; several threads may call, one after the other."""

    def __init__(self, carrier: Carrier, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._carrier = carrier
        self._timeout = timeout
        self._session = secrets.token_bytes(wire.SESSION_BYTES)
        self._number = 0
        self._lock = threading.Lock()

    @classmethod
    def connect(
        cls,
        endpoint: str,
        own: CurveKeys,
        server_public: bytes,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        grace: float = DEFAULT_GRACE,
        patient: bool = True,
    ) -> "Client":
        """Connect in the background. The first call shows whether the server can be reached.

        `timeout` is that of a call that gives none; `grace` after how many silent seconds the
        connection is held for dead and made anew. Unless `patient`, a call ends at once where the
        port refuses and always did; a server that was there before is waited for.
        """
        return cls(ZmqCarrier(endpoint, own, server_public, grace, patient), timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the connection; closing twice is harmless."""
        self._carrier.close()

    def call(
        self,
        op: str,
        body: msgspec.Struct | None = None,
        arrays: Sequence[Array] = (),
        *,
        reply: type[T],
        timeout: float | None = None,
    ) -> tuple[T, tuple[Array, ...]]:
        """The answer; RefusedError if the gateway says no, ChannelError if it does not answer."""
        with self._lock:
            self._number += 1
            raw = wire.encode_body(body)
            request = Call(wire.content_digest(op, raw, arrays), raw)
            parts = wire.encode(self._session, self._number, op, wire.encode_body(request), arrays)
            message = self._exchange(parts, self._timeout if timeout is None else timeout)
        if message.kind == REFUSAL:
            refusal = message.decode(Refusal)
            raise RefusedError(printable(refusal.text), refusal.code)
        if message.kind != REPLY:
            raise WireError(f"the gateway answered with {message.kind!r}.")
        return message.decode(reply), message.arrays

    def tell(
        self,
        op: str,
        body: msgspec.Struct | None = None,
        arrays: Sequence[Array] = (),
        *,
        timeout: float | None = None,
    ) -> None:
        """Make a call whose answer only confirms it."""
        self.call(op, body, arrays, reply=Empty, timeout=timeout)

    def _exchange(self, request: Sequence[wire.Part], seconds: float) -> wire.Message:
        deadline = time.monotonic() + seconds
        self._carrier.send(request)
        while True:
            parts = self._carrier.receive(deadline - time.monotonic())
            if parts is not None:
                frame = wire.decode(parts)
                if frame.session == self._session and frame.seq == self._number:
                    return frame.message  # any other answers an earlier request, once more
            elif time.monotonic() >= deadline:
                raise ChannelError(self._carrier.why_silent(seconds))
            else:
                self._carrier.send(request)


class ZmqCarrier:
    """Over TCP with CURVE. Frames are lost only with the connection, which is made anew."""

    def __init__(
        self,
        endpoint: str,
        own: CurveKeys,
        server_public: bytes,
        grace: float,
        patient: bool = True,
    ) -> None:
        self._socket = CurveSocket.connecting(endpoint, own, server_public, grace)
        self._connection = Connection(endpoint, own.public)
        self._endpoint, self._patient = endpoint, patient
        self._arrived: deque[list[zmq.Frame]] = deque()
        self._reconnected = False
        self._told = False  # that nobody is there
        self._wake = Wake()

    def send(self, request: Sequence[wire.Part]) -> None:
        with self._socket.lock:
            self._socket.pump(self)
            self._reconnected = False
            self._socket.send(request)

    def receive(self, seconds: float) -> Sequence[wire.Part] | None:
        began = time.monotonic()
        deadline = began + seconds
        with self._socket.lock:
            while True:
                self._socket.pump(self)
                if self._arrived:
                    self._told = False
                    return [part.buffer for part in self._arrived.popleft()]
                if self._connection.refused is not None:  # a key, ours or theirs
                    raise ChannelError(self._connection.refused)
                if not self._patient and (reason := self._connection.nobody):
                    raise ChannelError(reason)
                remaining = deadline - time.monotonic()
                if self._reconnected or remaining <= 0:
                    return None
                self._tell_if_absent(time.monotonic() - began, remaining)
                self._socket.wait(self._wake, remaining if self._told else min(remaining, 1.0))

    def _tell_if_absent(self, waited: float, remaining: float) -> None:
        """Log once that the peer is unreachable."""
        if self._connection.present:
            self._told = False
        elif waited > _PATIENCE_SECONDS and not self._told:
            self._told = True
            log.warning("waiting for %s, %.0f s more: no answer yet", self._endpoint, remaining)

    def why_silent(self, seconds: float) -> str:
        return self._connection.why_silent(seconds)

    def close(self) -> None:
        self._socket.close()

    def on_event(self, event: int, value: int) -> None:
        if self._connection.on_event(event, value):
            self._reconnected = True

    def on_message(self, parts: list[zmq.Frame]) -> None:
        self._arrived.append(parts)
