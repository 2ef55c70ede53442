"""A table as its owner has it: any common CSV, read once, with every fault by line and column.

Spreadsheets write CSV in several ways: commas, semicolons or tabs between fields, points or commas
in numbers. What a study takes is one strict way (`ppodc.records`), so the desk reads the owner's
file, matches columns by name, and writes the strict file beside it. Faults name a line, a column
and what is wrong; they never repeat a value.
"""

import csv
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppodc.errors import InputError, TableError
from ppodc.files import disk_errors
from ppodc.records.schema import Column, TextColumn
from ppodc.spec import Spec

BINS = 24  # of a histogram
_SHOWN_ROWS, _SHOWN_FAULTS = 5, 200
_DELIMITERS = ",;\t"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_MAX_COLUMNS = 20_000


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in one place of the owner's file."""

    line: int
    column: str
    words: str


@dataclass(slots=True)
class Histogram:
    """Counts of an owner's values inside and outside the public limits of a column."""

    counts: list[int] = field(default_factory=lambda: [0] * BINS)
    below: int = 0
    above: int = 0

    def add(self, value: float, column: Column) -> None:
        """Count a value."""
        if value < column.low:
            self.below += 1
        elif value > column.high:
            self.above += 1
        else:
            place = int((value - column.low) / (column.high - column.low) * BINS)
            self.counts[min(place, BINS - 1)] += 1


@dataclass(slots=True)
class TableLook:
    """The findings in a file; `bad` has the lines that cannot be used."""

    columns: list[str]
    delimiter: str
    decimal: str
    matched: dict[str, str]  # the study's column: the file's
    rows: int = 0
    faults: list[Fault] = field(default_factory=list)
    more_faults: int = 0
    bad: set[int] = field(default_factory=set)
    faulty: dict[str, int] = field(default_factory=dict)  # rows by column
    histograms: dict[str, Histogram] = field(default_factory=dict)
    first: list[tuple[int, list[str]]] = field(default_factory=list)

    @property
    def missing(self) -> list[str]:
        """Columns of the study that no column of the file was chosen for."""
        return [name for name, own in self.matched.items() if not own]

    @property
    def unused(self) -> list[str]:
        """Columns of the file that stay here."""
        used = set(self.matched.values())
        return [name for name in self.columns if name not in used]

    @property
    def good(self) -> int:
        """Rows without a fault."""
        return self.rows - len(self.bad)

    @property
    def way(self) -> str:
        """A sentence on how the file was read."""
        between = {",": "commas", ";": "semicolons", "\t": "tabs"}[self.delimiter]
        return f"{between} between fields, decimal {'comma' if self.decimal == ',' else 'point'}"

    def note(self, line: int, column: str, words: str) -> None:
        """Remember a fault; of very many the first are kept in words."""
        self.bad.add(line)
        self.faulty[column] = self.faulty.get(column, 0) + 1
        if len(self.faults) < _SHOWN_FAULTS:
            self.faults.append(Fault(line, column, words))
        else:
            self.more_faults += 1


def may_miss(spec: Spec, column: Column | TextColumn) -> bool:
    """Whether a record may lack a value: where records are linked, what is missing never agrees."""
    if getattr(spec.job, "join", None) is not None:
        return isinstance(column, TextColumn) or column.use == "link"
    return spec.job.kind == "linkage" or getattr(spec.job, "dedup", None) is not None


def wanted(spec: Spec, owner: str = "") -> list[Column | TextColumn]:
    """The columns that a study asks for: of an owner, not those that others alone hold."""
    own = [c for c in spec.schema.columns if not (owner and c.held_by) or owner in c.held_by]
    return [*own, *spec.schema.texts]


def look(
    path: Path, spec: Spec, chosen: Mapping[str, str] | None = None, owner: str = ""
) -> TableLook:
    """Read the whole file against the spec; `chosen` says which own column is which."""
    asked = wanted(spec, owner)
    with _open(path) as (names, rows, delimiter, decimal):
        found = TableLook(names, delimiter, decimal, _match(names, asked, chosen or {}))
        places = [
            (column, names.index(found.matched[column.name]), may_miss(spec, column))
            for column in asked
            if found.matched[column.name]
        ]
        for column, *_ in places:
            if isinstance(column, Column) and not column.values:
                found.histograms[column.name] = Histogram()
        for line, fields in rows:
            found.rows += 1
            if len(found.first) < _SHOWN_ROWS:
                found.first.append((line, fields))
            if len(fields) != len(names):
                found.note(line, "", f"has {len(fields)} fields instead of {len(names)}")
                continue
            for column, place, optional in places:
                words = _fault(fields[place], column, decimal, optional, found)
                if words:
                    found.note(line, column.name, words)
    return found


