"""Which pairs of records are compared at all: the blocks that a job names.

`none`: all of them; the clouds learn sizes only.
`adtree` (numbers): cells of each owner's own tree under differential privacy (`adtree`).
`adtree-shared`: the tree of one owner, whose cells the others count their rows in.
`length` (edit distance): a cell for each combination of exact lengths, the same for everybody.
`key`: cells of equal values of a column, such as a year of birth, in one pass or in several
(`keys`). Pairs that agree in no key are never compared: matches between them are lost.

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
from ppodc.linkage.adtree import Budget, Domain, hull
from ppodc.linkage.cells import Boxes, EditPruning, NoPruning, Pruning, SquaredPruning, Synopsis
from ppodc.linkage.covering import check_leaves
from ppodc.linkage.keys import MAX_PASSES, Key, SameKey, costed, pass_boxes
from ppodc.linkage.rules import EditDistance, Rule, SquaredDistance, fraction
from ppodc.records.names import is_name
from ppodc.records.schema import Schema
from ppodc.records.toml_document import check_keys, check_whole

BlockKind = Literal["none", "adtree", "adtree-shared", "length", "key"]
MAX_CELLS = 1 << 14  # of one upload; both clouds look at every pair of cells
_MOST_EDGES = 1 << 19  # of all cells and dimensions: seconds for a gateway that checks them
_EXTRA: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # required, optional
    "none": ((), ()),
    "adtree": (("epsilon", "delta"), ("eta",)),
    "adtree-shared": (("epsilon", "delta", "tree_of"), ("eta",)),
    "length": (("epsilon", "delta"), ("shortest",)),
    "key": (("lossy",), ("key", "epsilon", "delta", "keys")),
}
KEYS = tuple(sorted({key for both in _EXTRA.values() for keys in both for key in keys}))


@dataclass(frozen=True, slots=True)
class Blocking:
    """The blocks of a job, and what an owner's cells may cost it: over all passes."""

    kind: BlockKind = "none"
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    eta: Fraction = Fraction(1, 10)
    tree_of: str = ""  # adtree-shared: the owner whose tree it is
    shortest: int = 0  # length: no text is shorter
    keys: tuple[Key, ...] = ()  # key: a pass for each
    lossy: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(BlockKind):
            raise InputError(f"blocks must be one of {', '.join(get_args(BlockKind))}")
        if self.kind == "key":
            self._add_up()
        if self.padded:
            self.budgets()
        if self.kind == "adtree-shared" and not is_name(self.tree_of):
            raise InputError("tree_of must name the owner whose tree all use")
        if self.kind == "key" and self.lossy is not True:
            raise InputError(
                "blocks by key compare no pair of different keys, however alike: say lossy = true "
                "if matches among those may be lost."
            )

    def _add_up(self) -> None:
        """Blocks by key cost what their passes do."""
        columns = [(key.column, key.first) for key in self.keys]
        if not 1 <= len(columns) <= MAX_PASSES or len(set(columns)) < len(columns):
            raise InputError(f"blocks by key need 1 to {MAX_PASSES} keys, all different.")
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, sum(getattr(key, name) for key in self.keys))

    @property
    def padded(self) -> bool:
        """Whether uploads carry dummies and tell how many rows each cell has."""
        return self.kind != "none"

    @property
    def passes(self) -> int:
        """How often the rows of an upload are sorted into cells."""
        return max(1, len(self.keys))

    def budget(self) -> Budget:
        """What an owner's cells spend, over all passes."""
        return Budget(self.epsilon, self.delta, self.eta)

    def budgets(self) -> list[Budget]:
        """What the cells of each pass spend."""
        if self.keys:
            return [Budget(key.epsilon, key.delta) for key in self.keys]
        return [self.budget()]

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
        return cls._by_key(given) if kind == "key" else cls(kind, **given)

    @classmethod
    def _by_key(cls, given: dict[str, Any]) -> "Blocking":
        """One key with its cost beside it, or `keys` with a table for each pass."""
        if "keys" not in given:
            check_keys(given, "blocks key", required=("key", "epsilon", "delta", "lossy"))
            if not isinstance(given["key"], str):
                raise InputError("key must be the name of a column")
            keys = [Key(given["key"], given["epsilon"], given["delta"])]
        else:
            check_keys(given, "blocks key", required=("keys", "lossy"))
            if not isinstance(given["keys"], list):
                raise InputError("keys must be a list of tables")
            keys = [Key.from_dict(entry) for entry in given["keys"]]
        return cls("key", keys=tuple(keys), lossy=given["lossy"])

    def to_dict(self) -> dict[str, Any]:
        """The keys of this kind; fractions as text, exact."""
        if self.kind == "key":
            return {"blocks": "key", "lossy": True, **self._key_table()}
        keys = [key for keys in _EXTRA[self.kind] for key in keys]
        values = {key: getattr(self, key) for key in keys}
        texts = {key: str(v) if isinstance(v, Fraction) else v for key, v in values.items()}
        return {"blocks": self.kind, **texts}

    def _key_table(self) -> dict[str, Any]:
        tables = [key.to_dict() for key in self.keys]
        if len(tables) > 1 or len(tables[0]) > 3:
            return {"keys": tables}
        return {"key": tables[0].pop("column"), **tables[0]}

    def in_words(self) -> list[str]:
        """What the clouds learn by them."""
        if not self.padded:
            return ["Every pair of records is compared; the clouds learn sizes only."]
        how = {
            "adtree": "cells of each owner's own tree",
            "adtree-shared": f"cells of a tree over the records of {self.tree_of}, which the other "
            "owners learn without counts",
            "length": "cells of equal lengths of all texts",
            "key": "cells of equal " + ", and once more by ".join(k.in_words for k in self.keys),
        }[self.kind]
        lines = [f"Records are sorted into {how}."]
        if self.kind == "key":
            lines.append(
                "A pair that agrees in any of these is compared, once; all others are not, and "
                "their matches are lost. A record without a value agrees with none."
            )
        parts = " + ".join(f"{float(budget.epsilon):g}" for budget in self.budgets())
        total = f"{float(self.epsilon):g}" + (f" ({parts})" if self.passes > 1 else "")
        return [
            *lines,
            "Each cell is filled up with dummies. Both clouds learn the cells and the padded "
            f"numbers: epsilon {total}, delta {float(self.delta):g} for a record, charged to each "
            "owner's privacy budget.",
        ]


