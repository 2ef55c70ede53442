"""AND of XOR-shared bits, two at a time with a common factor: x & y0 and x & y1 (Beaver).

With shared random a, b and c = a b (`and_triples`), both open d = x ^ a and e = y ^ b. Then
x y = (d ^ a) (e ^ b) = c ^ d b ^ e a ^ d e, of which each cloud computes its share, C1 with d e.

Who learns what: nothing; d and e are uniform whatever x and y are, being masked by own bits that
the peer lacks. A peer that deviates fixes what is opened, that is, takes other shares for its own;
no message depends on it. Rounds: 1. Bytes per two ANDs
with a common factor and direction: 3/8. Supplies: one AND pair for them.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.xor_bits import XorShare

_OPEN = "shares.and"


def and_two(session: Session, x: XorShare, y0: XorShare, y1: XorShare) -> tuple[XorShare, XorShare]:
    """(x & y0, x & y1) for shares of equal shape."""
    ((z0, z1),) = and_all(session, [(x, (y0, y1))])
    return z0, z1


def and_one(session: Session, x: XorShare, y: XorShare) -> XorShare:
    """x & y; half of each pair is not used."""
    ((z,),) = and_all(session, [(x, (y,))])
    return z


def and_all(
    session: Session,
    factors: Sequence[tuple[XorShare, Sequence[XorShare]]],
    beside: Callable[[], None] = lambda: None,
) -> list[list[XorShare]]:
    """x & y for each x and its one or two y of the same shape, all in one round.

    `beside` receives what was sent before, for other steps, in the same round.
    """
    if any(y.words.shape != x.words.shape for x, ys in factors for y in ys):
        raise ValueError("factors of different shapes")
    supplies = [session.supplies.take_pairs(x.words.size) for x, _ in factors]
    own = [
        masked(x.words.reshape(-1), [y.words.reshape(-1) for y in ys], pairs)
        for (x, ys), pairs in zip(factors, supplies, strict=True)
    ]
    together = np.concatenate(own)
    session.link.send(_OPEN, together)
    session.link.turn()
    beside()
    opened = together ^ session.link.receive(_OPEN, U64, len(together))
    parts = np.split(opened, np.cumsum([len(part) for part in own])[:-1])
    return [
        [XorShare(z.reshape(x.words.shape)) for z in multiplied(session.role, part, pairs, len(ys))]
        for (x, ys), part, pairs in zip(factors, parts, supplies, strict=True)
    ]


def masked(x: U64Array, ys: Sequence[U64Array], pairs: U64Array) -> U64Array:
    """This cloud's words of d = x ^ a and of e = y ^ b for one or two y, to be opened. Local."""
    return np.concatenate([share ^ mask for share, mask in zip((x, *ys), pairs, strict=False)])


def multiplied(role: int, opened: U64Array, pairs: U64Array, count: int) -> list[U64Array]:
    """x & y for the `count` y of which d and e were opened. Local."""
    a, b0, b1, c0, c1 = pairs
    d, *es = opened.reshape(1 + count, -1)
    # z = c ^ d b ^ e a, and d e at C1: c ^ d (b ^ e) ^ e a
    return [
        c ^ (d & (b ^ e if role == 1 else b)) ^ (e & a)
        for e, b, c in zip(es, (b0, b1), (c0, c1), strict=False)
    ]
