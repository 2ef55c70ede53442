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

from ppodc.linkage.blocks import Block
from ppodc.linkage.characters import StringRows, equalities, words_per_row
from ppodc.linkage.edit_distance import Equal, increments
from ppodc.linkage.rules import EditDistance
from ppodc.linkage.string_match import BitRows, pair_bits
from ppodc.mpc.circuits import (
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
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import XorShare


@dataclass(frozen=True, slots=True, repr=False)
class SecretText:
    """One cloud's shares of an attribute: characters, and one-hots of the lengths 0..longest."""

    strings: StringRows
    lengths: BitRows
    longest: int


@dataclass(frozen=True, slots=True, repr=False)
class SecretRows:
    """One cloud's shares of an owner's rows."""

    texts: tuple[SecretText, ...]
    real: BitRows


def length_bits(session: Session, before: Bits, padding: Bits) -> Bits:
    """Shares of the one-hots of lengths: [length = n] = pad_(n+1) ^ pad_n.

    `padding` (rows, longest) are the bits "no character here"; `before` (rows, 1) stands for
    pad_0, 0 unless the text is missing; behind the end all is padding.
    """
    beyond = np.full((len(padding), 1), session.role == 1, np.uint8)
    marks = np.concatenate([before, padding, beyond], axis=1)
    return np.ascontiguousarray(marks[:, 1:] ^ marks[:, :-1])


def match_bits(
    session: Session, rule: EditDistance, x: SecretRows, y: SecretRows, batch: Sequence[Block]
) -> list[Bits]:
    """This cloud's shares of the match bits of each block, a byte per pair: (height, width)."""
    shifts = range(-rule.limit, rule.limit + 1)
    circuits = []
    for block in batch:
        both = list(zip(x.texts, y.texts, strict=True))
        parts = [
            (
                a.longest,
                equalities(session, a.strings, b.strings, block, a.longest, shifts),
                {s: a.lengths.sums(session, b.lengths, block, s) for s in shifts},
            )
            for a, b in both
        ]
        real = x.real.sums(session, y.real, block)
        circuits.append(_matches(session.role, rule, parts, real))
    shares = run(session, circuits)
    return [pair_bits(block, share) for block, share in zip(batch, shares, strict=True)]


def needs(rule: EditDistance, longest: Sequence[int], batch: Sequence[Block]) -> Needs:
    """Supplies for comparing a batch."""
    shifts = dict.fromkeys(range(-rule.limit, rule.limit + 1), BLANK)
    texts: list[_Text] = [(most, lambda _i, _j: BLANK, shifts) for most in longest]
    words = sum(block.height * words_per_row(block) for block in batch)
    return Needs(pairs=words * and_pairs(_matches(1, rule, texts, BLANK)))


_Text = tuple[int, Equal, Mapping[int, XorShare]]


def _matches(
    role: int, rule: EditDistance, texts: Sequence[_Text], real: XorShare
) -> Circuit[XorShare]:
    digits = yield from beside([_distance(role, rule.limit, *text) for text in texts])
    columns = [
        [d[place] for d in digits if place < len(d)] for place in range(max(map(len, digits)))
    ]
    match = yield from at_most(role, columns, rule.limit, real)
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
