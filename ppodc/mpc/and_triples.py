"""AND on XOR-shared bits, two at a time with a common factor: x & y0 and x & y1.

Offline, a *pair* is random shared bits a, b0, b1 and shares of a b0 and a b1, packed 64 to a
word. One random transfer of two bits in each direction makes it: as sender, a cloud's share of
(b0, b1) is the xor of the two messages; as receiver, its share of a is its choice bit.

Online, both open x ^ a, y0 ^ b0, y1 ^ b1 (uniform whatever x and y are) and compute the shares.

Who learns what: nothing. Rounds: offline 1 per chunk, online 1. Bytes per pair and direction:
offline 4, online 3/8. Operations per pair: one row of OT extension and 3 hash blocks.
"""

from typing import TYPE_CHECKING

import numpy as np

from ppodc.crypto.single_use import Field, Layout
from ppodc.mpc.additive import U64, Words
from ppodc.mpc.compiled import compiled, in_u8_2, out_u8_2
from ppodc.mpc.ot_extension import CHUNK
from ppodc.mpc.session import Session
from ppodc.mpc.xor_bits import BLOCK, WORD, XorShare, padded

if TYPE_CHECKING:
    from ppodc.mpc.supplies import Stock

PAIRS = Layout((Field("words", np.uint64, 5),))  # a, b0, b1, c0, c1 of 64 pairs
_OPEN = "shares.and"
_WORDS = CHUNK // WORD


def make(session: Session, words: int) -> tuple[Words]:
    """64 * words pairs, as rows of the layout PAIRS."""
    out = np.empty((words, 5), U64)
    scratch = np.empty((CHUNK, 2), U64)
    for start in range(0, words, _WORDS):
        size = min(_WORDS, words - start)
        a = session.random.uint64(padded(size, BLOCK // WORD))
        q, t = session.extend(a)
        first = session.tweaks.reserve(len(q))
        zero, one, chosen = np.empty((3, 2, len(a)), U64)
        _two_bits(session.hash.expand(q, first, session.role, out=scratch), zero)
        _two_bits(
            session.hash.expand(q ^ session.sender.delta, first, session.role, out=scratch), one
        )
        _two_bits(session.hash.expand(t, first, session.peer, out=scratch), chosen)
        b = zero ^ one
        part = out[start : start + size]
        part[:, 0] = a[:size]
        part[:, 1:3] = b[:, :size].T
        part[:, 3:] = ((a & b) ^ zero ^ chosen)[:, :size].T
    return (out,)


def and_two(
    session: Session, stock: "Stock", x: XorShare, y0: XorShare, y1: XorShare
) -> tuple[XorShare, XorShare]:
    """(x & y0, x & y1) for shares of equal shape."""
    shape = x.words.shape
    a, b0, b1, c0, c1 = stock.take_pairs(x.words.size).reshape(5, *shape)
    own = np.stack([x.words ^ a, y0.words ^ b0, y1.words ^ b1])
    d, e0, e1 = own ^ session.link.exchange(_OPEN, own.reshape(3, -1)).reshape(own.shape)
    z0, z1 = c0 ^ (d & b0) ^ (e0 & a), c1 ^ (d & b1) ^ (e1 & a)
    if session.role == 1:
        z0, z1 = z0 ^ (d & e0), z1 ^ (d & e1)
    return XorShare(z0), XorShare(z1)


def and_one(session: Session, stock: "Stock", x: XorShare, y: XorShare) -> XorShare:
    """x & y; half of each pair is not used."""
    shape = x.words.shape
    a, b, _, c, _ = stock.take_pairs(x.words.size).reshape(5, *shape)
    own = np.stack([x.words ^ a, y.words ^ b])
    d, e = own ^ session.link.exchange(_OPEN, own.reshape(2, -1)).reshape(own.shape)
    z = c ^ (d & b) ^ (e & a)
    return XorShare(z ^ (d & e) if session.role == 1 else z)


@compiled(in_u8_2, out_u8_2)
def _two_bits(hashed: Words, out: Words) -> None:
    """The two lowest bits of each row, packed: (n, 2) -> (2, n / 64)."""
    for w in range(out.shape[1]):
        low, high = U64(0), U64(0)
        for i in range(64):
            word = hashed[64 * w + i, 0]
            low |= (word & U64(1)) << U64(i)
            high |= ((word >> U64(1)) & U64(1)) << U64(i)
        out[0, w] = low
        out[1, w] = high
