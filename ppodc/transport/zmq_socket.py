"""A ZeroMQ socket with CURVE, its monitor, and the sessions that run over it.

ZeroMQ's own threads encrypt, send and receive; no Python thread pumps data, so transfers go on
while a party computes. Whoever waits for its session takes in what has arrived for all sessions,
under the link's lock, and wakes their waiters.

Transport messages are [tag, ...]: hello and welcome open a session, frame carries one wire frame,
resume tells after a reconnect how many frames were sent so far (so that a lost one is noticed at
once), probe is empty, bye closes, error refuses.

A connection that drops is given `grace` seconds to come back; ZeroMQ reconnects by itself.
"""

import contextlib
import os
import select
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import zmq
from zmq.utils.monitor import parse_monitor_message

from ppodc.errors import ChannelError, printable
from ppodc.transport import wire
from ppodc.transport.curve_keys import CurveKeys

HELLO, WELCOME, FRAME, RESUME, PROBE, BYE, ERROR = b"H", b"W", b"F", b"R", b"P", b"B", b"E"
PROTOCOL = 1
HEARTBEAT_MS = 1000
POLL_SECONDS = 0.2
ZERO_COPY_BYTES = 64 * 1024
LOST = "messages were lost when the link dropped. Start the exchange again."
_POLLIN = int(zmq.POLLIN)
_COUNT = struct.Struct("<Q")


class Wake:
    """Lets one thread end another's poll. `armed` counts who polls, under the link's lock."""

    def __init__(self) -> None:
        self.armed = 0
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        return self._read

    def set(self) -> None:
        if not self.armed:
            return
        with contextlib.suppress(OSError):  # full: it is set already
            os.write(self._write, b"!")

    def clear(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._read, 4096)

    def __del__(self) -> None:
        # Not earlier: another thread may still be polling it.
        os.close(self._read)
        os.close(self._write)


@dataclass(slots=True, eq=False)
class Mailbox:
    """One session: what has arrived for it, and how its connection is."""

    address: bytes  # routing id of the peer; empty at the connecting end
    peer: bytes  # the public key it proved to hold
    connection: int | None = None  # file descriptor, by which the monitor names it
    frames: deque[list[zmq.Frame]] = field(default_factory=deque)
    frames_in: int = 0
    frames_out: int = 0
    lost_since: float | None = None
    ended: str | None = None  # why no more frames will come
    peer_left: bool = False  # it said so, and waits for nothing more
    wake: Wake = field(default_factory=Wake)


