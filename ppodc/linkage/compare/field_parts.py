"""Fields of a rule on shares: the circuit that says whether one field agrees.

*exact*: the shared bits of both codes, (missing, 0) before those of x and (0, missing) before those
of y: which are equal is local, and all are iff neither value is missing and the codes are the same,
whatever an owner has sent as the code of a missing one. b + 1 ANDs for codes of b bits.
*numeric*: x - y - t - 1 < 0 and y - x - t - 1 < 0, two comparisons, and both values present.
*edit*: distance at most t for lengths that nobody learns (`edit_distance.within_secret`); a missing
value has no length, so that no diagonal is selected.

Bits of all pairs of a batch lie side by side without gaps: small cells would else leave much of the
words empty.

Who learns what: nothing. Rounds: those of the circuit, a comparison for a numeric field, one for
the equalities of an edit field. ANDs per pair: b + 1 for an exact field, 2 for a numeric one beside
its comparisons of b + 2 bits, those of `edit_distance`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppodc.linkage.blocks.candidates import Block
from ppodc.linkage.compare.characters import equalities
from ppodc.linkage.compare.cost import PairCost, ands, edit_ands, signs
from ppodc.linkage.compare.edit_distance import Equal, blank, within_secret
from ppodc.linkage.compare.matcher import Share, rows_and_columns
from ppodc.linkage.compare.public_lengths import BitRows, pair_bits
from ppodc.linkage.compare.secret_lengths import SecretText, take_in_text
from ppodc.linkage.rules.field import Edit, Exact, Numeric
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, unmask
from ppodc.mpc.shares.additive import AdditiveShare, public
from ppodc.mpc.shares.circuits import BLANK, Circuit, all_ones, beside
from ppodc.mpc.shares.xor_bits import XorShare, pack
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs

Batch = Sequence[Block]
Outcome = Circuit[list[XorShare]]  # the bits of a field


class FieldPart(ABC):
    """One field, as a cloud computes it."""

    __slots__ = ()

    @abstractmethod
    def take_in(self, session: Session, columns: Share, budget: Budget, *, first: bool) -> Any:
        """Take in the field of some rows from this cloud's share of its columns."""

    @abstractmethod
    def agreement(self, session: Session, x: Any, y: Any, batch: Batch) -> Outcome:
        """The circuit of the field's bits, one for each of its points, for all pairs of a batch."""

    @abstractmethod
    def blank(self) -> Outcome:
        """The circuit without shares, to count its gates."""

    def needs(self, pairs: int) -> Needs:
        """Supplies that `agreement` takes besides those of the circuit."""
        return Needs()

    @abstractmethod
    def cost(self) -> PairCost:
        """Estimate of the cost of a pair."""


@dataclass(frozen=True, slots=True)
class ExactPart(FieldPart):
    """Rows are shares of (missing, 0) or (0, missing), and of the codes: (rows, 2 + bits)."""

    field: Exact
    bits: int

    def take_in(self, session: Session, columns: Share, budget: Budget, *, first: bool) -> Bits:
        width = self.field.column_bits(self.bits)
        bits = unmask.low_bits(session, columns.reshape(-1), width)
        missing, code = np.split(bits.reshape(len(columns), -1)[:, : self.bits + 1], [1], axis=1)
        return np.concatenate([marks(missing, first=first), code], axis=1)

    def agreement(self, session: Session, x: Bits, y: Bits, batch: Batch) -> Outcome:
        return beside([all_ones(equal_planes(session.role, x, y, batch))])

    def blank(self) -> Outcome:
        return beside([all_ones([BLANK] * (self.bits + 2))])

    def cost(self) -> PairCost:
        return ands(self.bits + 1)


@dataclass(frozen=True, slots=True, repr=False)
class NumericRows:
    """Shares of the numbers, and of [there is one]."""

    values: AdditiveShare  # (rows)
    present: BitRows


