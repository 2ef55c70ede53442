"""The channel two halves of a protocol talk over, and its in-memory form.

Both ends are alike. Messages arrive in the order they were sent; `send` never waits for the peer,
so both ends may send in bulk at once. A message carries the session and a number per direction:
one of another session, repeated, re-ordered or missing is refused. Whatever is refused ends the
channel, and the peer learns the reason.

Messages may travel *beside* the others (`Channel.beside`): either sort keeps its own order, and
whoever waits for one sort sets messages of the other aside.

A party that cannot go on calls `fail`; its peer then gets a `PeerError` at its next `receive`.
"""

import logging
import math
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar, overload

import msgspec

from ppodc.errors import MAX_TEXT, ChannelError, PeerError, WireError, printable, without_places
from ppodc.transport import wire
from ppodc.transport.message_log import MessageLog
from ppodc.transport.wire import Array, Body, Empty, Message

DEFAULT_TIMEOUT = 120.0
_BESIDE = "beside "  # in front of the kind of a message that travels beside the others
_MOST_ASIDE = 1 << 12  # messages of one sort that wait while one of the other is wanted

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Traffic:
    """Traffic of one end, in frame bytes without the transport's overhead."""

    bytes_sent: int = 0
    bytes_received: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    rounds: int = 0  # how often a receive followed a send, of messages that others wait for

    def snapshot(self) -> "Traffic":
        """A copy that later traffic does not change."""
        return self - Traffic()

    def __sub__(self, earlier: "Traffic") -> "Traffic":
        return Traffic(
            self.bytes_sent - earlier.bytes_sent,
            self.bytes_received - earlier.bytes_received,
            self.messages_sent - earlier.messages_sent,
            self.messages_received - earlier.messages_received,
            self.rounds - earlier.rounds,
        )


@dataclass(frozen=True, slots=True)
class Received(Generic[T]):
    """A message of the expected kind. Its arrays are read-only."""

    body: T
    arrays: tuple[Array, ...]


class ErrorText(Body, frozen=True):
    """Body of an `error` message: why the sender stopped, in words and without secrets."""

    text: str


