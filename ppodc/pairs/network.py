"""The connection between the two halves of a pair.

A listener accepts the holder of one key. Both ends must send the same `hello` first.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from ppodc.transport import zmq_session
from ppodc.transport.channel import Channel
from ppodc.transport.curve_keys import CurveKeys


class Listener(Protocol):
    """A place that waits for the other half."""

    @property
    def endpoint(self) -> str: ...

    def accept(self, timeout: float, hello: Mapping[str, str]) -> Channel:
        """The channel, once the other half has said the same."""

    def close(self) -> None: ...


class Network(Protocol):
    """Connections between halves; `ppodc.transport` explains timeouts."""

    def connect(
        self,
        endpoint: str,
        own: CurveKeys,
        peer: bytes,
        *,
        hello: Mapping[str, str],
        timeout: float,
        receive_timeout: float,
    ) -> Channel: ...

    def listen(
        self, endpoint: str, own: CurveKeys, allowed: Iterable[bytes], *, timeout: float
    ) -> Listener: ...


class _ZeroMq:
    """CURVE over TCP."""

    connect = staticmethod(zmq_session.connect)
    listen = staticmethod(zmq_session.listen)


ZEROMQ: Network = _ZeroMq()
