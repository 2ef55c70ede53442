"""Channels between two workers: sessions over ZeroMQ sockets with CURVE, from hello to good-bye.

The listening end (`listen`) takes several peers at once; each hello becomes a session with a
channel of its own, and each channel may be used by a thread of its own. A peer that misbehaves
loses its session; the listener and the other sessions live on. The connecting end (`connect`) has
one session. In the hello both ends present facts (suite, digest of the spec, fingerprint of the
key, ...): a fact that both name must be equal, or neither end goes on. Facts are public: they
stand in error texts.

A connection that drops is given `grace` seconds to come back. Whatever keeps two ends from talking
(nobody there, another key, a key that is not allowed, facts that differ, a peer that dies) is an
error in plain words within seconds, at both ends where both exist.
"""

import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
import zmq

from ppodc.errors import ChannelError, WireError
from ppodc.transport import wire
from ppodc.transport.channel import DEFAULT_TIMEOUT, Channel
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.wire import Body
from ppodc.transport.zmq_mailbox import BYE, ERROR, HELLO, RESUME, WELCOME, Mailbox
from ppodc.transport.zmq_socket import DEFAULT_GRACE, Connection, CurveSocket, Wake, proven_key

PROTOCOL = 1
_PARTING_SECONDS = 0.05
_CLOSING_SECONDS = 1.0
_Text = Annotated[str, msgspec.Meta(max_length=256)]

log = logging.getLogger(__name__)


class Hello(Body, frozen=True):
    """Opens a session; the welcome that answers it has the same form."""

    session: Annotated[
        bytes, msgspec.Meta(min_length=wire.SESSION_BYTES, max_length=wire.SESSION_BYTES)
    ]
    facts: Annotated[dict[_Text, _Text], msgspec.Meta(max_length=64)]


class ZmqChannel(Channel):
    """One end of a session over ZeroMQ with CURVE.

    While `receive` waits it notices within seconds when the peer is gone, and Ctrl-C ends it.
    `send` waits only while a dropped connection is given its time to come back.
    Close it before the process ends: ZeroMQ loses messages that it has not sent by then. A
    heartbeat of the peer that arrives after the connection was closed resets it: messages that the
    peer has not read by then are lost, and it reports a lost link instead of a closed channel.
    """

    def __init__(
        self,
        link: "Listener | _ConnectingLink",
        mailbox: Mailbox,
        hello: Hello,
        timeout: float,
        max_frame_bytes: int,
    ) -> None:
        super().__init__(hello.session, timeout, max_frame_bytes)
        self.peer = mailbox.peer
        self.peer_facts: Mapping[str, str] = hello.facts
        self._link = link
        self._mailbox = mailbox

    def _put(self, parts: Sequence[wire.Part]) -> None:
        link, mailbox = self._link, self._mailbox
        with link.socket.lock:
            mailbox.check()
            while not mailbox.send_frame(parts):
                link.pump()
                link.socket.wait(mailbox.wake, math.inf)
                link.pump()
                mailbox.check()
            # Sending may have taken in ZeroMQ's signal that something has arrived.
            link.pump()

    def _get(self, deadline: float) -> Sequence[wire.Part] | None:
        link, mailbox = self._link, self._mailbox
        with link.socket.lock:
            while True:
                link.pump()
                if mailbox.frames:
                    return [part.buffer for part in mailbox.frames.popleft()]
                mailbox.check()
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return None
                link.socket.wait(mailbox.wake, remaining)

    def _shut(self) -> None:
        self._link.leave(self._mailbox)


# --- the connecting end -------------------------------------------------------------------------


