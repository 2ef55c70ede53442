"""The calling end of a gateway: one request at a time, sent again by itself until answered.

A request is a wire frame whose session is this client's, whose number counts its calls and whose
body holds the operation's own body and a digest over the whole content. After a reconnect the
request in flight is sent again under its number; the gateway then gives the stored answer instead
of doing it twice. A gateway that was restarted in between has no stored answers, so operations
must be harmless when repeated.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
import zmq

from ppodc.errors import MAX_TEXT, ChannelError, RefusedError, WireError, printable
from ppodc.transport import wire
from ppodc.transport.curve_keys import CurveKeys, check_public
from ppodc.transport.wire import Array, Body, Empty
from ppodc.transport.zmq_channel import _ClientLink
from ppodc.transport.zmq_listener import DEFAULT_GRACE
from ppodc.transport.zmq_socket import Mailbox

DEFAULT_TIMEOUT = 30.0
REPLY, REFUSAL = "reply", "refusal"

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


class _CallLink(_ClientLink):
    """Keeps what arrives, and notes when a lost connection is back."""

    def __init__(self, endpoint: str, own: CurveKeys, server_public: bytes, grace: float) -> None:
        super().__init__(endpoint, own, server_public, grace)
        self._socket.ipv6 = "[" in endpoint
        self.arrived: deque[list[zmq.Frame]] = deque()
        self.reconnected = False

    def send_resume(self, mailbox: Mailbox) -> None:
        self.reconnected = True

    def send_request(self, parts: Sequence[wire.Part]) -> None:
        self._send(b"", parts)

    def _on_event(self, event: int, value: int) -> None:
        super()._on_event(event, value)
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            # A gateway that is killed may cut off a handshake; that says nothing of its key.
            self._failed_handshakes = 0

    def _on_message(self, parts: list[zmq.Frame]) -> None:
        self.arrived.append(parts)


class Client:
    """A connection to one gateway; several threads may call, one after the other."""

    def __init__(self, endpoint: str, link: _CallLink, timeout: float) -> None:
        self.endpoint = endpoint
        self._link = link
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
    ) -> "Client":
        """Connect in the background: who cannot be reached shows at the first call.

        `timeout` is that of a call that gives none; `grace` after how many silent seconds the
        connection is held for dead and made anew.
        """
        link = _CallLink(endpoint, own, check_public(server_public), grace)
        link.open()
        return cls(endpoint, link, timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the connection; closing twice is harmless."""
        self._link.close()

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
        seconds = self._timeout if timeout is None else timeout
        with self._lock:
            self._number += 1
            raw = wire.encode_body(body)
            request = Call(wire.content_digest(op, raw, arrays), raw)
            parts = wire.encode(self._session, self._number, op, wire.encode_body(request), arrays)
            message = self._exchange(parts, time.monotonic() + seconds, seconds)
        if message.kind == REFUSAL:
            refusal = message.decode(Refusal)
            raise RefusedError(printable(refusal.text), refusal.code)
        if message.kind != REPLY:
            raise WireError(f"{self.endpoint} answered with {message.kind!r}.")
        return message.decode(reply), message.arrays

    def tell(
        self,
        op: str,
        body: msgspec.Struct | None = None,
        arrays: Sequence[Array] = (),
        *,
        timeout: float | None = None,
    ) -> None:
        """A call whose answer says nothing but that it was done."""
        self.call(op, body, arrays, reply=Empty, timeout=timeout)

    def _exchange(
        self, parts: Sequence[wire.Part], deadline: float, seconds: float
    ) -> wire.Message:
        link = self._link
        with link.lock:
            link.pump()
            link.reconnected = False
            link.send_request(parts)
            while True:
                link.pump()
                while link.arrived:
                    message = self._answer(link.arrived.popleft())
                    if message is not None:
                        return message
                if link.mailbox.ended is not None:  # a key that is refused, ours or theirs
                    raise ChannelError(link.mailbox.ended)
                if link.reconnected:
                    link.reconnected = False
                    link.send_request(parts)
                    continue
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise ChannelError(self._why_silent(seconds))
                link.wait(link.mailbox.wake, remaining)

    def _answer(self, parts: list[zmq.Frame]) -> wire.Message | None:
        """The message, if it answers the request in flight and not an earlier one."""
        frame = wire.decode([part.buffer for part in parts])
        current = frame.session == self._session and frame.seq == self._number
        return frame.message if current else None

    def _why_silent(self, seconds: float) -> str:
        if self._link.mailbox.lost_since is not None:
            return (
                f"{self.endpoint} went away and was not back within {seconds:g} s. "
                "Do the same again once it runs."
            )
        return self._link.why_silent(seconds)
