"""Dice of bit filters on shares: 2 q |a and b| - p (|a| + |b|) >= 0 for the threshold p / q.

Filters such as `clkhash` writes are taken in bit by bit (`mpc.unmask` with one bit a column).
|a and b| is the product of a's bits with b's shares (`mpc.table_products`), |a| and |b| are local
sums. A dummy is pushed below 0 by more than a product can lift it. Nobody sees a filter: the known
attacks on Bloom filters have nothing to work on, and thresholds keep their meaning.

Who learns what: nothing. Rounds: one for the products of each block, and a comparison for all
blocks of a batch. Bytes per pair and direction: `top` (2 or 4) for each bit of a filter, and those
of a comparison. Memory: 8 bytes for each bit of the filters of a stretch or of one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks import Block
from ppodc.linkage.rules import Dice
from ppodc.mpc import compare, unmask
from ppodc.mpc.additive import AdditiveShare, public, zeros
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.mpc.table_products import products
from ppodc.mpc.unmask import SharedTable


@dataclass(frozen=True, slots=True, repr=False)
class FilterRows:
    """One cloud's shares of an owner's filters, and of p |a| (more for a dummy)."""

    table: SharedTable
    weights: AdditiveShare  # (rows)


def take_in_filters(
    session: Session,
    rule: Dice,
    filters: NDArray[np.uint64],
    real: AdditiveShare,
    budget: Budget,
) -> FilterRows:
    """From this cloud's share of the bits (rows, bits) and additive shares of `real` (rows)."""
    table = unmask.unmask(session, filters, 1, budget)
    ones = _ones(table)
    # p |a| + (1 - real) (2 q bits + 1)
    one = public([1], 1, session.role)
    lowered = (one - real).times(_reach(rule) + 1)
    return FilterRows(table, ones.times(rule.threshold.numerator) + lowered)


def _ones(table: SharedTable) -> AdditiveShare:
    """|a| of every filter, a stretch of rows at a time."""
    step = max(1, unmask.VALUES // table.columns)
    starts = range(0, table.rows, step)
    parts = [table.additive(at, min(at + step, table.rows)).sum(axis=1) for at in starts]
    return AdditiveShare.concat(parts) if parts else zeros((0,), table.limbs)


def match_bits(
    session: Session, rule: Dice, x: FilterRows, y: FilterRows, batch: Sequence[Block]
) -> list[Bits]:
    """This cloud's shares of the match bits of each block, a byte per pair: (height, width)."""
    width = _width(rule)
    scores = [_score(session, rule, x, y, block, width + 1) for block in batch]
    flat = AdditiveShare.concat([score.reshape(-1) for score in scores])
    signs = compare.sign(session, flat, width).negated(session.role)
    bits = signs.unpack(sum(block.pairs for block in batch))
    parts = np.split(bits, np.cumsum([block.pairs for block in batch])[:-1])
    both = zip(parts, batch, strict=True)
    return [part.reshape(block.height, block.width) for part, block in both]


def needs(rule: Dice, pairs: int) -> Needs:
    """Supplies for comparing so many pairs."""
    return compare.needs(pairs, _width(rule))


def _reach(rule: Dice) -> int:
    """The largest 2 q |a and b|."""
    return 2 * rule.threshold.denominator * rule.bits


def _width(rule: Dice) -> int:
    """|score| < 2^width: at most 2 q bits, at least -2 (p bits + 2 q bits + 1)."""
    return (2 * (rule.threshold.numerator * rule.bits + _reach(rule) + 1)).bit_length()


def _score(
    session: Session, rule: Dice, x: FilterRows, y: FilterRows, block: Block, width: int
) -> AdditiveShare:
    """2 q |a and b| - p |a| - p |b| of the pairs of a block: (height, width)."""
    columns = block.columns
    start, end = block.xs
    rows = np.concatenate([y.table.additive(*span).limbs for span in block.ys])
    matrix = AdditiveShare(np.ascontiguousarray(rows.transpose(1, 0, 2)))
    common = products(session, x.table, start, end, matrix, width)
    weights = x.weights[start:end].reshape(block.height, 1) + AdditiveShare(
        y.weights.limbs[columns]
    ).reshape(1, block.width)
    return common.times(2 * rule.threshold.denominator) - weights
