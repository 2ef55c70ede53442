"""Match bits of mixed fields on shares: the weights of those that agree reach the threshold.

*exact*: the shared bits of both codes, (missing, 0) before those of x and (0, missing) before those
of y: which are equal is local, and all are iff neither value is missing and the codes are the same,
whatever an owner has sent as the code of a missing one. b + 1 ANDs for codes of b bits.
*numeric*: x - y - t - 1 < 0 and y - x - t - 1 < 0, two comparisons, and both values present.
*edit*: distance at most t for lengths that nobody learns (`edit_distance.within_secret`); the
length of a missing value is none, so that no diagonal is selected.

Agreement bits go into the columns of the binary digits of their weights, are added up and compared
with threshold - 1; the result is multiplied with real_x real_y. All blocks of a batch have the same
circuit, whose bits lie side by side without gaps (small cells would else leave much of the words
empty), and all fields run in lockstep.

Who learns what: nothing. Rounds: those of the longest field. ANDs per pair: b + 1 for an exact
field, 2 for a numeric one besides its comparisons of b + 2 bits, those of `edit_distance`, about
one for each set digit of a weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks import Block
from ppodc.linkage.characters import StringRows, equalities, take_in
from ppodc.linkage.edit_distance import within_secret
from ppodc.linkage.field_encoding import column_bits, width
from ppodc.linkage.rules import Field, Fields
from ppodc.linkage.string_match import BitRows, pair_bits
from ppodc.linkage.strings import NONE
from ppodc.mpc import compare, unmask
from ppodc.mpc.additive import AdditiveShare, public
from ppodc.mpc.circuits import (
    BLANK,
    Circuit,
    Gate,
    above,
    all_ones,
    and_pairs,
    beside,
    run,
    total,
)
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import WORD, XorShare, pack, padded


@dataclass(frozen=True, slots=True, repr=False)
class ExactRows:
    """Shares of (missing, 0) or (0, missing), and of the codes: (rows, 2 + bits)."""

    bits: Bits


@dataclass(frozen=True, slots=True, repr=False)
class NumericRows:
    """Shares of the numbers, of so many bits, and of [there is one]."""

    values: AdditiveShare  # (rows)
    bits: int
    present: BitRows


@dataclass(frozen=True, slots=True, repr=False)
class EditRows:
    """Shares of the characters, and one-hots of the lengths 0..longest; none of a missing value."""

    strings: StringRows
    lengths: BitRows
    longest: int


Part = ExactRows | NumericRows | EditRows


@dataclass(frozen=True, slots=True, repr=False)
class FieldRows:
    """One cloud's shares of an owner's rows: fields in the order of the rule, and `real`."""

    parts: tuple[Part, ...]
    real: BitRows


def take_in_fields(
    session: Session,
    rule: Fields,
    sizes: Sequence[int],
    share: NDArray[np.uint64],
    budget: Budget,
    *,
    first: bool,
) -> FieldRows:
    """From this cloud's share of the columns of all fields (`field_encoding`) and of `real`."""
    parts: list[Part] = []
    at = 0
    for field, size in zip(rule.fields, sizes, strict=True):
        columns = np.ascontiguousarray(share[:, at : at + width(field, size)])
        at += columns.shape[1]
        parts.append(_take_in(session, field, size, columns, budget, first=first))
    real = _flag(session, share[:, at])
    return FieldRows(tuple(parts), BitRows.of(session, real, budget, first=first))


def match_bits(
    session: Session, rule: Fields, x: FieldRows, y: FieldRows, batch: Sequence[Block]
) -> list[Bits]:
    """This cloud's shares of the match bits of each block, a byte per pair: (height, width)."""
    agreeing = [
        _agreement(session, field, a, b, batch)
        for field, a, b in zip(rule.fields, x.parts, y.parts, strict=True)
    ]
    real = _close(batch, [x.real.sums(session, y.real, block) for block in batch])
    (share,) = run(session, [_matches(rule, agreeing, real)])
    ends = np.cumsum([block.pairs for block in batch])
    parts = np.split(share.unpack(int(ends[-1])), ends[:-1])
    both = zip(parts, batch, strict=True)
    return [part.reshape(block.height, block.width) for part, block in both]


def needs(rule: Fields, sizes: Sequence[int], pairs: int) -> Needs:
    """Supplies for comparing a batch of so many pairs."""
    words = padded(pairs, WORD) // WORD
    each = list(zip(rule.fields, sizes, strict=True))
    total = Needs(pairs=words * and_pairs(_matches(rule, [_blank(*one) for one in each], BLANK)))
    for field, size in each:
        if field.how == "numeric":
            total += compare.needs(2 * pairs, size + 2)
    return total


def _blank(field: Field, size: int) -> Circuit[XorShare]:
    """The circuit of a field, to count its gates."""
    if field.how == "edit":
        shifts = dict.fromkeys(range(-field.most, field.most + 1), BLANK)
        return within_secret(1, lambda _i, _j: BLANK, size, field.most, shifts)
    return all_ones([BLANK] * (3 if field.how == "numeric" else size + 2))


# --------------------------------------------------------------------------- taking in


