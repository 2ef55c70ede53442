"""Tables as owners have them (CSV, Parquet, DataFrame, array), read into doubles.

Columns of words are read as the numbers of their words; a column of names may be set aside as text.
Reading is strict and keeps the way back: which entry was no number, and under which name the user
knows a row (the line of a CSV file, the label of a DataFrame's row). Values themselves never
appear in an error, since they are what the owner wants to keep secret.
"""

import csv
import gzip
import math
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 5
T = TypeVar("T")
_UNKNOWN = "?"  # stands for a word that a column does not have, and is no number


@dataclass(frozen=True, slots=True)
class Table:
    """Doubles with NaN where a value is missing or, if listed in `not_numbers`, no number.

    `aside` is the column of names that was asked for, one for each row.
    """

    source: str
    names: list[str] | None
    values: NDArray[np.float64]
    row_name: Callable[[int], str]
    not_numbers: set[tuple[int, int]] = field(default_factory=set)
    aside: list[str] = field(default_factory=list)

    def some_columns(self, wanted: Sequence[str], every: Sequence[str]) -> "Table":
        """The columns of these names, in this order; a table without names has `every`."""
        names = every if self.names is None else self.names
        missing = [name for name in wanted if name not in names]
        if missing or self.values.shape[1] != len(names):
            what = f"no column {missing[0]!r}" if missing else f"not {len(names)} columns"
            raise InputError(f"{self.source} has {what}")
        places = [names.index(name) for name in wanted]
        texts = {(row, places.index(s)) for row, s in self.not_numbers if s in places}
        return Table(self.source, list(wanted), self.values[:, places], self.row_name, texts)


Words = Mapping[int, Mapping[str, int]]  # of each column of words, by its place: their numbers


def some(places: Iterable[str], total: int) -> str:
    """The first few places, and how many more there are."""
    shown = list(places)[:_SHOWN]
    rest = total - len(shown)
    return "; ".join(shown) + (f"; and {rest} more" if rest else "")


def read(
    data: "pd.DataFrame | NDArray[Any] | str | Path",
    *,
    header: bool = True,
    words: Words = MappingProxyType({}),
    aside: str = "",
    empty: bool = False,
) -> Table:
    """A table from a path (.csv, .csv.gz, .parquet), a DataFrame or a two-dimensional array.

    `aside` names a column that is taken out and kept as text; places in `words` do not count it.
    `empty`: the table may have columns and no rows.
    """
    if isinstance(data, str | Path):
        table = from_path(
            Path(data),
            lambda stream, source: _from_csv(stream, source, header, words, aside),
            lambda frame, source: _from_frame(frame, source, words, aside),
        )
    elif isinstance(data, np.ndarray):
        if aside:
            raise _no_column("the array", aside)
        table = _from_array(data, words)
    elif hasattr(data, "columns") and hasattr(data, "iloc"):
        table = _from_frame(data, "the DataFrame", words, aside)
    else:
        raise InputError("records must come as a DataFrame, a numpy array or the path of a file")
    if not len(table.values) and not (empty and table.values.shape[1]):
        raise InputError(f"{table.source} holds no records")
    nameless = [table.row_name(row) for row, name in enumerate(table.aside) if not name]
    if nameless:
        places = some(nameless, len(nameless))
        raise InputError(f"{table.source}: column {aside!r} is empty in {places}")
    return table


def _no_column(source: str, name: str) -> InputError:
    return InputError(f"{source} has no one column named {name!r}")


