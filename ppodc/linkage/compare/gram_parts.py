"""Dice of q-grams on shares: 2 d |A and B| - n (|A| + |B|) >= 0 for each limit n / d of a field.

The bits of the possible grams are taken in as a table of one bit a value (`mpc.unmask`).
|A and B| is the product of x's bits with y's shares (`mpc.table_products`), |A| and |B| are local
sums, as with filters (`filter_match`); the signs for all limits are compared at once. Each bit is
multiplied with [both texts are there].

Who learns what: nothing. Rounds: one for the products of each block, a comparison for all pairs and
limits of a batch, two ANDs. Bytes per pair and direction: `top` (2 or 4) for each possible gram,
and those of a comparison for each limit. Memory: 8 bytes for each possible gram of the rows of a
stretch or of one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppodc.linkage.compare.cost import PairCost, ands, signs
from ppodc.linkage.compare.field_parts import Batch, FieldPart, Outcome, equal_planes, marks
from ppodc.linkage.compare.filter_match import FILTER_SECONDS, common_bits, ones_of
from ppodc.linkage.compare.matcher import Share, rows_and_columns
from ppodc.linkage.rules.field import COLUMN_BITS
from ppodc.linkage.rules.grams import Grams
from ppodc.mpc.ot.correlated_ot import Bits, top_bytes
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, unmask
from ppodc.mpc.shares.additive import AdditiveShare
from ppodc.mpc.shares.circuits import BLANK, Gate
from ppodc.mpc.shares.unmask import SharedTable
from ppodc.mpc.shares.xor_bits import XorShare, pack
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs


@dataclass(frozen=True, slots=True, repr=False)
class GramRows:
    """One cloud's shares of the grams of some rows, of their number, and of [missing]."""

    table: SharedTable
    ones: AdditiveShare  # (rows)
    marks: Bits  # (rows, 2)


@dataclass(frozen=True, slots=True)
class GramsPart(FieldPart):
    """Texts with this many possible grams."""

    field: Grams
    possible: int

    @property
    def _width(self) -> int:
        """|score| < 2^width: at most 2 d, at least -2 n, times the possible grams."""
        most = max(2 * (limit.denominator + limit.numerator) for limit in self.field.least)
        return (most * self.possible).bit_length()

    def take_in(self, session: Session, columns: Share, budget: Budget, *, first: bool) -> GramRows:
        flat = np.ascontiguousarray(columns).reshape(-1)
        bits = unmask.low_bits(session, flat, COLUMN_BITS).reshape(len(columns), -1)
        grams = bits[:, 1 : self.possible + 1].astype(np.uint64)
        table = unmask.unmask(session, grams, 1, budget)
        return GramRows(table, ones_of(table), marks(bits[:, :1], first=first))

    def agreement(self, session: Session, x: GramRows, y: GramRows, batch: Batch) -> Outcome:
        commons, sums = [], []
        for block in batch:
            common = common_bits(session, x.table, y.table, block, self._width + 1)
            own, other = rows_and_columns(x.ones, y.ones, block)
            commons.append(common.reshape(-1))
            sums.append((own + other).reshape(-1))
        common, ones = AdditiveShare.concat(commons), AdditiveShare.concat(sums)
        scores = [
            common.times(2 * limit.denominator) - ones.times(limit.numerator)
            for limit in self.field.least
        ]
        pairs = len(common.limbs)
        below = compare.sign(session, AdditiveShare.concat(scores), self._width)
        parts = below.unpack(len(scores) * pairs).reshape(len(scores), pairs)
        reached = [
            XorShare(pack(np.ascontiguousarray(part))).negated(session.role) for part in parts
        ]
        return _levels(session.role, reached, equal_planes(session.role, x.marks, y.marks, batch))

    def blank(self) -> Outcome:
        return _levels(1, [BLANK] * len(self.field.least), [BLANK] * 2)

    def needs(self, pairs: int) -> Needs:
        return compare.needs(len(self.field.least) * pairs, self._width)

    def cost(self) -> PairCost:
        levels = len(self.field.least)
        products = PairCost(
            FILTER_SECONDS * self.possible, self.possible * top_bytes(self._width + 1)
        )
        return products + signs(levels, self._width) + ands(1 + levels)


def _levels(role: int, reached: Sequence[XorShare], present: Sequence[XorShare]) -> Outcome:
    """Bits [limit reached and both are there] of each limit, and [a value is missing]."""
    (there,) = yield [Gate(*present)]
    levels = yield [Gate(bit, there) for bit in reached]
    return [*levels, there.negated(role)]