def by_key(
    *keys: str | Key, epsilon: float | str | None = None, delta: float | str | None = None
) -> Blocking:
    """Compare only rows that agree in one of these columns. Loses the other matches.

    Each key is a pass of its own, which costs `epsilon` and `delta` unless it names its own cost:
    the costs of all passes add up. `key` makes one of the first characters of a text.
    """
    if any(isinstance(key, str) or not key.epsilon for key in keys) and None in (epsilon, delta):
        raise InputError("give by_key epsilon and delta, or every key its own.")
    cost = _cost(epsilon or 0, delta or 0)
    return Blocking("key", keys=costed(keys, *cost), lossy=True)


def key(
    column: str,
    *,
    epsilon: float | str = 0,
    delta: float | str = 0,
    buckets: int = 0,
    first: int = 0,
) -> Key:
    """A key of `by_key`: only the `first` characters of a text, hashed to so many `buckets`."""
    return Key(column, *_cost(epsilon, delta), buckets, first)


def by_length(*, epsilon: float | str, delta: float | str, shortest: int = 0) -> Blocking:
    """Compare only rows whose texts have lengths that can match. Loses nothing."""
    return Blocking("length", *_cost(epsilon, delta), shortest=shortest)


def adtree(*, epsilon: float | str, delta: float | str, eta: float | str = "1/10") -> Blocking:
    """Compare only rows in cells, of each owner's own tree, that are near enough. Loses nothing."""
    return Blocking("adtree", *_cost(epsilon, delta), eta=fraction(eta, "eta"))


def adtree_shared(
    tree_of: str, *, epsilon: float | str, delta: float | str, eta: float | str = "1/10"
) -> Blocking:
    """The same with the tree of one owner, whose cells, without counts, the others learn.

    Of an estimator's tables the first is that of owner1.
    """
    cost, share = _cost(epsilon, delta), fraction(eta, "eta")
    return Blocking("adtree-shared", *cost, eta=share, tree_of=tree_of)


def _cost(epsilon: float | str, delta: float | str) -> tuple[Fraction, Fraction]:
    return fraction(epsilon, "epsilon"), fraction(delta, "delta")


