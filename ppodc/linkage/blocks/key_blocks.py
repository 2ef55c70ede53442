"""Blocks `key`: only rows that agree in one of some columns are compared (`keys`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ppodc.errors import SpecError
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.blocks.blocking import Beside, CellBlocks, cost
from ppodc.linkage.blocks.candidates import Work
from ppodc.linkage.blocks.cell_space import MAX_CELLS, FixedCells
from ppodc.linkage.blocks.cells import Ints
from ppodc.linkage.blocks.keys import MAX_PASSES, NO_KEY, Key, SameKey, pass_boxes
from ppodc.linkage.blocks.passes import SWITCH_COLUMNS
from ppodc.records.schema import Schema
from ppodc.toml_document import check_keys

if TYPE_CHECKING:
    from ppodc.linkage.owner_table import OwnerTable
    from ppodc.linkage.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class KeyBlocks(CellBlocks):
    """Cells of equal values, a pass for each key; the costs of all passes add up."""

    kind: ClassVar[str] = "key"
    required: ClassVar[tuple[str, ...]] = ("lossy",)
    optional: ClassVar[tuple[str, ...]] = ("key", "epsilon", "delta", "keys")
    by_cell: ClassVar[bool] = True

    passes: tuple[Key, ...]
    lossy: bool = False

    def __post_init__(self) -> None:
        columns = [(key.column, key.first) for key in self.passes]
        if not 1 <= len(columns) <= MAX_PASSES or len(set(columns)) < len(columns):
            raise SpecError(f"blocks by key need 1 to {MAX_PASSES} keys, all different.")
        for budget in self.budgets:
            budget.check_rows(0)
        if self.lossy is not True:
            raise SpecError(
                "blocks by key compare no pair of different keys, however alike: say lossy = true "
                "if matches among those may be lost."
            )

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """Parse one key with its cost beside it, or `keys` with a table for each pass."""
        optional = ("blocks", *cls.optional)
        check_keys(table, "blocks key", required=cls.required, optional=optional)
        given = {key: table[key] for key in table if key != "blocks"}
        if "keys" not in given:
            check_keys(given, "blocks key", required=("key", "epsilon", "delta", "lossy"))
            if not isinstance(given["key"], str):
                raise SpecError("key must be the name of a column")
            one = Key(given["key"], *cost(given["epsilon"], given["delta"]))
            return cls((one,), given["lossy"])
        check_keys(given, "blocks key", required=("keys", "lossy"))
        if not isinstance(given["keys"], list):
            raise SpecError("keys must be a list of tables")
        return cls(tuple(map(Key.from_dict, given["keys"])), given["lossy"])

    def to_dict(self) -> dict[str, Any]:
        tables = [key.to_dict() for key in self.passes]
        one = {"key": tables[0].pop("column"), **tables[0]} if self._plain else {"keys": tables}
        return {"blocks": self.kind, "lossy": True, **one}

    @property
    def _plain(self) -> bool:
        """Whether there is one key, and nothing but its column is given."""
        return len(self.passes) == 1 and not (self.passes[0].buckets or self.passes[0].first)

    @property
    def budget(self) -> Budget:
        epsilon = sum((key.epsilon for key in self.passes), Fraction(0))
        return Budget(epsilon, sum((key.delta for key in self.passes), Fraction(0)))

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """The cost of each pass."""
        return tuple(Budget(key.epsilon, key.delta) for key in self.passes)

    def _sorted_into(self) -> str:
        return "cells of equal " + ", and once more by ".join(key.describe for key in self.passes)

    def _lost(self) -> list[str]:
        return [
            "A pair that agrees in any of these is compared, once; all others are not, and their "
            "matches are lost. A record without a value agrees with none."
        ]

    def _epsilon(self) -> str:
        total = CellBlocks._epsilon(self)
        parts = " + ".join(f"{float(budget.epsilon):g}" for budget in self.budgets)
        return f"{total} ({parts})" if len(self.passes) > 1 else total

    @property
    def named_columns(self) -> list[str]:
        return [key.column for key in self.passes]

    def space(self, rule: "Rule", schema: Schema) -> FixedCells:
        boxes, link = pass_boxes(self.passes, schema), rule.columns(schema)
        if sum(map(len, boxes)) > MAX_CELLS:
            raise SpecError(f"these keys make more than {MAX_CELLS} cells: give them buckets.")

        def points(values: Ints) -> Sequence[Ints]:
            keys = values[:, link:].T
            return [np.column_stack([np.full_like(key, p), key]) for p, key in enumerate(keys)]

        return FixedCells(SameKey(), tuple(boxes), self.budgets, points)

    @property
    def beside(self) -> Beside:
        later = len(self.passes) - 1
        return Beside(1, 2, later, SWITCH_COLUMNS * later)

    def keys(self, table: "OwnerTable", schema: Schema) -> list[Ints]:
        return [key.numbers(table.column(key.of(schema))) for key in self.passes]

    def _in_cells(self, work: Work, x: tuple[int, ...], y: tuple[int, ...]) -> Work:
        return replace(work, earlier=x[0])

    def compares(self, x: Mapping[str, Any], y: Mapping[str, Any]) -> bool:
        both = [(key.number(x[key.column]), key.number(y[key.column])) for key in self.passes]
        return any(NO_KEY != a == b for a, b in both)


def by_key(
    *keys: str | Key, epsilon: float | str | None = None, delta: float | str | None = None
) -> KeyBlocks:
    """Compare only rows that agree in one of these columns. Loses the other matches.

    Each key is a pass of its own, which costs `epsilon` and `delta` unless it names its own cost:
    the costs of all passes add up. `key` makes one of the first characters of a text.
    """
    if any(isinstance(key, str) or not key.epsilon for key in keys) and None in (epsilon, delta):
        raise SpecError("give by_key epsilon and delta, or every key its own.")
    each = cost(epsilon or 0, delta or 0)
    named = [Key(key) if isinstance(key, str) else key for key in keys]
    passes = [k if k.epsilon else replace(k, epsilon=each[0], delta=each[1]) for k in named]
    return KeyBlocks(tuple(passes), lossy=True)


def key(
    column: str,
    *,
    epsilon: float | str = 0,
    delta: float | str = 0,
    buckets: int = 0,
    first: int = 0,
) -> Key:
    """A key of `by_key`: the `first` characters of a text alone, hashed to `buckets` cells."""
    return Key(column, *cost(epsilon, delta), buckets, first)
