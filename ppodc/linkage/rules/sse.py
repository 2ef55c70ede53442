"""Rule `sse` (numbers): sum_i w_i (x_i - y_i)^2 <= limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import SpecError
from ppodc.linkage.blocks.cells import Boxes, Coordinates, gaps
from ppodc.linkage.rules.rule import MAX_LIMIT, MAX_WEIGHT, Ints, Record, Rule, Thresholds
from ppodc.records.schema import Schema
from ppodc.toml_document import check_whole

if TYPE_CHECKING:
    from ppodc.linkage.compare.distances import NumberMatcher
    from ppodc.linkage.owner_table import OwnerTable

_MOST_BITS = 62  # of a distance, in a ring of 64 bits


@dataclass(frozen=True, slots=True)
class SquaredDistance(Rule):
    """Numbers: a weighted sum of squared differences."""

    name: ClassVar[str] = "sse"
    keys: ClassVar[tuple[str, ...]] = ("weights", "limit")
    on_grid: ClassVar[bool] = True
    portion_pairs: ClassVar[int] = 1 << 23

    weights: tuple[int, ...]
    limit: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _weights(self.weights))
        check_whole(self.limit, "the limit of a squared distance", 0, MAX_LIMIT)

    @classmethod
    def scaled(cls, weights: tuple[int, ...], theta: Fraction, ub: int) -> "SquaredDistance":
        """From the threshold over values scaled to 0..1: limit = floor(ub^2 theta)."""
        if theta < 0:
            raise SpecError("theta must not be negative.")
        return cls(weights, int(ub * ub * theta // 1))

    def check(self, schema: Schema) -> None:
        schema.require_numbers()
        self.check_columns(len(schema.columns), schema.ub)
        self.check_width(schema.ub.bit_length())

    def check_columns(self, columns: int, ub: int) -> None:
        """Refuse weights of other columns, and a limit that every pair meets."""
        if len(self.weights) != columns:
            raise SpecError(
                f"there are {len(self.weights)} weights for {columns} columns; give one for each."
            )
        if self.limit >= self.largest(ub):
            raise SpecError(
                f"with limit {self.limit} every pair of records would match: the largest distance "
                f"is {self.largest(ub)}."
            )

    def check_width(self, bits: int) -> None:
        """Refuse distances that do not fit the ring of the protocol."""
        if self.width(bits) > _MOST_BITS:
            raise SpecError(
                f"distances of these columns may not fit in {_MOST_BITS} bits. Use a smaller ub or "
                "weights."
            )

    def largest(self, ub: int) -> int:
        """The largest distance of values 0..ub."""
        return sum(self.weights) * ub * ub

    def width(self, bits: int) -> int:
        """|distance - limit - 1| < 2^width for values of this many bits, dummies included."""
        return (self.largest((1 << bits) - 1) + self.limit + 1).bit_length()

    def describe(self) -> str:
        weights = ", ".join(map(str, self.weights))
        return (
            f"the weighted sum of squared differences is at most {self.limit} (weights {weights}; "
            "values count in steps)"
        )

    @property
    def number_columns(self) -> int:
        return len(self.weights)

    def over_all(self, schema: Schema) -> "SquaredDistance":
        """Columns that do not link records get weight 0."""
        linking = [column.use != "cluster" for column in schema.columns]
        self.check_columns(sum(linking), schema.ub)
        weights = iter(self.weights)
        return SquaredDistance(tuple(next(weights) if own else 0 for own in linking), self.limit)

    def parameters(self, schema: Schema) -> dict[str, Any]:
        if any(column.use != "both" for column in schema.columns):
            raise SpecError("the spec links numbers by other columns than it clusters.")
        return {"theta": str(Fraction(self.limit, schema.ub**2)), "weights": self.weights}

    def coordinates(self, schema: Schema) -> Coordinates:
        places = np.flatnonzero(self.weights)
        weights = tuple(weight for weight in self.weights if weight)
        pruning = SquaredPruning(SquaredDistance(weights, self.limit))
        domain = [np.arange(schema.ub + 1)] * len(weights)
        return Coordinates(pruning, domain, lambda values: values[:, places])

    def columns(self, schema: Schema) -> int:
        return len(schema.columns)

    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        return table.grid(schema)

    def decode(self, values: Ints, schema: Schema) -> list[Record]:
        rows: list[Record] = values[:, : len(self.weights)].tolist()
        return rows

    def matches(self, x: Record, y: Record) -> bool:
        return self.score(x, y) <= self.limit

    def match_matrix(self, xs: Sequence[Record], ys: Sequence[Record]) -> NDArray[np.bool_]:
        return self.distances(np.asarray(xs), np.asarray(ys)) <= self.limit

    def distances(self, xs: Ints, ys: Ints) -> Ints:
        """Distances of all pairs; exact while they stay below 2^63."""
        distances = np.zeros((len(xs), len(ys)), np.int64)
        for i, weight in enumerate(self.weights):
            if len(xs) and len(ys):
                distances += weight * (xs[:, i, None] - ys[None, :, i]) ** 2
        return distances

    def score(self, x: Record, y: Record) -> int:
        terms = zip(self.weights, x, y, strict=True)
        return sum(w * (int(a) - int(b)) ** 2 for w, a, b in terms)

    def thresholds(self) -> Thresholds:
        around = {0, self.limit // 4, self.limit, 4 * self.limit, 16 * self.limit + 1}
        return Thresholds(self.limit, sorted(around), at_least=False)

    def matcher(self, schema: Schema) -> "NumberMatcher":
        from ppodc.linkage.compare.distances import NumberMatcher

        return NumberMatcher(self, schema.ub.bit_length())


@dataclass(frozen=True, slots=True)
class SquaredPruning:
    """Cells are candidates if sum_i w_i gap_i^2 <= limit, a dimension for each attribute."""

    rule: SquaredDistance

    def candidates(self, first: Boxes, second: Boxes) -> NDArray[np.bool_]:
        total = np.zeros((len(first), len(second)), np.int64)
        for i, weight in enumerate(self.rule.weights):
            total += weight * gaps(first[:, i], second[:, i]) ** 2
        return total <= self.rule.limit


def sse(weights: Sequence[int], *, limit: int) -> SquaredDistance:
    """Rows of numbers match if their squared differences, in steps of the grid, are within a limit.

    One weight for each column. `RecordLinkage(theta=...)` sets the limit for values scaled to 0..1
    instead.
    """
    return SquaredDistance(tuple(weights), limit)


def _weights(weights: Any) -> tuple[int, ...]:
    if not isinstance(weights, list | tuple):
        raise SpecError("rule sse: weights must be a list of whole numbers")
    for weight in weights:
        check_whole(weight, "a weight", 0, MAX_WEIGHT)
    if not any(weights):
        raise SpecError("at least one weight must be more than 0.")
    return tuple(weights)
