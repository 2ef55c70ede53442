"""A channel that plays a record back to a half, and compares what the half sends with it.

`receive` gives the recorded messages. `send` compares digests: the first message that differs from
the recorded one is a `DeviationError`, which names it. `RecordEndsError` means that the recorded
session broke off here; nothing is wrong with what came before.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeVar

from ppodc.errors import DeviationError, InputError, RecordEndsError
from ppodc.transport import wire
from ppodc.transport.channel import Channel
from ppodc.transport.message_log import (
    LANE,
    Arrived,
    Heads,
    LogEntry,
    Note,
    Sent,
    message_digest,
)

E = TypeVar("E", Sent, Arrived, Note)
SESSION = "channel session"  # the note with the channel's session


class LogReader:
    """Entries of a record by type, each type in its order; notes in their place."""

    def __init__(self, entries: Iterator[LogEntry]) -> None:
        self._entries = entries
        self._waiting: deque[LogEntry] = deque()  # read, and not asked for yet

    def take(self, wanted: type[E]) -> E | None:
        """The next entry of this type; None where the record ends."""
        for at, entry in enumerate(self._waiting):
            if isinstance(entry, wanted):
                del self._waiting[at]
                return entry
        for entry in self._entries:
            if isinstance(entry, wanted):
                return entry
            self._waiting.append(entry)
        return None

    def note(self, name: str) -> bytes:
        """The data of the next note, which must be of this name."""
        note = self.take(Note)
        if note is None:
            raise RecordEndsError("the record ends here.")
        if note.name != name:
            raise InputError(f"the record notes {note.name!r} where {name!r} should be.")
        return note.data

    def peek(self) -> LogEntry | None:
        """The next entry of any type, which stays."""
        if not self._waiting:
            self._waiting.extend(entry for entry in [next(self._entries, None)] if entry)
        return self._waiting[0] if self._waiting else None


class ReplayChannel(Channel):
    """One end of a recorded conversation."""

    def __init__(self, log: LogReader) -> None:
        session = log.note(SESSION)
        super().__init__(session, timeout=0.0, max_frame_bytes=wire.MAX_FRAME_BYTES)
        self._record = log
        self.heads = Heads()

    def fail(self, text: str) -> None:
        """Nobody listens."""
        self._end(f"this end stopped: {text}")

    def finish(self) -> None:
        """Refuse a record that holds more messages than this end would have sent."""
        more = self._record.take(Sent)
        if more is not None:
            raise DeviationError(
                f"message {more.number} of lane {LANE} ({more.kind!r}) was sent, and the protocol "
                "sends none there."
            )

    def _put(self, parts: Sequence[wire.Part]) -> None:
        number, digest = self.heads.sent, message_digest(parts)
        recorded = self._record.take(Sent)
        if recorded is None:
            raise RecordEndsError(f"the record ends before message {number}.")
        if (recorded.number, recorded.digest) != (number, digest):
            raise DeviationError(
                f"message {number} of lane {LANE}, recorded as {recorded.kind!r}, is not what the "
                "protocol sends there."
            )
        self.heads = self.heads.after_sent(digest)

    def _get(self, deadline: float) -> Sequence[wire.Part]:
        arrived = self._record.take(Arrived)
        if arrived is None:
            raise RecordEndsError(f"the record ends after {self.heads.received} received messages.")
        self.heads = self.heads.after_received(message_digest(arrived.parts))
        return arrived.parts

    def _shut(self) -> None:
        pass
