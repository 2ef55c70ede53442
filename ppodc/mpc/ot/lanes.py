"""Correlated transfers of narrow numbers, in lanes of 1, 2 or 4 bytes as they are sent. Local.

The formulas are those of `correlated_ot`, modulo 2^(8 top): a row is C lanes instead of C words,
so that rows, messages and sums take an eighth, a quarter or half of the memory. A pad is cut into
lanes from its first byte on. With s a bit and m = -s, (x ^ m) - m is x if s = 0, and -x if s = 1.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.compiled import (
    compiled,
    i64,
    in_u1,
    in_u1_2,
    in_u2_2,
    in_u4_2,
    out_u1,
    out_u1_2,
    out_u2,
    out_u2_2,
    out_u4,
    out_u4_2,
)

Lanes = NDArray[Any]  # unsigned whole numbers of 1, 2 or 4 bytes
Bits = NDArray[np.uint8]
TYPES = {  # of a kernel's arguments: rows to read, rows to write, a column to write
    np.dtype(np.uint8): (in_u1_2, out_u1_2, out_u1),
    np.dtype(np.uint16): (in_u2_2, out_u2_2, out_u2),
    np.dtype(np.uint32): (in_u4_2, out_u4_2, out_u4),
}


def _message(zero: Lanes, one: Lanes, signs: Bits, rows: Lanes, start: int, out: Lanes) -> None:
    row = start % rows.shape[0]
    for o in range(out.shape[0]):
        m = -np.int64(signs[o])
        for c in range(out.shape[1]):
            out[o, c] = zero[o, c] - np.int64(one[o, c]) + (rows[row, c] ^ m) - m
        row += 1
        if row == rows.shape[0]:
            row = 0


def _keep(zero: Lanes, flips: Bits, signs: Bits, rows: Lanes, start: int, sums: Lanes) -> None:
    row = start % rows.shape[0]
    for o in range(flips.shape[0]):
        m, mask = np.int64(flips[o]) - 1, -np.int64(signs[o] ^ flips[o])
        for c in range(sums.shape[1]):
            sums[start + o, c] += (zero[o, c] ^ m) - m + (rows[row, c] & mask)
        row += 1
        if row == rows.shape[0]:
            row = 0


def _receive(
    pads: Lanes, random: Bits, flips: Bits, message: Lanes, start: int, sums: Lanes
) -> None:
    for o in range(message.shape[0]):
        mask, m = -np.int64(random[o]), -np.int64(flips[o])
        for c in range(message.shape[1]):
            z = np.int64(pads[o, c]) + (message[o, c] & mask)
            sums[start + o, c] += (z ^ m) - m


Kernel = Callable[..., None]  # loaded at its first use: few processes need them


@cache
def message(kind: np.dtype[Any]) -> Kernel:
    """Messages p0 + C - p1."""
    read, write, _ = TYPES[kind]
    return compiled(read, read, in_u1, read, i64, write)(_message)


@cache
def keep(kind: np.dtype[Any]) -> Kernel:
    """u x - p0 where f = 0 and (1 - u) x + p0 where f = 1, into the sums."""
    read, write, _ = TYPES[kind]
    return compiled(read, in_u1, in_u1, read, i64, write)(_keep)


@cache
def receive(kind: np.dtype[Any]) -> Kernel:
    """z = p_c + c y where f = 0 and -z where f = 1, into the sums."""
    read, write, _ = TYPES[kind]
    return compiled(read, in_u1, in_u1, read, i64, write)(_receive)