class _ConnectingLink:
    """One connection with one session; the hello opens it."""

    def __init__(self, endpoint: str, own: CurveKeys, server_public: bytes, grace: float) -> None:
        self.socket = CurveSocket.connecting(endpoint, own, server_public, grace)
        self.mailbox = Mailbox(self.socket, address=b"", peer=server_public)
        self._connection = Connection(endpoint, own.public)
        self._welcome: list[zmq.Frame] | None = None

    def pump(self) -> None:
        self.socket.pump(self)

    def on_event(self, event: int, value: int) -> None:
        again = self._connection.on_event(event, value)
        self.mailbox.lost_since = self._connection.lost_since
        self.mailbox.ended = self.mailbox.ended or self._connection.refused
        if again:
            self.mailbox.send_resume()

    def on_message(self, parts: list[zmq.Frame]) -> None:
        tag = parts[0].bytes
        if tag == WELCOME and self._welcome is None:
            self._welcome = parts[1:]
        else:
            self.mailbox.deliver(tag, parts[1:])

    def greet(self, ours: Hello, timeout: float) -> Hello:
        """The welcome; ChannelError if none comes, or if it does not fit ours."""
        theirs = self._await_welcome(ours, timeout)
        if theirs.session != ours.session:
            raise ChannelError("the listening end answered for another session.")
        if (reason := _disagreement(listening=theirs.facts, connecting=ours.facts)) is not None:
            raise ChannelError(reason)
        return theirs

    def _await_welcome(self, ours: Hello, timeout: float) -> Hello:
        deadline = time.monotonic() + timeout
        with self.socket.lock:
            self.mailbox.send(HELLO, bytes([PROTOCOL]), bytes(wire.encode_body(ours)))
            while True:
                self.pump()
                if self._welcome is not None:
                    return _read_hello(self._welcome, "welcome")
                self.mailbox.check()
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise ChannelError(self._connection.why_silent(timeout))
                self.socket.wait(self.mailbox.wake, remaining)

    def leave(self, mailbox: Mailbox) -> None:
        socket = self.socket
        with socket.lock:
            if not socket.closed and self._peer_is_there():
                mailbox.send(BYE)
                self.pump()
                # If the peer is closing too, give that a moment to show: ZeroMQ would otherwise
                # try for the whole linger to reach a port that is not there any more.
                socket.wait(mailbox.wake, _PARTING_SECONDS)
                self.pump()
            linger = socket.grace if self._peer_is_there() else 0
        socket.close(linger)

    def _peer_is_there(self) -> bool:
        connection = self._connection
        there = connection.established and connection.lost_since is None
        return there and not self.mailbox.peer_left


def connect(
    endpoint: str,
    own: CurveKeys,
    server_public: bytes,
    session: bytes | None = None,
    hello: Mapping[str, str] | None = None,
    timeout: float = 5.0,
    *,
    receive_timeout: float = DEFAULT_TIMEOUT,
    grace: float = DEFAULT_GRACE,
    max_frame_bytes: int = wire.MAX_FRAME_BYTES,
) -> ZmqChannel:
    """Open a session with the listener that holds `server_public`.

    `timeout` bounds the whole opening, `receive_timeout` the wait for each message; `grace` as in
    `listen`. Without `session` a random one is taken.
    """
    link = _ConnectingLink(endpoint, own, server_public, grace)
    ours = Hello(session or secrets.token_bytes(wire.SESSION_BYTES), dict(hello or {}))
    try:
        theirs = link.greet(ours, timeout)
    except BaseException:
        link.socket.close()
        raise
    return ZmqChannel(link, link.mailbox, theirs, receive_timeout, max_frame_bytes)


# --- the listening end --------------------------------------------------------------------------


