"""Histograms by totals: a column of 0 and 1 for each interval, whose sum counts its records.

The intervals are columns of the spec, so everybody who agrees to it sees them. Counts are exact,
and so are the intervals that quantiles lie in. A count of few records says much about them, as any
total of few does: choose intervals in which many lie.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import OptionError
from ppodc.extras import named_if_missing
from ppodc.records.schema import Column, Schema
from ppodc.toml_document import quoted
from ppodc.totals.result import Totals

if TYPE_CHECKING:
    import pandas as pd

MOST = 64  # intervals of a column
Bins = Mapping[str, int | Sequence[float]]


@dataclass(frozen=True, slots=True)
class Histograms:
    """Edges of the intervals of some columns, from low to high of each."""

    edges: Mapping[str, NDArray[np.float64]]
    names: tuple[str, ...]  # of all columns of numbers

    @classmethod
    def of(cls, bins: Bins, schema: Schema) -> "Histograms":
        """Intervals as asked for: a number of equal ones, or where to cut."""
        known = {column.name: column for column in schema.columns}
        unknown = [str(name) for name in bins if name not in known]
        if unknown:
            raise OptionError(f"bins: there is no column {quoted(unknown)}.")
        edges = {name: _edges(known[name], cuts) for name, cuts in bins.items()}
        return cls(edges, tuple(schema.names))

    def schema(self, schema: Schema) -> Schema:
        """The columns, and one for each interval."""
        more = [
            Column(f"{name} in {interval}", 0.0, 1.0)
            for name in self.edges
            for interval in _intervals(self.edges[name])
        ]
        return replace(schema, columns=(*schema.columns, *more))

    def rows(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """An owner's rows with 1 in the column of each interval that a value lies in."""
        parts = [rows]
        for name, edges in self.edges.items():
            place = self._places(rows[:, self.names.index(name)], edges)
            parts.append(np.eye(len(edges) - 1)[place])
        return np.concatenate(parts, axis=1)

    @staticmethod
    def _places(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.searchsorted(edges[1:-1], values, side="right").astype(np.int64)

    @named_if_missing()
    def counts(self, totals: Totals) -> "dict[str, pd.Series[Any]]":
        """Records in each interval, by column; NaN if the owner is told no totals."""
        import pandas as pd

        found, at = {}, len(self.names)
        for name, edges in self.edges.items():
            size = len(edges) - 1
            counts = totals.sum_[at : at + size]
            index = pd.IntervalIndex.from_breaks(edges, closed="left", name=name)
            kind = np.int64 if totals.told else np.float64
            found[name] = pd.Series(np.rint(counts).astype(kind), index, name="records")
            at += size
        return found

    def without(self, totals: Totals) -> Totals:
        """The totals of the columns of numbers alone."""
        kept = len(self.names)
        squares, variances = totals.encoded_squares_, totals.var_
        return replace(
            totals,
            sum_=totals.sum_[:kept],
            mean_=totals.mean_[:kept],
            var_=None if variances is None else variances[:kept],
            encoded_sums_=totals.encoded_sums_[:kept],
            encoded_squares_=None if squares is None else squares[:kept],
            columns=self.names,
        )


def quantile(counts: "pd.Series[Any]", q: float) -> Any:
    """The interval in which the value lies below which a share q of the records is."""
    if not 0 <= q <= 1:
        raise OptionError("a quantile is a share from 0 to 1.")
    below = counts.cumsum().to_numpy(np.float64)
    if not below[-1] > 0:  # NaN, too
        return np.nan
    place = np.searchsorted(below, max(1.0, np.ceil(q * below[-1])))
    return counts.index[int(place)]


def _edges(column: Column, cuts: Any) -> NDArray[np.float64]:
    if isinstance(cuts, int):
        edges = np.linspace(column.low, column.high, max(cuts, 0) + 1)
    else:
        inner = [float(cut) for cut in cuts if column.low < cut < column.high]
        edges = np.array([column.low, *inner, column.high])
        if len(inner) < len([cut for cut in cuts if cut not in (column.low, column.high)]):
            raise OptionError(f"bins of {column.name!r}: cut from {column.low} to {column.high}.")
    if not 3 <= len(edges) <= MOST + 1 or (np.diff(edges) <= 0).any():
        raise OptionError(
            f"bins of {column.name!r}: give a number from 2 to {MOST}, or rising cuts between the "
            "bounds."
        )
    return edges


def _intervals(edges: NDArray[np.float64]) -> list[str]:
    ends = [*[")"] * (len(edges) - 2), "]"]
    both = zip(edges[:-1], edges[1:], ends, strict=True)
    return [f"[{low:g}, {high:g}{end}" for low, high, end in both]
