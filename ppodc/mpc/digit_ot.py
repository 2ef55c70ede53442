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
from ppodc.mpc.aes import BATCH_BLOCKS
from ppodc.mpc.compiled import compiled, in_u8_2, inlined, out_u4, out_u8_2, u64
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
_REDUCTION = U64(0x87)  # X^128 = X^7 + X^2 + X + 1


def make(ot: ObliviousTransfer, count: int) -> tuple[Array, Array]:
    """`count` leaves in each direction, as rows of the layout LEAVES."""
    tables = np.empty(count, np.uint32)
    mine = np.empty(count, np.uint8)
    combined = np.empty((_PART, 2), U64)
    sizes = [min(_PART, count - start) for start in range(0, count, _PART)]
    lots = (ot.random.uint64(DIGIT * padded(size, BLOCK // DIGIT) // WORD) for size in sizes)
    start = 0
    for size, (bits, q, t) in zip(sizes, ot.extend(lots), strict=True):
        words = len(bits) // DIGIT
        first = ot.tweaks.reserve(WORD * words)
        # as sender: Q = sum X^j q_j, and the pads H(Q + v(X) D) of all v
        _combine(q, combined[: WORD * words])
        tables[start : start + size] = _tables(ot, combined[:size], first)
        # as receiver: T = sum X^j t_j, and the pad H(T) of its choice r
        _combine(t, combined[: WORD * words])
        pads = ot.hash.expand(combined[:size], first, ot.peer)[:, 0] & U64(3)
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
        powers.append((shifted ^ int(_REDUCTION)) & ((1 << 128) - 1) if shifted >> 128 else shifted)
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


def _tables(ot: ObliviousTransfer, combined: Words, first: int) -> Array:
    """The 16 pads of each leaf, two bits each in a word of 32."""
    tables = np.empty(len(combined), np.uint32)
    offsets = multiples(ot.sender.delta)
    step = BATCH_BLOCKS // _VALUES
    for start in range(0, len(combined), step):
        part = combined[start : start + step]
        size = len(part) * _VALUES
        inputs = ot.hash.inputs(size)
        _offset_inputs(part, offsets, U64(first + start), U64(ot.role << 32), inputs)
        _pack_pads(ot.hash.permuted(size), inputs, tables[start : start + step])
    return tables


@inlined
def _double(low: np.uint64, high: np.uint64) -> tuple[np.uint64, np.uint64]:
    """X times an element of GF(2^128)."""
    carry = (U64(0) - (high >> U64(63))) & _REDUCTION
    return (low << U64(1)) ^ carry, (high << U64(1)) | (low >> U64(63))


@compiled(in_u8_2, out_u8_2)
def _combine(rows: Words, out: Words) -> None:
    """sum X^j rows[j * n + i] by Horner's rule."""
    count = out.shape[0]
    for i in range(count):
        low, high = rows[3 * count + i, 0], rows[3 * count + i, 1]
        for j in range(2, -1, -1):
            low, high = _double(low, high)
            low ^= rows[j * count + i, 0]
            high ^= rows[j * count + i, 1]
        out[i, 0] = low
        out[i, 1] = high


@compiled(in_u8_2, in_u8_2, u64, u64, out_u8_2)
def _offset_inputs(
    rows: Words, offsets: Words, first: np.uint64, sender: np.uint64, out: Words
) -> None:
    for i in range(rows.shape[0]):
        tweak = first + U64(i)
        for v in range(16):
            low, high = rows[i, 0] ^ offsets[v, 0], rows[i, 1] ^ offsets[v, 1]
            out[16 * i + v, 0] = high ^ tweak
            out[16 * i + v, 1] = low ^ high ^ sender


@compiled(in_u8_2, in_u8_2, out_u4)
def _pack_pads(permuted: Words, inputs: Words, out: Array) -> None:
    """Two bits of each hash P(y) ^ y."""
    for i in range(out.shape[0]):
        word = U64(0)
        for v in range(16):
            pad = permuted[16 * i + v, 0] ^ inputs[16 * i + v, 0]
            word |= (pad & U64(3)) << U64(2 * v)
        out[i] = np.uint32(word)
