"""Channels between machines: ZeroMQ over TCP, encrypted and authenticated by CURVE.

The listening end (`listen`) admits only keys on its allow-list; the connecting end (`connect`)
pins the listener's key. Whatever keeps two ends from talking (nobody there, another key, a key
that is not allowed, facts that differ, a peer that dies) is an error in plain words within
seconds, at both ends where both exist.
"""

import secrets
import time
from collections.abc import Mapping

import msgspec
import zmq

from ppodc.errors import ChannelError, WireError
from ppodc.transport import wire
from ppodc.transport.channel import DEFAULT_TIMEOUT
from ppodc.transport.curve_keys import CurveKeys, check_public
from ppodc.transport.zmq_listener import DEFAULT_GRACE, Listener, listen
from ppodc.transport.zmq_session import Hello, ZmqChannel, disagreement
from ppodc.transport.zmq_socket import BYE, HELLO, PROTOCOL, WELCOME, Link, Mailbox

__all__ = ["CurveKeys", "Listener", "ZmqChannel", "connect", "listen"]

# A server that refuses us may close before its answer is out; only repeated failures tell more.
_HANDSHAKE_TRIES = 3
_PARTING_SECONDS = 0.05


class _ClientLink(Link):
    def __init__(self, endpoint: str, own: CurveKeys, server_public: bytes, grace: float) -> None:
        super().__init__(zmq.DEALER, own, grace)
        self.mailbox = Mailbox(address=b"", peer=server_public)
        self.welcome: list[zmq.Frame] | None = None
        self._endpoint = endpoint
        self._own_public = own.public
        self._connected = self._established = False
        self._failed_handshakes = 0
        socket = self._socket
        socket.curve_serverkey = server_public
        # The listener knows us by this when we reconnect; nobody else can guess it.
        socket.routing_id = b"c" + secrets.token_bytes(16)

    def open(self) -> None:
        try:
            self._socket.connect(self._endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ChannelError(f"cannot connect to {self._endpoint}: {error.strerror}.") from error

    def leave(self, mailbox: Mailbox) -> None:
        with self.lock:
            if not self._closed and self._peer_is_there():
                self.send_control(mailbox, BYE)
                self.pump()
                # If the peer is closing too, give that a moment to show: ZeroMQ would otherwise
                # try for the whole linger to reach a port that is not there any more.
                self.wait(mailbox.wake, _PARTING_SECONDS)
                self.pump()
            linger = self.grace if self._peer_is_there() else 0
        self.close(linger)

    def _peer_is_there(self) -> bool:
        box = self.mailbox
        return self._established and not box.peer_left and box.lost_since is None

    def why_silent(self, seconds: float) -> str:
        """What is missing when the welcome did not come in time."""
        within = f"within {seconds:g} s"
        if not self._connected:
            return f"nobody listens at {self._endpoint} {within}. Is the other cloud running there?"
        if not self._established:
            return (
                f"something at {self._endpoint} takes connections but did not identify itself "
                f"{within}. Check the address, or whether that machine is overloaded."
            )
        return (
            f"{self._endpoint} is there but did not answer {within}: it is busy. Try again later."
        )

    def _on_event(self, event: int, value: int) -> None:
        if event == zmq.EVENT_CONNECTED:
            self._connected = True
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            if self._established:
                self.mailbox.lost_since = None
                self.send_resume(self.mailbox)
            self._established = True
        elif event == zmq.EVENT_DISCONNECTED:
            if self._established and self.mailbox.lost_since is None:
                self.mailbox.lost_since = time.monotonic()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self.mailbox.ended = (
                f"{self._endpoint} does not let this key in. Ask its operator to allow the public "
                f"key {self._own_public.decode()}"
            )
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            self.mailbox.ended = self._wrong_key()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and not self._established:
            self._failed_handshakes += 1
            if self._failed_handshakes >= _HANDSHAKE_TRIES:
                self.mailbox.ended = self._wrong_key()

    def _wrong_key(self) -> str:
        return (
            f"{self._endpoint} ended the handshake; it does not hold the expected key. Check the "
            "address and the public key configured for it; if both are right, something is in "
            "between."
        )

    def _on_message(self, parts: list[zmq.Frame]) -> None:
        tag = parts[0].bytes
        if tag == WELCOME and self.welcome is None:
            self.welcome = parts[1:]
        else:
            self._deliver(self.mailbox, tag, parts[1:])


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
    link = _ClientLink(endpoint, own, check_public(server_public), grace)
    ours = Hello(session or secrets.token_bytes(wire.SESSION_BYTES), dict(hello or {}))
    link.open()
    try:
        theirs = _exchange_hello(link, ours, timeout)
    except BaseException:
        link.close()
        raise
    return ZmqChannel(link, link.mailbox, theirs, receive_timeout, max_frame_bytes)


def _exchange_hello(link: _ClientLink, ours: Hello, timeout: float) -> Hello:
    deadline = time.monotonic() + timeout
    with link.lock:
        body = bytes(wire.encode_body(ours))
        link.send_control(link.mailbox, HELLO, bytes([PROTOCOL]), body)
        while True:
            link.pump()
            if link.welcome is not None:
                break
            link.check(link.mailbox)
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise ChannelError(link.why_silent(timeout))
            link.wait(link.mailbox.wake, remaining)
    try:
        raw = msgspec.Raw(b"".join(part.bytes for part in link.welcome))
        theirs = wire.decode_body(raw, Hello, "welcome")
    except WireError as error:
        raise ChannelError(str(error)) from error
    if theirs.session != ours.session:
        raise ChannelError("the listening end answered for another session.")
    if (reason := disagreement(listening=theirs.facts, connecting=ours.facts)) is not None:
        raise ChannelError(reason)
    return theirs
