"""Rows of bits in 64-bit words: bit j of a row is bit j % 64 of word j // 64, padding 0."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError

Packed = NDArray[np.uint64]
_BATCH_BITS = 1 << 24


def words_for(bits: int) -> int:
    """Words of a row of this many bits."""
    return -(-bits // 64)


def pack(bits: NDArray[np.bool_]) -> Packed:
    """(rows, bits) to (rows, words)."""
    rows, count = bits.shape
    packed = np.zeros((rows, 8 * words_for(count)), np.uint8)
    packed[:, : -(-count // 8)] = np.packbits(bits, axis=1, bitorder="little")
    return packed.view("<u8").astype(np.uint64, copy=False)


def unpack(words: Packed, bits: int) -> NDArray[np.uint8]:
    """(rows, words) to zeros and ones (rows, bits)."""
    data = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(data, axis=1, count=bits, bitorder="little")


def bit_counts(words: Packed, bits: int) -> NDArray[np.int64]:
    """The number of rows with each bit; a few rows are unpacked at a time."""
    total = np.zeros(bits, np.int64)
    step = max(1, _BATCH_BITS // bits)
    for start in range(0, len(words), step):
        total += unpack(words[start : start + step], bits).sum(axis=0, dtype=np.int64)
    return total


def check_padding(words: NDArray[Any], bits: int) -> None:
    """Refuse rows with a bit beyond the last."""
    spare = bits % 64
    if spare and bool((words[:, -1] >> np.uint64(spare)).any()):
        raise InputError("a chunk holds bits beyond the last of a report.")
