"""Connections between the halves of pairs inside one process, for tests."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ppodc.errors import ChannelError
from ppodc.pairs.network import Listener
from ppodc.transport.channel import Channel, memory_pair
from ppodc.transport.curve_keys import CurveKeys

Wrap = Callable[[Channel, int], Channel]  # a channel and the number of the cloud that holds it


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
        first, second = memory_pair(timeout=receive_timeout)
        meeting.hello, meeting.channels = hello, (first, second)
        meeting.arrived.set()
        return self._wrap(first, 1)
