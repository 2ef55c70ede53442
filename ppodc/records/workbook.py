"""The first sheet of an .xlsx file, as Excel and LibreOffice write it.

`openpyxl` reads it, an optional extra. Formulas count as the values that were saved with them.
"""

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from ppodc.errors import TableError
from ppodc.extras import named_if_missing

if TYPE_CHECKING:
    import pandas as pd


def first_sheet(path: Path, *, header: bool) -> "tuple[int, pd.DataFrame]":
    """(number of the first row in the sheet, cells below the names of the columns).

    Empty rows at the end are left out. Dates become texts of 8 digits, as linkages compare them.
    """
    with named_if_missing():
        import pandas as pd
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    try:
        book = load_workbook(path, read_only=True, data_only=True)
        rows = [list(row) for row in book.worksheets[0].iter_rows(values_only=True)]
        book.close()
    except (InvalidFileException, BadZipFile, KeyError, IndexError, ValueError) as error:
        raise TableError(f"{path} is not a readable .xlsx file") from error
    while rows and all(cell is None for cell in rows[-1]):
        rows.pop()
    if not rows:
        raise TableError(f"{path}: the first sheet is empty")
    names = rows.pop(0) if header else [None] * len(rows[0])
    width = max((place + 1 for place, name in enumerate(names) if name is not None), default=0)
    if not header:
        width = len(names)
    if header and any(name is None for name in names[:width]):
        raise TableError(f"{path}: a column of the first sheet has no name in the first row")
    cells = [[_cell(cell) for cell in (row + [None] * width)[:width]] for row in rows]
    columns = [str(name).strip() for name in names[:width]]
    frame = pd.DataFrame(cells, columns=columns, dtype=object)
    return (2 if header else 1), frame


def _cell(cell: Any) -> Any:
    if isinstance(cell, datetime.datetime | datetime.date):
        return f"{cell:%Y%m%d}"
    if isinstance(cell, str):
        return cell.strip() or None
    return cell
