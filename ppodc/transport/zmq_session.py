"""One session over a ZeroMQ link, as a channel, and the hello that opens it.

In the hello both ends present facts (suite, digest of the spec, fingerprint of the key, ...).
A fact that both name must be equal, or neither end goes on. Facts are public: they stand in
error texts.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from ppodc.transport import wire
from ppodc.transport.channel import FrameChannel
from ppodc.transport.wire import Body
from ppodc.transport.zmq_socket import Link, Mailbox

_Text = Annotated[str, msgspec.Meta(max_length=256)]
Facts = Annotated[dict[_Text, _Text], msgspec.Meta(max_length=64)]


class Hello(Body, frozen=True):
    """Opens a session; the welcome that answers it has the same form."""

    session: Annotated[
        bytes, msgspec.Meta(min_length=wire.SESSION_BYTES, max_length=wire.SESSION_BYTES)
    ]
    facts: Facts


def disagreement(listening: Mapping[str, str], connecting: Mapping[str, str]) -> str | None:
    """The facts that both ends name and see differently, in words that fit both."""
    found = [
        f"{name!r} (listening end: {listening[name]!r}, connecting end: {connecting[name]!r})"
        for name in sorted(listening.keys() & connecting.keys())
        if listening[name] != connecting[name]
    ]
    return f"the two ends disagree on {', '.join(found)}." if found else None


class ZmqChannel(FrameChannel):
    """One end of a session over ZeroMQ with CURVE.

    While `receive` waits it notices within seconds when the peer is gone, and Ctrl-C ends it.
    `send` waits only while a dropped connection is given its time to come back.
    Close it before the process ends: what ZeroMQ has not sent by then is lost.
    """

    def __init__(
        self, link: Link, mailbox: Mailbox, hello: Hello, timeout: float, max_frame_bytes: int
    ) -> None:
        super().__init__(hello.session, timeout, max_frame_bytes)
        self.peer = mailbox.peer
        self.peer_facts: Mapping[str, str] = hello.facts
        self._link = link
        self._mailbox = mailbox

    def _put(self, parts: Sequence[wire.Part]) -> None:
        with self._link.lock:
            self._link.check(self._mailbox)
            while not self._link.send_frame(self._mailbox, parts):
                self._link.pump()
                self._link.wait(self._mailbox.wake, math.inf)
                self._link.pump()
                self._link.check(self._mailbox)
            # Sending may have taken in ZeroMQ's signal that something has arrived.
            self._link.pump()

    def _get(self, deadline: float) -> Sequence[wire.Part] | None:
        with self._link.lock:
            while True:
                self._link.pump()
                if self._mailbox.frames:
                    return [part.buffer for part in self._mailbox.frames.popleft()]
                self._link.check(self._mailbox)
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return None
                self._link.wait(self._mailbox.wake, remaining)

    def _shut(self) -> None:
        self._link.leave(self._mailbox)
