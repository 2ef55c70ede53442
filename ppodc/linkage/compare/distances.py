"""Match bits of numbers on shares: [sum_i w_i (x_i - y_i)^2 <= limit] for all pairs of a block.

Taking in an owner's rows, once: XOR-shared bits, static transfers and additive shares
(`mpc.unmask`), and the norm n(x) = sum_i w_i x_i^2 + (1 - real) (limit + 1), by correlated
transfers of x's bits with x's own values. Norms are computed here and not uploaded: a wrong norm
would match everything. The shared bit `real` of a dummy is 0, which lifts all its distances above
the limit and costs no gate.

A block: distance = n(x) + n(y) - 2 sum_i x_i (w_i y_i) by products of x's bits with y's shares
(`mpc.table_products`); the match bit is the sign of distance - limit - 1 (`mpc.compare`).

Numbers are of `bits` bits by construction, whatever was uploaded, and the ring holds the largest
distance of such numbers: nothing wraps.

Who learns what: nothing. Rounds: one for the products of each block, and a comparison for all
blocks of a batch. Bytes per pair and direction: those of the products (110 for 5 values of 8 bits)
and of a comparison. Supplies: those of a comparison.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks.candidates import Block
from ppodc.linkage.compare.cost import PairCost, signs
from ppodc.linkage.compare.matcher import Share, SignMatcher, real_shares, rows_and_columns
from ppodc.linkage.rules.sse import SquaredDistance
from ppodc.mpc.session import Session
from ppodc.mpc.shares import unmask
from ppodc.mpc.shares.additive import U64, AdditiveShare, public
from ppodc.mpc.shares.row_squares import row_squares
from ppodc.mpc.shares.table_products import products, value_bytes
from ppodc.mpc.shares.unmask import SharedTable
from ppodc.mpc.spill import Budget


@dataclass(frozen=True, slots=True, repr=False)
class NumberRows:
    """One cloud's shares of an owner's rows and of their norms."""

    table: SharedTable
    norms: AdditiveShare  # (rows)


@dataclass(frozen=True, slots=True)
class NumberMatcher(SignMatcher):
    """The rule over values of `bits` bits, and the sizes that follow from it."""

    rule: SquaredDistance
    bits: int

    def __post_init__(self) -> None:
        self.rule.check_width(self.bits)

    @property
    def width(self) -> int:
        """|distance - limit - 1| < 2^width, whichever rows are dummies."""
        return self.rule.width(self.bits)

    def cost(self) -> PairCost:
        values = len(self.rule.weights)
        products = values * value_bytes(self.bits, self.width)
        return signs(1, self.width) + PairCost(self.bits * values * 1.8e-8, products)

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> NumberRows:
        flags = real_shares(session, real, len(share), budget)
        table = unmask.unmask(session, share, self.bits, budget)
        norms = row_squares(session, table, np.array(self.rule.weights, U64))
        # (1 - real) (limit + 1)
        one = public([1], 1, session.role)
        return NumberRows(table, norms + (one - flags).times(self.rule.limit + 1))

    def excess(self, session: Session, x: NumberRows, y: NumberRows, block: Block) -> AdditiveShare:
        """distance - limit - 1 of the pairs of a block: (height, width)."""
        # w_i y_i as a matrix (values, width)
        weighted = self._weighted(y.table, block.columns)
        matrix = AdditiveShare(np.ascontiguousarray(weighted.transpose(1, 0, 2)))
        # modulo 2^width: twice of it counts modulo 2^(width + 1)
        dots = products(session, x.table, *block.xs, matrix, self.width)
        # n(x) + n(y) - 2 x . (w y) - (limit + 1)
        own, other = rows_and_columns(x.norms, y.norms, block)
        bound = public([self.rule.limit + 1], 1, session.role)
        return own + other - dots.times(2) - bound

    def _weighted(self, table: SharedTable, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """w_i y_i of some rows: (rows, values, 1)."""
        low, high = int(rows.min()), int(rows.max()) + 1
        limbs = table.additive(low, high).low(1).limbs[rows - low]
        weights = np.array(self.rule.weights, U64)
        result: NDArray[np.uint64] = limbs * weights[None, :, None]
        return result