def _take_in(
    session: Session,
    field: Field,
    size: int,
    columns: NDArray[np.uint64],
    budget: Budget,
    *,
    first: bool,
) -> Part:
    if field.how == "exact":
        return _take_in_exact(session, size, columns, first=first)
    last = _flag(session, columns[:, -1])
    if field.how == "numeric":
        table = unmask.unmask(session, np.ascontiguousarray(columns[:, :1]), size, budget)
        values = table.additive(0, table.rows).reshape(-1)
        return NumericRows(values, size, BitRows.of(session, last, budget, first=first))
    longest = size
    length = longest if first else longest + field.most
    strings = take_in(session, np.ascontiguousarray(columns[:, :length]), budget, first=first)
    padding = strings.padding(np.arange(strings.rows), NONE)[:, :longest]
    # [length = n] = pad_(n+1) ^ pad_n; pad_0 is the bit "missing", behind the end all is padding
    beyond = np.full((len(columns), 1), session.role == 1, np.uint8)
    marks = np.concatenate([last, padding, beyond], axis=1)
    lengths = np.ascontiguousarray(marks[:, 1:] ^ marks[:, :-1])
    return EditRows(strings, BitRows.of(session, lengths, budget, first=first), longest)


def _take_in_exact(
    session: Session, size: int, columns: NDArray[np.uint64], *, first: bool
) -> ExactRows:
    bits = unmask.low_bits(session, columns.reshape(-1), column_bits(size))
    missing, code = np.split(bits.reshape(len(columns), -1)[:, : size + 1], [1], axis=1)
    nothing = np.zeros_like(missing)
    marks = (missing, nothing) if first else (nothing, missing)
    return ExactRows(np.concatenate([*marks, code], axis=1))


def _flag(session: Session, column: NDArray[np.uint64]) -> Bits:
    """Shares of the lowest bit of a column: (rows, 1)."""
    return unmask.low_bits(session, np.ascontiguousarray(column), 1)


# --------------------------------------------------------------------------- comparing


def _agreement(
    session: Session, field: Field, a: Part, b: Part, batch: Sequence[Block]
) -> Circuit[XorShare]:
    if isinstance(a, ExactRows) and isinstance(b, ExactRows):
        return all_ones(equal_planes(session.role, a.bits, b.bits, batch))
    if isinstance(a, NumericRows) and isinstance(b, NumericRows):
        present = _close(batch, [a.present.sums(session, b.present, block) for block in batch])
        return all_ones([*_near(session, field.most, a, b, batch), present])
    if isinstance(a, EditRows) and isinstance(b, EditRows):
        return _within(session, field.most, a, b, batch)
    raise ValueError("the owners' fields were taken in by different rules")


def _close(batch: Sequence[Block], shares: Sequence[XorShare]) -> XorShare:
    """Bits of all pairs of a batch side by side, from words that are full along y of each block."""
    both = zip(batch, shares, strict=True)
    return XorShare(pack(np.concatenate([pair_bits(*of).reshape(-1) for of in both])))


def _within(
    session: Session, most: int, a: EditRows, b: EditRows, batch: Sequence[Block]
) -> Circuit[XorShare]:
    """[edit distance <= most] for all pairs of the batch."""
    shifts = range(-most, most + 1)
    equal = [equalities(session, a.strings, b.strings, x, a.longest, shifts) for x in batch]
    chosen = {
        s: _close(batch, [a.lengths.sums(session, b.lengths, block, s) for block in batch])
        for s in shifts
    }

    def both(i: int, j: int) -> XorShare:
        return _close(batch, [of_block(i, j) for of_block in equal])

    return within_secret(session.role, both, a.longest, most, chosen)


def equal_planes(role: int, a: Bits, b: Bits, batch: Sequence[Block]) -> list[XorShare]:
    """Shares of [bit c of x and y is the same] for all pairs of the batch. Local."""
    sides = [(a[slice(*block.xs)], b[block.columns]) for block in batch]
    planes = []
    for c in range(a.shape[1]):
        bits = [(own[:, c, None] ^ other[None, :, c]).reshape(-1) for own, other in sides]
        planes.append(XorShare(pack(np.concatenate(bits))).negated(role))
    return planes


def _near(
    session: Session, most: int, a: NumericRows, b: NumericRows, batch: Sequence[Block]
) -> list[XorShare]:
    """Shares of [x - y <= most] and [y - x <= most] for all pairs of the batch."""
    differences = []
    for block in batch:
        x = a.values[slice(*block.xs)].reshape(block.height, 1)
        y = AdditiveShare(b.values.limbs[block.columns]).reshape(1, block.width)
        differences.append((x - y).reshape(-1))
    apart, bound = AdditiveShare.concat(differences), public([most + 1], 1, session.role)
    pairs = len(apart.limbs)
    flat = AdditiveShare.concat([apart - bound, apart.times(-1) - bound])
    signs = compare.sign(session, flat, a.bits + 2).unpack(2 * pairs)
    return [XorShare(pack(np.ascontiguousarray(part))) for part in signs.reshape(2, pairs)]


def _matches(
    rule: Fields, agreeing: Sequence[Circuit[XorShare]], real: XorShare
) -> Circuit[XorShare]:
    bits = yield from beside(agreeing)
    places = max(field.weight for field in rule.fields).bit_length()
    columns: list[list[XorShare]] = [[] for _ in range(places)]
    for field, bit in zip(rule.fields, bits, strict=True):
        for place in range(places):
            if field.weight >> place & 1:
                columns[place].append(bit)
    digits = yield from total(columns)
    reached = yield from above(digits, rule.threshold - 1)
    (match,) = yield [Gate(reached, real)]
    return match
