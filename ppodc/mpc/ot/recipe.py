"""The making of supplies from a source of transfers: lots, and the use of each.

The source is the OT extension (`transfer`) or its silent form (`silent.source`).

All kinds that are wanted at the same time share one run of lots, so that the link is waited for as
often as for one of them.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
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

    def extend_beside(self, lots: Iterable[Lot], parts: int) -> Iterator[Extended | None]:
        """`extend` in the waits of other steps: None after each of about so many parts."""


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
    batch = _Batch(orders)
    for lot in (source or ot).extend(batch.lots):
        made(*batch.finish(ot, lot))
    return batch.found


def make_beside(
    ot: ObliviousTransfer,
    orders: Sequence[tuple[Recipe, int]],
    parts: int,
    source: Source | None = None,
) -> Generator[None, None, list[tuple[Array, ...]]]:
    """`make` in the waits of other steps, with a stop after each of about `parts` + 5 parts."""
    batch = _Batch(orders)
    for lot in (source or ot).extend_beside(batch.lots, parts):
        if lot is None:
            yield
        else:
            batch.finish(ot, lot)
    return batch.found


class _Batch:
    """Orders on their way: the lots that they take, and what is found so far."""

    def __init__(self, orders: Sequence[tuple[Recipe, int]]) -> None:
        self.found = [
            tuple(np.empty((count, field.width), field.dtype) for field in recipe.layout.fields)
            for recipe, count in orders
        ]
        parts = [
            (number, recipe, start, min(start + recipe.most, count))
            for number, (recipe, count) in enumerate(orders)
            for start in range(0, count, recipe.most)
        ]
        self.lots = [Lot(recipe.code, recipe.transfers * (to - at)) for _, recipe, at, to in parts]
        self._parts = iter(parts)

    def finish(self, ot: ObliviousTransfer, lot: Extended) -> tuple[Recipe, int]:
        """Take the next lot: its recipe and rows."""
        number, recipe, start, end = next(self._parts)
        recipe.finish(ot, lot, [column[start:end] for column in self.found[number]])
        return recipe, end - start
