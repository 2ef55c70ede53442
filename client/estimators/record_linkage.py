"""`RecordLinkage`: which rows of several owners are the same, without showing a row to anybody."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from client.estimators.base import Estimator
from client.estimators.given_tables import (
    LEFT_OUT,
    MISSING,
    Labels,
    Missing,
    Tables,
    frames_of,
    tables_of,
)
from client.estimators.owner_tables import BOUNDS, Bounds, schema_of
from client.estimators.parameters import (
    ARRAY,
    BY_NAME,
    NOTHING,
    TEXT,
    VERBOSE,
    Kinds,
    among,
    instance,
    real,
    whole,
)
from client.platforms.jobs import NAME, PLATFORMS, Platform, run_job
from client.platforms.outcome import Outcome
from ppodc.errors import OptionError, TableError
from ppodc.extras import named_if_missing
from ppodc.linkage.blocks import Blocking, NoBlocks
from ppodc.linkage.estimate import Estimate, estimate
from ppodc.linkage.job import Job
from ppodc.linkage.outputs import MAX_LINKS, OUTPUTS, Shared, output_named
from ppodc.linkage.preview import Preview, preview
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.linkage.rules import Field, Rule, SquaredDistance
from ppodc.linkage.schedule import pairs_compared
from ppodc.records.schema import Column, Schema, Signs, TextColumn
from ppodc.records.sharing import MAX_VALUE
from ppodc.spec import Spec
from ppodc.toml_document import fraction, quoted

if TYPE_CHECKING:
    import pandas as pd

_Row = tuple[int, int]  # number of an owner, row in its table
Texts = Mapping[str, int | tuple[Signs, int]]
_GIVEN_WITH = {  # attributes of a fit, and the output that gives them
    "partners_": 'output="links" or "flags"',
    "all_links_": 'output="links"',
    "links_": 'output="links" of two owners; all_links_ has the links of more',
    "count_": 'output="count"',
}


class RecordLinkage(Estimator):
    """Finds rows of different owners that are equal or alike.

    Neither cloud sees a value, a match or the number of matches. Each owner learns the partners of
    its own rows and nothing about other rows. Every match bit equals the rule on the rows as
    encoded. Without a `rule`, rows are numbers that match by `theta`.

    Parameters
    ----------
    rule : rule of `ppodc.rules` or None, default=None
        `fields([...], threshold=...)` of `exact`, `edit`, `numeric` and other parts,
        `edit_distance` or `dice`; tables are then DataFrames. `sse` compares numbers; None does so
        within `theta`.
    theta : float, str or None, default=None
        Rows match if the weighted sum of squared differences, of values scaled to 0..1, is at most
        this. A number or text such as "1/200", taken exactly. 0: equal after rounding.
        Give either a rule or theta.
    weights : sequence of int or None, default=None
        A whole number for each column; None is 1 for all.
    bounds : tuple, sequence of tuples, mapping or "data", default=None
        (low, high) for all columns, one pair for each, or pairs by name. Bounds are public, so
        they must be given. "data" takes them from the data and reveals the extremes to both clouds.
        With a `rule` of names: pairs by name for its columns of numbers, which must be whole.
    texts : mapping or None, default=None
        With a `rule`, the columns of texts by name: their most characters, which are public, or
        ("digits", most) for dates and codes, ("filter", bits) for bit filters in base64.
    ub : int, default=1000
        Numbers are rounded to 0..ub between the bounds.
    blocks : Blocking, "none" or None, default=None
        Pairs to compare: all, or those of `by_key` (rows that agree in one of some columns),
        `by_length`, `by_embedding`, `adtree` or `adtree_shared` of `ppodc.rules`. Blocks cost
        every owner some of its privacy budget.
    output : "links", "flags", "count" or "shared", default="links"
        Partners of each row, whether it has any, or the number of all links. "shared" reveals no
        links; it is for `SecureKMeans(dedup=...)`.
    max_links : int or None, default=None
        Of a row with more partners than this, of all other owners together, only that is revealed.
        None: as many as there are other owners, at most 8. A spec file means 1.
    missing : "refuse" or "leave out", default="refuse"
        With theta, what becomes of rows with a missing value: an error that names them, or they
        are compared with nothing and counted in `left_out_`. In a field a missing value agrees
        with nothing.
    id_column : str or None, default=None
        A column that names rows, which stays here: links have its values. Without it rows are
        known by the index of their table.
    platform : LocalPlatform, ThreadPlatform, RemotePlatform or None, default=None
        Where the job runs; see `SecureKMeans`.
    verbose : bool, default=False
        Whether to show the progress of the job.

    Attributes
    ----------
    links_ : pandas.MultiIndex
        Of two owners, the links that both rows name: (row of the first, row of the second) by the
        labels of their tables, as recordlinkage has it.
    all_links_ : pandas.DataFrame
        Links of any number of owners: owner_1, row_1, owner_2, row_2, owners counted from 0.
    partners_ : list of list of int
        For each owner, the number of partners of each row; max_links + 1 stands for more. With
        output "flags" 0 or 1.
    count_ : int
        Number of links, with output "count".
    left_out_ : list of int
        Rows of each owner that were left out, because a value is missing; -1 in `partners_`.
    epsilon_, delta_ : float
        Cost to each owner.
    n_pairs_ : int or None
        Pairs that were compared, dummies included. The clouds know it and owners must not, since it
        depends on others' cells: None unless both clouds ran here.
    reduction_ : float or None
        The share of all pairs that blocks saved; None like `n_pairs_`.

    Notes
    -----
    An attribute that the output does not give is not there. A new `fit` leaves nothing of an
    earlier one.

    Examples
    --------
    >>> from ppodc import RecordLinkage, ThreadPlatform
    >>> linkage = RecordLinkage(theta="1/100", bounds=(0, 10), platform=ThreadPlatform())
    >>> linkage.fit([[[1, 2], [5, 5]], [[9, 9], [5, 5]]]).links_.tolist()
    [(1, 1)]
    >>> linkage.partners_
    [[0, 1], [0, 1]]
    """

    _kinds: ClassVar[Kinds] = {
        "rule": [instance(Rule), NOTHING],
        "theta": [real(0, closed=True), TEXT, NOTHING],
        "weights": [ARRAY, NOTHING],
        "bounds": BOUNDS,
        "texts": [BY_NAME, NOTHING],
        "ub": [whole(1, MAX_VALUE)],
        "blocks": [instance(Blocking), among("none"), NOTHING],
        "output": [among(*OUTPUTS)],
        "max_links": [whole(1, MAX_LINKS), NOTHING],
        "missing": MISSING,
        "id_column": [TEXT, NOTHING],
        "platform": PLATFORMS,
        "verbose": [VERBOSE],
    }

    def __init__(
        self,
        *,
        rule: Rule | None = None,
        theta: float | str | None = None,
        weights: Sequence[int] | None = None,
        bounds: Bounds = None,
        texts: Texts | None = None,
        ub: int = 1000,
        blocks: Blocking | Literal["none"] | None = None,
        output: str = "links",
        max_links: int | None = None,
        missing: Missing = "refuse",
        id_column: str | None = None,
        platform: "Platform | None" = None,
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
        self.missing = missing
        self.id_column = id_column
        self.platform = platform
        self.verbose = verbose

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: N803
        """Link the tables of at least two owners: a list, or a mapping from their names."""
        self._check()
        spec, tables = self._prepared(X)
        if len(tables) < 2:
            raise TableError("a linkage needs the tables of at least two owners.")
        if self._blocking().cost[0]:
            self._warn_of_cost(spec, list(map(len, tables)))
        ran = run_job(spec, tables, self.platform, verbose=bool(self.verbose))
        self._keep(ran, tables)
        for owner, result in zip(tables.owners, ran.results, strict=True):
            if told := result.untold():
                warnings.warn(f"{owner}: {told}", stacklevel=2)
        return self

    def __getattr__(self, name: str) -> Any:
        """Say of a result that is not there which output gives it."""
        when = f": fit gives it with {_GIVEN_WITH[name]}." if name in _GIVEN_WITH else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{when}")

    def _keep(self, ran: Outcome, tables: Tables) -> None:
        for name in _GIVEN_WITH:
            self.__dict__.pop(name, None)
        blocks = self._blocking()
        self.epsilon_, self.delta_ = map(float, blocks.cost)
        self.n_pairs_: int | None
        self.reduction_: float | None
        self.n_pairs_, self.reduction_ = _compared(ran, list(map(len, tables)))
        self.left_out_ = tables.left_out
        if self.output == "count":
            counted: LinkCount = ran.results[0]
            self.count_ = counted.count_
            return
        partners = [np.array(result.partners_, np.int64) for result in ran.results]
        self.partners_ = [each.tolist() for each in tables.spread(partners, LEFT_OUT)]
        if self.output == "links":
            labels, found = tables.kept_labels, _mutual(ran.owners, ran.results)
            self.all_links_ = _frame(found, labels)
            if len(tables) == 2:
                self.links_ = _index(found, *labels)

    def estimate(self, rows: Sequence[int], columns: int | None = None) -> Estimate:
        """The cost for owners with these numbers of rows; nothing is sent.

        `columns` says how many columns of numbers there are, where neither bounds nor weights do.
        """
        self._check()
        self._check_named()
        return self._warn_of_cost(self._spec(self._named_schema(columns), len(rows)), rows)

    def preview(self, table: Any) -> Preview:
        """One owner's table under this linkage, on this machine; nothing is sent nor charged."""
        self._check()
        spec, (own,) = self._prepared([table])
        return preview(spec, own)

    def _check(self) -> None:
        """Refuse parameters that cannot be, or that leave open what a match is."""
        self._check_rule()
        self._check_parameters()
        if (self.rule is None) == (self.theta is None):
            said = "both say" if self.rule is not None else "nothing says"
            raise OptionError(
                f"{said} which rows match: give either theta, for rows of numbers (0: equal after "
                "rounding), or a rule of `ppodc.rules`."
            )

    def _check_rule(self) -> None:
        """Refuse fields where a rule is needed."""
        rule: Any = self.rule
        parts = rule if isinstance(rule, list | tuple) else [rule]
        if any(isinstance(part, Field) for part in parts):
            raise OptionError(
                "a field is no rule yet. rules.all_of([...]) matches rows that agree in all of its "
                "fields, rules.fields([...], threshold=...) those that agree in enough of them."
            )

    def _warn_of_cost(self, spec: Spec, rows: Sequence[int]) -> Estimate:
        """The estimate; a warning if blocks cost more than they save."""
        found = estimate(spec, rows)
        if told := found.dearer():
            warnings.warn(told, stacklevel=3)
        return found

    def inside(self, clustered: Schema) -> tuple[Schema, Job]:
        """Columns and job of this linkage inside a k-means job that clusters these columns."""
        job = Job(self._rule(clustered), Shared(), self._blocking())
        if not self.by_name:
            return clustered, job
        own = self._named_schema(None)
        known = {column.name: column for column in own.columns}
        named = {*known, *self._named()}
        for column in clustered.columns:
            if known.get(column.name, column) != column:
                raise OptionError(
                    f"column {column.name!r} has other bounds to link than to cluster: give it the "
                    "same, or leave it out of the linkage's."
                )
        columns = [c if c.name in named else replace(c, use="cluster") for c in clustered.columns]
        columns += [replace(c, use="link") for c in own.columns if c.name not in clustered.names]
        return Schema(tuple(columns), clustered.ub, own.texts), job

    def to_join(self, ub: int) -> tuple[Schema, Job]:
        """The columns by which it joins tables, on a grid of 0..ub, and its job."""
        if not self.by_name and not isinstance(self.bounds, Mapping):
            raise OptionError("to join tables, give bounds by name: {name: (low, high)}.")
        self._check_named()
        schema = replace(self._named_schema(None), ub=ub)
        return schema, Job(self._rule(schema), Shared(), self._blocking())

    @classmethod
    def from_inside(cls, schema: Schema, job: Job) -> Self:
        """The linkage that is inside a k-means job with these columns."""
        parameters = job.rule.parameters(schema)
        return cls(**parameters, blocks=None if job.blocking == NoBlocks() else job.blocking)

    @property
    def by_name(self) -> bool:
        """Whether the rule names columns of DataFrames; else rows of numbers are compared."""
        self._check_rule()
        return self.rule is not None and not self.rule.on_grid

    def _named(self) -> list[str]:
        """The columns that rule and blocks name."""
        columns = [] if self.rule is None else self.rule.named_columns
        columns = [*columns, *self._blocking().named_columns]
        return list(dict.fromkeys(columns))

    def _check_named(self) -> None:
        """Refuse a rule of columns of which nobody said what is public."""
        public = {*(self.bounds if isinstance(self.bounds, Mapping) else ()), *(self.texts or ())}
        missing = [name for name in self._named() if name not in public]
        if self.by_name and missing:
            raise OptionError(
                f"nothing is said of {quoted(missing)}: give bounds by name for numbers, and texts "
                "by name with their most characters. Both are public, so choose them by meaning."
            )

    def _blocking(self) -> Blocking:
        return self.blocks if isinstance(self.blocks, Blocking) else NoBlocks()

    def _rule(self, schema: Schema) -> Rule:
        if self.rule is not None:
            return self.rule
        if self.theta is None:
            raise OptionError("nothing says which rows match: give either theta or a rule.")
        columns = len(schema.columns)
        weights = (1,) * columns if self.weights is None else tuple(self.weights)
        return SquaredDistance.scaled(weights, fraction(self.theta, "theta"), schema.ub)

    def _prepared(self, data: Any) -> tuple[Spec, Tables]:
        """The spec, and what each owner uploads."""
        if not self.by_name:
            how: Any = {"missing": self.missing, "id_column": self.id_column}
            tables = tables_of(self, data, reset=True, least=0, columns=self.bounds, **how)
            names = getattr(self, "feature_names_in_", None)
            schema = schema_of(tables, self.bounds, self.ub, names)
            tables.check(schema)
        else:
            self._check_named()
            schema = self._named_schema(None)
            tables = frames_of(data, schema, self.id_column)
        return self._spec(schema, len(tables)), tables

    def _spec(self, schema: Schema, owners: int) -> Spec:
        output = output_named(self.output, self._most_links(owners))
        job = Job(self._rule(schema), output, self._blocking())
        return Spec(NAME, schema, job)

    def _most_links(self, owners: int) -> int:
        if self.max_links is not None:
            return int(self.max_links)
        return min(max(owners - 1, 1), MAX_LINKS) if self.output == "links" else 1

    def _named_schema(self, columns: int | None) -> Schema:
        """Columns as the parameters name them, without any data."""
        pairs = self.bounds if isinstance(self.bounds, Mapping) else {}
        if not self.by_name and not pairs:
            known = columns or self._columns_told()
            if not known:
                raise OptionError(
                    "how many columns? Give columns=..., weights or bounds of each column."
                )
            pairs = {f"x{i}": (0.0, 1.0) for i in range(known)}
        numbers = tuple(Column(name, float(a), float(b)) for name, (a, b) in pairs.items())
        return Schema(numbers, self.ub, tuple(map(_text, (self.texts or {}).items())))

    def _columns_told(self) -> int:
        """Number of columns of numbers, from the parameters; 0 if these leave it open."""
        weights = () if self.weights is None else self.weights
        known = len(weights) if self.rule is None else self.rule.number_columns
        if known:
            return known
        bounds: Any = self.bounds
        return len(bounds) if bounds is not None and np.ndim(bounds) == 2 else 0


