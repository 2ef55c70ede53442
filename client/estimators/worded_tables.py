"""Owners' tables with columns of words, as a user of an estimator has them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from client.estimators.arrays import as_array
from client.estimators.base import Estimator
from client.estimators.given_tables import (
    Labels,
    Missing,
    Tables,
    named_owners,
    named_rows,
    no_rows,
    read_frame,
)
from ppodc.errors import OptionError, TableError
from ppodc.records.encode import capitals, check_values
from ppodc.records.read_table import Table, read, row_names
from ppodc.records.schema import Schema
from ppodc.toml_document import quoted

if TYPE_CHECKING:
    import pandas as pd


def worded_tables(
    estimator: Estimator,
    data: Any,
    *,
    reset: bool,
    columns: Any = None,
    id_column: str | None = None,
) -> Tables:
    """Of each owner an array of words and numbers as objects, missing values among them.

    Parameters are those of `tables_of`; `fitted` makes numbers of them.
    """
    owners, parts = named_owners(data)
    known = getattr(estimator, "feature_names_in_", None) if not reset else None
    names = list(columns) if isinstance(columns, Mapping) else known
    found = Tables(owners=owners)
    for number, (owner, part) in enumerate(zip(owners, parts, strict=True)):
        table = _words_too(part) if isinstance(part, str | Path) else part
        labels: Labels = np.arange(len(table) if hasattr(table, "__len__") else 0)
        named: list[str] | None = None
        if hasattr(table, "iloc") and any(isinstance(name, str) for name in table.columns):
            labels = table.index
            if id_column is not None:
                _check_columns(owner, table, [id_column])
                labels = named_rows(table[id_column], id_column)
                table = table.drop(columns=id_column)
            names = list(table.columns) if names is None else names
            _check_columns(owner, table, names, further=isinstance(columns, Mapping))
            table, named = table[names], list(map(str, names))
        elif id_column is not None:
            raise TableError(f"the table of {owner} has no names of columns, so no {id_column!r}.")
        first = reset and number == 0
        values = as_array(estimator, owner, table, object, names=named, reset=first)
        if not len(values):
            no_rows(owner, estimator, values)
        found.append(values)
        found.labels.append(labels)
        found.kept.append(np.ones(len(values), np.bool_))
    return found


def _words_too(path: str | Path) -> "pd.DataFrame":
    """A file as a DataFrame, whose columns with anything but numbers are texts."""
    table = read(path, empty=True)
    names = table.names or []
    return read_frame(path, {names[place] for _, place in table.not_numbers})


def _check_columns(
    owner: str, frame: "pd.DataFrame", names: Sequence[str], *, further: bool = True
) -> None:
    """Refuse a table that lacks one of these columns or, unless `further`, has others."""
    found = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if found.count(name) > 1})
    missing = [name for name in names if name not in found]
    unknown = [] if further else [name for name in found if name not in names]
    parts = [f"a column name occurs more than once: {quoted(twice)}"] if twice else []
    parts += [f"missing columns {quoted(missing)}"] if missing else []
    parts += [f"unknown columns {quoted(unknown)}"] if unknown else []
    if parts:
        parts += filter(None, [capitals(missing, found)])
        raise TableError(f"the table of {owner}: {'; '.join(parts)}")


def fitted(tables: Tables, schema: Schema, missing: Missing) -> list[Table]:
    """Of each owner the rows that count as numbers, words by their numbers.

    Whatever the schema does not have is refused, by owner, row and column.
    """
    words, names = schema.categories, schema.names
    found = []
    for number, (owner, values) in enumerate(zip(tables.owners, tables, strict=True)):
        table = read(values, categories=words, names=names, text_numbers=True, empty=True)
        named = replace(
            table,
            source=f"the table of {owner}",
            row_name=row_names(tables.labels[number]),
            leave_out=missing == "leave out",
        ).without_gaps()
        check_values(named, schema)
        if named.home.rows is not None:
            tables.kept[number] = np.isin(np.arange(len(values)), named.home.rows)
        found.append(named)
    return found


def by_column(given: Any, estimator: Estimator, parameter: str, what: str) -> list[tuple[str, Any]]:
    """Each column's name and its entry in a parameter; x0, x1, ... if columns have no names."""
    names = getattr(estimator, "feature_names_in_", None)
    width = estimator.n_features_in_
    if isinstance(given, Mapping):
        if names is None:
            raise OptionError(f"{parameter} by name needs tables that name their columns.")
        return [(str(name), given[name]) for name in names]
    if len(given) != width:
        raise OptionError(f"{parameter} must have {width} entries: for each column {what}.")
    known = [f"x{place}" for place in range(width)] if names is None else map(str, names)
    return list(zip(known, given, strict=True))
