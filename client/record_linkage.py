"""`RecordLinkage`: which rows of several owners are the same, without showing a row to anybody."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from client.owner_tables import (
    Bounds,
    DataError,
    as_data_errors,
    named_columns,
    schema_of,
    tables_of,
)
from client.platforms import NAME, PLATFORMS, Outcome, Platform, run_job
from ppodc.linkage.blocking import Blocking
from ppodc.linkage.estimate import Estimate, estimate
from ppodc.linkage.job import MAX_LINKS, Job, Output
from ppodc.linkage.plan import pairs_of
from ppodc.linkage.preview import Preview, preview
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.linkage.rules import Fields, Rule, SquaredDistance, fraction
from ppodc.records.schema import Column, Schema, Signs, TextColumn
from ppodc.records.sharing import MAX_VALUE
from ppodc.records.toml_document import quoted
from ppodc.spec import Spec

if TYPE_CHECKING:
    import pandas as pd

_Row = tuple[int, int]  # number of an owner, row in its table
Texts = Mapping[str, int | tuple[Signs, int]]
_GIVEN_WITH = {  # what `fit` tells of the links, and when
    "partners_": 'output="links" or "flags"',
    "all_links_": 'output="links"',
    "links_": 'output="links" of two owners; all_links_ has the links of more',
    "count_": 'output="count"',
}


class RecordLinkage(BaseEstimator):
    """Finds rows of different owners that are equal or alike.

    Neither cloud sees a value, a match or the number of matches; each owner learns the partners of
    its own rows and nothing about other rows. Every match bit equals the rule on the rows as
    encoded. Without a `rule`, rows are numbers that match by `theta`.

    Parameters
    ----------
    rule : from `ppodc.rules`: `fields([...], threshold=...)` of `exact`, `edit` and `numeric`
        parts, `edit_distance` or `dice`; tables are then DataFrames. `sse`, or None: numbers, by
        None within `theta`.
    theta : rows match if the weighted sum of squared differences, of values scaled to 0..1, is at
        most this; a number or text such as "1/200", taken exactly. 0: equal after rounding.
    weights : a whole number for each column; 1 for all if left out.
    bounds : (low, high) for all columns, one pair for each, or pairs by name. Public, so they must
        be given; "data" takes them from the data, which tells both clouds the extremes. With a
        `rule` of names, pairs by name for its columns of numbers, whose values must be whole.
    texts : with a `rule`, the columns of texts by name: their most characters, which are public, or
        ("digits", most) for dates and codes, ("filter", bits) for bit filters in base64.
    ub : of rows of numbers, values are rounded to whole numbers 0..ub between the bounds.
    blocks : which pairs are compared: "none" or None for all, or `by_key` (rows that agree in one
        of some columns), `by_length`, `adtree`, `adtree_shared` of `ppodc.rules`, which cost every
        owner some of its privacy budget.
    output : "links" (partners of each row), "flags" (whether it has any) or "count" (of all links);
        "shared" for one that is only there for `SecureKMeans(dedup=...)`, which tells no links.
    max_links : a row with more partners than this, of all other owners together, is told nothing of
        them but that. None: as many as there are other owners (at most 8); a spec file means 1.
    platform, verbose : as in `SecureKMeans`.

    Attributes
    ----------
    links_ : of two owners, the links that both rows name: a MultiIndex of (row of the first, row of
        the second), rows by the labels of their tables, as recordlinkage has it.
    all_links_ : of any number of owners, a DataFrame of the same: owner_1, row_1, owner_2, row_2,
        owners counted from 0.
    partners_ : for each owner, the number of partners of each row; max_links + 1 stands for more.
        With output "flags" 0 or 1.
    count_ : the number of links, with output "count".
    epsilon_, delta_ : what each owner has spent.
    n_pairs_, reduction_ : how many pairs were compared, dummies included, and which share of all
        pairs that saved. The clouds know it and owners must not, for it tells of others' cells:
        None unless both clouds ran here.

    What an output does not tell is no attribute; a new `fit` leaves nothing of an earlier one.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "rule": [*get_args(Rule), None],
        "theta": [Interval(Real, 0, None, closed="left"), str],
        "weights": ["array-like", None],
        "bounds": [StrOptions({"data"}), "array-like", Mapping, None],
        "texts": [Mapping, None],
        "ub": [Interval(Integral, 1, MAX_VALUE, closed="both")],
        "blocks": [Blocking, StrOptions({"none"}), None],
        "output": [StrOptions(set(get_args(Output)))],
        "max_links": [Interval(Integral, 1, MAX_LINKS, closed="both"), None],
        "platform": PLATFORMS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        rule: Rule | None = None,
        theta: float | str = 0,
        weights: Sequence[int] | None = None,
        bounds: Bounds = None,
        texts: Texts | None = None,
        ub: int = 1000,
        blocks: Blocking | Literal["none"] | None = None,
        output: Output = "links",
        max_links: int | None = None,
        platform: Platform | None = None,
        verbose: bool = False,
    ) -> None:
        self.rule = rule
        self.theta = theta
        self.weights = weights
        self.bounds = bounds
        self.texts = texts
        self.ub = ub
        self.blocks = blocks
        self.output = output
        self.max_links = max_links
        self.platform = platform
        self.verbose = verbose

    def fit(self, X: Sequence[Any], y: object = None) -> Self:  # noqa: N803
        """Link the owners' tables: a list with one table for each of at least two owners."""
        self._validate_params()
        spec, tables = self._prepared(X)
        if len(tables) < 2:
            raise DataError("a linkage needs the tables of at least two owners.")
        ran = run_job(spec, tables, self.platform, verbose=bool(self.verbose))
        self._keep(ran, X)
        return self

    def __getattr__(self, name: str) -> Any:
        """Say of a result that is not there which output gives it."""
        when = f": fit gives it with {_GIVEN_WITH[name]}." if name in _GIVEN_WITH else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{when}")

    def _keep(self, ran: Outcome, tables: Sequence[Any]) -> None:
        for name in _GIVEN_WITH:
            vars(self).pop(name, None)
        blocks = self._blocking()
        self.epsilon_, self.delta_ = float(blocks.epsilon), float(blocks.delta)
        self.n_pairs_, self.reduction_ = _compared(ran, list(map(len, tables)))
        if self.output == "count":
            counted: LinkCount = ran.results[0]
            self.count_ = counted.count_
            return
        self.partners_ = [result.partners_ for result in ran.results]
        if self.output == "links":
            labels, found = list(map(_labels, tables)), _mutual(ran.owners, ran.results)
            self.all_links_ = _frame(found, labels)
            if len(tables) == 2:
                self.links_ = _index(found, *labels)

    def estimate(self, rows: Sequence[int], columns: int | None = None) -> Estimate:
        """What it would cost for owners with so many rows each; nothing is sent.

        `columns` says how many columns of numbers there are, where neither bounds nor weights do.
        """
        self._validate_params()
        self._check_named()
        with as_data_errors():
            return estimate(self._spec(self._named_schema(columns), len(rows)), rows)

    def preview(self, table: Any) -> Preview:
        """One owner's table under this linkage, on this machine; nothing is sent nor charged."""
        self._validate_params()
        spec, (own,) = self._prepared([table])
        with as_data_errors():
            return preview(spec, own)

    def inside(self, clustered: Schema) -> tuple[Schema, Job]:
        """Columns and job of this linkage inside a k-means job that clusters these columns."""
        job = Job(self._rule(clustered), "shared", self._blocking())
        if not self.by_name:
            return clustered, job
        own = self._named_schema(None)
        known = {column.name: column for column in own.columns}
        named = {*known, *self._named()}
        for column in clustered.columns:
            if known.get(column.name, column) != column:
                raise DataError(
                    f"column {column.name!r} has other bounds to link than to cluster: give it the "
                    "same, or leave it out of the linkage's."
                )
        columns = [c if c.name in named else replace(c, use="cluster") for c in clustered.columns]
        columns += [replace(c, use="link") for c in own.columns if c.name not in clustered.names]
        return Schema(tuple(columns), clustered.ub, own.texts), job

    @classmethod
    def from_inside(cls, schema: Schema, job: Job) -> Self:
        """The linkage that is inside a k-means job with these columns."""
        if not isinstance(job.rule, SquaredDistance):
            linking = [column for column in schema.columns if column.use != "cluster"]
            return cls(
                rule=job.rule,
                bounds={column.name: (column.low, column.high) for column in linking},
                texts={text.name: (text.signs, text.longest) for text in schema.texts},
                blocks=job.blocking if job.blocking.padded else None,
            )
        if any(column.use != "both" for column in schema.columns):
            raise DataError("the spec links numbers by other columns than it clusters.")
        theta = Fraction(job.rule.limit, schema.ub**2)
        blocks = job.blocking if job.blocking.padded else None
        return cls(theta=str(theta), weights=job.rule.weights, blocks=blocks)

    @property
    def by_name(self) -> bool:
        """Whether the rule names columns of DataFrames; else rows of numbers are compared."""
        return self.rule is not None and not isinstance(self.rule, SquaredDistance)

    def _named(self) -> list[str]:
        """The columns that rule and blocks name."""
        parts = self.rule.fields if isinstance(self.rule, Fields) else ()
        columns = [part.column for part in parts] + [key.column for key in self._blocking().keys]
        return list(dict.fromkeys(columns))

    def _check_named(self) -> None:
        """Refuse a rule of columns of which nobody said what is public."""
        told = {*(self.bounds if isinstance(self.bounds, Mapping) else ()), *(self.texts or ())}
        missing = [name for name in self._named() if name not in told]
        if self.by_name and missing:
            raise DataError(
                f"nothing is said of {quoted(missing)}: give bounds by name for numbers, and texts "
                "by name with their most characters. Both are public, so choose them by meaning."
            )

    def _blocking(self) -> Blocking:
        return self.blocks if isinstance(self.blocks, Blocking) else Blocking()

    def _rule(self, schema: Schema) -> Rule:
        if self.rule is not None:
            return self.rule
        columns = len(schema.columns)
        weights = (1,) * columns if self.weights is None else tuple(self.weights)
        return SquaredDistance.scaled(weights, fraction(self.theta, "theta"), schema.ub)

    def _prepared(self, data: Sequence[Any]) -> tuple[Spec, list[Any]]:
        """The spec, and what each owner uploads."""
        if not self.by_name:
            tables = tables_of(self, data, reset=True, least=0)
            names = getattr(self, "feature_names_in_", None)
            schema = schema_of(tables, self.bounds, self.ub, names)
            return self._spec(schema, len(tables)), list(tables)
        self._check_named()
        schema = self._named_schema(None)
        return self._spec(schema, len(data)), named_columns(data, schema)

    def _spec(self, schema: Schema, owners: int) -> Spec:
        with as_data_errors():
            job = Job(self._rule(schema), self.output, self._blocking(), self._most_links(owners))
            return Spec(NAME, schema, job)

    def _most_links(self, owners: int) -> int:
        if self.max_links is not None:
            return int(self.max_links)
        return min(max(owners - 1, 1), MAX_LINKS) if self.output == "links" else 1

    def _named_schema(self, columns: int | None) -> Schema:
        """Columns as the parameters name them, without any data."""
        with as_data_errors():
            pairs = self.bounds if isinstance(self.bounds, Mapping) else {}
            if not self.by_name and not pairs:
                known = columns or self._columns_told()
                if not known:
                    raise DataError(
                        "how many columns? Give columns=..., weights or bounds of each column."
                    )
                pairs = {f"x{i}": (0.0, 1.0) for i in range(known)}
            numbers = tuple(Column(name, float(a), float(b)) for name, (a, b) in pairs.items())
            return Schema(numbers, self.ub, tuple(map(_text, (self.texts or {}).items())))

    def _columns_told(self) -> int:
        """How many columns of numbers there are as the parameters tell; 0 if they do not."""
        weights = self.rule.weights if isinstance(self.rule, SquaredDistance) else self.weights
        if weights is not None:
            return len(weights)
        return len(self.bounds) if self.bounds is not None and np.ndim(self.bounds) == 2 else 0


