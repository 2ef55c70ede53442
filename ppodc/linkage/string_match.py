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

from ppodc.linkage.blocks import Block
from ppodc.linkage.characters import StringRows, equalities, words_per_row
from ppodc.linkage.edit_distance import Equal, band, increments
from ppodc.linkage.rules import EditDistance
from ppodc.mpc import bit_products
from ppodc.mpc.circuits import BLANK, Circuit, Gate, and_pairs, at_most, beside, run
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.static_ot import StaticTransfers
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import XorShare, pack


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
class LengthBlock:
    """A block whose rows have public lengths, by attribute."""

    block: Block
    x_lengths: tuple[int, ...]
    y_lengths: tuple[int, ...]

    @property
    def shifts(self) -> list[int]:
        return [b - a for a, b in zip(self.x_lengths, self.y_lengths, strict=True)]


def match_bits(
    session: Session,
    rule: EditDistance,
    x: TextRows,
    y: TextRows,
    batch: Sequence[LengthBlock],
) -> list[Bits]:
    """This cloud's shares of the match bits of each block, a byte per pair: (height, width)."""
    circuits = []
    for entry in batch:
        rooms = _rooms(rule, entry)
        equal = [
            equalities(
                session, x.strings[a], y.strings[a], entry.block, entry.x_lengths[a], rooms[a]
            )
            for a in range(rule.attributes)
        ]
        real = x.real.sums(session, y.real, entry.block)
        circuits.append(_matches(session.role, rule, entry, equal, rooms, real))
    shares = run(session, circuits)
    return [pair_bits(entry.block, share) for entry, share in zip(batch, shares, strict=True)]


def needs(rule: EditDistance, batch: Sequence[LengthBlock]) -> Needs:
    """Supplies for comparing a batch."""
    gates: dict[Lengths, int] = {}
    words = 0
    for entry in batch:
        lengths = entry.x_lengths, entry.y_lengths
        if lengths not in gates:
            blank = [_blank] * rule.attributes
            circuit = _matches(1, rule, entry, blank, _rooms(rule, entry), BLANK)
            gates[lengths] = and_pairs(circuit)
        words += gates[lengths] * entry.block.height * words_per_row(entry.block)
    return Needs(pairs=words)


def _blank(_i: int, _j: int) -> XorShare:
    """An equality, to count the gates behind it."""
    return BLANK


def pair_bits(block: Block, share: XorShare) -> Bits:
    """A byte per pair, from words that are full along y."""
    words = share.words.reshape(block.height, words_per_row(block))
    return XorShare(words).unpack(block.width)


def _rooms(rule: EditDistance, entry: LengthBlock) -> list[range]:
    """The diagonals of each attribute: what the others leave of the limit bounds its band."""
    rest = rule.limit - sum(map(abs, entry.shifts))
    return [band(shift, rest + abs(shift)) for shift in entry.shifts]


def _matches(
    role: int,
    rule: EditDistance,
    entry: LengthBlock,
    equal: Sequence[Equal],
    rooms: Sequence[range],
    real: XorShare,
) -> Circuit[XorShare]:
    steps = yield from beside(
        [
            increments(role, equal[a], entry.x_lengths[a], entry.y_lengths[a], rooms[a])
            for a in range(rule.attributes)
        ]
    )
    chosen = [z for a, shift in enumerate(entry.shifts) for z in steps[a][shift]]
    rest = rule.limit - sum(map(abs, entry.shifts))
    fits = yield from at_most(role, [chosen], rest, real)
    (match,) = yield [Gate(fits, real)]
    return match
