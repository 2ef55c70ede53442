"""Tables of different columns: which of them every owner holds, and the columns of their join.

Whose a column is follows from the tables. Owners whose tables have the same columns are one side;
the side of the first table is the anchor, whose rows count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from client.estimators.given_tables import Tables, kept_rows, whole_frames
from client.estimators.record_linkage import RecordLinkage
from client.platforms.jobs import owner_names
from ppodc.errors import OptionError, TableError
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.join import Join
from ppodc.records.schema import Column, Schema
from ppodc.toml_document import quoted


@dataclass(frozen=True, slots=True)
class JoinedTables:
    """The columns of a join, with who holds them, the join itself, and each owner's own columns."""

    schema: Schema
    join: Join
    tables: Tables


def join_parameters(join: Join, schema: Schema) -> dict[str, Any]:
    """The parameters of an estimator with this join over these columns."""
    linking = JoinedColumns.of(join, schema).spec.schema
    linkage = RecordLinkage.from_inside(linking, join.linkage)
    if not linkage.by_name:
        linkage.bounds = {column.name: (column.low, column.high) for column in linking.columns}
    return {"join": linkage, "relation": join.relation, "least": join.least}


def joined_tables(estimator: Any, ub: int, data: Any) -> JoinedTables:
    """From DataFrames or files, by the `join`, `relation`, `least` and `bounds` of an estimator.

    `bounds` name the joined columns, on a grid of 0..ub. The estimator remembers their names. Rows
    with a missing value in a joined column are refused, or left out by its `missing`; what is
    missing to join by never agrees.
    """
    linkage, bounds = estimator.join, estimator.bounds
    if not isinstance(bounds, Mapping):
        raise OptionError("with join, bounds must name the columns to join: {name: (low, high)}.")
    linking, job = linkage.to_join(ub)
    texts = [text.name for text in linking.texts]
    tables = whole_frames(data, texts, getattr(estimator, "id_column", None))
    if len(tables) < 2:
        raise TableError("a join takes a list of tables, one for each owner, two or more.")
    owners = owner_names(estimator.platform, len(tables))
    _check_linking(tables, linking)
    _check_bounds(bounds, linking)
    common = [*linking.names, *(text.name for text in linking.texts)]
    holders = _holders(tables, owners, [name for name in bounds if name not in common])
    columns = [
        Column(name, float(low), float(high), held_by=tuple(holders.get(name, ())))
        for name, (low, high) in bounds.items()
    ]
    columns += [replace(c, use="link") for c in linking.columns if c.name not in bounds]
    schema = Schema(tuple(columns), ub, linking.texts)
    join = Join(job, estimator.relation, owners[0], int(estimator.least))
    sides = JoinedColumns.of(join, schema)
    for number, (owner, table) in enumerate(zip(owners, tables, strict=True)):
        held = sides.own(sides.side_of(owner))
        kept = kept_rows(tables.owners[number], table, held, estimator.missing)
        if not kept.any():
            raise TableError(
                f"the table of {tables.owners[number]} has no rows: nothing can be joined to it."
            )
        further = [name for name in held.names if name not in common]
        tables[number], tables.kept[number] = table[[*common, *further]][kept], kept
    names = schema.used_to("cluster").names
    estimator.feature_names_in_, estimator.n_features_in_ = np.array(names, object), len(names)
    return JoinedTables(schema, join, tables)


def _check_linking(tables: Tables, linking: Schema) -> None:
    """Refuse tables without the columns that join them."""
    for name in [*linking.names, *(text.name for text in linking.texts)]:
        for owner, table in zip(tables.owners, tables, strict=True):
            if name not in table.columns:
                raise TableError(
                    f"the table of {owner} has no column {name!r}, by which rows are joined: every "
                    "table needs it."
                )


def _check_bounds(bounds: Mapping[str, Any], linking: Schema) -> None:
    """Refuse a column with other bounds to join by than to cluster, and texts with bounds."""
    for column in linking.columns:
        low, high = bounds.get(column.name, (column.low, column.high))
        if (float(low), float(high)) != (column.low, column.high):
            raise OptionError(
                f"column {column.name!r} has other bounds to link than to cluster: give it the "
                "same, or leave it out of the bounds."
            )
    texts = [text.name for text in linking.texts if text.name in bounds]
    if texts:
        raise OptionError(f"columns {quoted(texts)} hold texts: leave them out of the bounds.")


def _holders(tables: Tables, owners: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """The owners who have each of the columns that not all are joined by."""
    own = [frozenset(name for name in names if name in table.columns) for table in tables]
    for who, held in zip(tables.owners, own, strict=True):
        if not held:
            raise TableError(
                f"the table of {who} has none of the columns {quoted(names)}: a side of a "
                "join needs a column of its own."
            )
    found = {}
    for name in names:
        holding = [n for n, held in enumerate(own) if name in held]
        if not holding:
            raise OptionError(f"bounds name {name!r}, which is a column of no table.")
        apart = [n for n in holding if own[n] != own[holding[0]]]
        if apart:
            raise OptionError(
                f"column {name!r} is in the tables of {tables.owners[holding[0]]} and "
                f"{tables.owners[apart[0]]}, which hold different columns: leave it out of one."
            )
        found[name] = [owners[n] for n in holding]
    if len(set(own)) < 2:
        raise OptionError(
            "all tables have the same columns: there is nothing to join. dedup counts people whom "
            "several owners hold once."
        )
    return found
