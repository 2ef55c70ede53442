"""Several owners' tables through the whole platform on this machine; what the estimators share.

Both clouds, every owner and the master are real processes with keys and folders of their own; this
process plays the operator and the owners.
"""

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from client.operator import Operator
from client.owner import Owner
from ppodc.errors import InputError
from ppodc.local.platform import LocalPlatform
from ppodc.records.schema import Column, Schema
from ppodc.records.toml_document import quoted
from ppodc.spec import Spec

Bounds = tuple[float, float] | Sequence[tuple[float, float]] | Literal["data"] | None
Tables = list[NDArray[Any]]


def run_here(spec: Spec, tables: Tables, suite: str | None = None, pairs: int = 1) -> list[Any]:
    """The result as each owner opens it, in the order of their tables."""
    names = [f"owner{i}" for i in range(1, len(tables) + 1)]
    with tempfile.TemporaryDirectory(prefix="ppodc-") as folder:
        platform = LocalPlatform(Path(folder, "platform"), owners=names, pairs=pairs)
        with platform:
            spec = replace(spec, owners=platform.members())
            with Operator.connect(platform.config("operator")) as operator:
                operator.create(spec)
            for name, records in zip(names, tables, strict=True):
                with Owner.connect(platform.config(name)) as owner:
                    owner.upload(spec.name, records, spec=spec, progress=False)
            platform.run(spec.name, suite)
            results = []
            for name in names:
                with Owner.connect(platform.config(name)) as owner:
                    results.append(owner.result(spec.name))
    return results


def tables_of(data: Any, kind: DTypeLike = np.float64) -> Tables:
    """One two-dimensional array for each owner, of numbers unless another kind is wanted."""
    if hasattr(data, "to_numpy") or (isinstance(data, np.ndarray) and data.ndim == 2):
        data = [data]
    try:
        tables = [np.asarray(part, dtype=kind) for part in _aligned(list(data))]
    except (TypeError, ValueError):
        raise InputError("the tables must hold numbers, in rows of the same length.") from None
    if tables and all(part.ndim == 1 for part in tables):  # a table given as nested lists
        tables = [np.stack(tables)]
    if not tables or any(part.ndim != 2 or not len(part) for part in tables):
        raise InputError("give one table (rows by columns) for each owner, none of them empty.")
    if len({part.shape[1] for part in tables}) != 1:
        raise InputError("all owners' tables must have the same columns.")
    return tables


def _aligned(tables: list[Any]) -> list[Any]:
    """Columns with names stand in the first table's order in all of them."""
    if not any(hasattr(table, "columns") for table in tables):
        return tables
    if not all(hasattr(table, "columns") for table in tables):
        raise InputError("some owners' tables have column names and some have none; name them all.")
    names = list(tables[0].columns)
    for number, table in enumerate(tables, 1):
        found = list(table.columns)
        missing = [str(name) for name in names if name not in found]
        unknown = [str(name) for name in found if name not in names]
        if missing or unknown:
            parts = [f"missing columns {quoted(missing)}"] if missing else []
            parts += [f"unknown columns {quoted(unknown)}"] if unknown else []
            raise InputError(f"the table of owner {number}: {'; '.join(parts)}")
        if len(set(found)) < len(found):
            raise InputError(f"the table of owner {number}: a column name occurs more than once")
    return [table[names] for table in tables]


def schema_of(tables: Tables, bounds: Bounds, ub: int) -> Schema:
    """Columns x0, x1, ... with their public bounds."""
    pairs = _bounds(tables, bounds)
    columns = (Column(f"x{i}", float(low), float(high)) for i, (low, high) in enumerate(pairs))
    return Schema(tuple(columns), ub)


def _bounds(tables: Tables, bounds: Bounds) -> list[tuple[float, float]]:
    width = tables[0].shape[1]
    if bounds is None:
        raise InputError(
            "bounds must be given: (low, high), or one pair for each column. They are public, "
            "so choose them by meaning; bounds='data' takes them from the data and leaks them."
        )
    if isinstance(bounds, str):
        if bounds != "data":
            raise InputError(f"bounds must be numbers or 'data', not {bounds!r}.")
        warnings.warn(
            "bounds='data' tells both clouds the smallest and largest value of every column.",
            stacklevel=5,
        )
        rows = np.concatenate(tables)
        low, high = rows.min(axis=0), rows.max(axis=0)
        # a constant column needs some width; where it lies does not matter
        return [
            (a, b if b > a else a + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
    pairs = np.asarray(bounds, dtype=float)
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (width, 1))
    if pairs.shape != (width, 2):
        raise InputError(f"bounds must be one pair, or {width} pairs of (low, high).")
    return [(low, high) for low, high in pairs.tolist()]
