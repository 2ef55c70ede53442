"""Match bits of strings whose lengths nobody learns: edit distances over all attributes together.

As in `edit_distance.within_secret` every attribute runs the whole band -d..d, d the limit, over n
rows, and the shared bits [b - a = s] select the diagonal. What is selected here are the binary
digits of the sum of z on diagonal s, so that distances of several attributes can be added:

    distance = |s| + sum of z on diagonal s,     match = [sum over attributes <= limit]

where lengths of every attribute differ by at most d. Beyond d a distance may come out too large,
never too small.

Who learns what: nothing. Rounds: those of `edit_distance`, and of adding up twice. ANDs per pair
besides: about 2 d + 1 for each digit of a distance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ppodc.linkage.blocks.candidates import Work
from ppodc.linkage.compare.characters import StringRows, equalities, take_in, words_per_row
from ppodc.linkage.compare.cost import PairCost, ands, edit_ands
from ppodc.linkage.compare.edit_distance import Equal, blank, increments
from ppodc.linkage.compare.matcher import Matcher, Share, blocks_of, real_bits
from ppodc.linkage.compare.public_lengths import BitRows, pair_bits
from ppodc.linkage.rules.edit import EditDistance
from ppodc.linkage.symbols import NONE
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares.circuits import (
    BLANK,
    Circuit,
    Gate,
    and_pairs,
    at_most,
    beside,
    run,
    total,
    zero,
)
from ppodc.mpc.shares.xor_bits import XorShare
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs


@dataclass(frozen=True, slots=True, repr=False)
class SecretText:
    """One cloud's shares of a text: characters, and one-hots of the lengths 0..longest.

    A missing text has no length: all its bits are 0.
    """

    strings: StringRows
    lengths: BitRows
    longest: int


@dataclass(frozen=True, slots=True, repr=False)
class SecretRows:
    """One cloud's shares of an owner's rows."""

    texts: tuple[SecretText, ...]
    real: BitRows


def take_in_text(
    session: Session, codes: Share, missing: Bits, longest: int, budget: Budget, *, first: bool
) -> SecretText:
    """Take in codes (rows, `longest` or more); `missing` (rows, 1) are shares of [no text].

    [length = n] = pad_(n+1) ^ pad_n, where pad_n says "no character at n": pad_0 is `missing`, so
    that a missing text has no length at all, and behind the end all is padding.
    """
    strings = take_in(session, codes, budget, first=first)
    padding = strings.padding(np.arange(strings.rows), NONE)[:, :longest]
    beyond = np.full((len(padding), 1), session.role == 1, np.uint8)
    marks = np.concatenate([missing, padding, beyond], axis=1)
    lengths = np.ascontiguousarray(marks[:, 1:] ^ marks[:, :-1])
    return SecretText(strings, BitRows.of(session, lengths, budget, first=first), longest)


_Text = tuple[int, Equal, Mapping[int, XorShare]]


@dataclass(frozen=True, slots=True)
class SecretTextMatcher(Matcher):
    """The rule edit over texts of at most `longest` characters each."""

    rule: EditDistance
    longest: tuple[int, ...]

    @property
    def _band(self) -> range:
        return range(-self.rule.limit, self.rule.limit + 1)

    def cost(self) -> PairCost:
        diagonals = len(self._band)
        return ands(sum(edit_ands(most, diagonals, diagonals) for most in self.longest))

    def needs(self, batch: Sequence[Work]) -> Needs:
        shifts = dict.fromkeys(self._band, BLANK)
        texts: list[_Text] = [(most, blank, shifts) for most in self.longest]
        words = sum(work.block.height * words_per_row(work.block) for work in batch)
        return Needs(pairs=words * and_pairs(self._matches(1, texts, BLANK)))

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> SecretRows:
        texts, at = [], 0
        for most in self.longest:
            wide = most + self.rule.limit  # as uploaded; on the left the padding is not needed
            codes = np.ascontiguousarray(share[:, at : at + (most if first else wide)])
            at += wide
            none = np.zeros((len(share), 1), np.uint8)
            texts.append(take_in_text(session, codes, none, most, budget, first=first))
        flags = real_bits(session, real, len(share))
        return SecretRows(tuple(texts), BitRows.of(session, flags, budget, first=first))

    def match(
        self, session: Session, x: SecretRows, y: SecretRows, batch: Sequence[Work]
    ) -> list[Bits]:
        circuits = []
        for block in blocks_of(batch):
            parts = [
                (
                    a.longest,
                    equalities(session, a.strings, b.strings, block, a.longest, self._band),
                    {s: a.lengths.sums(session, b.lengths, block, s) for s in self._band},
                )
                for a, b in zip(x.texts, y.texts, strict=True)
            ]
            real = x.real.sums(session, y.real, block)
            circuits.append(self._matches(session.role, parts, real))
        shares = run(session, circuits)
        return [pair_bits(work.block, share) for work, share in zip(batch, shares, strict=True)]

    def _matches(self, role: int, texts: Sequence[_Text], real: XorShare) -> Circuit[XorShare]:
        digits = yield from beside([_distance(role, self.rule.limit, *text) for text in texts])
        columns = [
            [d[place] for d in digits if place < len(d)] for place in range(max(map(len, digits)))
        ]
        match = yield from at_most(role, columns, self.rule.limit, real)
        # and every attribute has a diagonal at all: lengths that differ by more match nothing
        for _, _, shifts in texts:
            (match,) = yield [Gate(match, _sum(list(shifts.values())))]
        (match,) = yield [Gate(match, real)]
        return match


def _distance(
    role: int, most: int, longest: int, equal: Equal, shifts: Mapping[int, XorShare]
) -> Circuit[list[XorShare]]:
    """The binary digits of one attribute's distance; of no meaning if no shift is selected."""
    steps = yield from increments(role, equal, longest, longest + most, range(-most, most + 1))
    sums = yield from beside([_total(steps[s]) for s in shifts])
    both = zip(shifts.values(), sums, strict=True)
    chosen = iter((yield [Gate(digit, bit) for bit, digits in both for digit in digits]))
    selected = [[next(chosen) for _ in digits] for digits in sums]
    places = max(*map(len, sums), most.bit_length())
    columns: list[list[XorShare]] = [[] for _ in range(places)]
    for place, column in enumerate(columns):
        own = [digits[place] for digits in selected if place < len(digits)]
        # |s| in binary: its digit is 1 for the selected shift alone
        size = [bit for s, bit in shifts.items() if abs(s) >> place & 1]
        column += [_sum(part) for part in (own, size) if part]
    return (yield from total(columns))


def _total(bits: Sequence[XorShare]) -> Circuit[list[XorShare]]:
    """Binary digits of a sum; a diagonal outside the table has none."""
    return (yield from total([bits])) if bits else []


def _sum(shares: Sequence[XorShare]) -> XorShare:
    return reduce(lambda a, b: a ^ b, shares, zero(shares[0]))