class Link:
    """What the two ends of a link have in common."""

    def __init__(self, socket_type: int, own: CurveKeys, grace: float) -> None:
        self.grace = grace
        self.lock = threading.RLock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(socket_type)
        self._set_options(own)
        self._monitor = self._socket.get_monitor_socket()
        self._monitor.linger = 0
        # Asked for once: the socket itself is only touched under the lock.
        self._descriptors = [
            int(socket.getsockopt(zmq.FD)) for socket in (self._socket, self._monitor)
        ]
        self._closed = False

    def _set_options(self, own: CurveKeys) -> None:
        socket, grace_ms = self._socket, int(self.grace * 1000)
        socket.curve_publickey, socket.curve_secretkey = own.public, own.secret
        socket.linger = 0
        # Without bounds here both ends can send in bulk at once; the frames bound themselves.
        socket.sndhwm = socket.rcvhwm = 0
        socket.maxmsgsize = wire.PIECE_BYTES + wire.MAX_HEADER_BYTES + 1024
        socket.heartbeat_ivl = min(HEARTBEAT_MS, grace_ms)
        socket.heartbeat_timeout = socket.heartbeat_ttl = grace_ms
        socket.reconnect_ivl, socket.reconnect_ivl_max = 50, 1000

    def pump(self) -> None:
        """Take in all events and messages that are there. Never waits; the lock is held."""
        if self._closed:
            raise ChannelError("the channel is closed at this end.")
        while True:
            # Events first: a descriptor may be used again by the next connection.
            for event, value in self._events():
                self._on_event(event, value)
            if not _readable(self._socket):
                return
            self._on_message(self._socket.recv_multipart(zmq.NOBLOCK, copy=False))

    def wait(self, wake: Wake, seconds: float) -> None:
        """Wait until something may have arrived. A signal interrupts it.

        Call it right after `pump` (ZeroMQ signals only what is new since then) and with the lock
        held once, as it is released meanwhile.
        """
        wake.armed += 1
        self.lock.release()
        try:
            poll = select.poll()
            for descriptor in (*self._descriptors, wake.fileno()):
                poll.register(descriptor, select.POLLIN)
            poll.poll(max(0, min(seconds, POLL_SECONDS)) * 1000)
        finally:
            self.lock.acquire()
            wake.armed -= 1
            wake.clear()

    def check(self, mailbox: Mailbox) -> None:
        """ChannelError if nothing more will come out of this session; the lock is held."""
        if mailbox.ended is not None:
            raise ChannelError(mailbox.ended)
        if mailbox.lost_since is not None and time.monotonic() - mailbox.lost_since > self.grace:
            mailbox.ended = (
                f"the link to the other party is gone for over {self.grace:g} s: it was stopped or "
                "killed, or the network between is down."
            )
            raise ChannelError(mailbox.ended)

    def send_frame(self, mailbox: Mailbox, parts: Sequence[wire.Part]) -> bool:
        """Hand a frame to ZeroMQ; False if it cannot be taken before the link is back."""
        if not self._send(mailbox.address, [FRAME, *parts]):
            return False
        mailbox.frames_out += 1
        return True

    def send_control(self, mailbox: Mailbox, *parts: bytes) -> bool:
        """Send outside the numbering; False if the peer cannot be reached now."""
        return self._send(mailbox.address, parts)

    def send_resume(self, mailbox: Mailbox) -> None:
        self.send_control(mailbox, RESUME, _COUNT.pack(mailbox.frames_out))

    def leave(self, mailbox: Mailbox) -> None:
        """Say good-bye on this session and forget it."""
        raise NotImplementedError

    def close(self, linger: float = 0) -> None:
        """Give up the socket, after at most `linger` seconds for what is still to be sent."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self._socket.disable_monitor()
            self._monitor.close()
            self._socket.close(linger=int(linger * 1000))
        self._context.term()

    def _deliver(self, mailbox: Mailbox, tag: bytes, parts: list[zmq.Frame]) -> None:
        if tag == FRAME:
            mailbox.frames_in += 1
            mailbox.frames.append(parts)
        elif tag == RESUME:
            self._compare(mailbox, parts)
        elif tag == BYE:
            mailbox.ended = mailbox.ended or "the other party has closed the channel."
            mailbox.peer_left = True
        elif tag == ERROR:
            mailbox.ended = f"the other party refused: {readable(parts)}"
            mailbox.peer_left = True
        elif tag != PROBE:
            mailbox.ended = "the other party sent a message that is not of this protocol."
        mailbox.wake.set()

    def _compare(self, mailbox: Mailbox, parts: list[zmq.Frame]) -> None:
        try:
            (sent,) = _COUNT.unpack(b"".join(part.bytes for part in parts))
        except struct.error:
            sent = -1
        if sent != mailbox.frames_in:
            mailbox.ended = LOST
            self.send_control(mailbox, ERROR, LOST.encode())

    def _send(self, address: bytes, parts: Sequence[wire.Part]) -> bool:
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

    def _events(self) -> Iterator[tuple[int, int]]:
        while _readable(self._monitor):
            event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))
            yield int(event["event"]), int(event["value"])

    def _on_event(self, event: int, value: int) -> None:
        raise NotImplementedError

    def _on_message(self, parts: list[zmq.Frame]) -> None:
        raise NotImplementedError


def readable(parts: Sequence[zmq.Frame]) -> str:
    """Text from outside, safe to print."""
    return printable(b"".join(part.bytes for part in parts[:1]).decode(errors="replace"))


def _readable(socket: "zmq.Socket[bytes]") -> bool:
    # Asking is several times cheaper than catching zmq.Again, and this runs for every message.
    return bool(int(socket.getsockopt(zmq.EVENTS)) & _POLLIN)


def _must_copy(part: wire.Part) -> bool:
    if len(part) < ZERO_COPY_BYTES:
        return True
    return isinstance(part, memoryview) and not part.readonly