def _text(entry: tuple[str, int | tuple[Signs, int]]) -> TextColumn:
    name, how = entry
    return TextColumn(name, "words", how) if isinstance(how, int) else TextColumn(name, *how)


def _labels(table: Any) -> "pd.Index[Any]":
    """How the user knows the rows of a table."""
    import pandas as pd

    index = getattr(table, "index", None)
    return index.to_flat_index() if isinstance(index, pd.Index) else pd.RangeIndex(len(table))


def _compared(ran: Outcome, rows: Sequence[int]) -> tuple[int, float] | tuple[None, None]:
    """How many pairs the clouds compared, and the share of all that was saved, if they ran here."""
    if ran.sealed is None:
        return None, None
    pairs, every = pairs_of(ran.spec, ran.sealed), sum(a * b for a, b in combinations(rows, 2))
    return pairs, 1 - pairs / every if every else 0.0


def _mutual(owners: Sequence[str], results: Sequence[LinkResult]) -> list[tuple[_Row, _Row]]:
    """Links that both rows name, each once: what owners who compare notes agree on.

    Every owner here has one upload (`RemotePlatform` refuses more), so a row has one number.
    """
    numbers = {name: number for number, name in enumerate(owners)}
    named = {
        ((owner, row), (numbers[other], partner))
        for owner, result in enumerate(results)
        for row, links in enumerate(result.links_ or [])
        for other, _, partner in links
        if other in numbers
    }
    return sorted((a, b) for a, b in named if a < b and (b, a) in named)


def _frame(links: Sequence[tuple[_Row, _Row]], labels: "Sequence[pd.Index[Any]]") -> "pd.DataFrame":
    import pandas as pd

    listed = [(a, labels[a][i], b, labels[b][j]) for (a, i), (b, j) in links]
    return pd.DataFrame(listed, columns=["owner_1", "row_1", "owner_2", "row_2"])


def _index(
    links: Sequence[tuple[_Row, _Row]], first: "pd.Index[Any]", second: "pd.Index[Any]"
) -> "pd.MultiIndex":
    """Of two owners; levels have the names of the tables' indexes."""
    import pandas as pd

    rows = np.array([(i, j) for (_, i), (_, j) in links], np.int64).reshape(-1, 2)
    arrays = [first.take(rows[:, 0]), second.take(rows[:, 1])]
    return pd.MultiIndex.from_arrays(arrays, names=[first.name, second.name])
