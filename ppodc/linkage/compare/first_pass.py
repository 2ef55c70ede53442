"""Several passes on shares: each pair counts once, and what was found of a row comes together.

*A pair that agrees in two keys* is compared in both passes and counts in the first: in pass p its
match bit is multiplied with [it agrees in no earlier key], from the keys of its rows, which every
row carries in shares. An AND for each bit of a key.

*A row in several passes* has a sum of tokens in each, and whether they are too many is only known
of all together. The clouds pass the sums of later passes through the owner's switches
(`blocks.passes`) and add them to those of pass 1 without learning which rows belong together. Sums
of dummies are 0.

Who learns what: nothing. Rounds and bytes: those of the ANDs, and of the network.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks.candidates import Block
from ppodc.linkage.blocks.keys import KEY_BITS
from ppodc.linkage.blocks.passes import SWITCH_BITS, SWITCH_COLUMNS
from ppodc.linkage.compare.field_parts import equal_planes, of_x
from ppodc.linkage.compare.matcher import by_block
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, select, unmask
from ppodc.mpc.shares import permutation_network as network
from ppodc.mpc.shares.additive import AdditiveShare, public
from ppodc.mpc.shares.circuits import BLANK, Circuit, Gate, all_ones, and_pairs, run
from ppodc.mpc.shares.xor_bits import WORD, XorShare, pack, padded
from ppodc.mpc.supplies import Needs


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
    agreed = [
        all_ones([*equal_planes(session.role, x[:, q], y[:, q], batch), of_x(x[:, q, -1], batch)])
        for q in range(earlier)
    ]
    bits = XorShare(pack(np.concatenate([part.reshape(-1) for part in matched])))
    (left,) = run(session, [_none_of(session.role, agreed, bits)])
    return by_block(left.unpack(sum(block.pairs for block in batch)), batch)


def first_needs(earlier: int, pairs: int) -> Needs:
    """Supplies of `counted_first` for this many pairs."""
    blank = [all_ones([BLANK] * (KEY_BITS + 2)) for _ in range(earlier)]
    gates = and_pairs(_none_of(1, blank, BLANK)) if earlier else 0
    return Needs(pairs=gates * padded(pairs, WORD) // WORD)


def _none_of(role: int, agreed: Sequence[Circuit[XorShare]], bits: XorShare) -> Circuit[XorShare]:
    for circuit in agreed:
        agree = yield from circuit
        (bits,) = yield [Gate(bits, agree.negated(role))]
    return bits


def brought_home(
    session: Session,
    sums: AdditiveShare,
    switches: NDArray[np.uint64],
    sizes: Sequence[int],
    top: int = 8,
) -> AdditiveShare:
    """Sums of the rows of pass 1 over all passes: (places of all passes, C) -> (of pass 1, C).

    `switches` is this cloud's share of the uploaded columns. Of the last limbs only `top` bytes
    are right.
    """
    starts = np.cumsum([0, *sizes])
    home = sums[: starts[1]]
    for number in range(1, len(sizes)):
        size = network.size_for(max(sizes[0], sizes[number]))
        part = network.filled(sums[starts[number] : starts[number + 1]], size)
        bits = _switch_bits(session, switches, number, size)
        home = home + network.permuted(session, bits, part, top)[: sizes[0]]
    return home


def taken_away(
    session: Session,
    values: AdditiveShare,
    switches: NDArray[np.uint64],
    sizes: Sequence[int],
    top: int = 8,
) -> AdditiveShare:
    """Values of the rows of pass 1 at their places in all passes: (of pass 1, C) -> (of all, C).

    The network of `brought_home` backwards; places of dummies get values of no row in particular.
    """
    parts = [values]
    for number in range(1, len(sizes)):
        size = network.size_for(max(sizes[0], sizes[number]))
        bits = network.reversed_layers(_switch_bits(session, switches, number, size), size)
        moved = network.permuted(session, bits, network.filled(values, size), top)
        parts.append(moved[: sizes[number]])
    return AdditiveShare.concat(parts)


def _switch_bits(session: Session, switches: NDArray[np.uint64], number: int, size: int) -> Bits:
    """Shares of the switches of the network of a later pass."""
    own = slice((number - 1) * SWITCH_COLUMNS, number * SWITCH_COLUMNS)
    mine = np.ascontiguousarray(switches[:, own])
    bits = unmask.low_bits(session, mine.reshape(-1), SWITCH_BITS).reshape(-1)
    return bits[: network.switch_count(size)]


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
