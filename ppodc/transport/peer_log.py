"""A log that peers cannot flood: a fixed number of lines a minute for each peer, the rest counted.

What others send stands in these lines only quoted (`%r`), so that it cannot look like a line of
its own.
"""

import logging
import threading
import time
from dataclasses import dataclass

_LINES = 20
_SECONDS = 60.0
_PEERS = 4096  # remembered at the same time; strangers share one name


@dataclass(slots=True)
class _Minute:
    began: float
    lines: int = 0
    left_out: int = 0


class PeerLog:
    """Warnings about peers. Any thread may write."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._minutes: dict[str, _Minute] = {}
        self._lock = threading.Lock()

    def warning(self, who: str, text: str, *values: object) -> None:
        """A line about this peer, unless there were too many in this minute."""
        with self._lock:
            left_out, wanted = self._count(who, time.monotonic())
        if left_out:
            self._log.warning("%s: %d lines were left out in the minute before", who, left_out)
        if wanted:
            self._log.warning("%s: " + text, who, *values)

    def _count(self, who: str, now: float) -> tuple[int, bool]:
        """(lines left out in the minute that has just ended, whether this one may be written)."""
        minute, left_out = self._minutes.get(who), 0
        if minute is None or now - minute.began >= _SECONDS:
            left_out = minute.left_out if minute is not None else 0
            if len(self._minutes) >= _PEERS:
                self._minutes.clear()
            minute = self._minutes[who] = _Minute(now)
        minute.lines += 1
        wanted = minute.lines <= _LINES
        minute.left_out += not wanted
        return left_out, wanted
