"""Rows that are sorted by several keys: what an upload holds of them, and how passes come together.

*Upload.* For each pass the owner sorts all its rows anew into the cells of that pass's key, adds
its dummies and permutes the rows of each cell; the passes stand one behind the other. Every row is
sent once for each pass, under masks of its own. Were rows sent once with an order for each pass,
both clouds would see which cell of one key every row of a cell of another has: a joint histogram
without noise. This way, given the padded counts, all that a cloud holds is uniformly random, so its
view is a function of the counts of all passes: (sum epsilon_p, sum delta_p), as in `keys`.

*A pair that agrees in two keys* is compared in both passes and counts in the first: in pass p its
match bit is multiplied with [it agrees in no earlier key], from the keys of its rows, which every
row carries in shares. An AND for each bit of a key.

*A row in several passes* has a sum of tokens in each, and whether they are too many is only known
of all together. The owner sends the switches of a network (`permutation_network`) that carries the
rows of pass p to where the same rows stand in pass 1, in shares. The clouds pass the sums of later
passes through it and add them to those of pass 1 without learning which rows belong together.
Dummies, whose sums are 0, go where there is room. Whatever an owner sends as switches is some
order of its own sums, so it can only mix up its own results.

Columns behind the encoded ones: real | number, low and high | earlier keys | switches.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.blocks import Block
from ppodc.linkage.field_match import equal_planes
from ppodc.linkage.keys import KEY_BITS, NO_KEY
from ppodc.mpc import compare, select, unmask
from ppodc.mpc import permutation_network as network
from ppodc.mpc.additive import AdditiveShare, public
from ppodc.mpc.circuits import BLANK, Circuit, Gate, all_ones, and_pairs, run
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import WORD, XorShare, pack, padded

EXTRA = 3  # columns of a padded upload beside the encoded ones: real, and the number's halves
_WORD = 20  # bits of an uploaded number
_SWITCHES = 2  # columns of switches for each later pass
_LARGEST = 1 << _WORD  # rows of a pass whose switches fit: 39 layers, at most 39 bits a row
Ints = NDArray[np.int64]


def extra_columns(passes: int) -> int:
    """Columns of a padded upload beside the encoded ones."""
    return EXTRA + (passes - 1) * (1 + _SWITCHES)


# ------------------------------------------------------------------------------ at the owner


def columns_of_passes(order: Ints, sizes: Sequence[int], keys: Ints) -> Ints:
    """The columns that several passes add to an upload: earlier keys, and switches.

    `order[place]` is pass * rows + row of what stands at a place, -1 for a dummy; `sizes` are the
    places of each pass, `keys` (rows, passes) the cells of each row.
    """
    rows, passes = keys.shape
    check_sizes(sizes)
    at = np.where(order >= 0, order % max(1, rows), 0)
    known = np.where(keys == NO_KEY, 0, keys | 1 << KEY_BITS)[:, : passes - 1]
    earlier = np.zeros((len(order), passes - 1), np.int64)
    earlier[order >= 0] = known[at[order >= 0]]
    parts = np.split(order, np.cumsum(sizes)[:-1])
    homes = np.full(rows, -1, np.int64)
    homes[parts[0][parts[0] >= 0]] = np.flatnonzero(parts[0] >= 0)
    switches = [
        _as_columns(network.settings(_places(part - number * rows, homes, sizes[0])), len(order))
        for number, part in enumerate(parts[1:], 1)
    ]
    return np.column_stack([earlier, *switches])


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse passes whose switches do not fit the columns of an upload."""
    if len(sizes) > 1 and max(sizes) > _LARGEST:
        raise InputError(
            f"with several keys an upload may have {_LARGEST:,} rows in a pass, dummies included: "
            "give fewer rows at a time, or keys with fewer cells."
        )


def _places(part: Ints, homes: Ints, room: int) -> NDArray[np.intp]:
    """Where what stands at each place of a later pass goes: to its place in the first one."""
    size = network.size_for(max(len(part), room))
    places = np.full(size, -1, np.intp)
    real = np.flatnonzero(part >= 0)
    places[real] = homes[part[real]]
    free = np.setdiff1d(np.arange(size), places[real])
    places[places < 0] = free
    return places