@dataclass(frozen=True, slots=True)
class NumericPart(FieldPart):
    """Whole numbers of `bits` bits."""

    field: Numeric
    bits: int

    def take_in(
        self, session: Session, columns: Share, budget: Budget, *, first: bool
    ) -> NumericRows:
        present = flag(session, columns[:, -1])
        table = unmask.unmask(session, np.ascontiguousarray(columns[:, :1]), self.bits, budget)
        values = table.additive(0, table.rows).reshape(-1)
        return NumericRows(values, BitRows.of(session, present, budget, first=first))

    def agreement(self, session: Session, x: NumericRows, y: NumericRows, batch: Batch) -> Outcome:
        present = close(batch, [x.present.sums(session, y.present, block) for block in batch])
        return beside([all_ones([*self._near(session, x, y, batch), present])])

    def _near(
        self, session: Session, x: NumericRows, y: NumericRows, batch: Batch
    ) -> list[XorShare]:
        """Shares of [x - y <= most] and [y - x <= most] for all pairs of the batch."""
        differences = []
        for block in batch:
            own, other = rows_and_columns(x.values, y.values, block)
            differences.append((own - other).reshape(-1))
        apart = AdditiveShare.concat(differences)
        bound, pairs = public([self.field.most + 1], 1, session.role), len(apart.limbs)
        flat = AdditiveShare.concat([apart - bound, apart.times(-1) - bound])
        found = compare.sign(session, flat, self.bits + 2).unpack(2 * pairs)
        return [XorShare(pack(np.ascontiguousarray(part))) for part in found.reshape(2, pairs)]

    def blank(self) -> Outcome:
        return beside([all_ones([BLANK] * 3)])

    def needs(self, pairs: int) -> Needs:
        return compare.needs(2 * pairs, self.bits + 2)

    def cost(self) -> PairCost:
        return signs(2, self.bits + 2)


@dataclass(frozen=True, slots=True)
class EditPart(FieldPart):
    """Texts of at most `longest` characters."""

    field: Edit
    longest: int

    @property
    def _band(self) -> range:
        return range(-self.field.most, self.field.most + 1)

    def take_in(
        self, session: Session, columns: Share, budget: Budget, *, first: bool
    ) -> SecretText:
        missing = flag(session, columns[:, -1])
        length = self.longest if first else self.longest + self.field.most
        codes = np.ascontiguousarray(columns[:, :length])
        return take_in_text(session, codes, missing, self.longest, budget, first=first)

    def agreement(self, session: Session, x: SecretText, y: SecretText, batch: Batch) -> Outcome:
        return beside([within_secret(*self.inputs(session, x, y, batch))])

    def inputs(
        self, session: Session, x: SecretText, y: SecretText, batch: Batch
    ) -> tuple[int, Equal, int, int, Mapping[int, XorShare]]:
        """Role, equality bits, longest text, tolerance and lengths for `edit_distance`."""
        equal = [
            equalities(session, x.strings, y.strings, block, self.longest, self._band)
            for block in batch
        ]
        chosen = {
            s: close(batch, [x.lengths.sums(session, y.lengths, block, s) for block in batch])
            for s in self._band
        }

        def both(i: int, j: int) -> XorShare:
            return close(batch, [of_block(i, j) for of_block in equal])

        return session.role, both, self.longest, self.field.most, chosen

    def blank_inputs(self) -> tuple[int, Equal, int, int, Mapping[int, XorShare]]:
        """Inputs of one side, without shares."""
        shifts = dict.fromkeys(self._band, BLANK)
        return 1, blank, self.longest, self.field.most, shifts

    def blank(self) -> Outcome:
        return beside([within_secret(*self.blank_inputs())])

    def cost(self) -> PairCost:
        diagonals = len(self._band)
        return ands(edit_ands(self.longest, diagonals, diagonals))


def flag(session: Session, column: Share) -> Bits:
    """Shares of the lowest bit of a column: (rows, 1)."""
    return unmask.low_bits(session, np.ascontiguousarray(column), 1)


def close(batch: Batch, shares: Sequence[XorShare]) -> XorShare:
    """Bits of all pairs of a batch side by side, from words that are full along y of each block."""
    both = zip(batch, shares, strict=True)
    return XorShare(pack(np.concatenate([pair_bits(*of).reshape(-1) for of in both])))


def marks(missing: Bits, *, first: bool) -> Bits:
    """(missing, 0) of an owner whose rows are x, (0, missing) of one whose rows are y."""
    nothing = np.zeros_like(missing)
    return np.concatenate([missing, nothing] if first else [nothing, missing], axis=1)


def of_x(bits: Bits, batch: Batch) -> XorShare:
    """A bit of each row of x, for all pairs of the batch. Local."""
    parts = [np.repeat(bits[slice(*block.xs)], block.width) for block in batch]
    return XorShare(pack(np.concatenate(parts)))


def equal_planes(role: int, a: Bits, b: Bits, batch: Batch) -> list[XorShare]:
    """Shares of [bit c of x and y is the same] for all pairs of the batch. Local."""
    sides = [(a[slice(*block.xs)], b[block.columns]) for block in batch]
    planes = []
    for c in range(a.shape[1]):
        bits = [(own[:, c, None] ^ other[None, :, c]).reshape(-1) for own, other in sides]
        planes.append(XorShare(pack(np.concatenate(bits))).negated(role))
    return planes
