"""What becomes of match bits: links for their owners, or duplicates that nobody learns.

*Links.* For every row i of an owner: c = sum_j m_ij and T = sum_j m_ij token_j over the other
owner's rows, one `select` a pair with the row (token, 1). After the last block two comparisons a
row give [c >= 1] and [c >= 2]; T is multiplied with [c = 1] before anyone may open it. The owner
of row i gets both halves of (0 none, 1 one, 2 several) and of the token of its one partner; of
several partners it learns nothing more.

*Duplicates.* Row j of a later owner is a duplicate if it matches any row of an earlier one:
dup_j = OR_i m_ij, an AND a pair, folded along i. keep_j = real_j and not dup_j stays shared, and
(keep t, keep) replaces (t, 1) in whatever sums over rows: each entity counts once, and which rows
were dropped nobody learns. The first owner's copy stays; for a rule that is an equivalence these
are the groups of equal records, one of each.

Who learns what: the clouds nothing; opened are masked bits only. Rounds: 2 a block for links,
1 + log2(height) for duplicates; at the end those of a comparison and a select. Bytes per pair and
direction: 16 for links of one owner, 1/4 for duplicates.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks import Block
from ppodc.mpc import and_bits, compare, select
from ppodc.mpc.additive import U64, AdditiveShare, Words, public
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.xor_bits import XorShare, pack

NONE, ONE, SEVERAL = 0, 1, 2  # partners of a row, as its owner is told
OWNER_BITS = 40  # a token of a job on the clouds is owner << OWNER_BITS | row


class Links:
    """One cloud's shares of (token sum, number of partners) for the rows of one owner."""

    def __init__(self, rows: int, partners: int) -> None:
        self._sums = np.zeros((rows, 2), U64)
        self._partners = partners

    def add(
        self, session: Session, at: NDArray[np.intp], bits: Bits, tokens: AdditiveShare
    ) -> None:
        """Match bits (rows, partners) of the rows `at` with the partners of these tokens."""
        ones = _ones(session, len(tokens.limbs))
        rows = np.stack([tokens.limbs[:, 0], ones], axis=1)[..., None]
        flat = np.ascontiguousarray(bits).reshape(-1)
        sums = select.select(session, flat, AdditiveShare(rows), group=bits.shape[1])
        self._sums[at] += sums.limbs[..., 0]

    def half(self, session: Session) -> Words:
        """This cloud's half of (NONE, ONE or SEVERAL; token of the one partner): (rows, 2)."""
        rows = len(self._sums)
        some, several = self._at_least(session, (1, 2))
        # [c = 1] (T, 1) and [c >= 2] (T, 1), of which T is not used
        table = np.stack([self._sums[:, 0], _ones(session, rows)], axis=1)[..., None]
        bits = np.concatenate([some ^ several, several])
        chosen = select.select(session, bits, AdditiveShare(table)).limbs[..., 0]
        one, more = chosen[:rows], chosen[rows:]
        return np.stack([one[:, 1] + U64(2) * more[:, 1], one[:, 0]], axis=1)

    def flags(self, session: Session) -> Words:
        """This cloud's half of [a row has a partner], and nothing of who or how many: (rows, 1)."""
        (some,) = self._at_least(session, (1,))
        table = AdditiveShare(_ones(session, len(some))[:, None, None])
        return select.select(session, some, table).limbs[..., 0]

    def _at_least(self, session: Session, bounds: Sequence[int]) -> list[Bits]:
        """Shares of [c >= n] of every row, from the sign of c - n."""
        rows, width = len(self._sums), (self._partners + 2).bit_length()
        counts = AdditiveShare(np.ascontiguousarray(self._sums[:, 1:]))
        less = [counts - public([n], 1, session.role) for n in bounds]
        signs = compare.sign(session, AdditiveShare.concat(less), width).negated(session.role)
        return list(signs.unpack(len(bounds) * rows).reshape(len(bounds), rows))


def _ones(session: Session, rows: int) -> Words:
    """Shares of 1."""
    return np.full(rows, 1 if session.role == 1 else 0, U64)


class Duplicates:
    """One cloud's shares of dup_j for the rows of one owner."""

    def __init__(self, rows: int) -> None:
        self._bits = np.zeros(rows, np.uint8)

    def add(self, session: Session, block: Block, bits: Bits) -> None:
        """dup_j |= OR_i m_ij for the match bits (height, width) of a block."""
        before = self._bits[block.columns]
        rows = np.ascontiguousarray(np.concatenate([before[None], bits]))
        found = any_row(session, XorShare(pack(rows)))
        self._bits[block.columns] = found.unpack(block.width)

    def keep(self, session: Session, real: Bits) -> Bits:
        """This cloud's shares of real_j and not dup_j."""
        kept = and_bits.and_one(
            session, XorShare(pack(real)), XorShare(pack(self._bits)).negated(session.role)
        )
        return kept.unpack(len(real))


def any_row(session: Session, rows: XorShare) -> XorShare:
    """OR of all rows, bit by bit: (n, words) -> (words); a | b = a ^ b ^ (a & b)."""
    while (count := len(rows.words)) > 1:
        half = count // 2
        a, b = rows[:half], rows[half : 2 * half]
        joined = a ^ b ^ and_bits.and_one(session, a, b)
        rows = XorShare.concat([joined, rows[2 * half :]])
    return rows[0]


def kept_rows(session: Session, keep: Bits, values: AdditiveShare) -> Words:
    """(keep t[1..l], keep) modulo 2^64 of every row (n, l): what sums over rows take instead of
    (t, 1)."""
    count, columns = values.shape
    table = np.empty((count, columns + 1, 1), U64)
    table[:, :columns, 0] = values.limbs[..., 0]
    table[:, columns, 0] = _ones(session, count)
    return select.select(session, keep, AdditiveShare(table)).limbs[..., 0]


def opened_links(first: Words, second: Words) -> tuple[Words, Words]:
    """At the owner: status and token of each row, from both halves."""
    total = first + second
    return total[:, 0], total[:, 1]
