"""Tables as owners have them (CSV, Parquet, DataFrame, array), read once: numbers and texts.

Columns of numbers become doubles, columns of categories the numbers of their words; columns that
are asked for as texts keep their cells. Reading is strict and keeps the way back: which entry was
no number, and under which name the user knows a row (the line of a CSV file, the label of a
DataFrame's row). Values themselves never appear in an error, since they are what the owner wants to
keep secret.
"""

import csv
import gzip
import math
import sys
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import TableError
from ppodc.extras import named_if_missing
from ppodc.records.at_home import AtHome as AtHome
from ppodc.records.at_home import Only as Only

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 5
_UNKNOWN = "?"  # stands for a word that a column does not have, and is no number
Categories = Mapping[int, Mapping[str, int]]  # of each column of words, by its place: their numbers


@dataclass(frozen=True, slots=True)
class Table:
    """Doubles with NaN where a value is missing or, if listed in `not_numbers`, no number.

    `names` and `values` are the columns of numbers. `texts` has the cells of the others by name:
    texts as they stand, any object of a DataFrame, None where a value is missing.
    """

    source: str
    names: list[str] | None
    values: NDArray[np.float64]
    row_name: Callable[[int], str]
    not_numbers: set[tuple[int, int]] = field(default_factory=set)
    texts: dict[str, list[Any]] = field(default_factory=dict)
    further: bool = False  # whether columns that nobody asks for are left out
    leave_out: bool = False  # whether rows with a missing value are
    home: AtHome = field(default_factory=AtHome)

    def some_columns(self, wanted: Sequence[str]) -> "Table":
        """The columns of numbers with these names, in this order."""
        places = [(self.names or []).index(name) for name in wanted]
        faults = {(row, places.index(s)) for row, s in self.not_numbers if s in places}
        values = self.values[:, places]
        return replace(self, names=list(wanted), values=values, not_numbers=faults)

    def without_gaps(self) -> "Table":
        """The rows without a missing value, if such are to be left out; `home` counts the others.

        What is no number is not missing.
        """
        gaps = np.isnan(self.values)
        for place in self.not_numbers:
            gaps[place] = False
        kept = np.flatnonzero(~gaps.any(axis=1))
        if not self.leave_out or len(kept) == len(self.values):
            return self
        rows, places = kept.tolist(), {row: place for place, row in enumerate(kept.tolist())}
        self.home.rows, self.home.left_out = rows, len(self.values) - len(rows)
        if self.home.ids is not None:
            self.home.ids = [self.home.ids[row] for row in rows]
        return replace(
            self,
            values=self.values[kept],
            row_name=lambda i: self.row_name(rows[i]),
            not_numbers={(places[row], s) for row, s in self.not_numbers if row in places},
            texts={name: [cells[row] for row in rows] for name, cells in self.texts.items()},
        )


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns that are read from a table, and their form."""

    categories: Categories  # places count columns of numbers only
    texts: Collection[str]
    names: Sequence[str]  # of the columns of a table without a header
    text_numbers: bool  # whether a text in a DataFrame may be a number
    order: Sequence[str]  # of the columns of numbers, as places in `categories` count them

    def placed(self, names: Sequence[str] | None) -> "_Columns":
        """Places of words as they are in a table with these columns of numbers."""
        if names is None or not set(self.order) <= set(names):
            return self
        words = {list(names).index(self.order[p]): w for p, w in self.categories.items()}
        return replace(self, categories=words) if self.order else self

    def text_places(self, names: Sequence[str], source: str) -> dict[str, int]:
        """The positions of the columns of texts."""
        twice = [name for name in self.texts if list(names).count(name) > 1]
        if twice:
            raise TableError(f"{source} has several columns named {twice[0]!r}")
        return {name: place for place, name in enumerate(names) if name in self.texts}


def some(places: Iterable[str], total: int) -> str:
    """The first few places, and how many more there are."""
    shown = list(places)[:_SHOWN]
    rest = total - len(shown)
    return "; ".join(shown) + (f"; and {rest} more" if rest else "")


def read(
    data: Any,
    *,
    header: bool = True,
    categories: Categories = MappingProxyType({}),
    texts: Collection[str] = (),
    names: Sequence[str] = (),
    text_numbers: bool = False,
    empty: bool = False,
    order: Sequence[str] = (),
) -> Table:
    """Read a path (CSV, Parquet, .xlsx), a table of any library or an array; or `Only` of it.

    Columns named in `texts` keep their cells; places in `categories` do not count them. `names` are
    those of all columns, for a table that has none. `text_numbers`: a number may be written as text
    in a DataFrame, as it is in a CSV file. `empty`: the table may have columns and no rows. `order`
    names the columns that places in `categories` count, if the table may have them in another one.
    """
    asked = data if isinstance(data, Only) else Only(data, further=False)
    own = asked.id_column
    columns = _Columns(categories, {*texts, own} - {""}, names, text_numbers, order)
    data = in_pandas(asked.data)
    if isinstance(data, str | Path):
        table = _from_path(Path(data), columns, header)
    elif isinstance(data, np.ndarray):
        table = _from_array(data, asked.source or "the array", columns)
    elif hasattr(data, "columns") and hasattr(data, "iloc"):
        table = _from_frame(data, asked.source or "the DataFrame", columns)
    else:
        raise TableError("records must come as a DataFrame, a numpy array or the path of a file")
    if not len(table.values) and not (empty and (table.values.shape[1] or table.texts)):
        raise TableError(f"{table.source} holds no records")
    if own and own not in table.texts:
        raise TableError(f"{table.source} has no column {own!r}, which is to name rows")
    if own:
        asked.home.ids = [word(cell) for cell in table.texts[own]]
        kept = {name: cells for name, cells in table.texts.items() if name != own or own in texts}
        table = replace(table, texts=kept)
    return replace(table, further=asked.further, leave_out=asked.leave_out, home=asked.home)


def names_of_rows(data: Any, column: str, *, header: bool = True) -> list[str]:
    """The entries of the column that names the rows of a table."""
    asked = Only(data, id_column=column)
    read(asked, header=header)
    return asked.home.ids or []


def in_pandas(data: Any) -> Any:
    """A table of polars, Arrow or another library as a DataFrame; anything else as it is."""
    if hasattr(data, "collect") and hasattr(data, "lazy"):  # polars' LazyFrame
        data = data.collect()
    if hasattr(data, "iloc") or not hasattr(data, "__arrow_c_stream__"):
        return data
    with named_if_missing():
        import pyarrow

    try:
        return pyarrow.table(data).to_pandas()
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise TableError("the Arrow data are no table with named columns: give a table") from error


def _from_path(path: Path, columns: _Columns, header: bool) -> Table:
    """Open a file by its name's ending."""
    name = path.name.lower()
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise TableError(f"{path} {what}: give the path of a CSV, Parquet or .xlsx file")
    try:
        if name.endswith((".csv", ".csv.gz")):
            opener: Callable[..., Any] = gzip.open if name.endswith(".gz") else open
            with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
                return _from_csv(stream, str(path), columns, header)
        if name.endswith((".parquet", ".pq")):
            return _from_frame(_parquet(path), str(path), columns)
        if name.endswith(".xlsx"):
            return _from_sheet(path, columns, header)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise TableError(f"{path} is damaged or cut off: it does not unpack") from error
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text: save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise TableError(f"{path} is not a readable CSV file: {error}") from error
    raise TableError(f"{path}: the name must end in .csv, .csv.gz, .parquet or .xlsx")


