"""One session at one end of a link: messages received and sent, and the state of its connection.

Messages are [tag, ...]: hello and welcome open a session, frame carries one wire frame, resume
tells after a reconnect how many frames were sent so far (so that a lost one is noticed at once),
probe is empty, bye closes, error refuses.
"""

import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import zmq

from ppodc.errors import ChannelError, printable
from ppodc.transport import wire
from ppodc.transport.zmq_socket import CurveSocket, Wake

HELLO, WELCOME, FRAME, RESUME, PROBE, BYE, ERROR = b"H", b"W", b"F", b"R", b"P", b"B", b"E"
_LOST = "messages were lost when the link dropped. Start the exchange again."
_SETTLING_SECONDS = 1.0
_COUNT = struct.Struct("<Q")


@dataclass(slots=True, eq=False)
class Mailbox:
    """One session at one end of a link. The lock of the socket is held in all methods."""

    socket: CurveSocket
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

    def lose(self) -> None:
        """The connection is gone, for now."""
        self.lost_since = self.lost_since or time.monotonic()
        self.wake.set()

    def check(self) -> None:
        """ChannelError if nothing more will come out of this session."""
        if self.lost_since is not None:
            self._look_for_the_peer(time.monotonic() - self.lost_since)
        if self.ended is not None:
            raise ChannelError(self.ended)

    def send(self, *parts: bytes) -> bool:
        """Send outside the numbering; False if the peer cannot be reached now."""
        return self.socket.send(parts, self.address)

    def send_frame(self, parts: Sequence[wire.Part]) -> bool:
        """Hand a frame to ZeroMQ; False if it cannot be taken before the link is back."""
        # A listening socket drops messages for a lost peer; a connecting one keeps them.
        reachable = self.lost_since is None or not self.address
        if reachable and self.socket.send([FRAME, *parts], self.address):
            self.frames_out += 1
            return True
        self.lose()
        return False

    def send_resume(self) -> None:
        self.send(RESUME, _COUNT.pack(self.frames_out))

    def deliver(self, tag: bytes, parts: list[zmq.Frame]) -> None:
        """Take in a message of this session."""
        if tag == FRAME:
            self.frames_in += 1
            self.frames.append(parts)
        elif tag == RESUME:
            self._compare(b"".join(part.bytes for part in parts))
        elif tag == BYE:
            self.ended = self.ended or "the other party has closed the channel."
            self.peer_left = True
        elif tag == ERROR:
            reason = b"".join(part.bytes for part in parts[:1]).decode(errors="replace")
            self.ended = f"the other party refused: {printable(reason)}"
            self.peer_left = True
        elif tag != PROBE:
            self.ended = "the other party sent a message that is not of this protocol."
        self.wake.set()

    def _look_for_the_peer(self, lost_seconds: float) -> None:
        """Find out whether the peer is back; a listening socket does so by sending."""
        grace = self.socket.grace
        # A dead connection still swallows messages for a moment, so the first probe waits a bit.
        settled = lost_seconds > min(_SETTLING_SECONDS, grace / 2)
        if self.address and settled and self.send(PROBE):
            self.lost_since = None
        elif lost_seconds > grace:
            self.ended = self.ended or (
                f"the link to the other party is gone for over {grace:g} s: it was stopped or "
                "killed, or the network between is down."
            )

    def _compare(self, count: bytes) -> None:
        if count != _COUNT.pack(self.frames_in):
            self.ended = _LOST
            self.send(ERROR, _LOST.encode())
