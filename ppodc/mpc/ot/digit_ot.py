"""Random 1-of-16 transfers of two bits, for the digits of a comparison.

A leaf of the OT extension with choices of four bits (`code`): with q = t ^ D_r the sender's pad for
v is H(q ^ D_v), of which the receiver has the one for v = r. Every other one hides behind an offset
D_v ^ D_r other than 0, of which each bit is as unknown as D itself.

Who learns what: nothing. Rounds and check: those of the extension. Bytes: 7 a leaf and direction.
Operations: one leaf of OT extension, 32 hash blocks as sender and 2 as receiver.
"""

from collections.abc import Sequence

import numpy as np

from ppodc.crypto.single_use import Array, Field, Layout
from ppodc.mpc.compiled import inlined
from ppodc.mpc.ot.code import LEAVES as CODE
from ppodc.mpc.ot.recipe import Recipe
from ppodc.mpc.ot.transfer import LOT_LEAVES, Extended, ObliviousTransfer
from ppodc.mpc.shares.additive import U64
from ppodc.mpc.shares.xor_bits import unpack

LEAVES = Layout(
    (
        Field("table", np.uint32, 1),  # 16 pads of 2 bits where this cloud is the sender
        Field("mine", np.uint8, 1),  # choice (4 bits) and its pad (2 bits) where it is the receiver
    )
)
DIGIT = 4
_NOTHING = np.zeros((1, 2), U64)


def _finish(ot: ObliviousTransfer, made: Extended, out: Sequence[Array]) -> None:
    tables, mine = out
    first = ot.tweaks.reserve(len(mine))
    # the pads H(q ^ D_v) of all v, and the pad H(t) of its choice r
    tables[:, 0] = ot.hash.two_bits(made.q, made.offsets, first, ot.role)
    pads = ot.hash.two_bits(made.t, _NOTHING, first, ot.peer).astype(np.uint8)
    digits = unpack(made.choices, len(mine))
    choices = digits[0] | digits[1] << 1 | digits[2] << 2 | digits[3] << 3
    mine[:, 0] = choices | pads << DIGIT


RECIPE = Recipe(LEAVES, CODE, 1, LOT_LEAVES, _finish)


@inlined
def permuted(pads: np.uint32, wish: np.uint8) -> np.uint32:
    """Pad v in the place of pad v ^ wish: a swap of neighbours, pairs, fours and halves."""
    for bit, within in enumerate((0x33333333, 0x0F0F0F0F, 0x00FF00FF, 0x0000FFFF)):
        shift = np.uint32(2 << bit)
        swap = np.uint32(0) - np.uint32((wish >> np.uint8(bit)) & np.uint8(1))
        both = ((pads >> shift) ^ pads) & np.uint32(within) & swap
        pads = pads ^ both ^ (both << shift)
    return pads
