"""Supplies for ANDs of XOR-shared bits (`and_bits`): random bits a, b0, b1 and a b0, a b1, shared.

Such a *pair* of triples with the common factor a comes from one random transfer of two bits in
each direction. As sender with messages x0 and x1 (two bits each), a cloud's share of (b0, b1) is
x0 ^ x1; as receiver with choice bit a it has x_a = x0 ^ a (b0, b1) of the other's. With its own
a (b0, b1), its share of (a b0, a b1) is a (b0, b1) ^ x0 ^ x_a: xored over both clouds this is
(a1 ^ a2) (b of C1 ^ b of C2). Pairs are packed 64 to a word.

Who learns what: nothing. Rounds and check: those of the extension. Bytes: 31/8 a pair and
direction. Operations: one row of OT extension and 6 hash blocks.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.single_use import Array, Field, Layout
from ppodc.mpc.compiled import compiled, in_u4, out_u8_2
from ppodc.mpc.ot.code import ROWS
from ppodc.mpc.ot.recipe import Recipe
from ppodc.mpc.ot.transfer import LOT_ROWS, Extended, ObliviousTransfer
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.xor_bits import WORD

PAIRS = Layout((Field("words", np.uint64, 5),))  # a, b0, b1, c0, c1 of 64 pairs
_NOTHING = np.zeros((1, 2), U64)


def _finish(ot: ObliviousTransfer, made: Extended, out: Sequence[Array]) -> None:
    (part,) = out
    size, first = len(part), ot.tweaks.reserve(len(made.q))
    pads = ot.hash.two_bits(made.q, made.offsets, first, ot.role)  # offsets 0 and D
    zero, one = np.split(_planes(pads, 4), 2)
    chosen = _planes(ot.hash.two_bits(made.t, _NOTHING, first, ot.peer), 2)
    a, b = made.choices[0, :size], zero ^ one  # b as sender: x0 ^ x1
    part[:, 0] = a
    part[:, 1:3] = b.T
    # a b ^ x0 (own messages) ^ x_a (the peer's)
    part[:, 3:] = ((a & b) ^ zero ^ chosen).T


RECIPE = Recipe(PAIRS, ROWS, WORD, LOT_ROWS // WORD, _finish)


def _planes(numbers: NDArray[np.uint32], count: int) -> U64Array:
    """Bits 0..count-1 of all numbers, packed: (n) -> (count, n / 64)."""
    out = np.empty((count, len(numbers) // WORD), U64)
    _pack_planes(numbers, out)
    return out


@compiled(in_u4, out_u8_2)
def _pack_planes(numbers: NDArray[np.uint32], out: U64Array) -> None:
    for w in range(out.shape[1]):
        for place in range(out.shape[0]):
            word = U64(0)
            for bit in range(64):
                own = (U64(numbers[64 * w + bit]) >> U64(place)) & U64(1)
                word |= own << U64(bit)
            out[place, w] = word
