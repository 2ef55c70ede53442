"""The listening end: a ROUTER with CURVE that only lets in keys on its allow-list.

Several peers may be connected at once; each hello becomes a session with a channel of its own,
and each channel may be used by a thread of its own. A peer that misbehaves loses its session;
the listener and the other sessions live on.

The allow-list is asked by ZeroMQ over ZAP, in a private context per listener so that listeners in
one process cannot open each other's doors. If the answering thread were gone, nobody would be let
in.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import zmq
from zmq.utils import z85

from ppodc.errors import ChannelError, WireError
from ppodc.transport import wire
from ppodc.transport.channel import DEFAULT_TIMEOUT
from ppodc.transport.curve_keys import CurveKeys, check_public
from ppodc.transport.zmq_session import Hello, ZmqChannel, disagreement
from ppodc.transport.zmq_socket import (
    BYE,
    ERROR,
    HELLO,
    PROBE,
    PROTOCOL,
    RESUME,
    WELCOME,
    Link,
    Mailbox,
    Wake,
)

DEFAULT_GRACE = 5.0
log = logging.getLogger(__name__)


class _Zap:
    """Answers ZeroMQ's question whether a key may come in, until the context is terminated."""

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", allowed: frozenset[bytes]
    ) -> None:
        self._allowed = allowed
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        # Bound before the thread starts and before anyone can connect.
        self._socket.bind("inproc://zeromq.zap.01")
        threading.Thread(target=self._run, name="zap", daemon=True).start()

    def _run(self) -> None:
        with self._socket:
            while True:
                try:
                    request = self._socket.recv_multipart()
                    self._socket.send_multipart(self._answer(request))
                except zmq.ContextTerminated:
                    return

    def _answer(self, request: list[bytes]) -> list[bytes]:
        version, number, _, address, _, mechanism, *credentials = request
        key = z85.encode(credentials[0]) if mechanism == b"CURVE" and credentials else b""
        if key in self._allowed:
            return [version, number, b"200", b"OK", key, b""]
        log.warning(
            "refused a peer at %s: its key %s is not allowed", address.decode(), key.decode()
        )
        return [version, number, b"400", b"not allowed", b"", b""]


