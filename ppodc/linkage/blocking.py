"""Which pairs of records are compared at all: the blocks that a job names.

`none`: all of them; the clouds learn sizes only.
`adtree` (numbers): cells of each owner's own tree under differential privacy (`adtree`).
`adtree-shared`: the tree of one owner, whose cells the others count their rows in.
`length` (edit distance): a cell for each combination of exact lengths, the same for everybody.
`key`: a cell for each value of a column of whole numbers, such as a year of birth, and one for rows
without such a value. Pairs of different keys are never compared: matches between them are lost.

Rows are padded with dummies in every cell (`noise`), and the clouds learn cells and padded counts:
(epsilon, delta) differential privacy for a record that is replaced. What an owner draws is charged
to it before anything is sent.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Literal, get_args

import numpy as np

from ppodc.errors import InputError
from ppodc.linkage.adtree import Budget, Domain
from ppodc.linkage.cells import Boxes, EditPruning, NoPruning, Pruning, SquaredPruning, Synopsis
from ppodc.linkage.rules import EditDistance, Rule, SquaredDistance, fraction
from ppodc.records.names import is_name
from ppodc.records.schema import Column, Schema
from ppodc.records.toml_document import check_keys, check_whole

BlockKind = Literal["none", "adtree", "adtree-shared", "length", "key"]
MAX_CELLS = 1 << 14  # of one upload; both clouds look at every pair of cells
_EXTRA: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # required, optional
    "none": ((), ()),
    "adtree": (("epsilon", "delta"), ("eta",)),
    "adtree-shared": (("epsilon", "delta", "tree_of"), ("eta",)),
    "length": (("epsilon", "delta"), ("shortest",)),
    "key": (("epsilon", "delta", "key", "lossy"), ()),
}
KEYS = tuple(sorted({key for both in _EXTRA.values() for keys in both for key in keys}))


@dataclass(frozen=True, slots=True)
class Blocking:
    """The blocks of a job, and what an owner's cells may cost it."""

    kind: BlockKind = "none"
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    eta: Fraction = Fraction(1, 10)
    tree_of: str = ""  # adtree-shared: the owner whose tree it is
    shortest: int = 0  # length: no text is shorter
    key: str = ""
    lossy: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(BlockKind):
            raise InputError(f"blocks must be one of {', '.join(get_args(BlockKind))}")
        if self.padded:
            self.budget()
        if self.kind == "adtree-shared" and not is_name(self.tree_of):
            raise InputError("tree_of must name the owner whose tree all use")
        if self.kind == "key" and self.lossy is not True:
            raise InputError(
                "blocks by key compare no pair of different keys, however alike: say lossy = true "
                "if matches among those may be lost."
            )

    @property
    def padded(self) -> bool:
        """Whether uploads carry dummies and tell how many rows each cell has."""
        return self.kind != "none"

    def budget(self) -> Budget:
        """What an owner's cells spend."""
        return Budget(self.epsilon, self.delta, self.eta)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "Blocking":
        """From {"blocks": KIND, ...} with the keys of that kind."""
        kind: Any = table.get("blocks", "none")
        if kind not in list(_EXTRA):
            raise InputError(f"blocks must be one of {', '.join(_EXTRA)}")
        required, optional = _EXTRA[kind]
        check_keys(table, f"blocks {kind}", required=required, optional=("blocks", *optional))
        given: dict[str, Any] = {key: table[key] for key in table if key != "blocks"}
        for number in ("epsilon", "delta", "eta"):
            if number in given:
                given[number] = fraction(given[number], number)
        if kind == "key" and not isinstance(given["key"], str):
            raise InputError("key must be the name of a column")
        return cls(kind, **given)

    def to_dict(self) -> dict[str, Any]:
        """The keys of this kind; fractions as text, exact."""
        keys = [key for keys in _EXTRA[self.kind] for key in keys]
        values = {key: getattr(self, key) for key in keys}
        texts = {key: str(v) if isinstance(v, Fraction) else v for key, v in values.items()}
        return {"blocks": self.kind, **texts}

    def in_words(self) -> list[str]:
        """What the clouds learn by them."""
        if not self.padded:
            return ["Every pair of records is compared; the clouds learn sizes only."]
        how = {
            "adtree": "cells of each owner's own tree",
            "adtree-shared": f"cells of a tree over the records of {self.tree_of}, which the other "
            "owners learn without counts",
            "length": "cells of equal lengths of all texts",
            "key": f"cells of equal {self.key}; pairs of different {self.key} are not compared and "
            "their matches are lost",
        }[self.kind]
        return [
            f"Records are sorted into {how}.",
            "Each cell is filled up with dummies. Both clouds learn the cells and the padded "
            f"numbers: epsilon {float(self.epsilon):g}, delta {float(self.delta):g} for a record, "
            "charged to each owner's privacy budget.",
        ]


def by_key(column: str, *, epsilon: float | str, delta: float | str) -> Blocking:
    """Compare only rows that agree in this column of whole numbers. Loses the other matches."""
    return Blocking("key", *_cost(epsilon, delta), key=column, lossy=True)


def by_length(*, epsilon: float | str, delta: float | str, shortest: int = 0) -> Blocking:
    """Compare only rows whose texts have lengths that can match. Loses nothing."""
    return Blocking("length", *_cost(epsilon, delta), shortest=shortest)


