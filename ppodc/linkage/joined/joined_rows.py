"""The columns of a row's one partner, fetched without anybody knowing which row it is.

For a row i of the anchor and rows j of another side, with XOR-shared match bits m_ij and values t_j
of l columns. Uploaded words are t + r at C1 and r at C2, so (t + r, -r) are additive shares of t
already, modulo any power of two; lanes of tau = 1, 2 or 4 bytes hold values and counts.

    E_ij = m_ij (t_j, 1)                     one select a pair
    (V_i, c_i) = sum_j E_ij                  local: values, and number of partners of i
    d_j        = sum_i E_ij[last]            local: number of partners of j
    one_j  = [d_j < 2] parity(d_j)           a comparison and an AND a row; parity is the xor of the
                                             lowest bits of the shares
    s_i    = xor_j m_ij one_j                half an AND pair a pair: one_j is common to two rows
    keep_i = [c_i < 2] s_i                   i and j have each other and nobody else (1:1)
    keep_i = [c_i < 2] parity(c_i)           i has one partner (m:1)
    x_i    = t_p(i) + keep_i (V_i - t_p(i))  p(i) = i mod rows of the other side, a public choice

If c_i = 1, V_i is the partner's row and s_i its one_j; if c_i = 0, s_i = 0; if c_i >= 2, keep_i = 0
whatever s_i is. Counts are exact while no row has 2^(8 tau - 1) candidates, which is public.

Thresholds count people. With m:1, rows that repeat one person must not count as several: row i
weighs w_i = keep_i sum_j m_ij part_j, where part_j is 64 over the least power of two that is no
less than d_j (0 above 64). Rows that share a partner then weigh 64 together, or down to half of it,
in however many clusters they are. With 1:1, w_i = keep_i.

Who learns what: nothing; masked choices, pads and masked bits travel, and how many depends on the
number of pairs alone. Bytes per pair and direction: 4.1 + tau (l + 1), and 2.2 for 1:1 or 5.1 for
m:1, supplies included. Rounds: 2 a batch; then those of a comparison and some ANDs, once.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks.candidates import Block
from ppodc.linkage.joined.findings import LANES
from ppodc.linkage.joined.join import WHOLE
from ppodc.mpc.compiled import compiled, in_i8
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.lanes import TYPES, Kernel, Lanes
from ppodc.mpc.session import Session
from ppodc.mpc.shares import and_bits, compare, select, widen
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public
from ppodc.mpc.shares.xor_bits import WORD, XorShare, pack, padded
from ppodc.mpc.supplies import Needs


def fetch_needs(pairs: int) -> Needs:
    """Supplies of `fetch`."""
    return select.needs(pairs)


def table_of(session: Session, values: U64Array, top: int) -> Lanes:
    """Shares of (t_j, 1) in lanes of `top` bytes, from additive shares of t_j: (rows, l + 1)."""
    one = np.full((len(values), 1), session.role == 1)
    return np.concatenate([values, one], axis=1, dtype=LANES[top], casting="unsafe")


def fetch(
    session: Session,
    blocks: Sequence[Block],
    matched: Sequence[Bits],
    table: Lanes,
    sums: tuple[Lanes, Lanes],
) -> None:
    """Add up (V, c) of the rows on the left and d of those on the right, over some blocks.

    `matched` are the match bits (height, width) of each block, `table` is of all rows on the right
    (`table_of`). `sums` are (left rows, l + 1) and (right rows), in lanes too.
    """
    fetched, used = sums
    rows = [table[block.columns] for block in blocks]
    if len(blocks) > 1:  # a row for each pair
        rows = [np.tile(part, (block.height, 1)) for part, block in zip(rows, blocks, strict=True)]
    flat = np.concatenate([bits.reshape(-1) for bits in matched])
    found, at = select.select_lanes(session, flat, np.concatenate(rows)), 0
    for block in blocks:
        part = np.zeros((block.height, table.shape[1]), table.dtype)
        _add_up(table.dtype)(found[at : at + block.pairs], block.columns, part, used)
        fetched[slice(*block.xs)] += part
        at += block.pairs


def _sums(found: Lanes, columns: NDArray[np.intp], rows: Lanes, used: Lanes) -> None:
    """Sums of pairs (height * width, l + 1) by row on the left; of counts, by row on the right."""
    pair, last = 0, found.shape[1] - 1
    for i in range(rows.shape[0]):
        for j in columns:
            for c in range(found.shape[1]):
                rows[i, c] += found[pair, c]
            used[j] += found[pair, last]
            pair += 1


@cache
def _add_up(kind: np.dtype[Any]) -> Kernel:
    read, rows, column = TYPES[kind]
    return compiled(read, in_i8, rows, column)(_sums)


def below_two(session: Session, counts: U64Array, top: int) -> Bits:
    """Shares of [count < 2]."""
    two = public([2], 1, session.role)
    values = AdditiveShare(counts.reshape(-1, 1)) - two
    session.supplies.reserve(compare.needs(counts.size, 8 * top - 1))
    signs = compare.sign(session, values, 8 * top - 1)
    return signs.unpack(counts.size).reshape(counts.shape)


def parity(counts: U64Array) -> Bits:
    """Shares of the lowest bit of each count. Local."""
    return (counts & U64(1)).astype(np.uint8)


def part_of_one(session: Session, counts: U64Array, top: int) -> Lanes:
    """WHOLE over the least power of two that is no less than the count, 0 above WHOLE: lanes of 1.

    So rows that share a partner weigh no more than WHOLE together.
    """
    powers = [1 << t for t in range(WHOLE.bit_length())]
    bounds = public([power + 1 for power in powers], 1, session.role).limbs[:, 0]
    less = (counts.reshape(-1, 1) - bounds).reshape(-1, 1)
    session.supplies.reserve(compare.needs(len(less), 8 * top - 1) + select.needs(len(less)))
    bits = compare.sign(session, AdditiveShare(less), 8 * top - 1).unpack(len(less))
    more = [WHOLE // power - WHOLE // (2 * power) for power in powers]
    steps = public(more, 1, session.role).reshape(len(powers), 1)
    return select.select(session, bits, steps, len(powers)).limbs[:, 0, 0].astype(np.uint8)


def weigh(
    session: Session, blocks: Sequence[Block], matched: Sequence[Bits], parts: Lanes, found: Lanes
) -> None:
    """Add the parts of matching rows on the right to the rows on the left."""
    rows = [np.tile(parts[block.columns], block.height) for block in blocks]
    flat = np.concatenate([bits.reshape(-1) for bits in matched])
    session.supplies.reserve(select.needs(len(flat)))
    chosen, at = select.select_lanes(session, flat, np.concatenate(rows)[:, None]), 0
    for block in blocks:
        part = chosen[at : at + block.pairs].reshape(block.height, block.width)
        found[slice(*block.xs)] += part.sum(axis=1, dtype=found.dtype)
        at += block.pairs


def weights(session: Session, keep: Bits, parts: U64Array) -> U64Array:
    """Parts (rows, sides) modulo 2^8 of the rows that count, 0 of the others; modulo 2^64."""
    session.supplies.reserve(select.needs(2 * parts.size))
    whole = widen.widen(session, AdditiveShare(parts.reshape(-1, 1)), 1, 8).reshape(*parts.shape)
    return select.select(session, keep, whole).limbs[..., 0]


def others(
    session: Session,
    weight: U64Array,
    whose: Bits,
    owners: int,
    partners: Sequence[int],
    runs: NDArray[np.int64],
) -> U64Array:
    """The weights (rows, sides) of rows for each owner, 0 for its own: (rows, sides * owners).

    `runs` say whose rows of the anchor these are, (rows in a row, owner), if owners share its side;
    `whose` are the bits of the owners `partners`, who share another.
    """
    rows, sides = weight.shape
    table = np.repeat(weight[:, :, None], owners, axis=2)
    if len(runs):
        table[np.arange(rows), :, np.repeat(runs[:, 1], runs[:, 0])] = 0
    if partners:
        count = len(partners)
        each = AdditiveShare(np.repeat(weight, count, axis=0)[..., None])
        session.supplies.reserve(select.needs(rows * count))
        own = select.select(session, whose.reshape(-1), each).limbs.reshape(rows, count, sides)
        table[:, :, list(partners)] -= own.transpose(0, 2, 1)
    return table.reshape(rows, sides * owners)


def both(session: Session, x: Bits, y: Bits) -> Bits:
    """Shares of x and y, bit by bit."""
    found = and_bits.and_one(session, XorShare(pack(x.reshape(-1))), XorShare(pack(y.reshape(-1))))
    return found.unpack(x.size).reshape(x.shape)


def exactly_one(session: Session, counts: U64Array, top: int) -> Bits:
    """Shares of [count = 1]."""
    return both(session, below_two(session, counts, top), parity(counts))


def mutual_needs(blocks: Sequence[Block]) -> Needs:
    """Supplies of `mutual`."""
    bits = sum(-(-block.height // 2) * block.width for block in blocks)
    return Needs(pairs=padded(bits, WORD) // WORD)


def mutual(
    session: Session, blocks: Sequence[Block], matched: Sequence[Bits], one: Bits, found: Bits
) -> None:
    """Add (xor) to s of the rows on the left; `one` is of all rows on the right."""
    factors, upper, lower = [], [], []
    for block, bits in zip(blocks, matched, strict=True):
        even = bits
        if block.height % 2:
            even = np.concatenate([bits, np.zeros((1, block.width), np.uint8)])
        factors.append(np.tile(one[block.columns], len(even) // 2))
        upper.append(even[0::2].reshape(-1))
        lower.append(even[1::2].reshape(-1))
    x, y0, y1 = (XorShare(pack(np.concatenate(part))) for part in (factors, upper, lower))
    count = sum(map(len, factors))
    z0, z1 = (z.unpack(count) for z in and_bits.and_two(session, x, y0, y1))
    at = 0
    for block in blocks:
        half = -(-block.height // 2)
        own = slice(at, at + half * block.width)
        rows = np.empty(2 * half, np.uint8)
        rows[0::2] = np.bitwise_xor.reduce(z0[own].reshape(half, block.width), axis=1)
        rows[1::2] = np.bitwise_xor.reduce(z1[own].reshape(half, block.width), axis=1)
        found[slice(*block.xs)] ^= rows[: block.height]
        at = own.stop


def as_numbers(session: Session, bits: Bits) -> AdditiveShare:
    """Additive shares modulo 2^64 of bits (n, c): whole numbers 0 and 1."""
    ones = public([1] * bits.size, 1, session.role).reshape(-1, 1)
    session.supplies.reserve(select.needs(bits.size))
    return select.select(session, bits.reshape(-1), ones).reshape(*bits.shape)


def filled(session: Session, keep: Bits, fetched: U64Array, values: U64Array, top: int) -> U64Array:
    """x_i: the partner's values where a row counts, those of a row of its side elsewhere."""
    some = values[np.arange(len(fetched)) % len(values)]
    difference = AdditiveShare(np.ascontiguousarray(fetched - some)[..., None])
    session.supplies.reserve(select.needs(len(keep)))
    return some + select.select(session, keep, difference, top=top).limbs[..., 0]
