"""Owners' tables as a user of an estimator has them, as arrays: one reader for every form.

A table is a DataFrame of pandas or polars, anything with `__arrow_c_stream__`, the path of a file,
an array or a list of rows. Several tables come as a list, a mapping from owners' names or a
generator. An error names the owner, the row by its label, the column and what to do.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from client.estimators.arrays import as_array
from client.estimators.base import Estimator
from client.estimators.parameters import among
from ppodc.errors import TableError
from ppodc.extras import named_if_missing
from ppodc.records.encode import capitals, check_values
from ppodc.records.read_table import Table, in_pandas, read, row_names, some, word
from ppodc.records.schema import Schema
from ppodc.toml_document import quoted

if TYPE_CHECKING:
    import pandas as pd

Labels: TypeAlias = "pd.Index[Any] | NDArray[np.int64]"  # of the rows of a table
Missing = Literal["refuse", "leave out"]
MISSING = [among("refuse", "leave out")]
LEFT_OUT = -1  # the label of a row that was left out


class Tables(list[Any]):
    """Rows that count of each owner, an array or a DataFrame, with names of owners and rows."""

    def __init__(
        self,
        arrays: Sequence[Any] = (),
        owners: Sequence[str] = (),
        labels: Sequence[Labels] = (),
        kept: Sequence[NDArray[np.bool_]] = (),
    ) -> None:
        super().__init__(arrays)
        self.owners, self.labels, self.kept = list(owners), list(labels), list(kept)

    @property
    def left_out(self) -> list[int]:
        """The number of rows of each owner left out because a value is missing."""
        return [int((~kept).sum()) for kept in self.kept]

    @property
    def kept_labels(self) -> list[Labels]:
        """Labels of the rows that count."""
        return [labels[kept] for labels, kept in zip(self.labels, self.kept, strict=True)]

    def check(self, schema: Schema) -> None:
        """Refuse values outside the bounds, by owner, row and column."""
        for owner, values, labels in zip(self.owners, self, self.kept_labels, strict=True):
            source = f"the table of {owner}"
            check_values(Table(source, schema.names, values, row_names(labels)), schema)

    def among(self, frames: "Sequence[pd.DataFrame]") -> "list[pd.DataFrame]":
        """The rows that count, of other columns of the same tables."""
        return [frame[kept] for frame, kept in zip(frames, self.kept, strict=True)]

    def spread(self, values: Sequence[Any], missing: Any) -> list[Any]:
        """Findings for the rows that count, spread over all rows of each owner; None stays None."""
        found: list[Any] = []
        for kept, own in zip(self.kept, values, strict=True):
            if own is None:
                found.append(None)
                continue
            whole = np.full((len(kept), *own.shape[1:]), missing, own.dtype)
            whole[kept] = own
            found.append(whole)
        return found

    @named_if_missing()
    def frame(self, columns: Mapping[str, Sequence[Any]]) -> "pd.DataFrame":
        """A frame of the findings for every row of owners who have some: (owner, row, ...)."""
        import pandas as pd

        first = next(iter(columns.values()))
        told = [place for place, part in enumerate(first) if part is not None]
        rows = [label for place in told for label in self.labels[place]]
        counts = [len(self.labels[place]) for place in told]
        owners = np.repeat([self.owners[place] for place in told], counts)
        found = {name: np.concatenate([parts[p] for p in told]) for name, parts in columns.items()}
        return pd.DataFrame({"owner": owners, "row": rows, **found})


def tables_of(
    estimator: Estimator,
    data: Any,
    *,
    reset: bool,
    least: int = 1,
    columns: Any = None,
    missing: Missing = "refuse",
    id_column: str | None = None,
) -> Tables:
    """One array for each owner, of at least this many rows.

    `reset`: the estimator remembers the first one's columns; otherwise they are compared with them.
    `columns`: a mapping from the names of those that are wanted; others stay out. `id_column` has
    the names of rows and stays out too.
    """
    owners, parts = named_owners(data)
    wanted = columns if isinstance(columns, Mapping) and columns else None
    tables = [
        _table(owner, part, wanted, id_column) for owner, part in zip(owners, parts, strict=True)
    ]
    known = getattr(estimator, "feature_names_in_", None)
    if wanted is not None and not reset and known is not None:
        names = list(known)
    else:
        names = _common_names(owners, tables)
    found = Tables()
    for number, (owner, (table, labels)) in enumerate(zip(owners, tables, strict=True)):
        if names is not None and table is not None:
            table = table.some_columns(names)
        given = parts[number] if table is None else table.values
        own = None if table is None else table.names
        first = reset and number == 0
        values = as_array(estimator, owner, given, np.float64, names=own, reset=first)
        labels = labels if table is not None else np.arange(len(values))
        if len(values) < least:
            no_rows(owner, estimator, values)
        known = _column_names(estimator, values)
        table = table or Table(f"the table of {owner}", known, values, row_names(labels))
        choice = hasattr(estimator, "missing")
        found.append(_without_missing(table, known, missing, choice=choice))
        found.owners.append(owner)
        found.labels.append(labels)
        found.kept.append(~np.isnan(values).any(axis=1))
    return found


def named_owners(data: Any) -> tuple[list[str], list[Any]]:
    """The owners' names, "owner 1" and so on unless a mapping has others; and their tables."""
    if isinstance(data, Mapping) and not hasattr(data, "shape"):  # a sparse array may be one
        if not data:
            raise TableError("the mapping holds no table: give one for each owner, by its name.")
        return [str(name) for name in data], [in_pandas(table) for table in data.values()]
    if isinstance(data, Iterator):
        data = list(data)
    if isinstance(data, list | tuple) and not data:
        raise TableError("the list holds no table: give one for each owner.")
    parts = [in_pandas(part) for part in data] if _several(data) else [in_pandas(data)]
    return [f"owner {number}" for number in range(1, len(parts) + 1)], parts


