"""The progress of a job as events: rows done, iteration and time left."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """One look at a running job; times are estimates in seconds, None while there is no basis."""

    dataset: str
    phase: str  # "sealing", "starting", a step's kind, "recovering", "done"
    iteration: int
    max_iter: int
    rows_done: int
    rows: int
    iteration_left: float | None = None
    at_most_left: float | None = None  # if every iteration up to max_iter is needed
    message: str = ""


Listener = Callable[[Event], None]


def ignore(_: Event) -> None:
    """No-op for callers that do not watch."""


@dataclass(slots=True)
class Clock:
    """Turns rows done into time left, from this iteration's rate and the last one's length."""

    rows: int
    max_iter: int
    _step_began: float = field(default_factory=time.monotonic)
    _iteration_began: float = field(default_factory=time.monotonic)
    _last_iteration: float | None = None
    _iteration: int = 0

    def begin(self, iteration: int) -> None:
        """A step begins; the first of an iteration opens it."""
        self._step_began = time.monotonic()
        if iteration != self._iteration:
            self._iteration, self._iteration_began = iteration, self._step_began

    def end_iteration(self) -> None:
        """The last step of an iteration was committed."""
        self._last_iteration = time.monotonic() - self._iteration_began

    def left(self, iteration: int, rows_done: int) -> tuple[float | None, float | None]:
        """(this iteration, the whole job at most)."""
        now = time.monotonic()
        if self._last_iteration is not None:
            length = self._last_iteration
            this = max(0.0, length - (now - self._iteration_began))
        elif rows_done:
            length = (now - self._step_began) * self.rows / rows_done
            this = length * (1 - rows_done / self.rows)
        else:
            return None, None
        return this, this + length * max(0, self.max_iter - iteration)