def adtree(
    *, epsilon: float | str, delta: float | str, eta: float | str = "1/10", tree_of: str = ""
) -> Blocking:
    """Compare only rows in cells that are near enough. Loses nothing. `tree_of`: whose tree."""
    kind: BlockKind = "adtree-shared" if tree_of else "adtree"
    return Blocking(kind, *_cost(epsilon, delta), eta=fraction(eta, "eta"), tree_of=tree_of)


def _cost(epsilon: float | str, delta: float | str) -> tuple[Fraction, Fraction]:
    return fraction(epsilon, "epsilon"), fraction(delta, "delta")


# --------------------------------------------------------------------------- the public domain


@dataclass(frozen=True, slots=True)
class Cutting:
    """The public domain that rows are sorted in, and which of its cells meet."""

    pruning: Pruning
    domain: Domain  # of each coordinate
    fixed: Boxes | None  # the cells, if they are the same for everybody

    def synopsis(self, outline: np.ndarray[Any, np.dtype[np.uint32]]) -> Synopsis:
        """What an upload tells: rows of (count), or (count, low and high of each dimension).

        InputError for whatever cannot be one: it comes from an owner.
        """
        dimensions = len(self.domain)
        wide = 1 if self.fixed is not None else 1 + 2 * dimensions
        if outline.ndim != 2 or outline.shape[1] != wide or outline.dtype != np.uint32:
            raise InputError("the cells of an upload do not fit the job.")
        if not 1 <= len(outline) <= MAX_CELLS:
            raise InputError(f"an upload may have 1 to {MAX_CELLS} cells.")
        table = outline.astype(np.int64)
        if self.fixed is not None:
            if len(outline) != len(self.fixed):
                raise InputError(f"an upload needs counts of {len(self.fixed)} cells.")
            return Synopsis(self.fixed, table[:, 0])
        boxes = table[:, 1:].reshape(-1, dimensions, 2)
        lowest = np.array([axis[0] for axis in self.domain])
        highest = np.array([axis[-1] + 1 for axis in self.domain])
        low, high = boxes[..., 0], boxes[..., 1]
        if (low < lowest).any() or (high > highest).any() or (low >= high).any():
            raise InputError("a cell of an upload lies outside the public domain.")
        return Synopsis(boxes, table[:, 0])

    def outline(self, synopsis: Synopsis) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The rows that `synopsis` reads."""
        counts = synopsis.counts[:, None]
        if self.fixed is None:
            counts = np.concatenate([counts, synopsis.boxes.reshape(len(counts), -1)], axis=1)
        return counts.astype(np.uint32)


def cutting_of(blocking: Blocking, rule: Rule, schema: Schema) -> Cutting:
    """The domain of a job's blocks; InputError if they cannot prune its rule."""
    if blocking.kind in ("adtree", "adtree-shared"):
        return _tree(rule, schema)
    if blocking.kind == "length":
        return _lengths(blocking, rule, schema)
    if blocking.kind == "key":
        column = key_column(blocking, schema)
        values = np.arange(key_values(column) + 1)  # the last: rows without a key
        same = SquaredPruning(SquaredDistance((1,), 0))
        return Cutting(same, [values], np.stack([values, values + 1], axis=1)[:, None, :])
    return Cutting(NoPruning(), [np.arange(1)], np.array([[[0, 1]]]))


def key_column(blocking: Blocking, schema: Schema) -> Column:
    """The column that blocks are made by."""
    for column in schema.columns:
        if column.name == blocking.key:
            key_values(column)
            return column
    raise InputError(f"job.key names {blocking.key!r}, which is no column of numbers.")


def key_values(column: Column) -> int:
    """How many whole numbers lie between the bounds of a column."""
    if column.low % 1 or column.high % 1 or column.high - column.low >= MAX_CELLS - 1:
        raise InputError(
            f"blocks by {column.name!r} need whole bounds with fewer than {MAX_CELLS - 1} values "
            "between them."
        )
    return int(column.high - column.low) + 1


def _tree(rule: Rule, schema: Schema) -> Cutting:
    if not isinstance(rule, SquaredDistance):
        raise InputError("blocks of a tree prune numbers under the rule sse only.")
    weights = tuple(weight for weight in rule.weights if weight)
    pruning = SquaredPruning(SquaredDistance(weights, rule.limit))
    return Cutting(pruning, [np.arange(schema.ub + 1)] * len(weights), None)


def _lengths(blocking: Blocking, rule: Rule, schema: Schema) -> Cutting:
    if not isinstance(rule, EditDistance):
        raise InputError("blocks by length prune texts under the rule edit only.")
    longest = [text.longest for text in schema.texts]
    check_whole(blocking.shortest, "job.shortest", 0, min(longest, default=0))
    axes = [np.arange(blocking.shortest, most + 1) for most in longest]
    if np.prod([len(axis) for axis in axes]) > MAX_CELLS:
        raise InputError(
            f"these lengths make more than {MAX_CELLS} cells: lower `longest` of the columns or "
            "raise job.shortest."
        )
    boxes = np.array([[(n, n + 1) for n in lengths] for lengths in product(*axes)], np.int64)
    return Cutting(EditPruning(rule, tuple(range(len(axes)))), axes, boxes)
