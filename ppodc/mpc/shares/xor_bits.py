"""XOR-shared bits, packed 64 to a word.

A bit b is b1 xor b2, with b1 at C1 and b2 at C2. Everything here is local.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.shares.additive import U64, U64Array

WORD = 64
BLOCK = 512  # OT extension works on multiples of this many rows
_ALL = U64(0xFFFFFFFFFFFFFFFF)


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
