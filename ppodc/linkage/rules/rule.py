"""Base class of rules: when two records match, in whole numbers, exactly.

One class answers every question about its rule: how a spec writes it, which columns it fits, how
an owner encodes rows, what it means in plaintext, which cells it can prune, and which comparison
on shares decides it. The comparison is imported when it is asked for: parsing a spec loads no
protocol.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks.candidates import BATCH_PAIRS
from ppodc.linkage.blocks.cells import Coordinates
from ppodc.records.schema import Schema
from ppodc.toml_document import check_keys, plain

if TYPE_CHECKING:
    from ppodc.linkage.compare.matcher import Matcher
    from ppodc.linkage.owner_table import OwnerTable

MAX_WEIGHT = 1 << 16
MAX_LIMIT = 1 << 48
Ints = NDArray[np.int64]
Record = Sequence[Any]


class CellError(Exception):
    """The reason why a cell of a table cannot be used; never its value."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The threshold of a rule and others around it, for scores of pairs of records."""

    own: float
    around: list[float]
    at_least: bool  # whether a score must reach the threshold, or stay within it

    def met(self, scores: NDArray[np.float64], threshold: float) -> int:
        """Number of scores that meet one of the thresholds."""
        meets = np.greater_equal if self.at_least else np.less_equal
        return int(meets(scores, threshold).sum())


class Rule(ABC):
    """When two records match."""

    __slots__ = ()
    name: ClassVar[str]  # in a spec
    keys: ClassVar[tuple[str, ...]]  # of its table there
    on_grid: ClassVar[bool] = False  # values are rounded to 0..ub, and columns have an order
    portion_pairs: ClassVar[int] = 1 << 20  # of a worker between two checkpoints: about a minute

    @property
    def batch_pairs(self) -> int:
        """Pairs that are compared at a time, so that they fit in memory."""
        return BATCH_PAIRS

    # ------------------------------------------------------------------ spec

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Self:
        """Parse the table of a spec."""
        check_keys(table, f"rule {cls.name}", required=("rule", *cls.keys))
        return cls(*(table[key] for key in cls.keys))

    def to_dict(self) -> dict[str, Any]:
        """Return the table that `from_dict` reads."""
        return {"rule": self.name, **{key: plain(getattr(self, key)) for key in self.keys}}

    @abstractmethod
    def check(self, schema: Schema) -> None:
        """Refuse columns that the rule does not fit."""

    @abstractmethod
    def describe(self) -> str:
        """Complete the sentence "Records match if ..."."""

    @property
    def named_columns(self) -> list[str]:
        """Columns that the rule names; empty if it compares all of them."""
        return []

    @property
    def number_columns(self) -> int:
        """Columns of numbers that the rule implies; 0 if it implies none."""
        return 0

    def over_all(self, schema: Schema) -> "Rule":
        """Extend the rule from the columns that link records to all columns of the schema."""
        return self

    def parameters(self, schema: Schema) -> dict[str, Any]:
        """Parameters of a `RecordLinkage` with this rule over these columns."""
        linking = [column for column in schema.columns if column.use != "cluster"]
        return {
            "rule": self,
            "bounds": {column.name: (column.low, column.high) for column in linking},
            "texts": {text.name: (text.signs, text.longest) for text in schema.texts},
        }

    # ------------------------------------------------- blocks that lose no match

    def coordinates(self, schema: Schema) -> Coordinates | None:
        """Numbers of a row that bound its distance to others, for cells of a tree."""
        return None

    def embedded(
        self, schema: Schema, embed: Callable[[list[Ints]], Ints], attribute: tuple[int, ...]
    ) -> Coordinates | None:
        """Coordinates that `embed` makes of a row's texts; None if the rule compares other values.

        `attribute` says to which text each coordinate belongs.
        """
        return None

    def with_public_lengths(self, shortest: int) -> "Rule | None":
        """Return the rule for rows in cells of known text lengths; None if it has no such form."""
        return None

    # ----------------------------------------------------------------- owner

    @abstractmethod
    def columns(self, schema: Schema) -> int:
        """Numbers that a row is encoded as."""

    @abstractmethod
    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        """Encode an owner's rows: (rows, columns). The table notes values that do not fit."""

    @abstractmethod
    def decode(self, values: Ints, schema: Schema) -> list[Record]:
        """Return encoded rows as records that `matches` compares."""

    # ------------------------------------------------------------- plaintext

    @abstractmethod
    def matches(self, x: Record, y: Record) -> bool:
        """Whether two records match: the protocols reproduce this bit."""

    def match_matrix(self, xs: Sequence[Record], ys: Sequence[Record]) -> NDArray[np.bool_]:
        """All pairs: entry (i, j) says whether xs[i] matches ys[j]."""
        pairs = [[self.matches(x, y) for y in ys] for x in xs]
        return np.array(pairs, np.bool_).reshape(len(xs), len(ys))

    @abstractmethod
    def score(self, x: Record, y: Record) -> float:
        """Number that a threshold decides on."""

    @abstractmethod
    def thresholds(self) -> Thresholds:
        """Thresholds that a preview counts matches at."""

    # ---------------------------------------------------------------- clouds

    @abstractmethod
    def matcher(self, schema: Schema) -> "Matcher":
        """Return the comparison on shares."""
