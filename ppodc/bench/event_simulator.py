"""A small discrete-event simulator: processes as generators, resources that their users share.

A process yields what it waits for: one signal, or several at once. A pool gives each of its users
the same speed: `each` at most, and all of them together `capacity`. That is how cores are shared by
threads and a link by connections. Time advances from event to event; nothing really waits.
"""

import heapq
import math
from collections.abc import Callable, Generator, Sequence
from itertools import count

Process = Generator["Signal | Sequence[Signal]", None, None]


class Signal:
    """Something that will be over at some time."""

    def __init__(self) -> None:
        self.over = False
        self._then: list[Callable[[], None]] = []

    def then(self, call: Callable[[], None]) -> None:
        if self.over:
            call()
        else:
            self._then.append(call)

    def end(self) -> None:
        self.over = True
        waiting, self._then = self._then, []
        for call in waiting:
            call()


class Clock:
    """The time, and what will happen."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._number), call))

    def delay(self, seconds: float) -> Signal:
        signal = Signal()
        self.at(self.now + seconds, signal.end)
        return signal

    def start(self, process: Process) -> Signal:
        """Run a process from now on; over when it ends."""
        ended = Signal()

        def go_on() -> None:
            try:
                waits = next(process)
            except StopIteration:
                ended.end()
                return
            signals = [waits] if isinstance(waits, Signal) else list(waits)
            left = len(signals)

            def one_over() -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    go_on()

            if not signals:
                self.at(self.now, go_on)
            for signal in signals:
                signal.then(one_over)

        self.at(self.now, go_on)
        return ended

    def run(self) -> float:
        """Let everything happen; the time of the last event."""
        while self._events:
            self.now, _, call = heapq.heappop(self._events)
            call()
        return self.now


class Pool:
    """A resource shared fairly; amounts are in seconds of one user's full speed if `each` is 1."""

    def __init__(self, clock: Clock, capacity: float = math.inf, each: float = 1.0) -> None:
        self._clock, self._capacity, self._each = clock, capacity, each
        # Every user gets the same speed, so one count of "amount served to each" orders them all.
        self._served = 0.0
        self._since = 0.0
        self._users: list[tuple[float, int, Signal]] = []
        self._number = count()
        self._version = 0

    def use(self, amount: float) -> Signal:
        """Over when this much has been served."""
        signal = Signal()
        self._settle()
        heapq.heappush(self._users, (self._served + amount, next(self._number), signal))
        self._plan()
        return signal

    def _speed(self) -> float:
        return min(self._each, self._capacity / len(self._users)) if self._users else 0.0

    def _settle(self) -> None:
        now = self._clock.now
        if self._users and now > self._since:
            self._served += (now - self._since) * self._speed()
        self._since = now

    def _plan(self) -> None:
        """Set the next moment at which a user is done; earlier plans no longer count."""
        self._version += 1
        if not self._users:
            return
        version, speed = self._version, self._speed()
        wait = (self._users[0][0] - self._served) / speed
        self._clock.at(self._clock.now + max(0.0, wait), lambda: self._done(version))

    def _done(self, version: int) -> None:
        if version != self._version:
            return
        self._settle()
        # The first is done now by plan, whatever rounding says; others may be at the same time.
        limit = max(self._served, self._users[0][0])
        self._served = limit
        over = []
        while self._users and self._users[0][0] <= limit:
            over.append(heapq.heappop(self._users)[2])
        self._plan()
        for signal in over:
            signal.end()
