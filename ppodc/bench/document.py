"""What every measurement gives: a document for JSON that holds its figures and its own tables.

Tables are data (title, columns, rows of text); a terminal and the page of `ppodc bench report` draw
the same ones. A measurement declares a table as its head and a template for its rows, such as
"m | total" and "{m:,} | {total_s:time}"; each measured point fills one. A document also says what
it takes to judge its figures: machine, code, notes.
"""

import string
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypedDict

import rich.table
from rich.console import Console
from rich.markup import escape

from ppodc.bench import machine

SCHEMA = 1
SHAPE = "m = {m:,}, l = {l}, k = {k}"
_WIDE = 200  # characters, where no terminal says how many
_UNITS = ((2 * 86400, 86400, "d"), (2 * 3600, 3600, "h"), (120, 60, "min"))

Document = dict[str, Any]
Figures = Mapping[str, Any]


class Table(TypedDict):
    """A table whose first column is words and whose other columns are figures."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table from any sequences, as JSON would give it back."""
    return {"title": title, "columns": list(columns), "rows": [list(row) for row in rows]}


def table_of(title: str, columns: str, row: str, points: Iterable[Figures]) -> Table:
    """A row for each point; names of columns and templates of their cells are split by " | "."""
    cells = row.split(" | ")
    rows = ([fill(cell, point) for cell in cells] for point in points)
    return table(title, columns.split(" | "), rows)


def joined(points: Iterable[Figures], *by: str) -> list[dict[str, Any]]:
    """Points that agree in these figures as one, with the figures of all."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for point in points:
        found.setdefault(tuple(point[name] for name in by), {}).update(point)
    return list(found.values())


def figures_table(title: str, columns: str, lines: Mapping[str, str], figures: Figures) -> Table:
    """A row for each named figure of one measurement."""
    rows = ((fill(name, figures), fill(line, figures)) for name, line in lines.items())
    return table(title, columns.split(" | "), rows)


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
    """Tables and notes on a terminal; in a file or a pipe no figure is cut off."""
    console = console or Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)
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


def fill(template: str, figures: Figures) -> str:
    """A template with figures in it.

    Besides Python's formats there are those of `_SAID`, and "/1e6 .1f" divides before it formats.
    """
    return _Template().vformat(template, (), figures)


class _Template(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in _SAID:
            return _SAID[format_spec](value)
        if value is None:
            return "-"
        if format_spec.startswith("/"):
            unit, _, format_spec = format_spec[1:].partition(" ")
            value /= float(unit)
        return format(value, format_spec)


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


_SAID: dict[str, Callable[[Any], str]]
_SAID = {"time": seconds, "digits": digits, "cores": cores, "yes": yes}
