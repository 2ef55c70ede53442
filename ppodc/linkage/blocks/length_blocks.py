"""Blocks `length` (edit distance): a cell for each combination of exact lengths of all texts.

Cells are the same for everybody and lose no match. Lengths of texts are then public within a cell,
which makes comparing them cheaper.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ppodc.errors import SpecError
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.blocks.blocking import CellBlocks
from ppodc.linkage.blocks.candidates import Work, cell_blocks
from ppodc.linkage.blocks.cell_space import MAX_CELLS, FixedCells
from ppodc.linkage.blocks.cells import CellCounts, Pruning
from ppodc.records.schema import Schema
from ppodc.toml_document import fraction

if TYPE_CHECKING:
    from ppodc.linkage.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class LengthBlocks(CellBlocks):
    """Cells of equal lengths; no text is shorter than `shortest`."""

    kind: ClassVar[str] = "length"
    required: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    optional: ClassVar[tuple[str, ...]] = ("shortest",)

    epsilon: Fraction
    delta: Fraction
    shortest: int = 0

    def __post_init__(self) -> None:
        self.check_rows(0)

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta)

    def _sorted_into(self) -> str:
        return "cells of equal lengths of all texts"

    def rule_in_cells(self, rule: "Rule") -> "Rule":
        known = rule.with_public_lengths(self.shortest)
        if known is None:
            raise SpecError("blocks by length prune texts under the rule edit only.")
        return known

    def space(self, rule: "Rule", schema: Schema) -> FixedCells:
        found = rule.coordinates(schema)
        if found is None:
            raise SpecError("blocks by length prune texts under the rule edit only.")
        if np.prod([len(axis) for axis in found.domain]) > MAX_CELLS:
            raise SpecError(
                f"these lengths make more than {MAX_CELLS} cells: lower `longest` of the columns "
                "or raise job.shortest."
            )
        lengths = list(product(*found.domain))
        boxes = np.array([[(n, n + 1) for n in each] for each in lengths], np.int64)
        points = found.of
        return FixedCells(found.pruning, (boxes,), (self.budget,), lambda rows: [points(rows)])

    def work(
        self, first: tuple[int, CellCounts], second: tuple[int, CellCounts],
        pruning: Pruning, most: int,
    ) -> Iterator[Work]:  # fmt: skip
        (x, left), (y, right) = first, second
        for a, b, block in cell_blocks(left, right, pruning, most):
            yield Work(x, y, block, left.corner(a), right.corner(b))


def by_length(*, epsilon: float | str, delta: float | str, shortest: int = 0) -> LengthBlocks:
    """Compare only rows whose texts have lengths that can match. Loses nothing."""
    return LengthBlocks(fraction(epsilon, "epsilon"), fraction(delta, "delta"), shortest)
