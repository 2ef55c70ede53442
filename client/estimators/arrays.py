"""Tables as arrays, and the columns that an estimator remembers of them.

What is refused, and warned of, is what scikit-learn refuses; no error shows a value.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from client.estimators.base import Estimator
from ppodc.errors import TableError
from ppodc.toml_document import quoted

_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
    "array.reshape(1, -1) if it contains a single sample."
)


class TableTypeError(TableError, TypeError):
    """Something else than a table, where scikit-learn has a TypeError."""


def as_array(
    estimator: Estimator,
    owner: str,
    table: Any,
    dtype: DTypeLike,
    *,
    names: Sequence[str] | None,
    reset: bool,
) -> NDArray[Any]:
    """The table as an array of two dimensions, with columns as the estimator remembers them.

    `names` are those of the columns, None if they have none. `reset`: the estimator remembers them;
    otherwise they are compared with what it remembers.
    """
    try:
        values = _two_dimensions(table, dtype)
        _compare_names(estimator, names, reset=reset)
        _compare_width(estimator, values.shape[1], reset=reset)
    except (TypeError, ValueError) as error:
        kind = TableError if isinstance(error, ValueError) else TableTypeError
        raise kind(
            f"the table of {owner} cannot be used: {str(error).rstrip('.')}. A table is a "
            "DataFrame, an array, a list of rows of numbers, or the path of a file."
        ) from error
    return values


def _two_dimensions(table: Any, dtype: DTypeLike) -> NDArray[Any]:
    if hasattr(table, "tocsr"):
        raise TypeError("Sparse data was passed, but dense data is required. Use '.toarray()'.")
    values = np.asarray(table, object if dtype is object else None)
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported.")
    try:
        if values.dtype.kind == "O" and dtype is not object and hasattr(table, "iloc"):
            values = table.to_numpy(dtype=dtype, na_value=np.nan)
        values = values.astype(dtype, copy=False)
    except ValueError as error:
        raise ValueError(str(error).partition(":")[0]) from error  # a value is behind the colon
    if values.ndim == 2 and values.shape[1]:
        return values
    if values.ndim == 2:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={values.shape}) while a minimum of 1 is "
            "required."
        )
    if values.ndim > 2:
        raise ValueError(f"Found array with dim {values.ndim}, while dim <= 2 is required.")
    raise ValueError(f"Expected 2D array, got {values.ndim}D array instead. {_RESHAPE}")


def _compare_names(estimator: Estimator, names: Sequence[str] | None, *, reset: bool) -> None:
    known, kind = getattr(estimator, "feature_names_in_", None), type(estimator).__name__
    if reset:
        if names is not None:
            estimator.feature_names_in_ = np.array(names, object)
        elif known is not None:
            del estimator.feature_names_in_
    elif names is None and known is not None:
        warnings.warn(
            f"X does not have valid feature names, but {kind} was fitted with feature names",
            stacklevel=6,
        )
    elif names is not None and known is None:
        warnings.warn(
            f"X has feature names, but {kind} was fitted without feature names", stacklevel=6
        )
    elif names is not None and known is not None and list(names) != list(known):
        raise ValueError(_other_names(set(names), set(known)))


def _other_names(names: set[str], known: set[str]) -> str:
    parts = ["The feature names should match those that were passed during fit"]
    if unseen := sorted(names - known):
        parts.append(f"Feature names unseen at fit time, {quoted(unseen)}")
    if gone := sorted(known - names):
        parts.append(f"Feature names seen at fit time, yet now missing, {quoted(gone)}")
    if names == known:
        parts.append("Feature names must be in the same order as they were in fit")
    return ". ".join(parts)


def _compare_width(estimator: Estimator, width: int, *, reset: bool) -> None:
    if reset:
        estimator.n_features_in_ = width
    elif width != (known := getattr(estimator, "n_features_in_", width)):
        raise ValueError(
            f"X has {width} features, but {type(estimator).__name__} is expecting {known} features "
            "as input."
        )
