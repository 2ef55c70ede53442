"""Connections between the halves of pairs inside one process, for tests."""

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ppodc.errors import ChannelError
from ppodc.pairs.network import Listener
from ppodc.transport import wire
from ppodc.transport.channel import Channel, MemoryChannel, _Pipe
from ppodc.transport.curve_keys import CurveKeys

_SILENCE: list[bytes] = []  # a frame that stands for none until the timeout
_PAUSE = 1.0  # seconds; long enough for an end that waits to give up, no matter if it is not


class End(MemoryChannel):
    """One end of a pair, which can fall silent."""

    def fall_silent(self) -> None:
        """The other end, if it waits, has its timeout at once. It has closed, or does not wait."""
        self._outgoing.frames.put(_SILENCE)
        self._incoming.closed.wait(_PAUSE)

    def _get(self, deadline: float) -> Sequence[wire.Part] | None:
        return super()._get(deadline) or None

    def _shut(self) -> None:
        super()._shut()
        self._incoming.frames.put(None)  # for a thread of this end that waits: its worker is dead


Wrap = Callable[[End, int], Channel]  # a channel and the number of the cloud that holds it


@dataclass(slots=True)
class _Meeting:
    """A listener inside this process. It accepts one connection."""

    endpoint: str
    keys: CurveKeys
    allowed: frozenset[bytes]
    timeout: float
    wrap: Wrap
    arrived: threading.Event = field(default_factory=threading.Event)
    closed: bool = False
    channels: tuple[Channel, Channel] | None = None
    hello: Mapping[str, str] = field(default_factory=dict)

    def accept(self, timeout: float, hello: Mapping[str, str]) -> Channel:
        self.arrived.wait(timeout)
        if self.channels is None or self.closed:
            raise ChannelError("the other half of the pair did not come.")
        if dict(hello) != dict(self.hello):
            raise ChannelError("the two halves of the pair were started for different jobs.")
        return self.wrap(self.channels[1], 2)

    def close(self) -> None:
        self.closed = True
        self.arrived.set()


class MemoryNetwork:
    """Connects pairs inside this process. `wrap` may wrap each end of a channel."""

    def __init__(self, wrap: Wrap = lambda channel, _cloud: channel) -> None:
        self._wrap = wrap
        self._meetings: dict[str, _Meeting] = {}
        self._lock = threading.Lock()

    def listen(
        self, endpoint: str, own: CurveKeys, allowed: Iterable[bytes], *, timeout: float
    ) -> Listener:
        with self._lock:
            name = f"tcp://127.0.0.1:{len(self._meetings)}"  # has the form, and no socket
            meeting = _Meeting(name, own, frozenset(allowed), timeout, self._wrap)
            self._meetings[name] = meeting
        return meeting

    def connect(
        self,
        endpoint: str,
        own: CurveKeys,
        peer: bytes,
        *,
        hello: Mapping[str, str],
        timeout: float,
        receive_timeout: float,
    ) -> Channel:
        meeting = self._meetings.get(endpoint)
        if meeting is None or meeting.closed or meeting.channels is not None:
            raise ChannelError(f"nobody listens at {endpoint}.")
        if own.public not in meeting.allowed or meeting.keys.public != peer:
            raise ChannelError("the other half does not let this key in.")
        there, back, session = _Pipe(), _Pipe(), secrets.token_bytes(wire.SESSION_BYTES)
        rest = (session, receive_timeout, wire.MAX_FRAME_BYTES)
        first, second = End(there, back, *rest), End(back, there, *rest)
        meeting.hello, meeting.channels = hello, (first, second)
        meeting.arrived.set()
        return self._wrap(first, 1)