class Listener:
    """A port for peers. `accept` may run in one thread while others use their channels."""

    def __init__(self, socket: CurveSocket, timeout: float, max_frame_bytes: int) -> None:
        self.socket = socket
        self.endpoint = socket.endpoint
        self._timeout = timeout
        self._max_frame_bytes = max_frame_bytes
        self._mailboxes: dict[bytes, Mailbox] = {}
        self._waiting: deque[tuple[Mailbox, Hello]] = deque()
        self._arrival = Wake()
        self._gone: set[int] = set()  # descriptors of connections that have ended

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def accept(
        self,
        timeout: float = DEFAULT_TIMEOUT,
        hello: Mapping[str, str] | None = None,
        session: bytes | None = None,
    ) -> ZmqChannel:
        """The next peer's channel. ChannelError if none comes, or if its hello does not fit ours.

        With `session` only that one is accepted. After an error the listener can go on accepting.
        """
        deadline = time.monotonic() + timeout
        with self.socket.lock:
            while True:
                self.pump()
                while self._waiting:
                    mailbox, theirs = self._waiting.popleft()
                    channel = self._welcome(mailbox, theirs, dict(hello or {}), session)
                    if channel is not None:
                        return channel
                    self.leave(mailbox)  # it gave up waiting
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise ChannelError(f"nobody connected to {self.endpoint} within {timeout:g} s.")
                self.socket.wait(self._arrival, remaining)

    def close(self) -> None:
        """Close all sessions and the port. Pending messages still get a few seconds."""
        with self.socket.lock:
            if not self.socket.closed:
                self.pump()  # a peer that has said good-bye waits for nothing more
            staying = [box for box in self._mailboxes.values() if not box.peer_left]
            for mailbox in list(self._mailboxes.values()):
                self.leave(mailbox)
        self.socket.close(self.socket.grace if staying else _CLOSING_SECONDS)

    def pump(self) -> None:
        self.socket.pump(self)

    def leave(self, mailbox: Mailbox) -> None:
        with self.socket.lock:
            known = self._mailboxes.pop(mailbox.address, None)
            if known is not None and not self.socket.closed and not mailbox.peer_left:
                mailbox.send(BYE)

    def on_event(self, event: int, value: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._gone.discard(value)
        elif event == zmq.EVENT_DISCONNECTED:
            self._gone.add(value)
            for mailbox in self._mailboxes.values():
                if mailbox.connection == value:
                    mailbox.lose()

    def on_message(self, parts: list[zmq.Frame]) -> None:
        address, tag = parts[0].bytes, parts[1].bytes if len(parts) > 1 else b""
        mailbox = self._mailboxes.get(address)
        if mailbox is None:
            if tag == HELLO:
                self._on_hello(parts)
            elif tag != BYE:
                self._refuse(address, "there is no such session here any more.")
            return
        if mailbox.peer != proven_key(parts):
            log.warning("dropped a message under another peer's address")
            return
        mailbox.connection = _descriptor(parts)
        mailbox.deliver(tag, parts[2:])
        if tag == RESUME:
            # Any other message may be a leftover of the dead connection; this is from the new.
            mailbox.lost_since = None
            if mailbox.ended is None:
                mailbox.send_resume()

    def _on_hello(self, parts: list[zmq.Frame]) -> None:
        address = parts[0].bytes
        if len(parts) != 4 or parts[2].bytes != bytes([PROTOCOL]):
            self._refuse(address, f"this end speaks version {PROTOCOL} of the protocol only.")
            return
        try:
            hello = _read_hello(parts[3:], "hello")
        except ChannelError as error:
            self._refuse(address, str(error))
            return
        mailbox = Mailbox(self.socket, address, proven_key(parts), _descriptor(parts))
        if mailbox.connection in self._gone:
            mailbox.lose()
        self._mailboxes[address] = mailbox
        self._waiting.append((mailbox, hello))
        self._arrival.set()

    def _welcome(
        self, mailbox: Mailbox, theirs: Hello, facts: dict[str, str], session: bytes | None
    ) -> ZmqChannel | None:
        """A channel, or None if the peer is not there any more."""
        if mailbox.ended is not None or mailbox.lost_since is not None:
            return None
        reason = _disagreement(listening=facts, connecting=theirs.facts)
        if session is not None and theirs.session != session:
            reason = "the session offered is not the one expected here."
        if reason is not None:
            self._refuse(mailbox.address, reason)
            raise ChannelError(reason)
        if not mailbox.send(WELCOME, bytes(wire.encode_body(Hello(theirs.session, facts)))):
            return None
        return ZmqChannel(self, mailbox, theirs, self._timeout, self._max_frame_bytes)

    def _refuse(self, address: bytes, reason: str) -> None:
        log.warning("refused a session: %s", reason)
        self._mailboxes.pop(address, None)
        self.socket.send((ERROR, reason.encode()), address)


def listen(
    endpoint: str,
    own: CurveKeys,
    allowed: Iterable[bytes],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    grace: float = DEFAULT_GRACE,
    max_frame_bytes: int = wire.MAX_FRAME_BYTES,
) -> Listener:
    """Listen at `tcp://ADDRESS:PORT` (port 0: any free one) for holders of the allowed keys.

    `timeout` is how long a channel waits for a message; `grace` how long a dropped connection may
    take to come back, and how long a silent one is believed to be alive.
    """
    socket = CurveSocket.listening(endpoint, own, allowed, grace)
    return Listener(socket, timeout, max_frame_bytes)


# --- the hello ----------------------------------------------------------------------------------


def _read_hello(parts: Sequence[zmq.Frame], kind: str) -> Hello:
    try:
        return wire.decode_body(msgspec.Raw(b"".join(p.bytes for p in parts)), Hello, kind)
    except WireError as error:
        raise ChannelError(str(error)) from error


def _disagreement(listening: Mapping[str, str], connecting: Mapping[str, str]) -> str | None:
    """The facts that both ends name and see differently, in words that fit both."""
    differing = [
        f"{name!r} (listening end: {listening[name]!r}, connecting end: {connecting[name]!r})"
        for name in sorted(listening.keys() & connecting.keys())
        if listening[name] != connecting[name]
    ]
    return f"the two ends disagree on {', '.join(differing)}." if differing else None


def _descriptor(parts: Sequence[zmq.Frame]) -> int:
    """Return the file descriptor of the connection that brought this message."""
    return int(parts[-1].get(zmq.SRCFD))
