"""Duplicates that nobody learns: each entity counts once in sums over rows.

Row j of a later owner is a duplicate if it matches any row of an earlier one: dup_j = OR_i m_ij, an
AND a pair, all rows of a batch at once. keep_j = real_j and not dup_j stays shared, and
(keep t, keep) replaces (t, 1) in whatever sums over rows: each entity counts once, and which rows
were dropped nobody learns. The first owner's copy stays; for a rule that is an equivalence these
are the groups of equal records, one of each.

Who learns what: the clouds nothing; opened are masked bits only. Rounds: 1 + log2(rows of the
others) a batch; at the end those of an AND and a select. Bytes per pair and direction: 1/4.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import and_bits, select
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.xor_bits import WORD, XorShare, pack
from ppodc.mpc.supplies import Needs


class Duplicates:
    """One cloud's shares of dup_j for some rows."""

    def __init__(self, rows: int) -> None:
        self.bits: Bits = np.zeros(rows, np.uint8)

    def add(self, session: Session, rows: NDArray[np.intp], bits: Bits) -> None:
        """dup_j |= OR of all bits of the row j; `rows` says which row each bit is of."""
        known = np.unique(rows)
        both = np.concatenate([known, rows]), np.concatenate([self.bits[known], bits])
        self.bits[known] = any_of_row(session, *both)

    def add_parts(self, session: Session, parts: Bits) -> None:
        """dup_j |= OR of parts that were found elsewhere: (any number, rows)."""
        if parts.size:
            self.add(session, np.tile(np.arange(len(self.bits)), len(parts)), parts.reshape(-1))

    def keep(self, session: Session, real: Bits) -> Bits:
        """This cloud's shares of real_j and not dup_j."""
        kept = and_bits.and_one(
            session, XorShare(pack(real)), XorShare(pack(self.bits)).negated(session.role)
        )
        return kept.unpack(len(real))


def any_needs(bits: int) -> Needs:
    """Supplies of `any_of_row`; half a word is lost in each of its rounds."""
    return Needs(pairs=bits // WORD + WORD)


def any_of_row(session: Session, rows: NDArray[np.intp], bits: Bits) -> Bits:
    """The OR of the bits of each row, rows in ascending order; a | b = a ^ b ^ (a & b).

    All rows at once, two bits of each becoming one in every round: log2 of the most that one has.
    """
    order = np.argsort(rows, kind="stable")
    rows, bits = rows[order], bits[order]
    while True:
        starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])) if len(rows) else rows
        sizes = np.diff(np.append(starts, len(rows)))
        place = np.arange(len(rows)) - np.repeat(starts, sizes)  # within its row
        first = np.flatnonzero((place % 2 == 0) & (place + 1 < np.repeat(sizes, sizes)))
        if not len(first):
            return bits
        a, b = bits[first], bits[first + 1]
        both = and_bits.and_one(session, XorShare(pack(a)), XorShare(pack(b)))
        bits[first] = a ^ b ^ both.unpack(len(first))
        rows, bits = rows[place % 2 == 0], bits[place % 2 == 0]


def kept_rows(session: Session, keep: Bits, values: AdditiveShare) -> U64Array:
    """(keep t[1..l], keep) modulo 2^64 of every row (n, l): what sums over rows take instead of
    (t, 1)."""
    count, columns = values.shape
    table = np.empty((count, columns + 1, 1), U64)
    table[:, :columns, 0] = values.limbs[..., 0]
    table[:, columns, 0] = 1 if session.role == 1 else 0
    return select.select(session, keep, AdditiveShare(table)).limbs[..., 0]
