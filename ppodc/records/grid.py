"""Real values to integers 0..ub, and centres back to real units.

A value x of a column with public bounds low and high becomes round((x - low) / (high - low) * ub),
halves to even. Values and bounds are doubles and the rounding is that of the exact quotient, so
every owner gets the same integers on every machine.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.records.schema import Column, Schema

# The double quotient is off by less than 4 * 2^-53 * ub <= 2^-31: only values this near to a half
# can round to the wrong side, and they are rounded exactly.
_NEAR_HALF = 2.0**-28


def on_steps(values: NDArray[np.float64], schema: Schema) -> NDArray[np.int64]:
    """Values within the bounds as integers 0..ub, (m, l)."""
    encoded = np.empty(values.shape, np.int64)
    for s, column in enumerate(schema.columns):
        encoded[:, s] = _scaled(values[:, s], column, schema.ub)
    return encoded


def outside(values: NDArray[np.float64], schema: Schema, beyond: int = 0) -> NDArray[np.bool_]:
    """Which values are no numbers within the bounds, or lie more than `beyond` widths outside."""
    low = np.array([column.low for column in schema.columns])
    high = np.array([column.high for column in schema.columns])
    low, high = low - beyond * (high - low), high + beyond * (high - low)
    bad: NDArray[np.bool_] = ~((values >= low) & (values <= high))  # NaN is bad too
    return bad | np.isinf(values)


def fault(value: float, column: Column, beyond: int = 0) -> str:
    """Why a value is outside, or more than `beyond` widths outside; without the value itself."""
    if np.isnan(value):
        return "missing"
    if np.isinf(value):
        return "infinite"
    margin = beyond * (column.high - column.low)
    low, high = column.low - margin, column.high + margin
    limit = f", {beyond} times the column's range beyond its bounds" if beyond else ""
    return (f"below {low!r}" if value < column.low else f"above {high!r}") + limit


def _scaled(values: NDArray[np.float64], column: Column, ub: int) -> NDArray[np.int64]:
    quotient = (values - column.low) / (column.high - column.low) * ub
    rounded = np.rint(quotient).astype(np.int64)
    near = np.abs(quotient - np.floor(quotient) - 0.5) < _NEAR_HALF
    if near.any():
        low, width = Fraction(column.low), Fraction(column.high) - Fraction(column.low)
        distinct, back = np.unique(values[near], return_inverse=True)
        exact = [round((Fraction(x) - low) / width * ub) for x in distinct.tolist()]
        rounded[near] = np.array(exact, np.int64)[back]
    return rounded


def decode_centres(sums: NDArray[Any], sizes: NDArray[Any], schema: Schema) -> NDArray[np.float64]:
    """The centres sums / size in real units, (k, l); rounded once, at the very end.

    A cluster of size 0 has a centre of NaN.
    """
    if sums.shape != (len(sizes), len(schema.columns)):
        raise InputError(f"the sums have shape {sums.shape}, which does not fit the schema")
    out = np.full(sums.shape, np.nan, np.float64)
    for h, size in enumerate(sizes.tolist()):
        if size == 0:
            continue
        for s, column in enumerate(schema.columns):
            low, high = Fraction(column.low), Fraction(column.high)
            out[h, s] = float(low + Fraction(int(sums[h, s]), size * schema.ub) * (high - low))
    return out
