"""The totals as an owner opens them, in real units; rounded once, at the very end.

With S and Q the sum and the sum of squares of a column's encoded values, u = (high - low) / ub:
sum = m low + u S, mean = sum / m, variance = u^2 (Q / m - (S / m)^2), the population's. With C the
sum of products of two columns, covariance = u u' (C / m - S S' / m^2). Of no rows, means are NaN.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.extras import named_if_missing
from ppodc.notebook import ShownInNotebooks
from ppodc.records.result_shares import Table
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from ppodc.totals.job import job_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Totals(ShownInNotebooks):
    """Of each column, over the records of all owners.

    `encoded_sums_` and `encoded_squares_` are exact, in encoded units 0..ub; the others follow
    from them. `var_` is None if the spec does not offer it, as `cov_` and `corr_`, the population's
    covariances and correlations of every two columns; a column that does not vary has no
    correlation (NaN). To an owner without whose records fewer than `least` are left nothing is
    told: NaN, and no encoded sums. Joined rows count as none if fewer than `least` are joined;
    where owners share a side, if fewer of them hold a row of another of these.
    """

    count_: int
    sum_: NDArray[np.float64]
    mean_: NDArray[np.float64]
    var_: NDArray[np.float64] | None
    encoded_sums_: list[int]
    encoded_squares_: list[int] | None
    columns: tuple[str, ...]
    cov_: NDArray[np.float64] | None = None
    corr_: NDArray[np.float64] | None = None
    encoded_cross_: list[list[int]] | None = None

    def table(self) -> Table:
        """Headings and rows, one for each column."""
        headings, listed = ["column", "sum", "mean"], [self.sum_, self.mean_]
        if self.var_ is not None:
            headings, listed = [*headings, "variance"], [*listed, self.var_]
        rows = [
            [name, *(float(values[i]) for values in listed)] for i, name in enumerate(self.columns)
        ]
        return headings, rows

    def correlations(self) -> Table | None:
        """Headings and rows of the correlations of every two columns, if there are any."""
        if self.corr_ is None or not self.told:
            return None
        rows = [[n, *row] for n, row in zip(self.columns, self.corr_.tolist(), strict=True)]
        return ["correlation", *self.columns], rows

    @named_if_missing()
    def to_frame(self) -> "pd.DataFrame":
        """A row for each column, with the headings of `table`, and the standard deviation."""
        import pandas as pd

        headings, rows = self.table()
        frame = pd.DataFrame(rows, columns=headings).set_index("column")
        return frame if self.var_ is None else frame.assign(std=np.sqrt(self.var_))

    def describe(self) -> "pd.DataFrame":
        """In the form of pandas' `describe`: count, mean and standard deviation of each column.

        The deviation is the population's. Extremes and quantiles are not revealed by this job.
        """
        frame = self.to_frame()
        frame.insert(0, "count", float(self.count_))
        shown = frame[[name for name in ("count", "mean", "std") if name in frame]].T
        return shown.rename_axis(columns=None)

    def summary(self) -> str:
        """A line on the table."""
        why = "; fewer of others than `least`: you are told no totals" if not self.told else ""
        return f"records: {self.count_}{why}"

    @property
    def told(self) -> bool:
        """Whether this owner is told the totals."""
        return bool(self.encoded_sums_)

    def own_rows(self) -> dict[str, list[int]]:
        """Totals say nothing about single rows."""
        return {}

    def figures(self) -> dict[str, Any]:
        """The whole result as plain types for JSON."""
        figures = {"count": self.count_, "columns": list(self.columns)}
        arrays = {"sum": self.sum_, "mean": self.mean_, "var": self.var_}
        if self.cov_ is not None:
            arrays |= {"cov": self.cov_, "corr": self.corr_}
        told = {n: a if self.told else None for n, a in arrays.items()}
        return figures | {n: None if a is None else _listed(a) for n, a in told.items()}


def _listed(array: NDArray[np.float64]) -> Any:
    """Plain types for JSON, in which null stands for NaN."""
    if array.ndim > 1:
        return [_listed(row) for row in array]
    return [None if math.isnan(value) else value for value in array.tolist()]


def totals(
    spec: Spec,
    count: int,
    sums: list[int],
    squares: list[int] | None,
    cross: list[list[int]] | None = None,
) -> Totals:
    """From exact sums in encoded units."""
    schema = job_of(spec).totalled(spec.schema)
    columns, ub = schema.columns, schema.ub
    if not count:
        return _of_nothing(schema, squares, cross)
    real = [count * Fraction(c.low) + _unit(c, ub) * s for c, s in zip(columns, sums, strict=True)]
    variances = None
    if squares is not None:
        spreads = zip(columns, sums, squares, strict=True)
        variances = _floats([_unit(c, ub) ** 2 * _spread(count, s, q) for c, s, q in spreads])
    return Totals(
        count_=count,
        sum_=_floats(real),
        mean_=_floats([value / count for value in real]),
        var_=variances,
        encoded_sums_=sums,
        encoded_squares_=squares,
        columns=tuple(schema.names),
        **({} if cross is None else _crossed(columns, ub, count, sums, cross)),
    )


def _crossed(
    columns: Sequence[Column], ub: int, count: int, sums: list[int], cross: list[list[int]]
) -> dict[str, Any]:
    """Covariances and correlations from exact sums of products."""
    places = range(len(columns))
    spread = [[count * cross[s][q] - sums[s] * sums[q] for q in places] for s in places]
    units = [_unit(column, ub) / count for column in columns]
    cov = [_floats([units[s] * units[q] * spread[s][q] for q in places]) for s in places]
    corr = [
        [
            spread[s][q] / math.sqrt(spread[s][s] * spread[q][q])
            if spread[s][s] and spread[q][q]
            else math.nan
            for q in places
        ]
        for s in places
    ]
    return {"cov_": np.array(cov), "corr_": np.array(corr), "encoded_cross_": cross}


def _of_nothing(schema: Schema, squares: list[int] | None, cross: list[list[int]] | None) -> Totals:
    """No rows, or fewer than owners may be told of."""
    width = len(schema.columns)
    none, zeros = np.full(width, np.nan), [0] * width
    table = None if cross is None else np.full((width, width), np.nan)
    return Totals(
        count_=0,
        sum_=np.zeros(width),
        mean_=none,
        var_=None if squares is None else none.copy(),
        encoded_sums_=zeros,
        encoded_squares_=None if squares is None else list(zeros),
        columns=tuple(schema.names),
        cov_=table,
        corr_=None if table is None else table.copy(),
        encoded_cross_=cross,
    )


def untold(spec: Spec, count: int) -> Totals:
    """The result of an owner who is told no totals."""
    nothing = np.full(len(spec.schema.columns), np.nan)
    variance = getattr(spec.job, "variance", False)
    variances, squares = (nothing, list[int]()) if variance else (None, None)
    names = tuple(spec.schema.names)
    return Totals(count, nothing, nothing, variances, [], squares, names)


def _spread(count: int, total: int, squares: int) -> Fraction:
    return Fraction(squares, count) - Fraction(total, count) ** 2


def _unit(column: Column, ub: int) -> Fraction:
    return (Fraction(column.high) - Fraction(column.low)) / ub


def _floats(values: list[Fraction]) -> NDArray[np.float64]:
    return np.array([float(value) for value in values], np.float64)
