"""AND of XOR-shared bits, two at a time with a common factor: x & y0 and x & y1 (Beaver).

With shared random a, b and c = a b (`and_triples`), both open d = x ^ a and e = y ^ b. Then
x y = (d ^ a) (e ^ b) = c ^ d b ^ e a ^ d e, of which each cloud computes its share, C1 with d e.

Who learns what: nothing; d and e are uniform whatever x and y are. Rounds: 1. Bytes per two ANDs
with a common factor and direction: 3/8. Supplies: one AND pair for them.
"""

import numpy as np

from ppodc.mpc.session import Session
from ppodc.mpc.xor_bits import XorShare

_OPEN = "shares.and"


def and_two(session: Session, x: XorShare, y0: XorShare, y1: XorShare) -> tuple[XorShare, XorShare]:
    """(x & y0, x & y1) for shares of equal shape."""
    shape = x.words.shape
    a, b0, b1, c0, c1 = session.supplies.take_pairs(x.words.size).reshape(5, *shape)
    # open d = x ^ a, e0 = y0 ^ b0, e1 = y1 ^ b1
    own = np.stack([x.words ^ a, y0.words ^ b0, y1.words ^ b1])
    d, e0, e1 = own ^ session.link.exchange(_OPEN, own.reshape(3, -1)).reshape(own.shape)
    # z = c ^ d b ^ e a, and d e at C1
    z0, z1 = c0 ^ (d & b0) ^ (e0 & a), c1 ^ (d & b1) ^ (e1 & a)
    if session.role == 1:
        z0, z1 = z0 ^ (d & e0), z1 ^ (d & e1)
    return XorShare(z0), XorShare(z1)


def and_one(session: Session, x: XorShare, y: XorShare) -> XorShare:
    """x & y; half of each pair is not used."""
    shape = x.words.shape
    a, b, _, c, _ = session.supplies.take_pairs(x.words.size).reshape(5, *shape)
    own = np.stack([x.words ^ a, y.words ^ b])
    d, e = own ^ session.link.exchange(_OPEN, own.reshape(2, -1)).reshape(own.shape)
    z = c ^ (d & b) ^ (e & a)
    return XorShare(z ^ (d & e) if session.role == 1 else z)
