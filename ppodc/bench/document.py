"""What every measurement gives: a document for JSON that holds its figures and its own tables.

Tables are data (title, columns, rows of text); a terminal and the page of `ppodc bench report` draw
the same ones. A document also says what it takes to judge its figures: machine, code, notes.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

import rich.table
from rich.console import Console
from rich.markup import escape

from ppodc.bench import machine

SCHEMA = 1
_UNITS = ((2 * 86400, 86400, "d"), (2 * 3600, 3600, "h"), (120, 60, "min"))

Document = dict[str, Any]


class Table(TypedDict):
    """A table whose first column is words and whose other columns are figures."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table from any sequences, as JSON would give it back."""
    return {"title": title, "columns": list(columns), "rows": [list(row) for row in rows]}


def make(
    bench: str,
    tables: Callable[[Document], list[Table]],
    *,
    notes: Sequence[str] = (),
    **figures: Any,
) -> Document:
    """The document of one measurement; `tables` says its figures in words."""
    document: Document = {
        "schema": SCHEMA,
        "bench": bench,
        "machine": machine.describe(),
        **figures,
        "notes": list(notes),
    }
    return {**document, "tables": tables(document)}


def show(document: Document, console: Console | None = None) -> None:
    """Tables and notes on a terminal."""
    console = console or Console(highlight=False)
    for shown in document["tables"]:
        drawn = rich.table.Table(title=escape(shown["title"]))
        for number, column in enumerate(shown["columns"]):
            drawn.add_column(escape(column), justify="right" if number else "left")
        for row in shown["rows"]:
            drawn.add_row(*map(escape, row))
        console.print(drawn)
    for note in document["notes"]:
        console.print(note, markup=False)


# ------------------------------------------------------------- figures in words


def seconds(value: float | None) -> str:
    """A time with three significant digits, in the unit that people would use."""
    if value is None:
        return "-"
    for least, unit, name in _UNITS:
        if value >= least:
            return f"{value / unit:,.3g} {name}"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def digits(value: float) -> str:
    """Three digits, or whole numbers."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cores(value: float | None) -> str:
    """How many cores others kept busy; not known everywhere."""
    return "-" if value is None else f"{value:.1f}"


def yes(value: bool) -> str:
    """Whether a result was exact; nobody may overlook that it was not."""
    return "yes" if value else "NO"


def plural(count: int, noun: str) -> str:
    """Such as `1 pair`, `8 pairs`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
