"""Waiting for a result, and showing it to a person: the same for every kind of job."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ppodc.cli.options import err, out, show_table

if TYPE_CHECKING:
    from client.fetched_result import JobProgress


@contextmanager
def waiting(name: str) -> "Iterator[Callable[[JobProgress], None]]":
    """Shows what is waited for: a line that changes on a terminal, a line a change elsewhere."""
    said = ""

    def tell(progress: "JobProgress") -> None:
        nonlocal said
        text = progress.waiting(name)
        if err.is_terminal:
            shown.update(text)
        elif text != said:
            err.print(text, markup=False)
        said = text

    with err.status(f"asking for the result of {name}") as shown:
        yield tell


def show_result(result: Any) -> None:
    """The table, the correlations if there are any, and the summary of a kind's result."""
    for table in (result.table(), getattr(result, "correlations", lambda: None)()):
        if table is not None:
            headings, rows = table
            show_table(headings, [list(map(_short, row)) for row in rows])
    out.print(result.summary(), markup=False)


def _short(cell: str | float) -> str:
    """Text for people; a cluster without a centre shows none."""
    if isinstance(cell, float):
        return "-" if math.isnan(cell) else f"{cell:.6g}"
    return str(cell)
