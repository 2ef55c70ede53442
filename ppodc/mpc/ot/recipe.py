"""How supplies are made from a source of transfers: lots of them, and what becomes of each.

The source is the OT extension (`transfer`) or its silent form (`silent.source`).

All kinds that are wanted at the same time share one run of lots, so that the link is waited for as
often as for one of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ppodc.crypto.single_use import Array, Layout
from ppodc.mpc.ot.code import Code
from ppodc.mpc.ot.transfer import Extended, Lot, ObliviousTransfer


class Source(Protocol):
    """Transfers with random choices, in both directions."""

    def extend(self, lots: Iterable[Lot]) -> Iterator[Extended]:
        """Those of each lot in order; they may be used when the iterator has ended."""


class Finish(Protocol):
    """Turn a lot into rows of a layout."""

    def __call__(self, ot: ObliviousTransfer, made: Extended, out: Sequence[Array]) -> None:
        """Fill the layout's columns, slices of them with as many rows as the lot gives."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One kind of supplies."""

    layout: Layout
    code: Code
    transfers: int  # for each row of the layout
    most: int  # rows of the layout in a lot
    finish: Finish

    @property
    def bytes(self) -> float:
        """Bytes that each cloud sends for a row of the layout."""
        return self.transfers * (self.code.trees - self.code.choice_bits) / 8


Made = Callable[[Recipe, int], None]


def make(
    ot: ObliviousTransfer,
    orders: Sequence[tuple[Recipe, int]],
    made: Made = lambda _, __: None,
    source: Source | None = None,
) -> list[tuple[Array, ...]]:
    """So many rows of each recipe's layout; `made` hears of each lot that is done.

    From `source`, if it is not the OT extension of `ot` itself.
    """
    found = [
        tuple(np.empty((count, field.width), field.dtype) for field in recipe.layout.fields)
        for recipe, count in orders
    ]
    parts = [
        (number, recipe, start, min(start + recipe.most, count))
        for number, (recipe, count) in enumerate(orders)
        for start in range(0, count, recipe.most)
    ]
    lots = [Lot(recipe.code, recipe.transfers * (end - at)) for _, recipe, at, end in parts]
    transfers = (ot if source is None else source).extend(lots)
    for (number, recipe, start, end), lot in zip(parts, transfers, strict=True):
        recipe.finish(ot, lot, [column[start:end] for column in found[number]])
        made(recipe, end - start)
    return found
