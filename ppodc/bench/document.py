"""The document that every measurement returns: figures for JSON, and tables made from them.

Tables are data (title, columns, rows of text). A terminal and the page of `ppodc bench report` show
the same ones. A measurement declares a table by its columns and a template of its rows, such as
"m | total" and "{m:,} | {total_s:time}", which every measured point fills. A document also has the
facts needed to judge its figures: machine, code and notes.
"""

import string
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import rich.table
from rich.console import Console
from rich.markup import escape

from ppodc.bench import machine

SCHEMA = 1
_WRITTEN = ("--json", "--plot")  # options that name a file to write
SHAPE = "m = {m:,}, l = {l}, k = {k}"
_WIDE = 200  # characters of a line if there is no terminal
_UNITS = ((2 * 86400, 86400, "d"), (2 * 3600, 3600, "h"), (120, 60, "min"))

Document = dict[str, Any]
Figures = Mapping[str, Any]


class Table(TypedDict):
    """A table whose first column has words and whose other columns have figures."""

    title: str
    columns: list[str]
    rows: list[list[str]]


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table from any sequences, in the form that JSON returns."""
    return {"title": title, "columns": list(columns), "rows": [list(row) for row in rows]}


def table_of(title: str, columns: str, row: str, points: Iterable[Figures]) -> Table:
    """A row for each point. Names of columns and templates of cells are separated by " | "."""
    cells = row.split(" | ")
    rows = ([fill(cell, point) for cell in cells] for point in points)
    return table(title, columns.split(" | "), rows)


def grouped(points: Iterable[dict[str, Any]], name: str) -> dict[Any, list[dict[str, Any]]]:
    """Points by the value of one figure, in order of appearance."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for point in points:
        found.setdefault(point[name], []).append(point)
    return found


def joined(points: Iterable[Figures], *by: str) -> list[dict[str, Any]]:
    """Merge points that agree in these figures."""
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
    """The document of one measurement. `tables` makes its tables from its figures."""
    document: Document = {
        "schema": SCHEMA,
        "bench": bench,
        "command": _command(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": machine.describe(),
        **figures,
        "notes": list(notes),
    }
    return {**document, "tables": tables(document)}


def _command() -> str:
    """The command that measures, without the names of the files that it writes."""
    module = sys.modules["__main__"].__spec__
    program = Path(sys.argv[0]).name
    if module is not None:
        program = f"python -m {module.name.removesuffix('.__main__')}"
    words, skip = [program.replace("python -m ppodc.cli", "ppodc")], False
    for word in sys.argv[1:]:
        if not skip and word not in _WRITTEN:
            words.append(Path(word).name if word.startswith("/") else word)
        skip = word in _WRITTEN
    return " ".join(words)


def show(document: Document, console: Console | None = None) -> None:
    """Show tables and notes. In a file or a pipe no figure is cut off."""
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


# ------------------------------------------------------------- figures as text


def fill(template: str, figures: Figures, *values: Any) -> str:
    """Fill a template with figures.

    Besides Python's formats there are those of `_FORMATS`, and "/1e6 .1f" divides first.
    """
    return _Template().vformat(template, values, figures)


class _Template(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in _FORMATS:
            return _FORMATS[format_spec](value)
        if value is None:
            return "-"
        if format_spec.startswith("/"):
            unit, _, format_spec = format_spec[1:].partition(" ")
            value /= float(unit)
        return format(value, format_spec)


def seconds(value: float | None) -> str:
    """A time with three significant digits, in the unit that people use."""
    if value is None:
        return "-"
    for least, unit, name in _UNITS:
        if value >= least:
            return f"{value / unit:,.3g} {name}"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def digits(value: float | None) -> str:
    """Three significant digits, or a whole number from 100 on."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cores(value: float | None) -> str:
    """Cores that other programs kept busy, if known."""
    return "-" if value is None else f"{value:.1f}"


def yes(value: bool) -> str:
    """Whether a result was exact. A wrong result must not be overlooked."""
    return "yes" if value else "NO"


def plural(count: int, noun: str) -> str:
    """A count with its noun, such as `1 pair` or `8 pairs`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


_FORMATS: dict[str, Callable[[Any], str]]
_FORMATS = {"time": seconds, "digits": digits, "cores": cores, "yes": yes}
