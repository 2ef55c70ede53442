"""The display of a running job: a bar on a terminal, a line now and then elsewhere."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from ppodc.pairs.progress import Event

_QUIET_SECONDS = 10.0
_IN_ITERATION = {
    "assign": "assigning records",
    "update": "moving centres",
    "iterate": "assigning records, moving centres",
    "open": "opening noisy sums",
}
_WORDS = {
    "sealing": "sealing the dataset",
    "starting": "starting workers",
    "prepare": "making randomness ahead",
    "ingest": "taking in records",
    "link": "comparing rows",
    "home": "finishing the comparison",
    "start": "choosing the first centres",
    "spread": "choosing the next centre",
    "pick": "choosing the next centre",
    "better": "keeping the better run",
    "tally": "counting records of each cluster",
    "sum": "adding up",
    "output": "preparing the result",
    "labels": "preparing labels",
}  # of a phase outside iterations


class JobScreen:
    """Listens to the events of a running job."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._progress = Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._phase = ("", 0)
        self._said = 0.0
        self._message = ""
        self._printed = ""

    def __enter__(self) -> "JobScreen":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, event: Event) -> None:
        """Show one event."""
        if event.message and event.message != self._message:
            self._message = event.message
            self._console.print(event.message, markup=False, soft_wrap=True)
        phase = (event.phase, event.iteration)
        begins = phase != self._phase
        self._phase = phase
        if self._console.is_terminal:
            self._bar(event, begins=begins)
        elif event.phase == "done":
            return  # the command says it
        elif begins or time.monotonic() - self._said > _QUIET_SECONDS:
            self._said = time.monotonic()
            self._line(event)

    def _line(self, event: Event) -> None:
        """One line, unless it says what the one before it said."""
        line = in_words(event)
        if line != self._printed:
            self._printed = line
            self._console.print(line, soft_wrap=True)

    def _bar(self, event: Event, *, begins: bool) -> None:
        if begins or self._task is None:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task = self._progress.add_task(_title(event), total=event.rows or None, left="")
        self._progress.update(
            self._task, completed=event.rows_done, total=event.rows or None, left=_left(event)
        )


def in_words(event: Event) -> str:
    """An event in one line."""
    done = f", {event.rows_done} of {event.rows} records" if event.rows_done else ""
    return f"{_title(event)}{done}{_left(event)}"


def _title(event: Event) -> str:
    if event.phase in _WORDS:
        return _WORDS[event.phase]
    words = _IN_ITERATION.get(event.phase, event.phase)
    return f"iteration {event.iteration}: {words}" if event.iteration else words


def _left(event: Event) -> str:
    if not event.iteration_left or event.rows_done == event.rows:
        return ""
    told = []
    if event.iteration_left >= 1:
        told.append(f"{_span(event.iteration_left)} left in this iteration")
    if event.at_most_left is not None:
        told.append(f"job at most {_span(event.at_most_left)}")
    return f" ({', '.join(told)})" if told else ""


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
