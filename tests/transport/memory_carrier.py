"""Calls inside one process: a client's frames go straight to a desk, in the client's thread.

The frames are those that a network would carry, and they can be lost or repeated as told, so that
what happens then can be tried many times and again the same way.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

from ppodc.transport import wire
from ppodc.transport.call_server import CallServer, Peer


class MemoryCarrier:
    """One peer's way to a desk; a service that was restarted is another `desk`.

    `copies` says of each frame, request or reply, how often it arrives (0: it is lost); when it is
    used up every frame arrives once.
    """

    def __init__(self, desk: CallServer, peer: Peer, copies: Iterable[int] = ()) -> None:
        self.desk = desk
        self._peer = peer
        self._copies: Iterator[int] = chain(copies, repeat(1))
        self._arrived: deque[Sequence[wire.Part]] = deque()

    def send(self, request: Sequence[wire.Part]) -> None:
        frames = [bytes(part) for part in request]
        for _ in range(next(self._copies)):
            reply = self.desk.answer(self._peer, frames)
            if reply is not None:
                self._arrived.extend([reply] * next(self._copies))

    def receive(self, seconds: float) -> Sequence[wire.Part] | None:
        return self._arrived.popleft() if self._arrived else None

    def why_silent(self, seconds: float) -> str:
        return f"every frame was lost for {seconds:g} s."

    def close(self) -> None:
        self._arrived.clear()
