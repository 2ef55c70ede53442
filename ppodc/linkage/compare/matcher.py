"""Comparison of a rule on shares: how an owner's rows are taken in, and match bits of blocks.

Each protocol (`distances`, `public_lengths`, `secret_lengths`, `field_match`, `filter_match`) is a
matcher with the same calls. `first` says whether rows stand on the left of pairs: those have static
transfers. `real` is this cloud's share of a column that is 0 for dummies, None if there are none.

Who learns what: nothing; rounds and bytes are those of the protocols.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks.candidates import Block, Work, pairs_of
from ppodc.linkage.compare.cost import PairCost
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, unmask
from ppodc.mpc.shares.additive import AdditiveShare, public
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs

Share = NDArray[np.uint64]


class Matcher(ABC):
    """A rule over encoded columns, as a cloud computes it."""

    __slots__ = ()

    @abstractmethod
    def needs(self, batch: Sequence[Work]) -> Needs:
        """Supplies that `match` takes for a batch."""

    @abstractmethod
    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> Any:
        """Take in rows from this cloud's share of the encoded columns."""

    @abstractmethod
    def match(self, session: Session, x: Any, y: Any, batch: Sequence[Work]) -> list[Bits]:
        """Shares of the match bits of each block, a byte per pair: (height, width)."""

    @abstractmethod
    def cost(self) -> PairCost:
        """Estimate of the cost of a pair."""


class SignMatcher(Matcher):
    """Pairs match where a number is negative: their excess over what the rule allows."""

    __slots__ = ()

    @property
    @abstractmethod
    def width(self) -> int:
        """|excess| < 2^width, whichever rows are dummies."""

    @abstractmethod
    def excess(self, session: Session, x: Any, y: Any, block: Block) -> AdditiveShare:
        """Shares of the excess of the pairs of a block: (height, width)."""

    def needs(self, batch: Sequence[Work]) -> Needs:
        return compare.needs(pairs_of(batch), self.width)

    def match(self, session: Session, x: Any, y: Any, batch: Sequence[Work]) -> list[Bits]:
        blocks = blocks_of(batch)
        values = [self.excess(session, x, y, block).reshape(-1) for block in blocks]
        found = compare.sign(session, AdditiveShare.concat(values), self.width)
        return by_block(found.unpack(pairs_of(batch)), blocks)


def by_block(bits: Bits, batch: Sequence[Block]) -> list[Bits]:
    """Cut bits of all pairs of a batch, side by side, into (height, width) of each block."""
    parts = np.split(bits, np.cumsum([block.pairs for block in batch])[:-1])
    both = zip(parts, batch, strict=True)
    return [part.reshape(block.height, block.width) for part, block in both]


def rows_and_columns(
    x: AdditiveShare, y: AdditiveShare, block: Block
) -> tuple[AdditiveShare, AdditiveShare]:
    """Numbers of the rows of a block as (height, 1) and (1, width), to be added up pair by pair."""
    own = x[slice(*block.xs)].reshape(block.height, 1)
    return own, AdditiveShare(y.limbs[block.columns]).reshape(1, block.width)


def blocks_of(batch: Sequence[Work]) -> list[Block]:
    """The blocks of a batch."""
    return [work.block for work in batch]


def real_shares(session: Session, real: Share | None, rows: int, budget: Budget) -> AdditiveShare:
    """Additive shares of `real`: (rows)."""
    if real is None:
        return public([1] * rows, 1, session.role)
    table = unmask.unmask(session, real, 1, budget)
    return table.additive(0, rows).reshape(-1)


def real_bits(session: Session, real: Share | None, rows: int) -> Bits:
    """Bit shares of `real`: (rows, 1)."""
    if real is None:
        return np.full((rows, 1), session.role == 1, np.uint8)
    return unmask.low_bits(session, np.ascontiguousarray(real).reshape(-1), 1)
