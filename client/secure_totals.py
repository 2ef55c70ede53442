"""`SecureTotals`: a look at the owners' joint records before anybody clusters them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.one_machine import Bounds, run_here, schema_of, tables_of
from ppodc.spec import Spec
from ppodc.totals.job import LEAST, Job
from ppodc.totals.result import Totals


class SecureTotals:
    """Number of records, sum, mean and variance of each column over several owners' records.

    Neither cloud sees a record or a total; owners learn the totals and nothing else. Exact for the
    values as rounded to 0..ub between the bounds.

    Parameters
    ----------
    bounds : (low, high) for all columns, or one pair for each. Public, so they must be given;
        "data" takes them from the data, which tells both clouds the extremes.
    ub : values are rounded to whole numbers 0..ub between the bounds.
    variance : whether owners learn variances too.
    least : with fewer records than this the job does not run.
    pairs : worker pairs.

    Attributes
    ----------
    count_ : number of records of all owners together.
    sum_, mean_ : of each column, in real units.
    var_ : population variance of each column, or None.
    """

    def __init__(
        self,
        *,
        bounds: Bounds = None,
        ub: int = 1000,
        variance: bool = True,
        least: int = LEAST,
        pairs: int = 1,
    ) -> None:
        self.bounds = bounds
        self.ub = ub
        self.variance = variance
        self.least = least
        self.pairs = pairs

    def fit(self, X: ArrayLike | Sequence[ArrayLike], y: object = None) -> "SecureTotals":  # noqa: N803
        """Total the owners' arrays: a list with one array for each owner, or one array."""
        tables = tables_of(X)
        schema = schema_of(tables, self.bounds, self.ub)
        spec = Spec("records", schema, Job(variance=self.variance, least=self.least))
        totals: Totals = run_here(spec, tables, pairs=self.pairs)[0]
        self.count_: int = totals.count_
        self.sum_: NDArray[np.float64] = totals.sum_
        self.mean_: NDArray[np.float64] = totals.mean_
        self.var_: NDArray[np.float64] | None = totals.var_
        return self
