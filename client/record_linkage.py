"""`RecordLinkage`: which rows of several owners are the same, without showing a row to anybody."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from client.one_machine import Bounds, run_here, schema_of, tables_of
from ppodc.errors import InputError
from ppodc.linkage.job import Job, Output
from ppodc.linkage.result import LinkResult
from ppodc.linkage.rules import SquaredDistance, fraction
from ppodc.spec import Spec


class RecordLinkage:
    """Finds rows of different owners whose values are equal or near.

    Neither cloud sees a value, a match or the number of matches; each owner learns the partners of
    its own rows and nothing about other rows. Exact for the values as rounded to 0..ub between the
    bounds. Every pair of rows of two owners is compared.

    Parameters
    ----------
    theta : rows match if the weighted sum of squared differences, of values scaled to 0..1, is at
        most this; a number or text such as "1/200", taken exactly. 0: equal after rounding.
    weights : a whole number for each column; 1 for all if left out.
    bounds : (low, high) for all columns, or one pair for each. Public, so they must be given;
        "data" takes them from the data, which tells both clouds the extremes.
    ub : values are rounded to whole numbers 0..ub between the bounds.
    output : "links" (partner of each row, if it has exactly one) or "flags" (whether it has any).

    Attributes
    ----------
    partners_ : for each owner, 0, 1 or 2 (none, one, several) of each row; 0 or 1 with flags.
    links_ : pairs ((owner, row), (owner, row)) that name each other; owners and rows from 0.
    """

    def __init__(
        self,
        *,
        theta: float | str = 0,
        weights: Sequence[int] | None = None,
        bounds: Bounds = None,
        ub: int = 1000,
        output: Output = "links",
    ) -> None:
        self.theta = theta
        self.weights = weights
        self.bounds = bounds
        self.ub = ub
        self.output = output

    def fit(self, X: Sequence[ArrayLike], y: object = None) -> "RecordLinkage":  # noqa: N803
        """Link the owners' arrays: a list with one array for each of at least two owners."""
        tables = tables_of(X)
        if len(tables) < 2:
            raise InputError("a linkage needs the tables of at least two owners.")
        schema = schema_of(tables, self.bounds, self.ub)
        job = Job(self.rule(len(schema.columns), self.ub), self.output)
        results: list[LinkResult] = run_here(Spec("rows", schema, job), tables)
        self.partners_ = [result.partners_ for result in results]
        self.links_ = _mutual(results)
        return self

    def rule(self, columns: int, ub: int) -> SquaredDistance:
        """When two rows of so many columns of values 0..ub match."""
        weights = (1,) * columns if self.weights is None else tuple(self.weights)
        return SquaredDistance.scaled(weights, fraction(self.theta, "theta"), ub)


def _mutual(results: Sequence[LinkResult]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Links that both rows name, each once: what owners who compare notes agree on."""
    numbers = {f"owner{i}": i - 1 for i in range(1, len(results) + 1)}
    named = {
        (owner, row): (numbers[link[0]], link[1])
        for owner, result in enumerate(results)
        for row, link in enumerate(result.links_ or [])
        if link is not None
    }
    return [(a, b) for a, b in named.items() if a < b and named.get(b) == a]