def _text(entry: tuple[str, int | tuple[Signs, int]]) -> TextColumn:
    name, how = entry
    return TextColumn(name, "words", how) if isinstance(how, int) else TextColumn(name, *how)


def _compared(ran: Outcome, rows: Sequence[int]) -> tuple[int, float] | tuple[None, None]:
    """The number of pairs compared, and the share of all pairs saved, if the clouds ran here."""
    if ran.sealed is None:
        return None, None
    pairs, every = (
        pairs_compared(ran.spec, ran.sealed),
        sum(a * b for a, b in combinations(rows, 2)),
    )
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


@named_if_missing()
def _frame(links: Sequence[tuple[_Row, _Row]], labels: Sequence[Labels]) -> "pd.DataFrame":
    import pandas as pd

    listed = [(a, labels[a][i], b, labels[b][j]) for (a, i), (b, j) in links]
    return pd.DataFrame(listed, columns=["owner_1", "row_1", "owner_2", "row_2"])


@named_if_missing()
def _index(links: Sequence[tuple[_Row, _Row]], first: Labels, second: Labels) -> "pd.MultiIndex":
    """Of two owners; levels have the names of the tables' indexes."""
    import pandas as pd

    rows = np.array([(i, j) for (_, i), (_, j) in links], np.int64).reshape(-1, 2)
    arrays = [pd.Index(first).take(rows[:, 0]), pd.Index(second).take(rows[:, 1])]
    return pd.MultiIndex.from_arrays(arrays, names=[each.name for each in arrays])
