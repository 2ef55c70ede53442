"""Random 1-of-16 transfers of two bits, for the digits of a comparison.

Four rows q_j = t_j ^ r_j D of the OT extension become one: with X the generator of GF(2^128),
Q = sum X^j q_j and T = sum X^j t_j satisfy Q = T + r(X) D, r(X) the polynomial with bits r_j.
The sender's pad for v is H(Q + v(X) D), of which the receiver has the one for v = r. Every other
one hides behind a non-zero multiple of D, which is as unknown as D itself; multiplying is what
makes 15 different offsets of it (an xor of rows would know only the parity of v).

Who learns what: nothing. Rounds: 1 per chunk of 2^15. Bytes: 16 per leaf and direction.
Operations per leaf: four rows of OT extension, 16 hash blocks as sender and 1 as receiver.
"""

import numpy as np

from ppodc.crypto.single_use import Array, Field, Layout
from ppodc.mpc.additive import U64, Words
from ppodc.mpc.compiled import compiled, i64, in_u8_2, inlined, out_u8_2
from ppodc.mpc.oblivious_transfer import ObliviousTransfer
from ppodc.mpc.ot_extension import CHUNK
from ppodc.mpc.xor_bits import BLOCK, WORD, padded, unpack

LEAVES = Layout(
    (
        Field("table", np.uint32, 1),  # 16 pads of 2 bits where this cloud is the sender
        Field("mine", np.uint8, 1),  # choice (4 bits) and its pad (2 bits) where it is the receiver
    )
)
DIGIT = 4
_VALUES = 1 << DIGIT
_PART = CHUNK // DIGIT
_REDUCTION = (0, 1, 2, 7)  # X^128 = X^7 + X^2 + X + 1
_OVERFLOW = 1 << 128 | sum(1 << place for place in _REDUCTION)
_UNIT = 8  # words that are transposed at once


def make(ot: ObliviousTransfer, count: int) -> tuple[Array, Array]:
    """`count` leaves in each direction, as rows of the layout LEAVES."""
    tables = np.empty(count, np.uint32)
    mine = np.empty(count, np.uint8)
    offsets, none = multiples(ot.sender.delta), np.zeros((1, 2), U64)
    sizes = [min(_PART, count - start) for start in range(0, count, _PART)]
    lots = (ot.random.uint64(DIGIT * padded(size, BLOCK // DIGIT) // WORD) for size in sizes)
    start = 0
    # as sender Q = sum X^j q_j, as receiver T = sum X^j t_j
    for size, (bits, q, t) in zip(sizes, ot.extend(lots, _combined), strict=True):
        words = len(bits) // DIGIT
        first = ot.tweaks.reserve(WORD * words)
        # the pads H(Q + v(X) D) of all v, and the pad H(T) of its choice r
        tables[start : start + size] = ot.hash.two_bits(q[:size], offsets, first, ot.role)
        pads = ot.hash.two_bits(t[:size], none, first, ot.peer)
        digits = unpack(bits.reshape(DIGIT, words), size)
        choices = digits[0] | digits[1] << 1 | digits[2] << 2 | digits[3] << 3
        mine[start : start + size] = choices | pads.astype(np.uint8) << DIGIT
        start += size
    return tables.reshape(-1, 1), mine.reshape(-1, 1)


def multiples(delta: Words) -> Words:
    """v(X) * D for v = 0..15: (16, 2)."""
    powers = [(int(delta[1]) << 64) | int(delta[0])]
    for _ in range(DIGIT - 1):
        shifted = powers[-1] << 1
        powers.append(shifted ^ _OVERFLOW if shifted >> 128 else shifted)
    table = np.empty((_VALUES, 2), U64)
    for v in range(_VALUES):
        number = 0
        for j in range(DIGIT):
            number ^= powers[j] if v >> j & 1 else 0
        table[v] = number & (2**64 - 1), number >> 64
    return table


@inlined
def permuted(pads: np.uint32, wish: np.uint8) -> np.uint32:
    """Pad v in the place of pad v ^ wish: a swap of neighbours, pairs, fours and halves."""
    for bit, within in enumerate((0x33333333, 0x0F0F0F0F, 0x00FF00FF, 0x0000FFFF)):
        shift = np.uint32(2 << bit)
        swap = np.uint32(0) - np.uint32((wish >> np.uint8(bit)) & np.uint8(1))
        both = ((pads >> shift) ^ pads) & np.uint32(within) & swap
        pads = pads ^ both ^ (both << shift)
    return pads


def _combined(columns: Words) -> Words:
    """Columns of sum X^j (rows of part j), of the columns of 4 equal parts: (128, 4 w) -> (128, w).

    The number of words is filled up to a multiple of 8.
    """
    words = columns.shape[1] // DIGIT
    out = np.zeros((len(columns), padded(words, _UNIT)), U64)
    _add_powers(columns, words, out)
    return out


@compiled(in_u8_2, i64, out_u8_2)
def _add_powers(columns: Words, words: int, out: Words) -> None:
    """Column c of X^j times an element is column c - j; from 128 on columns are reduced."""
    size = columns.shape[0]
    for c in range(size):
        for j in range(DIGIT):
            source = columns[c, j * words : (j + 1) * words]
            if c + j < size:
                target = out[c + j]
                for w in range(words):
                    target[w] ^= source[w]
            else:
                for place in _REDUCTION:
                    target = out[c + j - size + place]
                    for w in range(words):
                        target[w] ^= source[w]