def _parquet(path: Path) -> "pd.DataFrame":
    with named_if_missing():
        import pyarrow
        import pyarrow.parquet

    try:
        frame: pd.DataFrame = pyarrow.parquet.read_table(path).to_pandas()
    except pyarrow.ArrowException as error:
        raise TableError(f"{path} is not a readable Parquet file") from error
    return frame


def _from_sheet(path: Path, columns: _Columns, header: bool) -> Table:
    from ppodc.records.workbook import first_sheet

    first, frame = first_sheet(path, header=header)
    if not header:
        frame.columns = list(columns.names) or [f"column {n + 1}" for n in range(frame.shape[1])]
    table = _from_frame(frame, str(path), columns)
    names = table.names if header or columns.names else None
    return replace(table, names=names, row_name=lambda i: f"row {i + first}")


# ------------------------------------------------------------------------------------------ CSV


def _delimiter(stream: TextIO, header: bool) -> str:
    """The sign between fields, by the first line: a tab, a semicolon or a comma."""
    first = stream.readline()
    stream.seek(0)
    if "\t" in first:
        return "\t"
    commas = first.count(",") if header else 0  # in a line of numbers these are decimal ones
    return ";" if first.count(";") > commas else ","


def _csv_rows(stream: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it starts, fields) of each record; empty lines at the end are left out."""
    reader = csv.reader(stream, delimiter=delimiter, skipinitialspace=True, strict=True)
    start = 1
    empty: list[int] = []
    for fields in reader:
        if fields:
            yield from ((line, []) for line in empty)
            empty.clear()
            yield start, fields
        else:
            empty.append(start)
        start = reader.line_num + 1


def _from_csv(stream: TextIO, source: str, columns: _Columns, header: bool) -> Table:
    delimiter = _delimiter(stream, header)
    rows = _csv_rows(stream, delimiter)
    names = _header(rows, source) if header else list(columns.names) or None
    width = len(names) if names else 0
    places = columns.text_places(names or (), source)
    known = [name for name in names if name not in places] if names else None
    columns = columns.placed(known)
    outwards = sorted(places.items(), key=lambda item: -item[1])
    texts: dict[str, list[Any]] = {name: [] for name in places}
    values, lines = array("d"), array("q")
    not_numbers: set[tuple[int, int]] = set()
    ragged: list[str] = []
    for line, fields in rows:
        width = width or len(fields)
        if not fields or len(fields) != width:
            ragged.append(f"line {line} has {len(fields)}")
            continue
        for name, place in outwards:
            texts[name].append(fields.pop(place).strip() or None)
        _number_words(fields, columns.categories)
        if delimiter != ",":
            fields = [field.replace(",", ".") for field in fields]
        if not _plain_numbers(fields, values):
            _mixed_fields(fields, len(lines), values, not_numbers)
        lines.append(line)
    if ragged:
        shown = some(ragged, len(ragged))
        sign = "tabs" if delimiter == "\t" else f"{delimiter!r}"
        raise TableError(
            f"{source}: each line must have {width} fields separated by {sign}: {shown}"
        )
    numbers = np.frombuffer(values, np.float64).reshape(len(lines), width - len(places))
    return Table(source, known, numbers, lambda i: f"line {lines[i]}", not_numbers, texts)


def _header(rows: Iterator[tuple[int, list[str]]], source: str) -> list[str]:
    first = next(rows, None)
    if first is None:
        raise TableError(f"{source} is empty")
    return [field.strip() for field in first[1]]


def _number_words(fields: list[str], categories: Categories) -> None:
    """Put the number of its word into every field of a column of words."""
    for place, numbers in categories.items():
        text = fields[place].strip() if place < len(fields) else ""
        if text:
            fields[place] = str(numbers.get(text, _UNKNOWN))


def _plain_numbers(fields: list[str], values: "array[float]") -> bool:
    """Append the fields if all are numbers."""
    try:
        numbers = list(map(float, fields))
    except ValueError:
        return False
    # Python reads 1_000, nobody means it in a CSV file; "nan" is not a number
    if "_" in "".join(fields) or (math.isnan(sum(numbers)) and any(map(math.isnan, numbers))):
        return False
    values.extend(numbers)
    return True


def _mixed_fields(
    fields: list[str], row: int, values: "array[float]", not_numbers: set[tuple[int, int]]
) -> None:
    """Append the fields one by one: NaN for those that are empty or no number."""
    for column, text in enumerate(fields):
        if text.strip() and not _plain_numbers([text], values):
            not_numbers.add((row, column))
            values.append(math.nan)
        elif not text.strip():
            values.append(math.nan)


# ----------------------------------------------------------------------------- arrays and frames


def _from_array(data: NDArray[Any], source: str, columns: _Columns) -> Table:
    if data.ndim != 2:
        raise TableError(f"{source} must have two dimensions (records, columns), not {data.ndim}")
    not_numbers: set[tuple[int, int]] = set()
    if data.dtype.kind in "iuf" and not columns.categories:
        values = data.astype(np.float64)
    elif data.dtype.kind == "O" or columns.categories:
        entries = data.astype(object)
        parts = [_objects(entries[:, s], s, not_numbers, columns) for s in range(data.shape[1])]
        values = np.stack(parts, axis=1) if parts else np.empty(data.shape)
    else:
        raise TableError(f"{source} must hold numbers, not {data.dtype.name}")
    return Table(source, list(columns.names) or None, values, _counted, not_numbers)


def _from_frame(frame: "pd.DataFrame", source: str, columns: _Columns) -> Table:
    from pandas.api import types

    every = [str(name) for name in frame.columns]
    places = columns.text_places(every, source)
    texts = {name: _cells(frame.iloc[:, place]) for name, place in places.items()}
    others = [place for place, name in enumerate(every) if name not in places]
    columns = columns.placed([every[place] for place in others])
    not_numbers: set[tuple[int, int]] = set()
    values = np.empty((len(frame), len(others)), np.float64)
    for s, place in enumerate(others):
        column = frame.iloc[:, place]
        kind, words = column.dtype, s in columns.categories
        if not words and (types.is_integer_dtype(kind) or types.is_float_dtype(kind)):
            values[:, s] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values[:, s] = _objects(column.to_numpy(dtype=object), s, not_numbers, columns)
    names = [every[place] for place in others]
    return Table(source, names, values, row_names(frame.index), not_numbers, texts)


def _cells(column: "pd.Series[Any]") -> list[Any]:
    return [None if gone else entry for entry, gone in zip(column, column.isna(), strict=True)]


def row_names(labels: "pd.Index[Any] | NDArray[np.int64]") -> Callable[[int], str]:
    """A row's place as users know it; labels may name people and stay out of messages."""
    return (lambda i: f"row {labels[i]}") if labels.dtype.kind in "iu" else _counted


