"""XOR-shared bits, packed 64 to a word, and the bit-matrix transpose of OT extension.

A bit b is b1 xor b2, with b1 at C1 and b2 at C2. Everything here is local.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.compiled import compiled, in_u8_2, inlined, out_u8_2
from ppodc.mpc.shares.additive import U64, U64Array

WORD = 64
BLOCK = 512  # OT extension and the transpose work on multiples of this many rows
_ALL = U64(0xFFFFFFFFFFFFFFFF)
_MASKS = (
    U64(0x00000000FFFFFFFF),
    U64(0x00FF00FF00FF00FF),
    U64(0x3333333333333333),
)


@dataclass(frozen=True, slots=True, repr=False)
class XorShare:
    """One cloud's XOR share of rows of bits; `words` has the shape (..., bits / 64)."""

    words: U64Array

    def __repr__(self) -> str:
        return f"XorShare({self.words.shape[:-1]}, {WORD * self.words.shape[-1]} bits)"

    def __getitem__(self, part: int | slice | tuple[int | slice, ...]) -> "XorShare":
        return XorShare(self.words[part])

    def __xor__(self, other: "XorShare") -> "XorShare":
        return XorShare(self.words ^ other.words)

    def negated(self, role: int) -> "XorShare":
        """Shares of the opposite bits: C1 flips its share."""
        return XorShare(self.words ^ _ALL) if role == 1 else self

    def unpack(self, count: int) -> NDArray[np.uint8]:
        """The first `count` bits of each row of this share, a byte per bit."""
        return unpack(self.words, count)

    @staticmethod
    def concat(parts: "Sequence[XorShare]") -> "XorShare":
        """Arrays one behind the other, along the first axis."""
        return XorShare(np.concatenate([part.words for part in parts]))


def padded(count: int, unit: int) -> int:
    """`count` rounded up to a multiple of `unit`."""
    return -(-count // unit) * unit


def pack(bits: NDArray[np.uint8]) -> U64Array:
    """Words of bits given a byte per bit, along the last axis; zeros fill the last word."""
    missing = padded(bits.shape[-1], WORD) - bits.shape[-1]
    if missing:
        bits = np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, missing)])
    packed = np.packbits(bits, axis=-1, bitorder="little")
    return packed.view("<u8").astype(U64, copy=False)


def unpack(words: U64Array, count: int) -> NDArray[np.uint8]:
    """A byte per bit: the first `count` bits along the last axis."""
    data = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(data, axis=-1, count=count, bitorder="little")


def transpose(matrix: U64Array, out: U64Array) -> U64Array:
    """(128, n / 64) words of bits -> (n, 2): row i holds bit i of all 128 columns."""
    _transpose(matrix, out)
    return out


@inlined
def _swap_twice(block: U64Array, far: int, mask: np.uint64) -> None:
    """Exchange the off-diagonal squares of side `far`, then of far / 2, in each 64 x 64 block."""
    near = far // 2
    by_far, by_near = U64(far), U64(near)
    fine = mask ^ (mask << by_near)
    for base in range(0, 64, 2 * far):
        for row in range(base, base + near):
            for lane in range(8):
                a, b = block[row, lane], block[row + near, lane]
                c, d = block[row + far, lane], block[row + far + near, lane]
                s, t = ((a >> by_far) ^ c) & mask, ((b >> by_far) ^ d) & mask
                a, b, c, d = a ^ (s << by_far), b ^ (t << by_far), c ^ s, d ^ t
                s, t = ((a >> by_near) ^ b) & fine, ((c >> by_near) ^ d) & fine
                block[row, lane], block[row + near, lane] = a ^ (s << by_near), b ^ s
                block[row + far, lane], block[row + far + near, lane] = c ^ (t << by_near), d ^ t


@inlined
def _transpose_blocks(matrix: U64Array, first_row: int, first: int, block: U64Array) -> None:
    """Eight blocks of 64 x 64 side by side, so that each step is a vector instruction."""
    for row in range(64):
        for lane in range(8):
            block[row, lane] = matrix[first_row + row, first + lane]
    _swap_twice(block, 32, _MASKS[0])
    _swap_twice(block, 8, _MASKS[1])
    _swap_twice(block, 2, _MASKS[2])


@compiled(in_u8_2, out_u8_2)
def _transpose(matrix: U64Array, out: U64Array) -> None:
    low, high = np.empty((64, 8), np.uint64), np.empty((64, 8), np.uint64)
    for first in range(0, matrix.shape[1], 8):
        _transpose_blocks(matrix, 0, first, low)
        _transpose_blocks(matrix, 64, first, high)
        for lane in range(8):
            for row in range(64):
                out[(first + lane) * 64 + row, 0] = low[row, lane]
                out[(first + lane) * 64 + row, 1] = high[row, lane]