def _as_columns(bits: Bits, rows: int) -> Ints:
    """Bits in numbers of 20, two for each row."""
    table = np.zeros(rows * _SWITCHES * _WORD, np.int64)
    table[: len(bits)] = bits
    numbers: Ints = table.reshape(rows, _SWITCHES, _WORD) @ (1 << np.arange(_WORD))
    return numbers


# ------------------------------------------------------------------------------ at the clouds


def take_in_keys(session: Session, share: NDArray[np.uint64]) -> Bits:
    """Shares of the earlier keys of some rows: (rows, keys, bits), the last says [there is one]."""
    flat = np.ascontiguousarray(share).reshape(-1)
    return unmask.low_bits(session, flat, KEY_BITS + 1).reshape(*share.shape, -1)


def counted_first(
    session: Session, x: Bits, y: Bits, earlier: int, batch: Sequence[Block], matched: list[Bits]
) -> list[Bits]:
    """Match bits of a batch without those of pairs that agree in one of the `earlier` keys.

    Rounds: log2 of the bits of a key, and one for each key.
    """
    if not earlier:
        return matched
    agreed = [
        all_ones([*equal_planes(session.role, x[:, q], y[:, q], batch), _known(x[:, q, -1], batch)])
        for q in range(earlier)
    ]
    bits = XorShare(pack(np.concatenate([part.reshape(-1) for part in matched])))
    (left,) = run(session, [_none_of(session.role, agreed, bits)])
    ends = np.cumsum([block.pairs for block in batch])
    parts = np.split(left.unpack(int(ends[-1])), ends[:-1])
    return [part.reshape(old.shape) for part, old in zip(parts, matched, strict=True)]


def first_needs(earlier: int, pairs: int) -> Needs:
    """Supplies of `counted_first` for so many pairs."""
    blank = [all_ones([BLANK] * (KEY_BITS + 2)) for _ in range(earlier)]
    gates = and_pairs(_none_of(1, blank, BLANK)) if earlier else 0
    return Needs(pairs=gates * padded(pairs, WORD) // WORD)


def _known(flags: Bits, batch: Sequence[Block]) -> XorShare:
    """Shares of [the left row has a key] for all pairs of the batch."""
    sides = [np.repeat(flags[slice(*block.xs)], block.width) for block in batch]
    return XorShare(pack(np.concatenate(sides)))


def _none_of(role: int, agreed: Sequence[Circuit[XorShare]], bits: XorShare) -> Circuit[XorShare]:
    for circuit in agreed:
        agree = yield from circuit
        (bits,) = yield [Gate(bits, agree.negated(role))]
    return bits


def brought_home(
    session: Session, sums: AdditiveShare, switches: NDArray[np.uint64], sizes: Sequence[int]
) -> AdditiveShare:
    """Sums of the rows of pass 1 over all passes: (places of all passes, C) -> (of pass 1, C).

    `switches` is this cloud's share of the uploaded columns.
    """
    starts = np.cumsum([0, *sizes])
    home = sums[: starts[1]]
    for number in range(1, len(sizes)):
        size = network.size_for(max(sizes[0], sizes[number]))
        mine = np.ascontiguousarray(switches[:, (number - 1) * _SWITCHES : number * _SWITCHES])
        bits = unmask.low_bits(session, mine.reshape(-1), _WORD).reshape(-1)
        part = network.filled(sums[starts[number] : starts[number + 1]], size)
        moved = network.permuted(session, bits[: network.switch_count(size)], part)
        home = home + moved[: sizes[0]]
    return home


def any_pass(
    session: Session, bits: Bits, switches: NDArray[np.uint64], sizes: Sequence[int]
) -> Bits:
    """Whether a bit of a row is set in any pass: (places of all passes) -> (of pass 1).

    Rounds: those of `brought_home` and of a comparison.
    """
    ones = public([1] * len(bits), 1, session.role).reshape(-1, 1)
    home = brought_home(session, select.select(session, bits, ones), switches, sizes)
    # sum - 1 < 0 where there is none
    none = home.reshape(-1) - public([1], 1, session.role)
    signs = compare.sign(session, none, len(sizes).bit_length() + 1)
    return signs.negated(session.role).unpack(sizes[0])