def _counted(row: int) -> str:
    return f"row {row} (counted from 0)"


def _objects(
    entries: NDArray[Any], column: int, not_numbers: set[tuple[int, int]], columns: _Columns
) -> NDArray[np.float64]:
    """A column of arbitrary objects as doubles; None and NA are missing."""
    if column in columns.categories:
        return _worded(entries, column, not_numbers, columns.categories[column])
    values = np.full(len(entries), np.nan)
    for row, entry in enumerate(entries.tolist()):
        try:
            if isinstance(entry, bool):
                not_numbers.add((row, column))
            elif isinstance(entry, Real | Decimal):
                values[row] = float(entry)
            elif columns.text_numbers and isinstance(entry, str):
                read: array[float] = array("d")
                if _plain_numbers([entry], read):
                    values[row] = read[0]
                else:
                    not_numbers.add((row, column))
            elif not _missing(entry):
                not_numbers.add((row, column))
        except (OverflowError, ValueError):
            not_numbers.add((row, column))
    return values


def _worded(
    entries: NDArray[Any],
    column: int,
    not_numbers: set[tuple[int, int]],
    numbers: Mapping[str, int],
) -> NDArray[np.float64]:
    """A column of words as their numbers."""
    values = np.full(len(entries), np.nan)
    for row, entry in enumerate(entries.tolist()):
        text = word(entry)
        if text in numbers:
            values[row] = numbers[text]
        elif text:
            not_numbers.add((row, column))
    return values


def _missing(entry: Any) -> bool:
    """Whether an entry is None or, if pandas is loaded, its NA or NaT."""
    pandas = sys.modules.get("pandas")
    return entry is None or (pandas is not None and (entry is pandas.NA or entry is pandas.NaT))


def word(entry: Any) -> str:
    """The text of a cell, 3 for 3.0; empty if it is missing."""
    if _missing(entry):
        return ""
    if isinstance(entry, float):
        if math.isnan(entry):
            return ""
        return str(int(entry)) if entry.is_integer() else str(entry)
    return str(entry).strip()
