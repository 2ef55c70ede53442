"""Match bits of mixed fields on shares: the weights of those that agree reach the threshold.

Each field gives the circuit of its bits (`field_parts`, `level_parts`). Bits go into the columns of
the binary digits of their points, are added up and compared with threshold - 1; the
result is multiplied with real_x real_y. All blocks of a batch have the same circuit, and all fields
run in lockstep.

Who learns what: nothing. Rounds: those of the longest field. ANDs per pair: those of the fields,
and about one for each set digit of a weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ppodc.linkage.blocks.candidates import Work, pairs_of
from ppodc.linkage.compare.cost import PairCost
from ppodc.linkage.compare.field_parts import FieldPart, close
from ppodc.linkage.compare.matcher import Matcher, Share, blocks_of, by_block, real_bits
from ppodc.linkage.compare.public_lengths import BitRows
from ppodc.linkage.rules.fields import Fields
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares.circuits import BLANK, Circuit, Gate, above, and_pairs, beside, run, total
from ppodc.mpc.shares.xor_bits import WORD, XorShare, padded
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs


@dataclass(frozen=True, slots=True, repr=False)
class FieldRows:
    """One cloud's shares of an owner's rows: fields in the order of the rule, and `real`."""

    parts: tuple[Any, ...]
    real: BitRows


@dataclass(frozen=True, slots=True)
class FieldMatcher(Matcher):
    """The rule over fields of these sizes."""

    rule: Fields
    sizes: tuple[int, ...]

    @property
    def _parts(self) -> list[FieldPart]:
        both = zip(self.rule.fields, self.sizes, strict=True)
        return [field.part(size) for field, size in both]

    def cost(self) -> PairCost:
        return sum((part.cost() for part in self._parts), PairCost())

    def needs(self, batch: Sequence[Work]) -> Needs:
        pairs, parts = pairs_of(batch), self._parts
        gates = and_pairs(self._matches([part.blank() for part in parts], BLANK))
        circuit = Needs(pairs=padded(pairs, WORD) // WORD * gates)
        return sum((part.needs(pairs) for part in parts), circuit)

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> FieldRows:
        rows: list[Any] = []
        at = 0
        for field, part, size in zip(self.rule.fields, self._parts, self.sizes, strict=True):
            columns = np.ascontiguousarray(share[:, at : at + field.width(size)])
            at += columns.shape[1]
            rows.append(part.take_in(session, columns, budget, first=first))
        flags = real_bits(session, real, len(share))
        return FieldRows(tuple(rows), BitRows.of(session, flags, budget, first=first))

    def match(
        self, session: Session, x: FieldRows, y: FieldRows, batch: Sequence[Work]
    ) -> list[Bits]:
        blocks = blocks_of(batch)
        agreeing = [
            part.agreement(session, a, b, blocks)
            for part, a, b in zip(self._parts, x.parts, y.parts, strict=True)
        ]
        real = close(blocks, [x.real.sums(session, y.real, block) for block in blocks])
        (share,) = run(session, [self._matches(agreeing, real)])
        return by_block(share.unpack(pairs_of(batch)), blocks)

    def _matches(
        self, agreeing: Sequence[Circuit[list[XorShare]]], real: XorShare
    ) -> Circuit[XorShare]:
        found = yield from beside(agreeing)
        points = [each for field in self.rule.fields for each in field.points]
        places = max(points).bit_length()
        columns: list[list[XorShare]] = [[] for _ in range(places)]
        bits = [bit for of_field in found for bit in of_field]
        for worth, bit in zip(points, bits, strict=True):
            for place in range(places):
                if worth >> place & 1:
                    columns[place].append(bit)
        digits = yield from total(columns)
        reached = yield from above(digits, self.rule.threshold - 1)
        (match,) = yield [Gate(reached, real)]
        return match