class Channel:
    """One end of an ordered two-way link to the other party; a transport adds how parts move.

    At most one thread sends and one receives.
    """

    def __init__(self, session: bytes, timeout: float, max_frame_bytes: int) -> None:
        self.traffic = Traffic()
        self._session = session
        self._timeout = timeout
        self._max_frame_bytes = max_frame_bytes
        self._next_sent = 0
        self._next_received = 0
        self._sent_last = False
        self._beside, self._counted = False, True
        self._aside: dict[bool, deque[Message]] = {False: deque(), True: deque()}
        self._ended: str | None = None
        self._log: MessageLog | None = None
        self._first: Callable[[], None] | None = None

    def keep_log(self, log: MessageLog) -> None:
        """Record every message from now on, errors excepted."""
        self._log = log

    @property
    def session(self) -> bytes:
        """The 16 bytes both ends know this conversation by."""
        return self._session

    @contextmanager
    def beside(self, *, counted: bool = False) -> Iterator[None]:
        """Inside, messages travel beside the others: the peer receives them in a block like this.

        Waiting for them is no round, unless it is `counted`.
        """
        self._beside, self._counted = True, counted
        try:
            yield
        finally:
            self._beside, self._counted = False, True

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self, kind: str, body: msgspec.Struct | None = None, arrays: Sequence[Array] = ()
    ) -> None:
        """Send without waiting for the peer. The arrays may be changed after the call.

        An array that is read-only (`array.flags.writeable = False`) may be sent without a copy;
        it must then stay as it is for good.
        """
        self._check_open()
        if self._beside and kind != "error":
            kind = _BESIDE + kind
        parts = wire.encode(
            self._session,
            self._next_sent,
            kind,
            wire.encode_body(body),
            arrays,
            self._max_frame_bytes,
        )
        if self._log is not None:
            self._log.sent(kind, parts)
        try:
            self._put(parts)
        except ChannelError as error:
            self._raise_peer_error_if_any()
            self._end(str(error))
            raise
        self._next_sent += 1
        self._sent_last = self._sent_last or self._counted
        self.traffic.bytes_sent += wire.frame_bytes(parts)
        self.traffic.messages_sent += 1

    @overload
    def receive(self, kind: str, *, timeout: float | None = None) -> Received[Empty]: ...

    @overload
    def receive(
        self, kind: str, body_type: type[T], timeout: float | None = None
    ) -> Received[T]: ...

    def receive(
        self, kind: str, body_type: type[Any] = Empty, timeout: float | None = None
    ) -> Received[Any]:
        """The next message, which must be of this kind and fit this body."""
        message = self.receive_any(timeout)
        if message.kind != kind:
            self._refuse(f"expected message {kind!r} and got {message.kind!r}.")
        try:
            return Received(message.decode(body_type), message.arrays)
        except WireError as error:
            self._refuse(str(error))

    def check_first(self, kind: str, body_type: type[T], check: Callable[[T, float], None]) -> None:
        """Have the next message checked before any later one is received, without waiting now.

        It does not travel beside others, is of this kind, and `check` is given its body and the
        seconds that it was waited for.
        """

        def first() -> None:
            began = time.monotonic()
            body = self.receive(kind, body_type).body
            check(body, time.monotonic() - began)

        self._first = first

    def settle(self) -> None:
        """Wait for the message that `check_first` is to check, if it has not come."""
        first, self._first = self._first, None
        if first is not None:
            first()

    def receive_any(self, timeout: float | None = None) -> Message:
        """Return the next message of any kind; PeerError if it is the peer's `error`."""
        self._check_open()
        if not self._beside:
            self.settle()
        if self._sent_last and self._counted:
            self._sent_last = False
            self.traffic.rounds += 1
        while not self._aside[self._beside]:
            message = self._arrived(timeout)
            beside = message.kind.startswith(_BESIDE)
            if beside:
                kind = message.kind.removeprefix(_BESIDE)
                message = msgspec.structs.replace(message, kind=kind)
            if len(self._aside[beside]) == _MOST_ASIDE:
                self._refuse("too many messages came before the one that is due.")
            self._aside[beside].append(message)
        return self._aside[self._beside].popleft()

    def _arrived(self, timeout: float | None) -> Message:
        """The next message of either sort."""
        seconds = self._timeout if timeout is None else timeout
        try:
            parts = self._get(time.monotonic() + seconds)
        except ChannelError as error:
            self._end(str(error))
            raise
        if parts is None:
            self._refuse(
                f"no message within {seconds:g} s. Is the pair's other half still working?"
            )
        self.traffic.bytes_received += wire.frame_bytes(parts)
        self.traffic.messages_received += 1
        message = self._checked(parts)
        if self._log is not None:
            self._log.received(message.kind, parts)
        if message.kind == "error":
            self._raise_peer_error(message)
        return message

    def fail(self, text: str) -> None:
        """Tell the peer why this end stops, as well as the link still allows, and close."""
        if self._ended is not None:
            return
        try:
            self.send("error", ErrorText(without_places(text)[:MAX_TEXT]))
        except (ChannelError, WireError) as error:
            log.warning("could not tell the peer that this end stops: %s", error)
        self._end(f"this end stopped: {text}")

    def close(self) -> None:
        """End the conversation. Messages sent before still arrive. Closing twice is harmless."""
        self._end("the channel is closed at this end.")

    def _checked(self, parts: Sequence[wire.Part]) -> Message:
        try:
            frame = wire.decode(parts, self._max_frame_bytes)
        except WireError as error:
            self._refuse(str(error))
        if frame.session != self._session:
            self._refuse("received a message of another session.")
        if frame.seq < self._next_received:
            self._refuse(f"message {frame.seq} came twice or too late; it is not accepted again.")
        if frame.seq > self._next_received:
            self._refuse(
                f"messages {self._next_received} to {frame.seq - 1} are missing; "
                "the link lost them. Start the exchange again."
            )
        self._next_received += 1
        return frame.message

    def _raise_peer_error_if_any(self) -> None:
        """Return the error of a lost link: the peer may have explained it in an unread message."""
        found = None
        try:
            while found is None and (parts := self._get(time.monotonic())) is not None:
                message = wire.decode(parts, self._max_frame_bytes).message
                found = message if message.kind == "error" else None
        except (ChannelError, WireError):
            return
        if found is not None:
            self._raise_peer_error(found)

    def _raise_peer_error(self, message: Message) -> NoReturn:
        try:
            text = printable(message.decode(ErrorText).text)
        except WireError:
            text = "it sent an error that does not decode."
        reason = f"the other party stopped: {text}"
        self._end(reason)
        raise PeerError(reason)

    def _refuse(self, reason: str) -> NoReturn:
        log.warning("ending session %s: %s", self._session.hex(), reason)
        self.fail(reason)
        raise ChannelError(reason)

    def _check_open(self) -> None:
        if self._ended is not None:
            raise ChannelError(f"the channel cannot be used any more: {self._ended}")

    def _end(self, reason: str) -> None:
        if self._ended is None:
            self._ended = reason
            self._shut()

    def _put(self, parts: Sequence[wire.Part]) -> None:
        """Hand the parts to the transport, which must copy every part that is not read-only."""
        raise NotImplementedError

    def _get(self, deadline: float) -> Sequence[wire.Part] | None:
        """The parts of the next frame, or None when the deadline has passed."""
        raise NotImplementedError

    def _shut(self) -> None:
        """Close the transport after delivering everything that was put."""
        raise NotImplementedError


class _Pipe:
    """One direction of a memory pair; after a close the reader can still take the rest."""

    def __init__(self) -> None:
        self.frames: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()
        self.frames.put(None)


class MemoryChannel(Channel):
    """One end of a pair inside one process; the frames are those that a network would carry."""

    def __init__(
        self, outgoing: _Pipe, incoming: _Pipe, session: bytes, timeout: float, max_frame_bytes: int
    ) -> None:
        super().__init__(session, timeout, max_frame_bytes)
        self._outgoing = outgoing
        self._incoming = incoming

    def _put(self, parts: Sequence[wire.Part]) -> None:
        if self._incoming.closed.is_set():
            raise ChannelError("the other party has closed the channel.")
        self._outgoing.frames.put([bytes(part) for part in parts])

    def _get(self, deadline: float) -> Sequence[wire.Part] | None:
        seconds = max(0.0, deadline - time.monotonic())
        try:
            parts = self._incoming.frames.get(timeout=None if math.isinf(seconds) else seconds)
        except queue.Empty:
            return None
        if parts is None:
            raise ChannelError("the other party has closed the channel.")
        return parts

    def _shut(self) -> None:
        self._outgoing.close()


def memory_pair(
    timeout: float = DEFAULT_TIMEOUT, max_frame_bytes: int = wire.MAX_FRAME_BYTES
) -> tuple[MemoryChannel, MemoryChannel]:
    """Two connected ends for two threads of one process."""
    session = secrets.token_bytes(wire.SESSION_BYTES)
    there, back = _Pipe(), _Pipe()
    return (
        MemoryChannel(there, back, session, timeout, max_frame_bytes),
        MemoryChannel(back, there, session, timeout, max_frame_bytes),
    )
