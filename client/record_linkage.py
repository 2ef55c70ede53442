"""`RecordLinkage`: which rows of several owners are the same, without showing a row to anybody."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self, get_args

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from client.owner_tables import Bounds, DataError, as_data_errors, schema_of, tables_of
from client.platforms import NAME, PLATFORMS, Platform, run_job
from ppodc.linkage.job import Job, Output
from ppodc.linkage.result import LinkResult
from ppodc.linkage.rules import SquaredDistance, fraction
from ppodc.records.sharing import MAX_VALUE
from ppodc.spec import Spec


class RecordLinkage(BaseEstimator):
    """Finds rows of different owners whose values are equal or near.

    Neither cloud sees a value, a match or the number of matches; each owner learns the partners of
    its own rows and nothing about other rows. Exact for the values as rounded to 0..ub between the
    bounds. Every pair of rows of two owners is compared.

    Parameters
    ----------
    theta : rows match if the weighted sum of squared differences, of values scaled to 0..1, is at
        most this; a number or text such as "1/200", taken exactly. 0: equal after rounding.
    weights : a whole number for each column; 1 for all if left out.
    bounds : (low, high) for all columns, one pair for each, or pairs by name. Public, so they must
        be given; "data" takes them from the data, which tells both clouds the extremes.
    ub : values are rounded to whole numbers 0..ub between the bounds.
    output : "links" (partner of each row, if it has exactly one) or "flags" (whether it has any).
    platform, verbose : as in `SecureKMeans`.

    Attributes
    ----------
    partners_ : for each owner, 0, 1 or 2 (none, one, several) of each row; 0 or 1 with flags.
    links_ : pairs ((owner, row), (owner, row)) that name each other; owners and rows from 0.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "theta": [Interval(Real, 0, None, closed="left"), str],
        "weights": ["array-like", None],
        "bounds": [StrOptions({"data"}), "array-like", Mapping, None],
        "ub": [Interval(Integral, 1, MAX_VALUE, closed="both")],
        "output": [StrOptions(set(get_args(Output)))],
        "platform": PLATFORMS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        theta: float | str = 0,
        weights: Sequence[int] | None = None,
        bounds: Bounds = None,
        ub: int = 1000,
        output: Output = "links",
        platform: Platform | None = None,
        verbose: bool = False,
    ) -> None:
        self.theta = theta
        self.weights = weights
        self.bounds = bounds
        self.ub = ub
        self.output = output
        self.platform = platform
        self.verbose = verbose

    def fit(self, X: Sequence[ArrayLike], y: object = None) -> Self:  # noqa: N803
        """Link the owners' tables: a list with one table for each of at least two owners."""
        self._validate_params()
        tables = tables_of(self, X, reset=True)
        if len(tables) < 2:
            raise DataError("a linkage needs the tables of at least two owners.")
        names = getattr(self, "feature_names_in_", None)
        schema = schema_of(tables, self.bounds, self.ub, names)
        with as_data_errors():
            job = Job(self.rule(len(schema.columns), self.ub), self.output)
            spec = Spec(NAME, schema, job)
        ran = run_job(spec, tables, self.platform, verbose=bool(self.verbose))
        self.partners_ = [result.partners_ for result in ran.results]
        self.links_ = _mutual(ran.owners, ran.results)
        return self

    def rule(self, columns: int, ub: int) -> SquaredDistance:
        """When two rows of so many columns of values 0..ub match."""
        weights = (1,) * columns if self.weights is None else tuple(self.weights)
        return SquaredDistance.scaled(weights, fraction(self.theta, "theta"), ub)


def _mutual(
    owners: Sequence[str], results: Sequence[LinkResult]
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Links that both rows name, each once: what owners who compare notes agree on."""
    numbers = {name: number for number, name in enumerate(owners)}
    named = {
        (owner, row): (numbers[links[0][0]], links[0][2])
        for owner, result in enumerate(results)
        for row, links in enumerate(result.links_ or [])
        if links and links[0][0] in numbers
    }
    return [(a, b) for a, b in named.items() if a < b and named.get(b) == a]
