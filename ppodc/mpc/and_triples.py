"""Supplies for ANDs of XOR-shared bits (`and_bits`): random bits a, b0, b1 and a b0, a b1, shared.

Such a *pair* of triples with the common factor a comes from one random transfer of two bits in
each direction. As sender with messages x0 and x1 (two bits each), a cloud's share of (b0, b1) is
x0 ^ x1; as receiver with choice bit a it has x_a = x0 ^ a (b0, b1) of the other's. With its own
a (b0, b1), its share of (a b0, a b1) is a (b0, b1) ^ x0 ^ x_a: xored over both clouds this is
(a1 ^ a2) (b of C1 ^ b of C2). Pairs are packed 64 to a word.

Who learns what: nothing. Rounds: 1 per chunk of 2^17. Bytes: 4 per pair and direction. Operations
per pair: one row of OT extension and 3 hash blocks.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.single_use import Field, Layout
from ppodc.mpc.additive import U64, Words
from ppodc.mpc.oblivious_transfer import ObliviousTransfer
from ppodc.mpc.ot_extension import CHUNK
from ppodc.mpc.xor_bits import BLOCK, WORD, pack, padded

PAIRS = Layout((Field("words", np.uint64, 5),))  # a, b0, b1, c0, c1 of 64 pairs
_WORDS = CHUNK // WORD
_NOTHING = np.zeros(2, U64)


def make(ot: ObliviousTransfer, words: int) -> tuple[Words]:
    """64 * words pairs, as rows of the layout PAIRS."""
    out = np.empty((words, 5), U64)
    sizes = [min(_WORDS, words - start) for start in range(0, words, _WORDS)]
    lots = (ot.random.uint64(padded(size, BLOCK // WORD)) for size in sizes)  # the choice bits
    own, plain = np.stack([_NOTHING, ot.sender.delta]), _NOTHING[None]
    start = 0
    for size, (a, q, t) in zip(sizes, ot.extend(lots), strict=True):
        first = ot.tweaks.reserve(len(q))
        both = _planes(ot.hash.two_bits(q, own, first, ot.role), 4)
        zero, one = both[:2], both[2:]
        chosen = _planes(ot.hash.two_bits(t, plain, first, ot.peer), 2)
        b = zero ^ one  # as sender: x0 ^ x1
        part = out[start : start + size]
        part[:, 0] = a[:size]
        part[:, 1:3] = b[:, :size].T
        # a b ^ x0 (own messages) ^ x_a (the peer's)
        part[:, 3:] = ((a & b) ^ zero ^ chosen)[:, :size].T
        start += size
    return (out,)


def _planes(numbers: NDArray[np.uint32], count: int) -> Words:
    """Bits 0..count-1 of all numbers, packed: (n) -> (count, n / 64)."""
    small = numbers.astype(np.uint8)
    return np.stack([pack(small >> np.uint8(place) & np.uint8(1)) for place in range(count)])