def write_strict(
    path: Path,
    strict: Path,
    found: TableLook,
    spec: Spec,
    *,
    leave_out: bool = False,
    people: str = "",
    owner: str = "",
) -> list[int]:
    """Write what the study takes, in its order; the owner's line of each written row.

    `people` is a column that names people, which local studies may be given beside the values.
    """
    headings = [column.name for column in wanted(spec, owner)]
    order = [found.matched[name] for name in headings]
    if people:
        order, headings = [people, *order], [people, *headings]
    numbers = {column.name for column in spec.schema.columns if not column.values}
    lines: list[int] = []
    with (
        disk_errors(strict),
        _open(path) as (names, rows, _, decimal),
        open(strict, "w", newline="", encoding="utf-8", opener=_private) as out,
    ):
        places = [names.index(name) for name in order]
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(headings)
        for line, fields in rows:
            if leave_out and line in found.bad:
                continue
            cells = [fields[place].strip() if place < len(fields) else "" for place in places]
            if decimal == ",":
                cells = [
                    cell.replace(",", ".") if heading in numbers else cell
                    for heading, cell in zip(headings, cells, strict=True)
                ]
            writer.writerow(cells)
            lines.append(line)
    return lines


def column_of(path: Path, name: str) -> list[str]:
    """One column of the owner's file, as text."""
    with _open(path) as (names, rows, _, _decimal):
        if name not in names:
            raise TableError(f"The file has no column {name!r}.")
        place = names.index(name)
        return [fields[place].strip() if place < len(fields) else "" for _, fields in rows]


def lines_of(path: Path) -> list[int]:
    """The line of each row of the owner's file."""
    with _open(path) as (_, rows, _delimiter, _decimal):
        return [line for line, _ in rows]


def own_lines(text: str, strict: Path, lines: Sequence[int]) -> str:
    """An error of the strict file in terms of the owner's: its lines, and no path."""
    text = text.replace(str(strict), "your table")

    def own(match: re.Match[str]) -> str:
        place = int(match[1]) - 2  # below the heading
        return f"line {lines[place]}" if 0 <= place < len(lines) else match[0]

    return re.sub(r"\bline (\d+)\b", own, text)


# ------------------------------------------------------------------------------------ reading


class _open:  # noqa: N801
    """(names, rows with their lines, delimiter, decimal sign) of a CSV file, while it is open."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> tuple[list[str], Iterator[tuple[int, list[str]]], str, str]:
        with disk_errors(self._path):
            self._file = self._path.open(encoding="utf-8-sig", newline="")
        try:
            head = self._file.read(1 << 16)
            self._file.seek(0)
            delimiter = max(_DELIMITERS, key=head.partition("\n")[0].count)
            reader = csv.reader(self._file, delimiter=delimiter)
            names = [name.strip() for name in next(reader, [])]
            _check_names(names)
            sample = csv.reader(head.splitlines()[1:200], delimiter=delimiter)
            comma = delimiter != "," and any(
                _DECIMAL_COMMA.fullmatch(cell.strip()) for row in sample for cell in row
            )
        except UnicodeDecodeError:
            self._file.close()
            raise _not_text() from None
        except (csv.Error, InputError):
            self._file.close()
            raise
        return names, self._rows(reader), delimiter, "," if comma else "."

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _rows(self, reader: Any) -> Iterator[tuple[int, list[str]]]:
        try:
            for fields in reader:
                if fields:
                    yield reader.line_num, fields
        except UnicodeDecodeError:
            raise _not_text() from None
        except csv.Error:
            raise TableError(
                f"Line {reader.line_num} cannot be read as CSV. Export the table again"
            ) from None


def _check_names(names: list[str]) -> None:
    if not any(names):
        raise TableError("The first line of the file must have the names of the columns")
    if len(names) > _MAX_COLUMNS:
        raise TableError(f"The file has more than {_MAX_COLUMNS} columns")
    if len(set(names)) < len(names):
        raise TableError("Two columns of the file have the same name. Rename one of them")


def _not_text() -> InputError:
    return InputError("The file is not text in UTF-8. Export it as CSV (UTF-8) and choose it again")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _match(
    names: list[str], asked: Sequence[Column | TextColumn], chosen: Mapping[str, str]
) -> dict[str, str]:
    """For each column of the study the owner's choice, else the same name, else a like one."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_plain(name), []).append(name)
    matched = {}
    for column in asked:
        if column.name in chosen:
            own = chosen[column.name]
            matched[column.name] = own if own in names else ""
        elif column.name in names:
            matched[column.name] = column.name
        else:
            like = alike.get(_plain(column.name), [])
            matched[column.name] = like[0] if len(like) == 1 and _plain(column.name) else ""
    return matched


def _fault(
    text: str, column: Column | TextColumn, decimal: str, optional: bool, found: TableLook
) -> str:
    """The fault of a value; empty: none that shows before it is encoded."""
    text = text.strip()
    if not text:
        return "" if optional else "is empty"
    if isinstance(column, TextColumn):
        return ""
    if column.values:
        return "" if text in column.values else "is not one of the agreed words"
    if decimal == ",":
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return "is not a number"
    if "_" in text or not math.isfinite(value):
        return "is not a number"
    found.histograms[column.name].add(value, column)
    if value < column.low:
        return f"is below the limit of {column.low:g}"
    return f"is above the limit of {column.high:g}" if value > column.high else ""
