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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.blocks import Block
from ppodc.linkage.rules import SquaredDistance
from ppodc.mpc import compare, unmask
from ppodc.mpc.additive import LIMB_BITS, U64, AdditiveShare, public
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.row_squares import row_squares
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.mpc.table_products import products, value_bytes
from ppodc.mpc.unmask import SharedTable


@dataclass(frozen=True, slots=True)
class Numbers:
    """The rule over values of `bits` bits, and the sizes that follow from it."""

    rule: SquaredDistance
    bits: int

    def __post_init__(self) -> None:
        if self.width >= LIMB_BITS - 1:
            raise InputError(
                "distances of these columns may not fit in 62 bits. Use a smaller ub or weights."
            )

    @property
    def width(self) -> int:
        """|distance - limit - 1| < 2^width, whichever rows are dummies."""
        largest = self.rule.largest((1 << self.bits) - 1)
        return (largest + self.rule.limit + 1).bit_length()

    @property
    def product_bytes(self) -> int:
        """Bytes that the products of a pair take, each way."""
        return len(self.rule.weights) * value_bytes(self.bits, self.width)

    def needs(self, pairs: int) -> Needs:
        """Supplies for comparing so many pairs."""
        return compare.needs(pairs, self.width)


@dataclass(frozen=True, slots=True, repr=False)
class NumberRows:
    """One cloud's shares of an owner's rows and of their norms."""

    table: SharedTable
    norms: AdditiveShare  # (rows)

    @property
    def rows(self) -> int:
        return self.table.rows

    def close(self) -> None:
        """Forget all shares and keys."""
        self.table.close()


def take_in(
    session: Session,
    numbers: Numbers,
    values: NDArray[np.uint64],
    real: AdditiveShare,
    budget: Budget,
) -> NumberRows:
    """From this cloud's share of the values (t + r or r) and additive shares of `real` (rows)."""
    table = unmask.unmask(session, values, numbers.bits, budget)
    rows = with_norms(session, numbers, table)
    # (1 - real) (limit + 1)
    one = public([1], 1, session.role)
    lifted = (one - real).times(numbers.rule.limit + 1)
    return NumberRows(table, rows.norms + lifted)


def with_norms(session: Session, numbers: Numbers, table: SharedTable) -> NumberRows:
    """Rows that are taken in already, of any number of limbs, and none of them a dummy."""
    weights = np.array(numbers.rule.weights, U64)
    return NumberRows(table, row_squares(session, table, weights))


def match_bits(
    session: Session, numbers: Numbers, x: NumberRows, y: NumberRows, batch: Sequence[Block]
) -> list[Bits]:
    """This cloud's shares of the match bits of each block, a byte per pair: (height, width)."""
    values = [_excess(session, numbers, x, y, block).reshape(-1) for block in batch]
    signs = compare.sign(session, AdditiveShare.concat(values), numbers.width)
    flat = signs.unpack(sum(block.pairs for block in batch))
    parts = np.split(flat, np.cumsum([block.pairs for block in batch])[:-1])
    shapes = zip(parts, batch, strict=True)
    return [part.reshape(block.height, block.width) for part, block in shapes]


def _excess(
    session: Session, numbers: Numbers, x: NumberRows, y: NumberRows, block: Block
) -> AdditiveShare:
    """distance - limit - 1 of the pairs of a block: (height, width)."""
    columns = block.columns
    start, end = block.xs
    # w_i y_i as a matrix (values, width)
    weighted = _weighted(numbers, y.table, columns)
    matrix = AdditiveShare(np.ascontiguousarray(weighted.transpose(1, 0, 2)))
    # modulo 2^width: twice of it counts modulo 2^(width + 1)
    dots = products(session, x.table, start, end, matrix, numbers.width)
    # n(x) + n(y) - 2 x . (w y) - (limit + 1)
    norms = x.norms[start:end].reshape(block.height, 1) + AdditiveShare(
        y.norms.limbs[columns]
    ).reshape(1, block.width)
    bound = public([numbers.rule.limit + 1], 1, session.role)
    return norms - dots.times(2) - bound


def _weighted(numbers: Numbers, table: SharedTable, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
    """w_i y_i of some rows: (rows, values, 1)."""
    low, high = int(rows.min()), int(rows.max()) + 1
    limbs = table.additive(low, high).low(1).limbs[rows - low]
    weights = np.array(numbers.rule.weights, U64)
    result: NDArray[np.uint64] = limbs * weights[None, :, None]
    return result
