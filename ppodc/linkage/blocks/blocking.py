"""Base classes of blocks: which pairs of records are compared at all.

One class answers every question about its kind: how a spec writes it, what it reveals and costs,
the cells that rows are sorted into, the columns that it adds to an uploaded row, and the pairs that
are compared.

`none`: all of them; the clouds learn sizes only.
`adtree` (numbers): cells of each owner's own tree under differential privacy (`adtree`).
`adtree-shared`: the tree of one owner, whose cells the others count their rows in.
`length` (edit distance): a cell for each combination of exact lengths, the same for everybody.
`embedding` (edit distance): cells of each owner's own tree over distances to public texts.
`key`: cells of equal values of a column, such as a year of birth, in one pass or in several
(`keys`). Pairs that agree in no key are never compared: matches between them are lost.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from ppodc.errors import SpecError
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.blocks.candidates import Work, blocks, cell_blocks
from ppodc.linkage.blocks.cell_space import CellSpace, OneCell
from ppodc.linkage.blocks.cells import CellCounts, Ints, Pruning
from ppodc.records.schema import Schema
from ppodc.toml_document import check_keys, fraction, plain

if TYPE_CHECKING:
    from ppodc.linkage.owner_table import OwnerTable
    from ppodc.linkage.rules.rule import Rule

T = TypeVar("T")
Cells = tuple[int, CellCounts]  # an upload by number, and its cells
_FRACTIONS = ("epsilon", "delta", "eta")


@dataclass(frozen=True, slots=True)
class Beside:
    """Columns of an uploaded row beside those that are compared."""

    real: int = 0  # whether the row is no dummy
    number: int = 0  # its number in the owner's table, in halves
    earlier: int = 0  # its cells in earlier passes
    switches: int = 0  # where the rows of later passes stand in the first


class Blocking(ABC):
    """A kind of blocks."""

    __slots__ = ()
    kind: ClassVar[str]  # in a spec
    required: ClassVar[tuple[str, ...]] = ()  # keys of a spec
    optional: ClassVar[tuple[str, ...]] = ()

    # ------------------------------------------------------------------ spec

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """Parse {"blocks": KIND, ...} with the keys of this kind."""
        where, optional = f"blocks {cls.kind}", ("blocks", *cls.optional)
        check_keys(table, where, required=cls.required, optional=optional)
        given = {key: table[key] for key in table if key != "blocks"}
        return cls(**given | {n: fraction(given[n], n) for n in _FRACTIONS if n in given})

    def to_dict(self) -> dict[str, Any]:
        """Return the table that `from_dict` reads; fractions as text, exact."""
        keys = (*self.required, *self.optional)
        return {"blocks": self.kind, **{key: plain(getattr(self, key)) for key in keys}}

    @abstractmethod
    def describe(self) -> list[str]:
        """Sentences on what the clouds learn by them."""

    @property
    def named_columns(self) -> list[str]:
        """Columns that the blocks name."""
        return []

    # --------------------------------------------------------------- privacy

    @property
    @abstractmethod
    def budget(self) -> Budget | None:
        """The cost of an owner's cells, over all passes; None if they reveal nothing."""

    @property
    def cost(self) -> tuple[Fraction, Fraction]:
        """(epsilon, delta) of an owner's cells."""
        budget = self.budget
        return (Fraction(0), Fraction(0)) if budget is None else (budget.epsilon, budget.delta)

    def check_rows(self, rows: int) -> None:
        """Refuse a delta under which a whole record might be shown."""
        if self.budget is not None:
            self.budget.check_rows(rows)

    @property
    def follows(self) -> str:
        """The owner whose cells all others use; empty: each has its own, or all are public."""
        return ""

    # ----------------------------------------------------------------- cells

    def rule_in_cells(self, rule: "Rule") -> "Rule":
        """Return the rule as it compares rows in these cells."""
        return rule

    @abstractmethod
    def space(self, rule: "Rule", schema: Schema) -> CellSpace:
        """The cells of a job; InputError if they cannot prune its rule."""

    @property
    def beside(self) -> Beside:
        """Columns that are uploaded beside those that are compared."""
        return Beside(real=1, number=2)

    def keys(self, table: "OwnerTable", schema: Schema) -> list[Ints]:
        """Columns behind an owner's encoded rows that say in which cells they lie."""
        return []

    # ----------------------------------------------------------------- pairs

    by_cell: ClassVar[bool] = False  # whether no block spans two cells of an owner

    def work(self, first: Cells, second: Cells, pruning: Pruning, most: int) -> Iterator[Work]:
        """All candidate pairs of two uploads, in an order that both clouds derive."""
        (x, left), (y, right) = first, second
        if not self.by_cell:
            yield from (Work(x, y, block) for block in blocks(left, right, pruning, most))
            return
        for a, b, block in cell_blocks(left, right, pruning, most):
            yield self._in_cells(Work(x, y, block), left.corner(a), right.corner(b))

    def _in_cells(self, work: Work, x: tuple[int, ...], y: tuple[int, ...]) -> Work:
        """The work with what the corners of its two cells tell."""
        return work

    def compares(self, x: Mapping[str, Any], y: Mapping[str, Any]) -> bool:
        """Whether two records are compared if they match, in plaintext: values by column.

        A whole number counts from the lower bound of its column, a text is normalised.
        """
        return True


@dataclass(frozen=True, slots=True)
class NoBlocks(Blocking):
    """All pairs; the clouds learn sizes only."""

    kind: ClassVar[str] = "none"

    def describe(self) -> list[str]:
        return ["Every pair of records is compared; the clouds learn sizes only."]

    @property
    def budget(self) -> None:
        return None

    def space(self, rule: "Rule", schema: Schema) -> OneCell:
        return OneCell()

    @property
    def beside(self) -> Beside:
        return Beside()


class CellBlocks(Blocking):
    """Blocks of cells that are padded with dummies (`ppodc.privacy.cell_noise`).

    The clouds learn cells and padded counts: (epsilon, delta) differential privacy for a record
    that is replaced. An owner is charged before anything is sent.
    """

    __slots__ = ()
    prunes: ClassVar[str] = ""  # all that the cells can prune, where they depend on the rule

    @property
    @abstractmethod
    def budget(self) -> Budget:
        """The cost of an owner's cells, over all passes."""

    def _fitting(self, found: T | None) -> T:
        """The answer of a rule for these cells, unless it has none."""
        if found is None:
            raise SpecError(f"blocks {self.prunes} only.")
        return found

    def describe(self) -> list[str]:
        return [
            f"Records are sorted into {self._sorted_into()}.",
            *self._lost(),
            "Each cell is filled up with dummies. Both clouds learn the cells and the padded "
            f"numbers: epsilon {self._epsilon()}, delta {float(self.budget.delta):g} for a record, "
            "charged to each owner's privacy budget.",
        ]

    @abstractmethod
    def _sorted_into(self) -> str:
        """The cells, in words."""

    def _lost(self) -> list[str]:
        """Sentences on matches that are lost."""
        return []

    def _epsilon(self) -> str:
        return f"{float(self.budget.epsilon):g}"


@dataclass(frozen=True, slots=True)
class OneBudget(CellBlocks):
    """Cells of one pass."""

    required: ClassVar[tuple[str, ...]] = ("epsilon", "delta")

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        self.check_rows(0)

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta)


def cost(epsilon: float | str, delta: float | str) -> tuple[Fraction, Fraction]:
    """The cost of cells as numbers that are exact."""
    return fraction(epsilon, "epsilon"), fraction(delta, "delta")