def _several(data: Any) -> bool:
    """Whether these are tables, not the rows of one."""
    return isinstance(data, list | tuple) and any(map(_is_table, data))


def _is_table(data: Any) -> bool:
    if isinstance(data, str | Path):
        return isinstance(data, Path) or data.lower().endswith(_ENDINGS)
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "collect") or _depth(data) == 2


_GAPS = ' Fill them in, or say missing="leave out": such rows are left out and counted.'
_SHOWN = 8  # names of columns
_NO_NUMBER = "no number"  # stands for a cell of a file that is none
_ENDINGS = (".csv", ".csv.gz", ".parquet", ".pq", ".xlsx")


def _depth(data: Any) -> int:
    if hasattr(data, "shape"):
        return len(data.shape)
    return 1 + _depth(data[0]) if isinstance(data, list | tuple) and data else 0


def _table(
    owner: str, data: Any, wanted: Mapping[str, Any] | None, id_column: str | None
) -> tuple[Table | None, Labels]:
    """A table with names of columns as it is read, None if it has none; and its rows' labels."""
    frame = hasattr(data, "columns") and hasattr(data, "iloc")
    if frame and not any(isinstance(name, str) for name in data.columns):
        data, frame = data.to_numpy(), False  # numbers for names, as scikit-learn takes them
    if not frame and not isinstance(data, str | Path):
        if id_column is not None:
            raise TableError(f"the table of {owner} has no names of columns, so no {id_column!r}.")
        return None, np.arange(0)  # as many as there turn out to be
    texts = [] if id_column is None else [id_column]
    table = read(data, texts=texts, text_numbers=True, empty=True)
    labels: Labels = data.index if frame else np.arange(len(table.values))
    if id_column is not None:
        if id_column not in table.texts:
            raise TableError(f"the table of {owner} has no column {id_column!r}.")
        labels = named_rows(table.texts[id_column], id_column)
    names = table.names or []
    source = f"the table of {owner}"
    table = Table(source, names, table.values, table.row_name, table.not_numbers)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"{source}: a column name occurs more than once: {quoted(twice)}")
    if wanted is not None:
        missing = [name for name in wanted if name not in names]
        if missing:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            told = capitals(missing, names) or f"it has {quoted(names[:_SHOWN])}{more}"
            raise TableError(f"{source}: missing columns {quoted(missing)}; {told}")
        table = table.some_columns([name for name in names if name in wanted])
    _check_numbers(table, asked=wanted is not None)
    return table, labels


@named_if_missing()
def named_rows(cells: Iterable[Any], column: str) -> Labels:
    """Labels from the cells of a column that names rows."""
    import pandas as pd

    return pd.Index([word(cell) for cell in cells], name=column)


def _check_numbers(table: Table, *, asked: bool) -> None:
    """Refuse columns of texts or dates, and single values that are no numbers.

    `asked`: whether bounds by name ask for these columns.
    """
    names = table.names or []
    bad = np.zeros(table.values.shape, np.bool_)
    for place in table.not_numbers:
        bad[place] = True
    whole = [
        name
        for s, name in enumerate(names)
        if bad[:, s].any() and (bad[:, s] | np.isnan(table.values[:, s])).all()
    ]
    if whole:
        advice = (
            "Make numbers of them (a decimal comma is read from .csv files alone), or leave them "
            "out of the bounds."
            if asked
            else "Leave such columns out, or give bounds by name: only the columns that they name "
            "are used."
        )
        raise TableError(
            f"{table.source}: no numbers are in {quoted(whole)} (texts or dates). {advice}"
        )
    places = [f"{table.row_name(r)}, column {names[s]!r}" for r, s in np.argwhere(bad).tolist()]
    if places:
        raise TableError(f"{table.source}: not a number: {some(places, len(places))}")


def _common_names(owners: list[str], tables: Sequence[tuple[Table | None, Any]]) -> Any:
    """Names of columns in the first table's order; None if no table has any."""
    read_ones = [table for table, _ in tables if table is not None]
    if not read_ones:
        return None
    if len(read_ones) < len(tables):
        raise TableError("some owners' tables have column names and some have none; name them all.")
    names = read_ones[0].names or []
    for owner, table in zip(owners, read_ones, strict=True):
        found = table.names or []
        missing = [name for name in names if name not in found]
        unknown = [name for name in found if name not in names]
        if missing or unknown:
            parts = [f"missing columns {quoted(missing)}"] if missing else []
            parts += [f"unknown columns {quoted(unknown)}"] if unknown else []
            parts += filter(None, [capitals(missing, found)])
            raise TableError(f"the table of {owner}: {'; '.join(parts)}")
    return names


