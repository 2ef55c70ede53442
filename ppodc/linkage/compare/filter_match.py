"""Dice of bit filters on shares: 2 q |a and b| - p (|a| + |b|) >= 0 for the threshold p / q.

Filters such as `clkhash` writes are taken in bit by bit (`mpc.unmask` with one bit a column).
|a and b| is the product of a's bits with b's shares (`mpc.table_products`), |a| and |b| are local
sums. A dummy is pushed below 0 by more than a product can lift it. Nobody sees a filter: the known
attacks on Bloom filters have nothing to work on, and thresholds keep their meaning.

Who learns what: nothing. Rounds: one for the products of each block, and a comparison for all
blocks of a batch. Bytes per pair and direction: `top` (2 or 4) for each bit of a filter, and those
of a comparison. Memory: 8 bytes for each bit of the filters of a stretch or of one block.
"""

from dataclasses import dataclass

import numpy as np

from ppodc.linkage.blocks.candidates import Block
from ppodc.linkage.compare.cost import PairCost, signs
from ppodc.linkage.compare.matcher import Share, SignMatcher, real_shares, rows_and_columns
from ppodc.linkage.rules.dice import Dice
from ppodc.mpc.ot.correlated_ot import top_bytes
from ppodc.mpc.session import Session
from ppodc.mpc.shares import unmask
from ppodc.mpc.shares.additive import AdditiveShare, public, zeros
from ppodc.mpc.shares.table_products import products
from ppodc.mpc.shares.unmask import SharedTable
from ppodc.mpc.spill import Budget

FILTER_SECONDS = 1.35e-5 / 1024  # of a bit and pair, measured with filters of 1,024 bits


@dataclass(frozen=True, slots=True, repr=False)
class FilterRows:
    """One cloud's shares of an owner's filters, and of p |a| (more for a dummy)."""

    table: SharedTable
    weights: AdditiveShare  # (rows)


@dataclass(frozen=True, slots=True)
class FilterMatcher(SignMatcher):
    """The rule dice."""

    rule: Dice

    @property
    def _reach(self) -> int:
        """The largest 2 q |a and b|."""
        return 2 * self.rule.threshold.denominator * self.rule.bits

    @property
    def width(self) -> int:
        """|excess| < 2^width: at least -2 q bits - 1, below 2 (p bits + 2 q bits + 1)."""
        own = self.rule.threshold.numerator * self.rule.bits
        return (2 * (own + self._reach + 1)).bit_length()

    def cost(self) -> PairCost:
        bits, wide = self.rule.bits, (2 * self._reach).bit_length() + 1
        return signs(1) + PairCost(FILTER_SECONDS * bits, bits * top_bytes(wide + 1))

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> FilterRows:
        flags = real_shares(session, real, len(share), budget)
        table = unmask.unmask(session, share, 1, budget)
        # p |a| + (1 - real) (2 q bits + 1)
        one = public([1], 1, session.role)
        lowered = (one - flags).times(self._reach + 1)
        return FilterRows(table, ones_of(table).times(self.rule.threshold.numerator) + lowered)

    def excess(self, session: Session, x: FilterRows, y: FilterRows, block: Block) -> AdditiveShare:
        """p |a| + p |b| - 2 q |a and b| - 1 of the pairs of a block."""
        common = common_bits(session, x.table, y.table, block, self.width + 1)
        own, other = rows_and_columns(x.weights, y.weights, block)
        one = public([1], 1, session.role)
        return own + other - common.times(2 * self.rule.threshold.denominator) - one


def common_bits(
    session: Session, x: SharedTable, y: SharedTable, block: Block, width: int
) -> AdditiveShare:
    """|a and b| of the pairs of a block, right modulo 2^width: (height, width)."""
    rows = np.concatenate([y.additive(*span).limbs for span in block.ys])
    matrix = AdditiveShare(np.ascontiguousarray(rows.transpose(1, 0, 2)))
    return products(session, x, *block.xs, matrix, width)


def ones_of(table: SharedTable) -> AdditiveShare:
    """|a| of every row of bits, a stretch of rows at a time."""
    step = max(1, unmask.VALUES // table.columns)
    starts = range(0, table.rows, step)
    parts = [table.additive(at, min(at + step, table.rows)).sum(axis=1) for at in starts]
    return AdditiveShare.concat(parts) if parts else zeros((0,), table.limbs)
