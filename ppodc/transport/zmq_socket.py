"""One ZeroMQ socket with CURVE, its monitor, and how threads wait on it; no session, no call.

ZeroMQ's own threads encrypt, send and receive; no Python thread pumps data, so transfers go on
while a party computes. Whoever waits takes in what has arrived for everybody (`pump`), under the
socket's lock, and wakes the others.

A listening socket (ROUTER) admits only keys on its allow-list, a connecting one (DEALER) pins the
listener's key. ZeroMQ asks for the list over ZAP, in a private context per socket so that two
listeners in one process cannot open each other's doors. If the answering thread were gone, nobody
would be let in.
"""

import contextlib
import logging
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Protocol

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from ppodc.errors import ChannelError
from ppodc.transport import wire
from ppodc.transport.curve_keys import CurveKeys, check_public
from ppodc.transport.peer_log import PeerLog

DEFAULT_GRACE = 5.0
HANDSHAKE_SECONDS = 5.0  # for an unauthenticated connection; ZeroMQ's own limit is 30
_HEARTBEATS = 4  # in the time after which a silent connection is held for dead
_LONGEST_HEARTBEAT = 1.0
_POLL_SECONDS = 0.2
_ZERO_COPY_BYTES = 64 * 1024
_POLLIN = int(zmq.POLLIN)
# A server that refuses us may close before its answer is out; only repeated failures count.
_HANDSHAKE_TRIES = 3
_CONNECT_TRIES = 5  # refused so often, in about 0.8 s, nobody listens there
_CURVE_BYTES = 33  # that CURVE adds to each part, before the 2 or 9 of its frame
_NOT_NOW = b"500"  # answer to an allowed key that has reached its limit

log = logging.getLogger(__name__)

Admission = Callable[[str, bytes], bool]  # address of the connection, its proven key


class Receiver(Protocol):
    """Receiver of a socket's monitor events and messages; called with the lock held."""

    def on_event(self, event: int, value: int) -> None: ...

    def on_message(self, parts: list[zmq.Frame]) -> None: ...


class Wake:
    """Lets one thread end another's poll. `armed` counts pollers, under the socket's lock."""

    def __init__(self) -> None:
        self.armed = 0
        self._read, self._write = socket.socketpair()  # Windows selects sockets only
        self._read.setblocking(False)
        self._write.setblocking(False)

    def fileno(self) -> int:
        return self._read.fileno()

    def set(self) -> None:
        if not self.armed:
            return
        with contextlib.suppress(OSError):  # full: it is set already
            self._write.send(b"!")

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            self._read.recv(4096)

    def __del__(self) -> None:
        # Not earlier: another thread may still be polling it.
        self._read.close()
        self._write.close()


