"""`SecureTotals`: a look at the owners' joint records before anybody clusters them."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from client.owner_tables import Bounds, as_data_errors, refuse, schema_of, tables_of
from client.platforms import NAME, PLATFORMS, Platform, run_job
from ppodc.records.sharing import MAX_VALUE
from ppodc.spec import Spec
from ppodc.totals.job import LEAST, Job
from ppodc.totals.result import Totals


class SecureTotals(BaseEstimator):
    """Number of records, sum, mean and variance of each column over several owners' records.

    Neither cloud sees a record or a total; owners learn the totals and nothing else. Exact for the
    values as rounded to 0..ub between the bounds.

    Parameters
    ----------
    bounds : (low, high) for all columns, one pair for each, or pairs by name. Public, so they must
        be given; "data" takes them from the data, which tells both clouds the extremes.
    ub : values are rounded to whole numbers 0..ub between the bounds.
    variance : whether owners learn variances too.
    least : with fewer records than this the job does not run.
    pairs, platform, verbose : as in `SecureKMeans`.

    Attributes
    ----------
    count_ : number of records of all owners together.
    sum_, mean_ : of each column, in real units.
    var_ : population variance of each column, or None.
    n_features_in_, feature_names_in_ : number of columns, and their names if the tables have any.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "bounds": [StrOptions({"data"}), "array-like", Mapping, None],
        "ub": [Interval(Integral, 1, MAX_VALUE, closed="both")],
        "variance": ["boolean"],
        "least": [Interval(Integral, 1, None, closed="left")],
        "pairs": [Interval(Integral, 1, None, closed="left")],
        "platform": PLATFORMS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        bounds: Bounds = None,
        ub: int = 1000,
        variance: bool = True,
        least: int = LEAST,
        pairs: int = 1,
        platform: Platform | None = None,
        verbose: bool = False,
    ) -> None:
        self.bounds = bounds
        self.ub = ub
        self.variance = variance
        self.least = least
        self.pairs = pairs
        self.platform = platform
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike | Sequence[ArrayLike],  # noqa: N803
        y: object = None,
        **other: object,
    ) -> Self:
        """Total the records: of one table, or of a list with a table for each owner."""
        refuse(other)
        self._validate_params()
        tables = tables_of(self, X, reset=True)
        names = getattr(self, "feature_names_in_", None)
        schema = schema_of(tables, self.bounds, self.ub, names)
        with as_data_errors():
            spec = Spec(NAME, schema, Job(variance=self.variance, least=self.least))
        ran = run_job(spec, tables, self.platform, pairs=self.pairs, verbose=bool(self.verbose))
        totals: Totals = ran.results[0]
        self.count_: int = totals.count_
        self.sum_: NDArray[np.float64] = totals.sum_
        self.mean_: NDArray[np.float64] = totals.mean_
        self.var_: NDArray[np.float64] | None = totals.var_
        return self