def from_path(
    path: Path,
    from_csv: Callable[[TextIO, str], T],
    from_frame: Callable[["pd.DataFrame", str], T],
) -> T:
    """A file opened by its name's ending and read by whoever knows how; its faults in words."""
    name = path.name.lower()
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}: give the path of a CSV or Parquet file")
    try:
        if name.endswith((".csv", ".csv.gz")):
            opener: Callable[..., Any] = gzip.open if name.endswith(".gz") else open
            with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
                return from_csv(stream, str(path))
        if name.endswith((".parquet", ".pq")):
            return from_frame(_parquet(path), str(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged or cut off: it does not unpack") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: save it as CSV in UTF-8") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a readable CSV file: {error}") from error
    raise InputError(f"{path}: the name must end in .csv, .csv.gz or .parquet")


def _parquet(path: Path) -> "pd.DataFrame":
    import pyarrow
    import pyarrow.parquet

    try:
        frame: pd.DataFrame = pyarrow.parquet.read_table(path).to_pandas()
    except pyarrow.ArrowException as error:
        raise InputError(f"{path} is not a readable Parquet file") from error
    return frame


def csv_rows(stream: TextIO) -> Iterator[tuple[int, list[str]]]:
    """(line on which it starts, fields) of each record; empty lines at the end are left out."""
    reader = csv.reader(stream, skipinitialspace=True, strict=True)
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


def _from_csv(stream: TextIO, source: str, header: bool, words: Words, aside: str) -> Table:
    rows = csv_rows(stream)
    names = header_of(rows, source) if header else None
    width = len(names) if names else 0
    if aside and (names is None or names.count(aside) != 1):
        raise _no_column(source, aside)
    out, texts = names.index(aside) if names and aside else None, []
    values, lines = array("d"), array("q")
    not_numbers: set[tuple[int, int]] = set()
    ragged: list[str] = []
    for line, fields in rows:
        width = width or len(fields)
        if not fields or len(fields) != width:
            ragged.append(f"line {line} has {len(fields)}")
            continue
        if out is not None:
            texts.append(fields.pop(out).strip())
        _number_words(fields, words)
        if _plain_numbers(fields, values):
            lines.append(line)
        else:
            _mixed_fields(fields, len(lines), values, not_numbers)
            lines.append(line)
    check_ragged(source, width, ragged)
    if names and out is not None:
        names.pop(out)
    width -= out is not None
    numbers = np.frombuffer(values, np.float64).reshape(len(lines), width)
    return Table(source, names, numbers, lambda i: f"line {lines[i]}", not_numbers, texts)


def header_of(rows: Iterator[tuple[int, list[str]]], source: str) -> list[str]:
    """The names in the first line of a CSV file."""
    first = next(rows, None)
    if first is None:
        raise InputError(f"{source} is empty")
    return [field.strip() for field in first[1]]


def check_ragged(source: str, width: int, ragged: list[str]) -> None:
    """Refuse lines of another number of fields."""
    if ragged:
        places = some(ragged, len(ragged))
        raise InputError(f"{source}: each line must have {width} fields separated by ',': {places}")


def _number_words(fields: list[str], words: Words) -> None:
    """Put the number of its word into every field of a column of words."""
    for place, numbers in words.items():
        text = fields[place].strip() if place < len(fields) else ""
        if text:
            fields[place] = str(numbers.get(text, _UNKNOWN))


def _plain_numbers(fields: list[str], values: "array[float]") -> bool:
    """Append the fields if all are numbers."""
    try:
        numbers = list(map(float, fields))
    except ValueError:
        return False
    if "_" in "".join(fields):  # Python reads 1_000, nobody means it in a CSV file
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


def _from_array(data: NDArray[Any], words: Words) -> Table:
    if data.ndim != 2:
        raise InputError(f"the array must have two dimensions (records, columns), not {data.ndim}")
    not_numbers: set[tuple[int, int]] = set()
    if data.dtype.kind in "iuf" and not words:
        values = data.astype(np.float64)
    elif data.dtype.kind == "O" or words:
        entries = data.astype(object)
        columns = [_objects(entries[:, s], s, not_numbers, words) for s in range(data.shape[1])]
        values = np.stack(columns, axis=1) if columns else np.empty(data.shape)
    else:
        raise InputError(f"the array must hold numbers, not {data.dtype.name}")
    return Table("the array", None, values, _counted, not_numbers)


def _from_frame(frame: "pd.DataFrame", source: str, words: Words, aside: str) -> Table:
    from pandas.api import types

    texts: list[str] = []
    if aside:
        if list(frame.columns).count(aside) != 1:
            raise _no_column(source, aside)
        texts = [_word(entry) for entry in frame[aside].to_numpy(dtype=object).tolist()]
        frame = frame.drop(columns=aside)
    not_numbers: set[tuple[int, int]] = set()
    values = np.empty(frame.shape, np.float64)
    for s in range(frame.shape[1]):
        column = frame.iloc[:, s]
        kind = column.dtype
        if s not in words and (types.is_integer_dtype(kind) or types.is_float_dtype(kind)):
            values[:, s] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values[:, s] = _objects(column.to_numpy(dtype=object), s, not_numbers, words)
    names = [str(name) for name in frame.columns]
    return Table(source, names, values, row_names(frame), not_numbers, texts)


def row_names(frame: "pd.DataFrame") -> Callable[[int], str]:
    """How the user knows a row; labels that may be names of people stay out of messages."""
    from pandas.api import types

    labels = frame.index
    return (lambda i: f"row {labels[i]}") if types.is_integer_dtype(labels.dtype) else _counted


def _counted(row: int) -> str:
    return f"row {row} (counted from 0)"


def _objects(
    entries: NDArray[Any], column: int, not_numbers: set[tuple[int, int]], words: Words
) -> NDArray[np.float64]:
    """A column of arbitrary objects: numbers as doubles, None and NA as missing."""
    import pandas as pd

    if column in words:
        return _worded(entries, column, not_numbers, words[column])
    values = np.full(len(entries), np.nan)
    for row, entry in enumerate(entries.tolist()):
        try:
            if isinstance(entry, bool):
                not_numbers.add((row, column))
            elif isinstance(entry, Real | Decimal):
                values[row] = float(entry)
            elif entry is not None and entry is not pd.NA and entry is not pd.NaT:
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
        text = _word(entry)
        if text in numbers:
            values[row] = numbers[text]
        elif text:
            not_numbers.add((row, column))
    return values


def _word(entry: Any) -> str:
    """The text of an entry, 3 for 3.0; empty if it is missing."""
    import pandas as pd

    if entry is None or entry is pd.NA or entry is pd.NaT:
        return ""
    if isinstance(entry, float):
        if math.isnan(entry):
            return ""
        return str(int(entry)) if entry.is_integer() else str(entry)
    return str(entry).strip()
