"""Blocks `adtree` and `adtree-shared`: cells of a tree over numbers, which lose no match."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from ppodc.errors import SpecError
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.blocks.blocking import OneBudget, cost
from ppodc.linkage.blocks.cell_space import TreeCells
from ppodc.names import is_name
from ppodc.records.schema import Schema
from ppodc.toml_document import fraction

if TYPE_CHECKING:
    from ppodc.linkage.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class OwnTree(OneBudget):
    """Cells of each owner's own tree."""

    kind: ClassVar[str] = "adtree"
    optional: ClassVar[tuple[str, ...]] = ("eta",)
    prunes: ClassVar[str] = "of a tree prune numbers under the rule sse"

    eta: Fraction = Fraction(1, 10)

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta, self.eta)

    def _sorted_into(self) -> str:
        return "cells of each owner's own tree"

    def space(self, rule: "Rule", schema: Schema) -> TreeCells:
        found = self._fitting(rule.coordinates(schema))
        return TreeCells(found.pruning, found.domain, found.of, self.budget)


@dataclass(frozen=True, slots=True)
class SharedTree(OwnTree):
    """Cells of the tree of one owner, `tree_of`, which the others learn without counts."""

    kind: ClassVar[str] = "adtree-shared"
    required: ClassVar[tuple[str, ...]] = ("epsilon", "delta", "tree_of")

    tree_of: str = ""

    def __post_init__(self) -> None:
        OneBudget.__post_init__(self)
        if not is_name(self.tree_of):
            raise SpecError("tree_of must name the owner whose tree all use")

    @property
    def follows(self) -> str:
        return self.tree_of

    def _sorted_into(self) -> str:
        return (
            f"cells of a tree over the records of {self.tree_of}, which the other owners learn "
            "without counts"
        )


def adtree(*, epsilon: float | str, delta: float | str, eta: float | str = "1/10") -> OwnTree:
    """Compare only rows in cells, of each owner's own tree, that are near enough. Loses nothing."""
    return OwnTree(*cost(epsilon, delta), fraction(eta, "eta"))


def adtree_shared(
    tree_of: str, *, epsilon: float | str, delta: float | str, eta: float | str = "1/10"
) -> SharedTree:
    """Compare only rows in cells of one owner's tree, which the others learn without counts.

    The owner of the first table of an estimator is owner1.
    """
    own = adtree(epsilon=epsilon, delta=delta, eta=eta)
    return SharedTree(own.epsilon, own.delta, own.eta, tree_of)
