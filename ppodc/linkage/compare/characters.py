"""Strings on shares: one-hot characters, and which characters of two owners are equal.

Taking in an owner's strings, once: every character arrives as a code of 5 bits (`mpc.unmask` makes
whatever was uploaded such a code) and becomes a shared one-hot of 32 bits by 26 ANDs: two pairs of
bits give 4 and 4 minterms with an AND each, their products 16 with 9 ANDs, the fifth bit 32 with
15; the rest are sums. The one-hots of the first owner get static transfers (`mpc.static_ot`).

[x_i = y_j] = sum_c hot_x(i, c) hot_y(j, c) over GF(2): transfers on x's bits whose row holds the
bits of all y of a block and all diagonals (`mpc.bit_products`). No AND.

Who learns what: nothing. Rounds: 4 for the codes, 3 for the one-hots, 1 for the equalities of a
block. Bytes per cell of the table and direction: 4.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks.candidates import Block
from ppodc.linkage.compare.edit_distance import Equal
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.static_ot import StaticTransfers, StridedKeys
from ppodc.mpc.session import Session
from ppodc.mpc.shares import bit_products, unmask
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.circuits import BLANK, Circuit, Gate, and_pairs, run
from ppodc.mpc.shares.xor_bits import XorShare, pack
from ppodc.mpc.spill import Budget, Spool
from ppodc.mpc.supplies import Needs

SYMBOLS = 32
CODE_BITS = 5
_CHARACTERS = 1 << 16  # taken in at a time


@dataclass(frozen=True, slots=True, repr=False)
class StringRows:
    """One cloud's shares of an owner's strings: rows x `length` one-hots of 32 bits."""

    rows: int
    length: int
    hot: Spool  # rows x length words of 32 bits
    transfers: StaticTransfers | None  # as first owner: a transfer for every bit

    def bits(self, rows: NDArray[np.intp]) -> Bits:
        """Shares of the one-hots of some rows, a byte per bit: (rows, length, 32)."""
        low, high = (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)
        words = np.ascontiguousarray(self.hot.read(low, high)[rows - low], "<u4")
        flat = words.view(np.uint8).reshape(len(rows), self.length, SYMBOLS // 8)
        return np.unpackbits(flat, axis=-1, bitorder="little")

    def padding(self, rows: NDArray[np.intp], symbol: int) -> Bits:
        """Shares of the bits "this character is `symbol`": (rows, length)."""
        return np.ascontiguousarray(self.bits(rows)[:, :, symbol])


def take_in(
    session: Session, codes: NDArray[np.uint64], budget: Budget, *, first: bool
) -> StringRows:
    """From this cloud's share of the codes (rows, length): t + r or r. `first`: as first owner."""
    rows, length = codes.shape
    per_row = length * SYMBOLS
    strings = StringRows(
        rows,
        length,
        Spool(rows, length, np.uint32, budget),
        StaticTransfers(session.ot, rows * per_row, budget) if first else None,
    )
    step = max(1, _CHARACTERS // length)
    for start in range(0, rows, step):
        part = np.ascontiguousarray(codes[start : start + step])
        hot = one_hots(session, part.reshape(-1))
        words = np.packbits(hot, axis=-1, bitorder="little").view("<u4")
        strings.hot.append(words.astype(np.uint32, copy=False).reshape(len(part), length))
        if strings.transfers is not None:
            strings.transfers.append(hot.reshape(-1))
    return strings


def one_hots(session: Session, codes: U64Array) -> Bits:
    """Shares of the one-hot of every code: (n) -> (n, 32), a byte per bit."""
    bits = unmask.low_bits(session, codes, CODE_BITS)
    planes = [XorShare(pack(np.ascontiguousarray(bits[:, j]))) for j in range(CODE_BITS)]
    gates = and_pairs(_decode(session.role, [BLANK] * CODE_BITS))
    session.supplies.reserve(Needs(pairs=gates * len(planes[0].words)))
    (minterms,) = run(session, [_decode(session.role, planes)])
    return np.stack([minterm.unpack(len(codes)) for minterm in minterms], axis=1)


def _decode(role: int, bits: list[XorShare]) -> Circuit[list[XorShare]]:
    """The 32 minterms of 5 bits, in the order of their numbers."""
    b0, b1, b2, b3, b4 = bits
    low, high = yield [Gate(b0, b1), Gate(b2, b3)]
    ones = XorShare(np.zeros_like(b0.words)).negated(role)
    lows = _four(ones, b0, b1, low)
    highs = _four(ones, b2, b3, high)
    # products of the three upper minterms of each; with minterm 0 they are what is left
    products = yield [
        gate for y in highs[1:] for gate in (Gate(y, lows[1], lows[2]), Gate(y, lows[3]))
    ]
    sixteen: list[XorShare] = []
    for place, y in enumerate(highs):
        upper = products[3 * place - 3 : 3 * place] if place else []
        if not upper:
            columns = [products[number::3] for number in range(3)]
            upper = [_sum([lows[i + 1], *column]) for i, column in enumerate(columns)]
        sixteen += [_sum([y, *upper]), *upper]
    pairs = zip(sixteen[1::2], sixteen[2::2], strict=False)
    gates = [Gate(b4, a, b) for a, b in pairs] + [Gate(b4, sixteen[15])]
    raised = yield gates
    upper = [_sum([b4, *raised]), *raised]
    return [a ^ b for a, b in zip(sixteen, upper, strict=True)] + upper


def _four(ones: XorShare, a: XorShare, b: XorShare, both: XorShare) -> list[XorShare]:
    """not a not b, a not b, not a b, a b."""
    return [ones ^ a ^ b ^ both, a ^ both, b ^ both, both]


def _sum(shares: list[XorShare]) -> XorShare:
    return XorShare(np.bitwise_xor.reduce([share.words for share in shares], axis=0))


def words_per_row(block: Block) -> int:
    """Words of pair bits of one row of a block: pairs are padded to full words along y."""
    return -(-block.width // 64)


def equalities(
    session: Session, x: StringRows, y: StringRows, block: Block, rows: int, diagonals: range
) -> Equal:
    """[x_i = y_j] for i = 1..rows and j - i on these diagonals, over the pairs of a block.

    The shares of a cell are words (height * words per row). Beyond the end of y it is 0.
    """
    if x.transfers is None:
        raise ValueError("these strings were not taken in as the first owner's")
    height, words = block.height, words_per_row(block)
    xs = np.arange(*block.xs)
    choices = x.bits(xs)[:, :rows].reshape(-1)
    keys = StridedKeys(x.transfers.starting_at(0), x.length * SYMBOLS, block.xs[0], rows * SYMBOLS)
    table = _rows_of(y, block, rows, diagonals, words)
    sums = bit_products.products(session, keys, choices, table, SYMBOLS)
    cells = sums.words.reshape(height, rows, len(diagonals), words)

    def equal(i: int, j: int) -> XorShare:
        part = cells[:, i - 1, j - i - diagonals.start]
        return XorShare(np.ascontiguousarray(part).reshape(-1))

    return equal


def _rows_of(y: StringRows, block: Block, rows: int, diagonals: range, words: int) -> U64Array:
    """Row (i, c): bits hot_y(i + k, c) for all diagonals k and all y of the block."""
    bits = y.bits(block.columns).transpose(1, 2, 0)
    planes = pack(np.ascontiguousarray(bits))  # (length, 32, words)
    table = np.zeros((rows, SYMBOLS, len(diagonals), words), U64)
    for place, k in enumerate(diagonals):
        start, end = max(0, -k), min(rows, y.length - k)
        if start < end:
            table[start:end, :, place] = planes[start + k : end + k]
    return table.reshape(rows * SYMBOLS, len(diagonals) * words)
