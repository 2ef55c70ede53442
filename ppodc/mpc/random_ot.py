"""Random transfers for `select` and `multiply`: two keys at the sender, one at the receiver.

Each row gives one transfer in each direction. Keys are hashed rows of the OT extension, so they
are independent of the session's secret and may be kept for a later session.

Who learns what: nothing. Rounds: 1 per chunk of 2^17. Bytes: 4 per row and direction. Operations:
one row of OT extension and 3 hash blocks per row.
"""

import numpy as np

from ppodc.crypto.single_use import Array, Field, Layout
from ppodc.mpc.additive import U64
from ppodc.mpc.oblivious_transfer import ObliviousTransfer
from ppodc.mpc.ot_extension import CHUNK
from ppodc.mpc.xor_bits import BLOCK, WORD, padded, unpack

TRANSFERS = Layout(
    (
        Field("pair", np.uint64, 4),  # both keys where this cloud is the sender
        Field("key", np.uint64, 2),  # the chosen key where it is the receiver
        Field("choice", np.uint8, 1),
    )
)


def make(ot: ObliviousTransfer, count: int) -> tuple[Array, Array, Array]:
    """`count` transfers in each direction, as rows of the layout TRANSFERS."""
    pairs = np.empty((count, 4), U64)
    keys = np.empty((count, 2), U64)
    choices = np.empty(count, np.uint8)
    sizes = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
    lots = (ot.random.uint64(padded(size, BLOCK) // WORD) for size in sizes)
    start = 0
    for size, (bits, q, t) in zip(sizes, ot.extend(lots), strict=True):
        part = slice(start, start + size)
        start += size
        first = ot.tweaks.reserve(len(q))
        # as sender H(q) and H(q ^ D), as receiver H(t) = the one that its choice names
        pairs[part, :2] = ot.hash.expand(q[:size], first, ot.role)
        pairs[part, 2:] = ot.hash.expand(q[:size] ^ ot.sender.delta, first, ot.role)
        keys[part] = ot.hash.expand(t[:size], first, ot.peer)
        choices[part] = unpack(bits, size)
    return pairs, keys, choices.reshape(-1, 1)