class _ServerLink(Link):
    def __init__(self, own: CurveKeys, allowed: frozenset[bytes], grace: float) -> None:
        super().__init__(zmq.ROUTER, own, grace)
        self.waiting: deque[tuple[Mailbox, Hello]] = deque()
        self.arrival = Wake()
        self._sessions: dict[bytes, Mailbox] = {}
        self._gone: set[int] = set()  # descriptors of connections that have ended
        _Zap(self._context, allowed)
        socket = self._socket
        socket.curve_server = True
        socket.zap_domain = b"ppodc"
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A peer that reconnects takes its address over from its dead connection.
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)

    def bind(self, endpoint: str) -> str:
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ChannelError(f"cannot listen at {endpoint}: {error.strerror}.") from error
        return str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))

    def check(self, mailbox: Mailbox) -> None:
        # A dead connection still swallows messages for a moment, so the first probe waits a bit.
        settle = min(1.0, self.grace / 2)
        lost = mailbox.lost_since
        if (
            lost is not None
            and time.monotonic() - lost > settle
            and self.send_control(mailbox, PROBE)
        ):
            mailbox.lost_since = None
        super().check(mailbox)

    def leave(self, mailbox: Mailbox) -> None:
        with self.lock:
            if self._sessions.pop(mailbox.address, None) is None or self._closed:
                return
            self.send_control(mailbox, BYE)

    def refuse(self, address: bytes, reason: str) -> None:
        log.warning("refused a session: %s", reason)
        self._sessions.pop(address, None)
        self._send(address, (ERROR, reason.encode()))

    def close(self, linger: float = 0) -> None:
        with self.lock:
            for mailbox in list(self._sessions.values()):
                self.leave(mailbox)
        super().close(linger)

    def live_sessions(self) -> int:
        return len(self._sessions)

    def send_frame(self, mailbox: Mailbox, parts: Sequence[wire.Part]) -> bool:
        if mailbox.lost_since is None and super().send_frame(mailbox, parts):
            return True
        mailbox.lost_since = mailbox.lost_since or time.monotonic()
        return False

    def _on_event(self, event: int, value: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._gone.discard(value)
        elif event == zmq.EVENT_DISCONNECTED:
            self._gone.add(value)
            for mailbox in self._sessions.values():
                if mailbox.connection == value and mailbox.lost_since is None:
                    mailbox.lost_since = time.monotonic()
                    mailbox.wake.set()

    def _on_message(self, parts: list[zmq.Frame]) -> None:
        address, tag = parts[0].bytes, parts[1].bytes if len(parts) > 1 else b""
        peer = str(parts[-1].get("User-Id")).encode()
        connection = int(parts[-1].get(zmq.SRCFD))
        mailbox = self._sessions.get(address)
        if mailbox is None:
            if tag == HELLO:
                self._on_hello(address, peer, connection, parts[2:])
            elif tag != BYE:
                self.refuse(address, "there is no such session here any more.")
            return
        if mailbox.peer != peer:
            log.warning("dropped a message under another peer's address")
            return
        mailbox.connection = connection
        self._deliver(mailbox, tag, parts[2:])
        if tag == RESUME:
            self._on_resume(mailbox)

    def _on_resume(self, mailbox: Mailbox) -> None:
        # Any other message may be a leftover of the dead connection; this one is from the new.
        mailbox.lost_since = None
        if mailbox.ended is None:
            self.send_resume(mailbox)

    def _on_hello(
        self, address: bytes, peer: bytes, connection: int, parts: list[zmq.Frame]
    ) -> None:
        if len(parts) != 2 or parts[0].bytes != bytes([PROTOCOL]):
            self.refuse(address, f"this end speaks version {PROTOCOL} of the protocol only.")
            return
        try:
            hello = wire.decode_body(msgspec.Raw(parts[1].bytes), Hello, "hello")
        except WireError as error:
            self.refuse(address, str(error))
            return
        mailbox = self._sessions[address] = Mailbox(address, peer, connection)
        if connection in self._gone:
            mailbox.lost_since = time.monotonic()
        self.waiting.append((mailbox, hello))
        self.arrival.set()


class Listener:
    """Where peers connect to. `accept` may run in one thread while others use their channels."""

    def __init__(self, link: _ServerLink, endpoint: str, timeout: float, max_frame: int) -> None:
        self.endpoint = endpoint
        self._link = link
        self._timeout = timeout
        self._max_frame_bytes = max_frame

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
        with self._link.lock:
            while True:
                self._link.pump()
                while self._link.waiting:
                    mailbox, theirs = self._link.waiting.popleft()
                    channel = self._greet(mailbox, theirs, dict(hello or {}), session)
                    if channel is not None:
                        return channel
                    self._link.leave(mailbox)  # it gave up waiting
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise ChannelError(f"nobody connected to {self.endpoint} within {timeout:g} s.")
                self._link.wait(self._link.arrival, remaining)

    def close(self) -> None:
        """Close all sessions and the port; what was sent before still gets a few seconds."""
        self._link.close(self._link.grace if self._link.live_sessions() else 1.0)

    def _greet(
        self, mailbox: Mailbox, theirs: Hello, facts: dict[str, str], session: bytes | None
    ) -> ZmqChannel | None:
        if mailbox.ended is not None or mailbox.lost_since is not None:
            return None
        reason = disagreement(listening=facts, connecting=theirs.facts)
        if session is not None and theirs.session != session:
            reason = "the session offered is not the one expected here."
        if reason is not None:
            self._link.refuse(mailbox.address, reason)
            raise ChannelError(reason)
        welcome = wire.encode_body(Hello(theirs.session, facts))
        if not self._link.send_control(mailbox, WELCOME, bytes(welcome)):
            return None
        return ZmqChannel(self._link, mailbox, theirs, self._timeout, self._max_frame_bytes)


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
    link = _ServerLink(own, frozenset(check_public(key) for key in allowed), grace)
    return Listener(link, link.bind(endpoint), timeout, max_frame_bytes)
