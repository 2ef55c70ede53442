"""The one place where this suite sends and receives: arrays whose shape both ends know.

Whatever arrives with another shape or type than the protocol step calls for is a WireError; the
sizes follow from public numbers, so a transcript's shape never depends on the data.

Work that no record or centre is needed for can be done in the waits of other steps (`do_beside`): a
part of it whenever own messages are on their way and the peer's have not come (`turn`). Both clouds
have their turns at the same places of the protocol, which follow from public numbers, in one
thread: what is drawn and sent has one order, and a record of it can be played back.

What is not needed yet may be received with what comes next, without a wait of its own
(`receive_later`).
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.errors import WireError
from ppodc.transport.channel import Channel

A = TypeVar("A", bound=np.generic)
B = TypeVar("B", bound=msgspec.Struct)
Spec = tuple[type[np.generic], tuple[int, ...]]
_OVER = object()


class PeerLink:
    """Typed messages over a channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._beside: list[Iterator[None]] = []
        self._later: Callable[[], None] | None = None
        self._in_turn = False

    def receive_later(self, receive: Callable[[], None]) -> None:
        """Call this before anything else is received, but for what travels beside other steps."""
        self.settle()
        self._later = receive

    def settle(self) -> None:
        """Receive now what was to be received later."""
        receive, self._later = self._later, None
        if receive is not None:
            receive()

    def do_beside(self, work: Iterator[None]) -> None:
        """Do this in the waits to come, a part at each; both clouds begin it at the same place.

        A part sends its messages, then receives the peer's of the part before.
        """
        self._beside.append(work)

    def turn(self) -> None:
        """Do a part of the work beside, if there is any: the peer's messages will take a while."""
        if self._beside:
            with self.channel.beside():
                self._advance()

    def finish_beside(self) -> None:
        """Do the rest of the work beside; nothing of it is on its way afterwards."""
        while self._beside:
            with self.channel.beside(counted=True):
                self._advance()

    def _advance(self) -> None:
        work, self._beside, self._in_turn = self._beside, [], True
        try:
            self._beside = [part for part in work if next(part, _OVER) is not _OVER]
        finally:
            self._in_turn = False

    def send(self, kind: str, *arrays: NDArray[Any]) -> None:
        """Send arrays; they may be changed afterwards."""
        self.channel.send(kind, None, arrays)

    def receive(self, kind: str, dtype: type[A], *shape: int) -> NDArray[A]:
        """The one array of the next message; read-only."""
        (array,) = self.receive_all(kind, (dtype, shape))
        return array

    def receive_two(
        self, kind: str, first: Spec, second: Spec
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The two arrays of the next message; read-only."""
        a, b = self.receive_all(kind, first, second)
        return a, b

    def receive_all(self, kind: str, *specs: Spec) -> tuple[NDArray[Any], ...]:
        """The arrays of the next message, as many as `specs`; read-only."""
        if not self._in_turn:
            self.settle()
        arrays = self.channel.receive(kind).arrays
        wanted = [(np.dtype(dtype), shape) for dtype, shape in specs]
        got = [(array.dtype, array.shape) for array in arrays]
        if got != wanted:
            raise WireError(
                f"message {kind!r} should hold {_text(wanted)} and holds {_text(got)}. "
                "Do both clouds run the same release and the same job?"
            )
        return arrays

    def exchange(self, kind: str, array: NDArray[A]) -> NDArray[A]:
        """Send an array and receive the peer's, of the same type and shape."""
        self.send(kind, array)
        self.turn()
        return self.receive(kind, array.dtype.type, *array.shape)

    def exchange_all(self, kind: str, *arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """`exchange` of several arrays in one message."""
        self.send(kind, *arrays)
        self.turn()
        return self.receive_all(kind, *((array.dtype.type, array.shape) for array in arrays))

    def exchange_body(self, kind: str, body: B, body_type: type[B]) -> B:
        """Send a body and receive the peer's."""
        self.channel.send(kind, body)
        return self.channel.receive(kind, body_type).body


def _text(arrays: list[tuple[np.dtype[Any], tuple[int, ...]]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in arrays) or "nothing"