@named_if_missing()
def _framed(table: Table) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(table.values, columns=table.names)


def _column_names(estimator: Estimator, values: NDArray[Any]) -> list[str]:
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and len(known) == values.shape[1]:
        return [str(name) for name in known]
    return [f"x{place}" for place in range(values.shape[1])]


def no_rows(owner: str, estimator: Estimator, values: NDArray[Any]) -> None:
    raise TableError(
        f"Found array with 0 sample(s) (shape={values.shape}) while a minimum of 1 is required by "
        f"{type(estimator).__name__}: the table of {owner} has no rows. Leave that owner out."
    )


def _without_missing(
    table: Table, names: list[str], missing: Missing, *, choice: bool = True
) -> NDArray[np.float64]:
    """The rows without a missing value; refused if there are any, unless they may be left out.

    `choice`: whether whoever asks may choose that they are.
    """
    values = table.values
    bad = np.isinf(values) if missing == "leave out" else ~np.isfinite(values)
    if bad.any():
        gone, places = np.isnan(values), np.argwhere(bad)[:5].tolist()
        shown = [
            f"{table.row_name(r)}, column {names[s]!r}: "
            + ("missing (NaN)" if gone[r, s] else "infinite (inf)")
            for r, s in places
        ]
        advice = _GAPS if gone.any() and choice else ""
        total = int(bad.sum())
        raise TableError(
            f"{table.source}: {total} value{'s' * (total > 1)} cannot be used: "
            f"{some(shown, total)}.{advice}"
        )
    return values[~np.isnan(values).any(axis=1)]


def whole_frames(data: Any, texts: Collection[str], id_column: str | None = None) -> Tables:
    """A DataFrame of each owner with all columns of its table or file."""
    import pandas as pd

    owners, parts = named_owners(data)
    found = Tables(owners=owners)
    for owner, part in zip(owners, parts, strict=True):
        ids = [] if id_column is None else [id_column]
        table = read_frame(part, {*texts, *ids}) if isinstance(part, str | Path) else part
        if not hasattr(table, "iloc") or not hasattr(table, "columns"):
            raise TableError(f"the table of {owner} must be a DataFrame, or the path of a file.")
        names = list(table.columns)
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            raise TableError(
                f"the table of {owner}: a column name occurs more than once: {quoted(twice)}"
            )
        if id_column is not None and id_column not in names:
            raise TableError(f"the table of {owner} has no column {id_column!r}.")
        found.append(table)
        labels = table.index if id_column is None else pd.Index(table[id_column])
        found.labels.append(labels.to_flat_index())
        found.kept.append(np.ones(len(table), np.bool_))
    return found


def kept_rows(
    owner: str, frame: "pd.DataFrame", schema: Schema, missing: Missing
) -> NDArray[np.bool_]:
    """Which rows of an owner's frame have all values of these columns, and within their bounds.

    Others are refused by row and column; a missing value not, if its row may be left out.
    """
    table, labels = _table(owner, frame, dict.fromkeys(schema.names), None)
    if table is None:
        raise TableError(f"the table of {owner} has no names of columns.")
    table = table.some_columns(schema.names)
    kept = np.asarray(~np.isnan(table.values).any(axis=1), np.bool_)
    values = _without_missing(table, schema.names, missing)
    source = f"the table of {owner}"
    check_values(Table(source, schema.names, values, row_names(labels[kept])), schema)
    return kept


def frames_of(data: Any, schema: Schema, id_column: str | None = None) -> Tables:
    """A DataFrame of each owner with the columns of the schema, texts among them."""
    import pandas as pd

    owners, parts = named_owners(data)
    texts = [text.name for text in schema.texts]
    wanted = [*schema.names, *texts]
    found = Tables(owners=owners)
    for owner, part in zip(owners, parts, strict=True):
        ids = [] if id_column is None else [id_column]
        table = read_frame(part, {*texts, *ids}) if isinstance(part, str | Path) else part
        missing = [name for name in (*wanted, *ids) if name not in getattr(table, "columns", ())]
        if missing:
            raise TableError(f"the table of {owner} has no column {missing[0]!r}.")
        found.append(table[wanted])
        labels = table.index if id_column is None else pd.Index(table[id_column])
        found.labels.append(labels.to_flat_index())
        found.kept.append(np.ones(len(table), np.bool_))
    return found


def read_frame(path: str | Path, texts: Collection[str]) -> "pd.DataFrame":
    """A file as a DataFrame; columns of texts have their cells as written."""
    table = read(path, texts=texts, empty=True)
    frame = _framed(table)
    for row, place in table.not_numbers:  # whoever reads the column refuses it by its place
        name = frame.columns[place]
        if frame[name].dtype != object:
            frame[name] = frame[name].astype(object)
        frame.iloc[row, place] = _NO_NUMBER
    return frame.assign(**table.texts)
