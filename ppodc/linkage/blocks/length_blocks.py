"""Blocks `length` (edit distance): a cell for each combination of exact lengths of all texts.

Cells are the same for everybody and lose no match. Lengths of texts are then public within a cell,
which makes comparing them cheaper.
"""

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ppodc.errors import SpecError
from ppodc.linkage.blocks.blocking import OneBudget, cost
from ppodc.linkage.blocks.candidates import Work
from ppodc.linkage.blocks.cell_space import MAX_CELLS, FixedCells
from ppodc.records.schema import Schema

if TYPE_CHECKING:
    from ppodc.linkage.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class LengthBlocks(OneBudget):
    """Cells of equal lengths; no text is shorter than `shortest`."""

    kind: ClassVar[str] = "length"
    optional: ClassVar[tuple[str, ...]] = ("shortest",)
    prunes: ClassVar[str] = "by length prune texts under the rule edit"
    by_cell: ClassVar[bool] = True

    shortest: int = 0

    def _sorted_into(self) -> str:
        return "cells of equal lengths of all texts"

    def rule_in_cells(self, rule: "Rule") -> "Rule":
        return self._fitting(rule.with_public_lengths(self.shortest))

    def space(self, rule: "Rule", schema: Schema) -> FixedCells:
        found = self._fitting(rule.coordinates(schema))
        if np.prod([len(axis) for axis in found.domain]) > MAX_CELLS:
            raise SpecError(
                f"these lengths make more than {MAX_CELLS} cells: lower `longest` of the columns "
                "or raise job.shortest."
            )
        lengths = list(product(*found.domain))
        boxes = np.array([[(n, n + 1) for n in each] for each in lengths], np.int64)
        points = found.of
        return FixedCells(found.pruning, (boxes,), (self.budget,), lambda rows: [points(rows)])

    def _in_cells(self, work: Work, x: tuple[int, ...], y: tuple[int, ...]) -> Work:
        return replace(work, x_lengths=x, y_lengths=y)


def by_length(*, epsilon: float | str, delta: float | str, shortest: int = 0) -> LengthBlocks:
    """Compare only rows whose texts have lengths that can match. Loses nothing."""
    return LengthBlocks(*cost(epsilon, delta), shortest)
