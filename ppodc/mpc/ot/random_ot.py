"""Random transfers for `select` and `multiply`: two keys at the sender, one at the receiver.

Each row gives one transfer in each direction. Keys are hashed rows of the OT extension, so they
are independent of the session's secret and may be kept for a later session.

Who learns what: nothing. Rounds and check: those of the extension. Bytes: 31/8 a row and direction.
Operations: one row of OT extension and 6 hash blocks.
"""

from collections.abc import Sequence

import numpy as np

from ppodc.crypto.single_use import Array, Field, Layout
from ppodc.mpc.ot.code import ROWS
from ppodc.mpc.ot.recipe import Recipe
from ppodc.mpc.ot.transfer import LOT_ROWS, Extended, ObliviousTransfer
from ppodc.mpc.shares.xor_bits import unpack

TRANSFERS = Layout(
    (
        Field("pair", np.uint64, 4),  # both keys where this cloud is the sender
        Field("key", np.uint64, 2),  # the chosen key where it is the receiver
        Field("choice", np.uint8, 1),
    )
)


def _finish(ot: ObliviousTransfer, made: Extended, out: Sequence[Array]) -> None:
    pairs, keys, choices = out
    first = ot.tweaks.reserve(len(keys))
    # as sender H(q) and H(q ^ D), as receiver H(t) = the one that its choice names
    pairs[:, :2] = ot.hash.expand(made.q, first, ot.role)
    pairs[:, 2:] = ot.hash.expand(made.q ^ made.offsets[1], first, ot.role)
    keys[:] = ot.hash.expand(made.t, first, ot.peer)
    choices[:, 0] = unpack(made.choices[0], len(keys))


RECIPE = Recipe(TRANSFERS, ROWS, 1, LOT_ROWS, _finish)
