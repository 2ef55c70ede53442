"""Sums of what matches: links, flags or a count for owners, as match bits are made.

*Links.* For every row i of an owner and r = 1..K: T_r = sum_j m_ij token_j^r and c = sum_j m_ij
over the other owners' rows, two `select` a pair, for either row, with (token, .., token^K, 1) of
the other. Where rows stand as in their tables (no blocks), tokens are public, and for K = 1 one
`select` a pair makes the number e_ij = m_ij; T_1 and c of both rows are sums that each cloud adds
up alone. After the last block one comparison a row gives [c <= K], with which (c, T_1, .., T_K) is
multiplied before anyone may open it. The owner of row i gets both shares: of at most K partners it
learns their number and the power sums of their tokens, which are their tokens (`power_sums`); of
more partners nothing but that. Sums do not depend on the order of blocks, so any worker may compare
any of them.

*Flags*: [c >= 1] alone, from e_ij as well, with any blocks. *Count*: the sum of all match bits.

Who learns what: the clouds nothing; opened are masked bits only. Rounds: 1 a batch of blocks; at
the end those of a comparison and a select. Bytes per pair and direction, a bit for the choice and
supplies of 4 a select besides: 16 K (K + 1); 8 by e_ij; a count next to nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Bits, Run
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, select
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public


@dataclass(frozen=True, slots=True)
class Side:
    """The rows of one upload in a block: where they are among all, and shares of their names.

    Names are shares of (token, .., token^K) of each row: (rows, K), or (rows) if K is 1. `known`
    are tokens that are public.
    """

    at: NDArray[np.intp]
    names: Callable[[], AdditiveShare]
    known: U64Array | None = None


Matched = tuple[Bits, Side, Side]  # match bits (height, width) of a block, its rows and partners


class MatchSums(ABC):
    """One cloud's shares of sums over matching pairs; those of different workers add up."""

    sums: U64Array  # to be kept: what the constructor takes

    @abstractmethod
    def add(self, session: Session, blocks: Sequence[Matched]) -> None:
        """Add the match bits of a batch of blocks."""

    @abstractmethod
    def learned(self, session: Session) -> AdditiveShare:
        """This cloud's share of what owners learn: (rows, columns)."""


class LinkSums(MatchSums):
    """Shares of (T_1, .., T_K, c) for some rows, modulo 2^(64 K): (rows, K + 1, K)."""

    def __init__(self, sums: U64Array, partners: int) -> None:
        """`partners`: the most that a row can have."""
        self.sums, self._partners, self._most = sums, partners, sums.shape[-1]

    def add(self, session: Session, blocks: Sequence[Matched]) -> None:
        if self._most == 1 and all(side.known is not None for _, *both in blocks for side in both):
            self._add_numbers(session, blocks, named=True)
            return
        selected = [
            (own.at, *self._selected(session, matched, others.names()))
            for bits, left, right in blocks
            for own, matched, others in ((left, bits, right), (right, bits.T, left))
        ]
        correlated_ot.run_all(session.ot, [run for *_, run in selected])
        for at, found, _ in selected:
            self.sums[at] = (AdditiveShare(self.sums[at]) + found).limbs

    def _selected(
        self, session: Session, bits: Bits, tokens: AdditiveShare
    ) -> tuple[AdditiveShare, Run]:
        """Sums for the rows of match bits (rows, partners) with the partners of these tokens."""
        count = len(tokens.limbs)
        powers = tokens.reshape(count, self._most)
        ones = public([1] * count, self._most, session.role).reshape(count, 1)
        rows = AdditiveShare(np.concatenate([powers.limbs, ones.limbs], axis=1))
        flat = np.ascontiguousarray(bits).reshape(-1)
        return select.select_run(session, flat, rows, group=bits.shape[1])

    def _add_numbers(self, session: Session, blocks: Sequence[Matched], *, named: bool) -> None:
        """Sums of both rows of every pair from e_ij; without names, counts alone."""
        for e, left, right in _numbers(session, blocks):
            for own, matched, others in ((left, e, right), (right, e.T, left)):
                if named and others.known is not None:
                    self.sums[own.at, 0, 0] += matched @ others.known
                self.sums[own.at, 1, 0] += matched.sum(axis=1, dtype=U64)

    def learned(self, session: Session) -> AdditiveShare:
        """This cloud's share of (partners, T_1, .., T_K): (rows, K + 1).

        The number of partners is K + 1 if there are more than K, and then all T are 0.
        """
        most, sums = self._most, AdditiveShare(self.sums)
        few = self._at_least(session, most + 1) ^ np.uint8(session.role == 1)
        # [c <= K] (c - (K + 1), T_1, .., T_K) + (K + 1, 0, .., 0)
        bound = public([most + 1], most, session.role)
        count = (sums[:, most] - bound).reshape(-1, 1)
        table = AdditiveShare(np.concatenate([count.limbs, self.sums[:, :most]], axis=1))
        chosen = select.select(session, few, table)
        chosen.limbs[:, 0] = (chosen[:, 0] + bound).limbs
        return chosen

    def _at_least(self, session: Session, bound: int) -> Bits:
        """Shares of [c >= bound] of every row, from the sign of c - bound."""
        width = (self._partners + self._most + 2).bit_length()
        counts = AdditiveShare(self.sums)[:, self._most].low(1)
        signs = compare.sign(session, counts - public([bound], 1, session.role), width)
        return signs.negated(session.role).unpack(len(self.sums))


class FlagSums(LinkSums):
    """Sums of links with one partner at most, of which owners learn less."""

    def add(self, session: Session, blocks: Sequence[Matched]) -> None:
        self._add_numbers(session, blocks, named=False)

    def learned(self, session: Session) -> AdditiveShare:
        """This cloud's share of [a row has a partner]: (rows, 1)."""
        some = self._at_least(session, 1)
        ones = public([1] * len(some), 1, session.role).reshape(-1, 1)
        return select.select(session, some, ones)


class CountSums(MatchSums):
    """A share of the number of matching pairs: (1, 1)."""

    def __init__(self, sums: U64Array) -> None:
        self.sums = sums

    def add(self, session: Session, blocks: Sequence[Matched]) -> None:
        flat = np.concatenate([bits.reshape(-1) for bits, *_ in blocks])
        one = public([1], 1, session.role).reshape(1, 1)
        self.sums += select.select(session, flat, one, group=len(flat)).limbs[..., 0]

    def learned(self, session: Session) -> AdditiveShare:
        return AdditiveShare(self.sums[..., None])


def _numbers(session: Session, blocks: Sequence[Matched]) -> Iterator[tuple[U64Array, Side, Side]]:
    """Additive shares of the match bits of each block, by one select for all."""
    flat = np.concatenate([bits.reshape(-1) for bits, *_ in blocks])
    one = public([1], 1, session.role).reshape(1, 1)
    found, at = select.select(session, flat, one).limbs[:, 0, 0], 0
    for bits, left, right in blocks:
        yield found[at : at + bits.size].reshape(bits.shape), left, right
        at += bits.size