# --------------------------------------------------------------------------- the public domain


def check_cells(count: int, dimensions: int) -> None:
    """Refuse an upload of so many cells that clouds would take long for them."""
    most = min(MAX_CELLS, _MOST_EDGES // max(1, dimensions))
    if not 1 <= count <= most:
        raise InputError(
            f"an upload may have 1 to {most} cells, not {count}: agree on a smaller eta or "
            "epsilon, or on other blocks."
        )


@dataclass(frozen=True, slots=True)
class Cutting:
    """The public domain that rows are sorted in, and which of its cells meet."""

    pruning: Pruning
    domain: Domain  # of each coordinate, where cells are not fixed
    passes: tuple[Boxes, ...] = ()  # the cells of each pass, if they are the same for everybody

    @property
    def fixed(self) -> Boxes | None:
        """The cells of all passes, if they are the same for everybody."""
        return np.concatenate(self.passes) if self.passes else None

    def rows_of_passes(self, synopsis: Synopsis) -> tuple[int, ...]:
        """How many rows of an upload stand in the cells of each pass, which follow one another."""
        ends = np.cumsum([len(boxes) for boxes in self.passes])[:-1]
        return tuple(int(counts.sum()) for counts in np.split(synopsis.counts, ends))

    def synopsis(self, outline: np.ndarray[Any, np.dtype[np.uint32]]) -> Synopsis:
        """What an upload tells: rows of (count), or (count, low and high of each dimension).

        InputError for whatever cannot be one: it comes from an owner.
        """
        dimensions, fixed = len(self.domain), self.fixed
        wide = 1 if fixed is not None else 1 + 2 * dimensions
        if outline.ndim != 2 or outline.shape[1] != wide or outline.dtype != np.uint32:
            raise InputError("the cells of an upload do not fit the job.")
        check_cells(len(outline), dimensions)
        table = outline.astype(np.int64)
        if fixed is not None:
            if len(outline) != len(fixed):
                raise InputError(f"an upload needs counts of {len(fixed)} cells.")
            return Synopsis(fixed, table[:, 0])
        boxes = table[:, 1:].reshape(-1, dimensions, 2)
        lowest = np.array([axis[0] for axis in self.domain])
        highest = np.array([axis[-1] + 1 for axis in self.domain])
        low, high = boxes[..., 0], boxes[..., 1]
        if (low < lowest).any() or (high > highest).any() or (low >= high).any():
            raise InputError("a cell of an upload lies outside the public domain.")
        return Synopsis(boxes, table[:, 0])

    def check_cover(self, synopsis: Synopsis) -> None:
        """InputError unless every row of the public domain lies in exactly one of the cells."""
        if not self.passes:
            check_leaves(synopsis.boxes, np.array(hull(self.domain)))

    def outline(self, synopsis: Synopsis) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The rows that `synopsis` reads."""
        counts = synopsis.counts[:, None]
        if not self.passes:
            counts = np.concatenate([counts, synopsis.boxes.reshape(len(counts), -1)], axis=1)
        return counts.astype(np.uint32)


def cutting_of(blocking: Blocking, rule: Rule, schema: Schema) -> Cutting:
    """The domain of a job's blocks; InputError if they cannot prune its rule."""
    if blocking.kind in ("adtree", "adtree-shared"):
        return _tree(rule, schema)
    if blocking.kind == "length":
        return _lengths(blocking, rule, schema)
    if blocking.kind == "key":
        boxes = pass_boxes(blocking.keys, schema)
        if sum(map(len, boxes)) > MAX_CELLS:
            raise InputError(f"these keys make more than {MAX_CELLS} cells: give them buckets.")
        return Cutting(SameKey(), [], tuple(boxes))
    return Cutting(NoPruning(), [], (np.array([[[0, 1]]]),))


def _tree(rule: Rule, schema: Schema) -> Cutting:
    if not isinstance(rule, SquaredDistance):
        raise InputError("blocks of a tree prune numbers under the rule sse only.")
    weights = tuple(weight for weight in rule.weights if weight)
    pruning = SquaredPruning(SquaredDistance(weights, rule.limit))
    return Cutting(pruning, [np.arange(schema.ub + 1)] * len(weights))


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
    return Cutting(EditPruning(rule, tuple(range(len(axes)))), axes, (boxes,))
