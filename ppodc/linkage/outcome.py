"""What becomes of match bits: links for their owners, or duplicates that nobody learns.

*Links.* For every row i of an owner and r = 1..K: T_r = sum_j m_ij token_j^r and c = sum_j m_ij
over the other owners' rows, one `select` a pair with the row (token, .., token^K, 1). After the
last block one comparison a row gives [c <= K], with which (c, T_1, .., T_K) is multiplied before
anyone may open it. The owner of row i gets both halves: of at most K partners it learns their
number and the power sums of their tokens, which are their tokens (`power_sums`); of more partners
nothing but that. Sums do not depend on the order of blocks, so any worker may compare any of them.

*Duplicates.* Row j of a later owner is a duplicate if it matches any row of an earlier one: dup_j =
OR_i m_ij, an AND a pair, all rows of a batch at once. keep_j = real_j and not dup_j stays shared,
and (keep t, keep) replaces (t, 1) in whatever sums over rows: each entity counts once, and which
rows were dropped nobody learns. The first owner's copy stays; for a rule that is an equivalence
these are the groups of equal records, one of each.

Who learns what: the clouds nothing; opened are masked bits only. Rounds: 2 a block for links, 1 +
log2(rows of the others) a batch for duplicates; at the end those of a comparison and a select.
Bytes per pair and direction: 8 K (K + 1) for links of one owner, 1/4 for duplicates.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc import and_bits, compare, select
from ppodc.mpc.additive import U64, AdditiveShare, Words, public, zeros
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import WORD, XorShare, pack

NONE, ONE, SEVERAL = 0, 1, 2  # partners of a row, as its owner is told if it may have one link


class Links:
    """One cloud's shares of (T_1, .., T_K, c) for some rows, modulo 2^(64 K)."""

    def __init__(self, rows: int, partners: int, most: int = 1) -> None:
        self._sums = zeros((rows, most + 1), most)
        self._partners, self._most = partners, most

    @classmethod
    def of(cls, sums: Words, partners: int) -> "Links":
        """From sums that were kept: (rows, K + 1, K)."""
        links = cls(0, partners, sums.shape[-1])
        links._sums = AdditiveShare(sums)
        return links

    @property
    def sums(self) -> Words:
        """What `of` takes; shares of different workers may be added up."""
        return self._sums.limbs

    def add(
        self, session: Session, at: NDArray[np.intp], bits: Bits, tokens: AdditiveShare
    ) -> None:
        """Match bits (rows, partners) of the rows `at` with the partners of these tokens.

        `tokens` are shares of (token, .., token^K) of each partner: (partners, K), or (partners)
        if K is 1.
        """
        count = len(tokens.limbs)
        powers = tokens.reshape(count, self._most)
        ones = public([1] * count, self._most, session.role).reshape(count, 1)
        rows = AdditiveShare(np.concatenate([powers.limbs, ones.limbs], axis=1))
        flat = np.ascontiguousarray(bits).reshape(-1)
        found = select.select(session, flat, rows, group=bits.shape[1])
        self._sums.limbs[at] = (AdditiveShare(self._sums.limbs[at]) + found).limbs

    def half(self, session: Session) -> AdditiveShare:
        """This cloud's half of (partners, T_1, .., T_K): (rows, K + 1).

        The number of partners is K + 1 if there are more than K, and then all T are 0.
        """
        most = self._most
        few = self._at_least(session, most + 1) ^ np.uint8(session.role == 1)
        # [c <= K] (c - (K + 1), T_1, .., T_K) + (K + 1, 0, .., 0)
        bound = public([most + 1], most, session.role)
        count = (self._sums[:, most] - bound).reshape(-1, 1)
        table = AdditiveShare(np.concatenate([count.limbs, self._sums.limbs[:, :most]], axis=1))
        chosen = select.select(session, few, table)
        chosen.limbs[:, 0] = (chosen[:, 0] + bound).limbs
        return chosen

    def flags(self, session: Session) -> AdditiveShare:
        """This cloud's half of [a row has a partner], and nothing of who or how many: (rows, 1)."""
        some = self._at_least(session, 1)
        ones = public([1] * len(some), 1, session.role).reshape(-1, 1)
        return select.select(session, some, ones)

    def _at_least(self, session: Session, bound: int) -> Bits:
        """Shares of [c >= bound] of every row, from the sign of c - bound."""
        rows, width = len(self._sums.limbs), (self._partners + self._most + 2).bit_length()
        counts = self._sums[:, self._most].low(1)
        signs = compare.sign(session, counts - public([bound], 1, session.role), width)
        return signs.negated(session.role).unpack(rows)


class Count:
    """One cloud's share of the number of matching pairs."""

    def __init__(self) -> None:
        self.sums = np.zeros((1, 1), U64)

    def add(self, session: Session, bits: Bits) -> None:
        """Match bits of any shape."""
        flat = np.ascontiguousarray(bits).reshape(-1)
        one = public([1], 1, session.role).reshape(1, 1)
        self.sums += select.select(session, flat, one, group=len(flat)).limbs[..., 0]


def _ones(session: Session, rows: int) -> Words:
    """Shares of 1."""
    return np.full(rows, 1 if session.role == 1 else 0, U64)


class Duplicates:
    """One cloud's shares of dup_j for some rows."""

    def __init__(self, rows: int) -> None:
        self.bits: Bits = np.zeros(rows, np.uint8)

    def add(self, session: Session, rows: NDArray[np.intp], bits: Bits) -> None:
        """dup_j |= OR of all bits of the row j; `rows` says which row each bit is of."""
        told = np.unique(rows)
        both = np.concatenate([told, rows]), np.concatenate([self.bits[told], bits])
        self.bits[told] = any_of_row(session, *both)

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


def kept_rows(session: Session, keep: Bits, values: AdditiveShare) -> Words:
    """(keep t[1..l], keep) modulo 2^64 of every row (n, l): what sums over rows take instead of
    (t, 1)."""
    count, columns = values.shape
    table = np.empty((count, columns + 1, 1), U64)
    table[:, :columns, 0] = values.limbs[..., 0]
    table[:, columns, 0] = _ones(session, count)
    return select.select(session, keep, AdditiveShare(table)).limbs[..., 0]
