"""Match bits of strings on shares: edit distances over all attributes add up to at most the limit.

Cells fix the lengths of all strings in them (`blocks = "length"`), so lengths are public and each
pair of cells has a band of its own. With s_a the difference of the lengths of attribute a, a pair
matches iff sum_a (sum of z on diagonal s_a) <= limit - sum_a |s_a|: the increments of all
attributes go into one sum (`edit_distance`). A dummy matches nothing: the result is multiplied with
real_x real_y, which is a product over GF(2) and one AND.

All blocks of a batch run in lockstep, whatever their lengths.

Who learns what: nothing. Rounds of a batch: 1 for the equalities of each block and attribute, then
3 for each anti-diagonal of the longest strings, log2 to add up. ANDs per pair: about 4 for each
character and neighbouring diagonals and 1 for each character.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppodc.linkage.blocks.candidates import Block, Work
from ppodc.linkage.compare.characters import StringRows, equalities, take_in, words_per_row
from ppodc.linkage.compare.cost import PairCost, ands, edit_ands
from ppodc.linkage.compare.edit_distance import Equal, band, blank, increments
from ppodc.linkage.compare.matcher import Matcher, Share, real_bits
from ppodc.linkage.rules.edit import EditDistance
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.static_ot import StaticTransfers
from ppodc.mpc.session import Session
from ppodc.mpc.shares import bit_products
from ppodc.mpc.shares.circuits import BLANK, Circuit, Gate, and_pairs, at_most, beside, run
from ppodc.mpc.shares.xor_bits import XorShare, pack
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs


@dataclass(frozen=True, slots=True, repr=False)
class BitRows:
    """One cloud's shares of some bits of every row, and transfers on them as first owner."""

    bits: Bits  # (rows, count)
    transfers: StaticTransfers | None

    @classmethod
    def of(cls, session: Session, bits: Bits, budget: Budget, *, first: bool) -> "BitRows":
        transfers = None
        if first:
            transfers = StaticTransfers(session.ot, bits.size, budget)
            transfers.append(np.ascontiguousarray(bits).reshape(-1))
        return cls(bits, transfers)

    def sums(self, session: Session, other: "BitRows", block: Block, shift: int = 0) -> XorShare:
        """sum_c x_c y_(c + shift) over GF(2) of the pairs of a block: (height * words)."""
        if self.transfers is None:
            raise ValueError("these bits were not taken in as the first owner's")
        start, end = block.xs
        count = self.bits.shape[1]
        own = other.bits[block.columns]
        rows = np.zeros((count, block.width), np.uint8)
        low, high = max(0, -shift), min(count, own.shape[1] - shift)
        rows[low:high] = own[:, low + shift : high + shift].T
        keys = self.transfers.starting_at(start * count)
        choices = np.ascontiguousarray(self.bits[start:end]).reshape(-1)
        products = bit_products.products(session, keys, choices, pack(rows), count)
        return XorShare(products.words.reshape(-1))


Lengths = tuple[tuple[int, ...], tuple[int, ...]]  # of the texts of x and of y


@dataclass(frozen=True, slots=True, repr=False)
class TextRows:
    """One cloud's shares of an owner's rows: strings of each attribute, and `real`."""

    strings: tuple[StringRows, ...]
    real: BitRows


@dataclass(frozen=True, slots=True)
class TextMatcher(Matcher):
    """The rule edit over texts of known lengths, each of at most `longest` characters."""

    rule: EditDistance
    longest: tuple[int, ...]

    def cost(self) -> PairCost:
        diagonals = len(band(0, self.rule.limit))
        return ands(sum(edit_ands(most, diagonals, 1) for most in self.longest))

    def needs(self, batch: Sequence[Work]) -> Needs:
        gates: dict[Lengths, int] = {}
        words = 0
        for work in batch:
            lengths = work.x_lengths, work.y_lengths
            if lengths not in gates:
                equal = [blank] * self.rule.attributes
                gates[lengths] = and_pairs(self._matches(1, work, equal, BLANK))
            words += gates[lengths] * work.block.height * words_per_row(work.block)
        return Needs(pairs=words)

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> TextRows:
        parts = np.split(share, np.cumsum(self.longest)[:-1], axis=1)
        strings = [
            take_in(session, np.ascontiguousarray(part), budget, first=first) for part in parts
        ]
        flags = real_bits(session, real, len(share))
        return TextRows(tuple(strings), BitRows.of(session, flags, budget, first=first))

    def match(
        self, session: Session, x: TextRows, y: TextRows, batch: Sequence[Work]
    ) -> list[Bits]:
        circuits = []
        for work in batch:
            each = zip(x.strings, y.strings, work.x_lengths, self._bands(work), strict=True)
            equal = [
                equalities(session, a, b, work.block, length, diagonals)
                for a, b, length, diagonals in each
            ]
            real = x.real.sums(session, y.real, work.block)
            circuits.append(self._matches(session.role, work, equal, real))
        shares = run(session, circuits)
        return [pair_bits(work.block, share) for work, share in zip(batch, shares, strict=True)]

    def _rest(self, work: Work) -> int:
        """The limit without what the lengths of a block differ by."""
        return self.rule.limit - sum(map(abs, _shifts(work)))

    def _bands(self, work: Work) -> list[range]:
        """Diagonals of each attribute: the rest of the limit bounds its band."""
        rest = self._rest(work)
        return [band(shift, rest + abs(shift)) for shift in _shifts(work)]

    def _matches(
        self, role: int, work: Work, equal: Sequence[Equal], real: XorShare
    ) -> Circuit[XorShare]:
        each = zip(equal, work.x_lengths, work.y_lengths, self._bands(work), strict=True)
        steps = yield from beside([increments(role, *attribute) for attribute in each])
        both = zip(steps, _shifts(work), strict=True)
        chosen = [z for diagonals, shift in both for z in diagonals[shift]]
        fits = yield from at_most(role, [chosen], self._rest(work), real)
        (match,) = yield [Gate(fits, real)]
        return match


def _shifts(work: Work) -> list[int]:
    """Differences of the lengths of each attribute."""
    return [b - a for a, b in zip(work.x_lengths, work.y_lengths, strict=True)]


def pair_bits(block: Block, share: XorShare) -> Bits:
    """A byte per pair, from words that are full along y."""
    words = share.words.reshape(block.height, words_per_row(block))
    return XorShare(words).unpack(block.width)
