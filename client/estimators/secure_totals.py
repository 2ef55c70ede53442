"""`SecureTotals`: a look at the owners' joint records before anybody clusters them."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from client.estimators.base import Estimator, check_fitted
from client.estimators.given_tables import MISSING, Missing, Tables, tables_of
from client.estimators.histograms import Bins, Histograms, quantile
from client.estimators.joined_tables import joined_tables
from client.estimators.owner_tables import BOUNDS, Bounds, refuse, schema_of
from client.estimators.parameters import (
    BOOLEAN,
    BY_NAME,
    NOTHING,
    VERBOSE,
    WHOLE,
    Kinds,
    among,
    instance,
    whole,
)
from client.estimators.record_linkage import RecordLinkage
from client.platforms.jobs import NAME, PLATFORMS, Platform, run_job
from ppodc.errors import OptionError
from ppodc.extras import named_if_missing
from ppodc.linkage.joined.join import Relation
from ppodc.records.schema import Schema
from ppodc.records.sharing import MAX_VALUE
from ppodc.spec import Spec
from ppodc.totals.job import LEAST, Job
from ppodc.totals.result import Totals

if TYPE_CHECKING:
    import pandas as pd

_UB = 1000
_TOLD = {"min": 0.0, "25%": 0.25, "50%": 0.5, "75%": 0.75, "max": 1.0}
_OFF = 1e-6  # of a step, which rounding of doubles does not explain


class SecureTotals(Estimator):
    """Number of records, sum, mean and variance of each column over several owners' records.

    Neither cloud sees a record or a total; owners learn the totals and nothing else. Exact for the
    values as rounded to 0..ub between the bounds; whole numbers between whole bounds stay whole.

    Parameters
    ----------
    bounds : tuple, sequence of tuples, mapping or "data", default=None
        (low, high) for all columns, one pair for each, or pairs by name. Bounds are public, so
        they must be given. "data" takes them from the data and reveals the extremes to both clouds.
    ub : int or None, default=None
        Values are rounded to whole numbers 0..ub between the bounds. None: the least from 1000 on
        with which whole numbers stay as they are, if all bounds are whole; else 1000.
    variance : bool, default=True
        Whether owners learn variances too.
    least : int, default=5
        With fewer records than this the job does not run. If fewer are not its own, an owner learns
        no sum: NaN. With fewer joined rows, owners are told zeros.
    join : RecordLinkage or None, default=None
        Tables are DataFrames or files with different columns about the same people: the totals are
        of the people whom all sides hold, and nobody learns who they are. See `SecureKMeans`.
    relation : "1:1" or "m:1", default="1:1"
        With join; see `SecureKMeans`.
    cross : bool, default=False
        With join: whether owners learn the covariance of every two columns too.
    bins : mapping or None, default=None
        By column the intervals to count records in: a number of equal ones, or where to cut. They
        become columns of the spec, so that owners agree to them. Not with join.
    missing : "refuse" or "leave out", default="refuse"
        What becomes of rows with a missing value: an error that names them, or they are left out
        and counted in `left_out_`.
    pairs : int, default=1
        Worker pairs, if `fit` starts a platform.
    platform : LocalPlatform, ThreadPlatform, RemotePlatform or None, default=None
        Where the job runs; see `SecureKMeans`.
    verbose : bool, default=False
        Whether to show the progress of the job.

    Attributes
    ----------
    count_ : int
        Number of records of all owners together.
    sum_ : ndarray of shape (columns,)
        Sum of each column, in real units, as the first owner learns it.
    mean_ : ndarray of shape (columns,)
        Mean of each column, in real units.
    var_ : ndarray of shape (columns,) or None
        Population variance of each column.
    cov_, corr_ : ndarray of shape (columns, columns) or None
        Population covariances and correlations, with cross.
    histograms_ : dict of pandas.Series
        With bins, by column the records in each interval.
    left_out_ : list of int
        Rows of each owner that were left out, because a value is missing.
    result_ : Totals
        The result as the first owner opened it.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if the tables have any.

    Examples
    --------
    >>> from ppodc import SecureTotals, ThreadPlatform
    >>> totals = SecureTotals(bounds=(0, 10), least=1, platform=ThreadPlatform())
    >>> totals.fit([[[1, 2], [3, 4]], [[8, 6]]]).mean_.tolist()
    [4.0, 4.0]
    >>> totals.count_
    3
    """

    _kinds: ClassVar[Kinds] = {
        "bounds": BOUNDS,
        "ub": [whole(1, MAX_VALUE), NOTHING],
        "variance": [BOOLEAN],
        "least": [WHOLE],
        "join": [instance(RecordLinkage), NOTHING],
        "relation": [among(*get_args(Relation))],
        "cross": [BOOLEAN],
        "bins": [BY_NAME, NOTHING],
        "missing": MISSING,
        "pairs": [WHOLE],
        "platform": PLATFORMS,
        "verbose": [VERBOSE],
    }

    def __init__(
        self,
        *,
        bounds: Bounds = None,
        ub: int | None = None,
        variance: bool = True,
        least: int = LEAST,
        join: RecordLinkage | None = None,
        relation: Relation = "1:1",
        cross: bool = False,
        bins: Bins | None = None,
        missing: Missing = "refuse",
        pairs: int = 1,
        platform: "Platform | None" = None,
        verbose: bool = False,
    ) -> None:
        self.bounds = bounds
        self.ub = ub
        self.variance = variance
        self.least = least
        self.join = join
        self.relation = relation
        self.cross = cross
        self.bins = bins
        self.missing = missing
        self.pairs = pairs
        self.platform = platform
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike | Sequence[ArrayLike],  # noqa: N803
        y: object = None,
        **other: object,
    ) -> Self:
        """Total the records: of one table, or of a list or mapping with one for each owner."""
        refuse(other)
        self._check_parameters()
        spec, tables = self._plain(X) if self.join is None else self._joined(X)
        ran = run_job(spec, tables, self.platform, pairs=self.pairs, verbose=bool(self.verbose))
        totals: Totals = ran.results[0]
        self.histograms_ = {}
        if self._bins is not None:
            self.histograms_ = self._bins.counts(totals)
            totals = self._bins.without(totals)
        self.result_, self.left_out_ = totals, tables.left_out
        self.count_: int = totals.count_
        self.sum_: NDArray[np.float64] = totals.sum_
        self.mean_: NDArray[np.float64] = totals.mean_
        self.var_: NDArray[np.float64] | None = totals.var_
        self.cov_: NDArray[np.float64] | None = totals.cov_
        self.corr_: NDArray[np.float64] | None = totals.corr_
        return self

    def to_frame(self) -> "pd.DataFrame":
        """A row for each column: sum, mean, and variance and deviation if they are offered."""
        check_fitted(self)
        return self.result_.to_frame()

    @named_if_missing()
    def describe(self) -> "pd.DataFrame":
        """As pandas' `describe`, of what totals tell: count, mean and deviation.

        With bins also the intervals in which minimum, quartiles and maximum lie.
        """
        import pandas as pd

        check_fitted(self)
        frame = self.result_.describe()
        if not self.histograms_:
            return frame
        known = {name: self.quantile(q) for name, q in _TOLD.items()}
        return pd.concat([frame.astype(object), pd.DataFrame(known).T])

    @named_if_missing()
    def quantile(self, q: float) -> "pd.Series[Any]":
        """Of each column with bins the interval in which this quantile lies; exact."""
        import pandas as pd

        check_fitted(self)
        found = {name: quantile(counts, q) for name, counts in self.histograms_.items()}
        return pd.Series(found, dtype=object, name=q)

    _bins: Histograms | None

    def _plain(self, data: Any) -> tuple[Spec, Tables]:
        """The spec over tables of the same columns, and what each owner uploads."""
        if self.cross:
            raise OptionError("cross=True is for joined columns: give join, or leave it out.")
        tables = tables_of(self, data, reset=True, columns=self.bounds, missing=self.missing)
        names = getattr(self, "feature_names_in_", None)
        schema = schema_of(tables, self.bounds, self.ub or _UB, names)
        if self.ub is None:
            schema = replace(schema, ub=_whole_steps(schema))
        tables.check(schema)
        _warn_of_rounding(tables, schema)
        self._bins = None
        if self.bins is not None:
            self._bins = Histograms.of(self.bins, schema)
            schema = self._bins.schema(schema)
            tables[:] = [self._bins.rows(rows) for rows in tables]
        job = Job(variance=self.variance, least=self.least)
        return Spec(NAME, schema, job), tables

    def _joined(self, data: Any) -> tuple[Spec, Tables]:
        """The spec over joined columns, and what each owner uploads."""
        if self.bins is not None:
            raise OptionError("bins does not go with join: leave out one of them.")
        self._bins = None
        joined = joined_tables(self, self.ub or _UB, data)
        if self.ub is None:
            ub = _whole_steps(joined.schema.used_to("cluster"))
            joined = joined_tables(self, ub, data)
        job = Job(variance=self.variance, join=joined.join, cross=self.cross)
        return Spec(NAME, joined.schema, job), joined.tables


def _whole_steps(schema: Schema) -> int:
    """The least ub from 1000 on that keeps whole numbers whole; 1000 if there is none."""
    widths = [column.high - column.low for column in schema.columns]
    if not all(column.low.is_integer() and column.high.is_integer() for column in schema.columns):
        return _UB
    step = math.lcm(*map(int, widths))
    ub = step * math.ceil(_UB / step)
    return ub if ub <= MAX_VALUE else _UB


def _warn_of_rounding(tables: Tables, schema: Schema) -> None:
    """Warn of columns of whole numbers that the grid does not hold."""
    rows = np.concatenate(tables)
    for values, column in zip(rows.T, schema.columns, strict=True):
        steps = (values - column.low) / (column.high - column.low) * schema.ub
        if (values % 1 == 0).all() and (np.abs(steps - np.rint(steps)) > _OFF).any():
            width = (column.high - column.low) / schema.ub
            warnings.warn(
                f"column {column.name!r} has whole numbers, which ub={schema.ub} rounds to steps "
                f"of {width:g}: the totals are exact of the rounded values. Whole bounds and "
                "ub=None, or an ub that is a multiple of high - low, keep them as they are.",
                stacklevel=3,
            )
