"""Parameters that estimators share: public bounds, numbers of records, seeds."""

import secrets
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from client.estimators.parameters import ARRAY, BY_NAME, NOTHING, RANDOM_STATE, among, whole
from ppodc.errors import OptionError, TableError
from ppodc.kmeans.row_choice import MAX_SEED
from ppodc.records.schema import Column, Schema
from ppodc.toml_document import quoted

Pair = tuple[float, float]
Bounds = Pair | Sequence[Pair] | Mapping[str, Pair] | Literal["data"] | None

BOUNDS = [among("data"), ARRAY, BY_NAME, NOTHING]
SEEDS = [whole(0, MAX_SEED), RANDOM_STATE, NOTHING]
_DRAWN_BELOW = 1 << 31  # what a RandomState of scikit-learn is asked for


def refuse(given: Mapping[str, object]) -> None:
    """Refuse arguments that other estimators' `fit` takes, with the reason."""
    wanted = [name for name, value in given.items() if value is not None]
    if "sample_weight" in wanted:
        raise OptionError(
            "sample_weight is not offered: every record counts once, so that no owner can give its "
            "own more weight than the others agreed to, and min_size and epsilon mean what they "
            "say. A row given several times counts as often."
        )
    if wanted:
        raise TypeError(f"fit() got an unexpected keyword argument {wanted[0]!r}")


def check_rows(tables: Sequence[NDArray[Any]], clusters: int) -> int:
    """The number of records, which are enough to start that many clusters from."""
    rows = sum(map(len, tables))
    if rows < clusters:
        raise TableError(f"n_samples={rows} should be >= n_clusters={clusters}.")
    return rows


def schema_of(
    tables: Sequence[NDArray[Any]], bounds: Bounds, ub: int, names: Sequence[str] | None = None
) -> Schema:
    """The columns, x0, x1, ... if they have no names, with their public bounds."""
    known = [f"x{i}" for i in range(tables[0].shape[1])] if names is None else list(names)
    pairs = _bounds(tables, bounds, known)
    columns = (Column(str(name), *pair) for name, pair in zip(known, pairs, strict=True))
    return Schema(tuple(columns), ub)


def _bounds(tables: Sequence[NDArray[Any]], bounds: Bounds, names: list[str]) -> list[Pair]:
    width = len(names)
    if bounds is None:
        raise OptionError(
            "bounds must be given: (low, high), or one pair for each column. They are public, "
            "so choose them by meaning; bounds='data' takes them from the data and leaks them."
        )
    if isinstance(bounds, str):
        if bounds != "data":
            raise OptionError(f"bounds must be numbers or 'data', not {bounds!r}.")
        return _extremes(tables)
    if isinstance(bounds, Mapping):
        missing = [name for name in names if name not in bounds]
        unknown = [str(name) for name in bounds if name not in names]
        if missing or unknown:
            parts = [f"none are given for {quoted(missing)}"] if missing else []
            parts += [f"there is no column {quoted(unknown)}"] if unknown else []
            raise OptionError(f"bounds by name must be for just the columns: {'; '.join(parts)}.")
        bounds = [bounds[name] for name in names]
    try:
        pairs = np.asarray(bounds, dtype=float)
    except (TypeError, ValueError):
        raise OptionError(
            "bounds must be numbers: one pair (low, high), or such a pair for each column."
        ) from None
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (width, 1))
    if pairs.shape != (width, 2):
        raise OptionError(f"bounds must be one pair, or {width} pairs of (low, high).")
    return [(low, high) for low, high in pairs.tolist()]


def _extremes(tables: Sequence[NDArray[Any]]) -> list[Pair]:
    warnings.warn(
        "bounds='data' reveals to every party the smallest and largest value of every column; no "
        "epsilon covers that.",
        stacklevel=6,
    )
    rows = np.concatenate(tables)
    if not len(rows):
        raise OptionError("bounds='data' needs records: give bounds.")
    low, high = rows.min(axis=0).tolist(), rows.max(axis=0).tolist()
    # a constant column needs some width; where it lies does not matter
    return [(a, b if b > a else a + max(1.0, abs(a))) for a, b in zip(low, high, strict=True)]


def seed_of(random_state: Any) -> int:
    """The public seed: the number itself, one drawn from a RandomState, or a new one."""
    if random_state is None:
        return secrets.randbelow(MAX_SEED + 1)
    if hasattr(random_state, "randint"):
        return int(random_state.randint(_DRAWN_BELOW))
    return int(random_state)
