"""Fields with several weights on shares: one circuit gives a bit for each of a field's points.

*levels*: the sums of the edit distance, compared with each distance 0..t (`levels_secret`).
*date*: bits of year, month and day of both, which are equal is local; ANDs of them, and of month
with day for those that are exchanged. *swapped*: two exact fields, each against the other.
*frequency*: an exact field, and its bit AND each bit of the class of x. A bit [a value is missing]
is one AND of the owners' marks.

Who learns what: nothing. Rounds: those of the circuit, one for the equalities of an edit field.
ANDs per pair: those of `edit_distance` and about 2 t (t + 1) more; 47 for a date; 83 for swapped;
41 for frequency, and one for each class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppodc.linkage.compare.cost import PairCost, ands
from ppodc.linkage.compare.edit_distance import levels_secret
from ppodc.linkage.compare.field_parts import (
    Batch,
    EditPart,
    ExactPart,
    FieldPart,
    Outcome,
    equal_planes,
    flag,
    marks,
    of_x,
)
from ppodc.linkage.compare.matcher import Share
from ppodc.linkage.compare.secret_lengths import SecretText
from ppodc.linkage.exact_codes import CODE_BITS
from ppodc.linkage.rules.field import Exact
from ppodc.linkage.rules.levels import (
    PART_BITS,
    YEAR_BITS,
    Dates,
    EditLevels,
    FrequencyClasses,
    Swapped,
)
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import unmask
from ppodc.mpc.shares.circuits import BLANK, Gate, all_ones, beside
from ppodc.mpc.shares.xor_bits import XorShare
from ppodc.mpc.spill import Budget

_CODE = ExactPart(Exact("code"), CODE_BITS)


@dataclass(frozen=True, slots=True, repr=False)
class MarkedText:
    """Shares of a text, and of (missing, 0) or (0, missing): (rows, 2)."""

    text: SecretText
    marks: Bits


@dataclass(frozen=True, slots=True)
class EditLevelsPart(FieldPart):
    """Texts of at most `longest` characters."""

    field: EditLevels
    longest: int

    @property
    def _within(self) -> EditPart:
        return EditPart(self.field, self.longest)

    def take_in(
        self, session: Session, columns: Share, budget: Budget, *, first: bool
    ) -> MarkedText:
        missing = flag(session, columns[:, -1])
        text = self._within.take_in(session, columns, budget, first=first)
        return MarkedText(text, marks(missing, first=first))

    def agreement(self, session: Session, x: MarkedText, y: MarkedText, batch: Batch) -> Outcome:
        distance = levels_secret(*self._within.inputs(session, x.text, y.text, batch))
        present = equal_planes(session.role, x.marks, y.marks, batch)
        return _with_missing(session.role, distance, present)

    def blank(self) -> Outcome:
        return _with_missing(1, levels_secret(*self._within.blank_inputs()), [BLANK] * 2)

    def cost(self) -> PairCost:
        most = self.field.most
        return self._within.cost() + ands(2 * most * (most + 1) + 1)


@dataclass(frozen=True, slots=True)
class DatesPart(FieldPart):
    """Rows are shares of (missing, 0) or (0, missing), year, month and day: (rows, 30)."""

    field: Dates

    def take_in(self, session: Session, columns: Share, budget: Budget, *, first: bool) -> Bits:
        bits = unmask.low_bits(session, columns.reshape(-1), YEAR_BITS + 1)
        years, parts = bits.reshape(len(columns), 2, YEAR_BITS + 1).transpose(1, 0, 2)
        missing = marks(years[:, :1], first=first)
        return np.concatenate([missing, years[:, 1:], parts[:, : 2 * PART_BITS]], axis=1)

    def agreement(self, session: Session, x: Bits, y: Bits, batch: Batch) -> Outcome:
        straight = equal_planes(session.role, x, y, batch)
        month, day = slice(-2 * PART_BITS, -PART_BITS), slice(-PART_BITS, x.shape[1])
        crossed = np.concatenate([y[:, day], y[:, month]], axis=1)
        both = np.ascontiguousarray(x[:, -2 * PART_BITS :])
        return _dates(session.role, straight, equal_planes(session.role, both, crossed, batch))

    def blank(self) -> Outcome:
        return _dates(1, [BLANK] * (2 + YEAR_BITS + 2 * PART_BITS), [BLANK] * 2 * PART_BITS)

    def cost(self) -> PairCost:
        return ands(47)


def _dates(role: int, straight: Sequence[XorShare], crossed: Sequence[XorShare]) -> Outcome:
    """Bits [same year], [same month], [same day], [exchanged], [missing], all but it if present."""
    present, year = list(straight[:2]), list(straight[2 : 2 + YEAR_BITS])
    month, day = list(straight[-2 * PART_BITS : -PART_BITS]), list(straight[-PART_BITS:])
    years, months, days, exchanged = yield from beside(
        [all_ones([*present, *year]), all_ones(month), all_ones(day), all_ones(crossed)]
    )
    (there,) = yield [Gate(*present)]
    months_there, days_there = yield [Gate(there, months, days)]
    (swapped,) = yield [Gate(exchanged, there ^ months_there)]  # month differs: there & not same
    return [years, months_there, days_there, swapped, there.negated(role)]


@dataclass(frozen=True, slots=True)
class SwappedPart(FieldPart):
    """Rows are those of two exact fields."""

    field: Swapped

    def take_in(
        self, session: Session, columns: Share, budget: Budget, *, first: bool
    ) -> tuple[Bits, Bits]:
        halves = np.split(columns, 2, axis=1)
        one, other = (
            _CODE.take_in(session, np.ascontiguousarray(half), budget, first=first)
            for half in halves
        )
        return one, other

    def agreement(
        self, session: Session, x: tuple[Bits, Bits], y: tuple[Bits, Bits], batch: Batch
    ) -> Outcome:
        planes = [
            plane
            for own, other in ((x[0], y[1]), (x[1], y[0]))
            for plane in equal_planes(session.role, own, other, batch)
        ]
        return beside([all_ones(planes)])

    def blank(self) -> Outcome:
        return beside([all_ones([BLANK] * 2 * (CODE_BITS + 2))])

    def cost(self) -> PairCost:
        return ands(2 * (CODE_BITS + 2) - 1)


@dataclass(frozen=True, slots=True)
class FrequencyPart(FieldPart):
    """Rows are those of an exact field, and the bits of the class."""

    field: FrequencyClasses

    def take_in(
        self, session: Session, columns: Share, budget: Budget, *, first: bool
    ) -> tuple[Bits, Bits]:
        code = _CODE.take_in(session, np.ascontiguousarray(columns[:, :-1]), budget, first=first)
        classes = max(1, len(self.field.common))
        return code, unmask.low_bits(session, np.ascontiguousarray(columns[:, -1]), classes)

    def agreement(
        self, session: Session, x: tuple[Bits, Bits], y: tuple[Bits, Bits], batch: Batch
    ) -> Outcome:
        planes = equal_planes(session.role, x[0], y[0], batch)
        classes = [of_x(x[1][:, c], batch) for c in range(len(self.field.common))]
        return _frequency(session.role, planes, classes)

    def blank(self) -> Outcome:
        return _frequency(1, [BLANK] * (CODE_BITS + 2), [BLANK] * len(self.field.common))

    def cost(self) -> PairCost:
        return ands(CODE_BITS + 2 + len(self.field.common))


def _frequency(role: int, planes: Sequence[XorShare], classes: Sequence[XorShare]) -> Outcome:
    """Bits [equal], [equal and rarer than class c], [missing]."""
    equal, there = yield from beside([all_ones(planes), all_ones(planes[:2])])
    rarer = (yield [Gate(each, equal) for each in classes]) if classes else []
    return [equal, *rarer, there.negated(role)]


def _with_missing(role: int, distance: Outcome, present: Sequence[XorShare]) -> Outcome:
    """The bits of the levels, and [a value is missing]."""
    levels, there = yield from beside([distance, beside([all_ones(present)])])
    return [*levels, there[0].negated(role)]
