"""Tables as owners have them, cell by cell: for jobs that compare texts as well as numbers."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ppodc.errors import InputError
from ppodc.records.read_table import check_ragged, csv_rows, from_path, header_of, row_names

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Cells:
    """A table as it stands: texts or numbers, None where a value is missing, column by column."""

    source: str
    names: list[str] | None
    columns: list[list[Any]]
    row_name: Callable[[int], str]

    @property
    def rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0


def read_cells(
    data: "pd.DataFrame | str | Path", *, header: bool = True, empty: bool = False
) -> Cells:
    """The cells of a table from a path (.csv, .csv.gz, .parquet) or a DataFrame.

    `empty`: it may have columns and no rows.
    """
    if isinstance(data, str | Path):
        cells = from_path(Path(data), lambda stream, source: _csv(stream, source, header), _frame)
    elif hasattr(data, "columns") and hasattr(data, "iloc"):
        cells = _frame(data, "the DataFrame")
    else:
        raise InputError("records with texts must come as a DataFrame or the path of a file")
    if not cells.rows and not (empty and cells.columns):
        raise InputError(f"{cells.source} holds no records")
    return cells


def _csv(stream: TextIO, source: str, header: bool) -> Cells:
    rows = csv_rows(stream)
    names = header_of(rows, source) if header else None
    width = len(names) if names else 0
    columns: list[list[Any]] = [[] for _ in range(width)]
    lines, ragged = array("q"), []
    for line, fields in rows:
        if not width:
            width, columns = len(fields), [[] for _ in fields]
        if len(fields) != width:
            ragged.append(f"line {line} has {len(fields)}")
            continue
        lines.append(line)
        for column, text in zip(columns, fields, strict=True):
            column.append(text.strip() or None)
    check_ragged(source, width, ragged)
    return Cells(source, names, columns, lambda i: f"line {lines[i]}")


def _frame(frame: "pd.DataFrame", source: str) -> Cells:
    columns = [
        [None if gone else entry for entry, gone in zip(column, column.isna(), strict=True)]
        for column in (frame.iloc[:, s] for s in range(frame.shape[1]))
    ]
    return Cells(source, [str(name) for name in frame.columns], columns, row_names(frame))