class CurveSocket:
    """A ZeroMQ socket with CURVE. Everything but `close` is called with the lock held.

    A connection that is silent for `grace` seconds is held for dead; ZeroMQ makes it anew.
    """

    def __init__(self, socket_type: int, own: CurveKeys, grace: float, queue: int) -> None:
        self.grace = grace
        self.lock = threading.RLock()
        self.closed = False
        self._allowed: _AllowList | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(socket_type)
        self._set_options(own, queue)
        self._monitor = self._socket.get_monitor_socket()
        self._monitor.linger = 0
        # Asked for once: the socket itself is only touched under the lock.
        self._descriptors = [int(own.getsockopt(zmq.FD)) for own in (self._socket, self._monitor)]

    @classmethod
    def connecting(
        cls, endpoint: str, own: CurveKeys, server_public: bytes, grace: float
    ) -> "CurveSocket":
        """A socket that connects in the background to the holder of `server_public`."""
        check_public(server_public)
        made = cls(zmq.DEALER, own, grace, queue=0)
        made._socket.curve_serverkey = server_public
        # The listener recognises us by this when we reconnect; no one else can guess it.
        made._socket.routing_id = b"c" + secrets.token_bytes(16)
        made._attach(made._socket.connect, endpoint, "connect to")
        return made

    @classmethod
    def listening(
        cls,
        endpoint: str,
        own: CurveKeys,
        allowed: Iterable[bytes],
        grace: float,
        queue: int = 0,
        admit: Admission | None = None,
    ) -> "CurveSocket":
        """A socket that lets in holders of the allowed keys; messages start with an address.

        ZeroMQ keeps at most `queue` messages ahead for each connection; 0: without bound. `admit`
        may turn a connection away although its key is allowed.
        """
        keys = frozenset(check_public(key) for key in allowed)
        made = cls(zmq.ROUTER, own, grace, queue)
        made._allowed = _AllowList(made._context, keys, admit)
        made._socket.curve_server = True
        made._socket.zap_domain = b"ppodc"
        made._socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        made._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # A peer that reconnects takes its address over from its dead connection.
        made._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        made._attach(made._socket.bind, endpoint, "listen at")
        return made

    def let_in(self, allowed: Iterable[bytes]) -> None:
        """Accept these keys from now on. Existing connections stay."""
        if self._allowed is not None:
            self._allowed.keys = frozenset(check_public(key) for key in allowed)

    @property
    def endpoint(self) -> str:
        """The address of the listener, with its actual port."""
        return str(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))

    def pump(self, receiver: Receiver, most: int | None = None) -> bool:
        """Hand on all events and messages that are there, or this many messages. Never waits.

        False if there may be more.
        """
        if self.closed:
            raise ChannelError("the channel is closed at this end.")
        for _ in count() if most is None else range(most):
            # Events first: a descriptor may be used again by the next connection.
            for event, value in self._events():
                receiver.on_event(event, value)
            if not _readable(self._socket):
                return True
            receiver.on_message(self._socket.recv_multipart(zmq.NOBLOCK, copy=False))
        return False

    def wait(self, wake: Wake, seconds: float) -> None:
        """Wait until something may have arrived. A signal interrupts it.

        Call it right after `pump` (ZeroMQ signals only what is new since then) and with the lock
        held once, as it is released meanwhile.
        """
        wake.armed += 1
        self.lock.release()
        try:
            _wait((*self._descriptors, wake.fileno()), max(0, min(seconds, _POLL_SECONDS)))
        finally:
            self.lock.acquire()
            wake.armed -= 1
            wake.clear()

    def send(self, parts: Sequence[wire.Part], address: bytes = b"") -> bool:
        """Hand a message to ZeroMQ; False if it cannot take it now. Listeners name the receiver."""
        parts = [address, *parts] if address else parts
        last = len(parts) - 1
        try:
            for index, part in enumerate(parts):
                flags = zmq.NOBLOCK | (zmq.SNDMORE if index < last else 0)
                self._socket.send(part, flags, copy=_must_copy(part))
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False  # only ever at the first part
            raise ChannelError(f"cannot send: {error.strerror}.") from error
        return True

    def close(self, linger: float = 0) -> None:
        """Close the socket, after at most `linger` seconds for pending messages."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            self._socket.disable_monitor()
            self._monitor.close()
            self._socket.close(linger=int(linger * 1000))
        self._context.term()

    def _set_options(self, own: CurveKeys, queue: int) -> None:
        socket, grace_ms = self._socket, int(self.grace * 1000)
        socket.curve_publickey, socket.curve_secretkey = own.public, own.secret
        socket.linger = 0
        socket.handshake_ivl = int(HANDSHAKE_SECONDS * 1000)
        # Where this is 0 both ends can send in bulk at once; the frames bound themselves.
        socket.sndhwm = socket.rcvhwm = queue
        socket.maxmsgsize = wire.PIECE_BYTES + wire.MAX_HEADER_BYTES + 1024
        socket.heartbeat_ivl = min(int(_LONGEST_HEARTBEAT * 1000), grace_ms // _HEARTBEATS)
        socket.heartbeat_timeout = socket.heartbeat_ttl = grace_ms
        socket.reconnect_ivl, socket.reconnect_ivl_max = 50, 1000

    def _attach(self, attach: Callable[[str], object], endpoint: str, what: str) -> None:
        self._socket.ipv6 = "[" in endpoint
        try:
            attach(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise ChannelError(f"cannot {what} {endpoint}: {error.strerror}.") from error

    def _events(self) -> Iterator[tuple[int, int]]:
        while _readable(self._monitor):
            event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))
            yield int(event["event"]), int(event["value"])


class Connection:
    """State of a connecting socket's one connection, from the monitor's events."""

    def __init__(self, endpoint: str, own_public: bytes) -> None:
        self.established = False  # at least once
        self.lost_since: float | None = None
        self.refused: str | None = None  # why there will never be one
        self._endpoint, self._own_public = endpoint, own_public
        self._connected = False
        self._failed_handshakes = 0
        self._refusals = 0

    def on_event(self, event: int, value: int) -> bool:
        """Take an event in; True if it says that a connection was made anew."""
        if event == zmq.EVENT_CONNECTED:
            self._connected = True
        elif event == zmq.EVENT_CONNECT_RETRIED:
            self._refusals += 1
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            again, self.established, self.lost_since = self.established, True, None
            return again
        elif event == zmq.EVENT_DISCONNECTED:
            if self.established and self.lost_since is None:
                self.lost_since = time.monotonic()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and value == int(_NOT_NOW):
            self.refused = (
                f"{self._endpoint} does not let this key in for now: it has too many connections "
                "or was refused too often. Close other programs that use it, and try again later."
            )
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self.refused = (
                f"{self._endpoint} does not let this key in. Ask its operator to allow the public "
                f"key {self._own_public.decode()}"
            )
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            self.refused = self._wrong_key()
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and not self.established:
            self._failed_handshakes += 1
            if self._failed_handshakes >= _HANDSHAKE_TRIES:
                self.refused = self._wrong_key()
        return False

    @property
    def present(self) -> bool:
        """Whether a peer is connected that could answer."""
        return self.established and self.lost_since is None

    @property
    def nobody(self) -> str:
        """Why a caller that will not wait gives up: there never was a listener, else empty."""
        if self._connected or self._refusals < _CONNECT_TRIES:
            return ""
        return f"nobody listens at {self._endpoint}. Is the service running there?"

    def why_silent(self, seconds: float) -> str:
        """The likely reason when no answer came in time."""
        within = f"within {seconds:g} s"
        if not self._connected:
            return f"nobody listens at {self._endpoint} {within}. Is the service running there?"
        if not self.established:
            return (
                f"something at {self._endpoint} takes connections but did not identify itself "
                f"{within}. Check the address, or whether that machine is overloaded."
            )
        if self.lost_since is not None:
            return (
                f"{self._endpoint} went away and was not back {within}. Do the same again once it "
                "runs."
            )
        return (
            f"{self._endpoint} is there but did not answer {within}: it is busy. Try again later."
        )

    def _wrong_key(self) -> str:
        return (
            f"{self._endpoint} ended the handshake; it does not hold the expected key. Check the "
            "address and the public key configured for it; if both are right, something is in "
            "between."
        )


class _AllowList:
    """Answers ZeroMQ's question whether a key may come in, until the context is terminated."""

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        allowed: frozenset[bytes],
        admit: Admission | None,
    ) -> None:
        self.keys = allowed  # replaced as a whole, by any thread
        self._admit = admit
        self._notes = PeerLog(log)
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
        where = address.decode(errors="replace")
        if key not in self.keys:
            self._notes.warning("strangers", "the key %s at %r is not allowed", key.decode(), where)
            return [version, number, b"400", b"not allowed", b"", b""]
        if self._admit is not None and not self._admit(where, key):
            return [version, number, _NOT_NOW, b"not now", b"", b""]
        return [version, number, b"200", b"OK", key, b""]


def proven_key(parts: Sequence[zmq.Frame]) -> bytes:
    """Return the key of the sender. ZeroMQ has it from the handshake; a message cannot forge it."""
    return str(parts[-1].get("User-Id")).encode()


def wire_size(parts: Sequence[wire.Part]) -> int:
    """Bytes that a message takes on a connection with CURVE."""
    return sum(
        len(part) + _CURVE_BYTES + (2 if len(part) + _CURVE_BYTES < 256 else 9) for part in parts
    )


def _wait(descriptors: Sequence[int], seconds: float) -> None:
    """Wait until one of them is readable."""
    if hasattr(select, "poll"):  # not on Windows; `select` takes no descriptor above 1023
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
    else:
        select.select(descriptors, [], [], seconds)


def _readable(socket: "zmq.Socket[bytes]") -> bool:
    # Asking is several times cheaper than catching zmq.Again, and this runs for every message.
    return bool(int(socket.getsockopt(zmq.EVENTS)) & _POLLIN)


def _must_copy(part: wire.Part) -> bool:
    if len(part) < _ZERO_COPY_BYTES:
        return True
    return isinstance(part, memoryview) and not part.readonly
