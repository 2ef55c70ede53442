"""Progress in a notebook: one line and a bar that change in place.

A terminal gets the bars of `ppodc run`; a notebook would get hundreds of lines of them.
"""

import sys
import time
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppodc.pairs.progress import Event

_PAUSE = 0.2  # seconds between two changes


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ != "TerminalInteractiveShell"


class NotebookLine:
    """Shows what it is told, in the output of the cell that runs."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._changed = 0.0
        self._last = ""

    def __enter__(self) -> "NotebookLine":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._handle is not None:
            self._put(_html("done" if kind is None else f"stopped; last: {self._last}", 1, 1))

    def say(self, text: str, done: int = 0, whole: int = 0) -> None:
        """Show a text, with a bar if something is to be counted; soon after another it waits."""
        self._last = text
        if self._handle is None or time.monotonic() - self._changed >= _PAUSE:
            self._put(_html(text, done, whole))

    def show(self, event: "Event") -> None:
        """Show an event of a job."""
        from ppodc.cli.screen import in_words

        self.say(event.message or in_words(event), event.rows_done, event.rows)

    def _put(self, html: str) -> None:
        ipython: Any = import_module("IPython.display")  # without types
        if self._handle is None:
            self._handle = ipython.display(ipython.HTML(html), display_id=True)
        else:
            self._handle.update(ipython.HTML(html))
        self._changed = time.monotonic()


def _html(text: str, done: int, whole: int) -> str:
    bar = f'<progress value="{done}" max="{whole}"></progress> ' if whole else ""
    return f'<div role="status">{bar}{escape(text)}</div>'
