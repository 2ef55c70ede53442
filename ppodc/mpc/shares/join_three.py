"""Joining digits of a comparison three at a time, in one round: fewer rounds for more supplies.

A digit has shared bits (g, e), greater and equal. Three of them, highest first, become

    g = g2 ^ e2 g1 ^ e2 e1 g0        e = e2 e1 e0

With shared random masks a2, a1, a0 for the e and b1, b0 for the g, and shares of their products,
all of it is local once the five masked bits are open. The products come from four AND pairs: the
first has a2 with a1 and a0; b1 and b0 are drawn; the second and third multiply a2 by (b1, b0) and
a1 by (a0, b0); the fourth a2 a1 by (a0, b0). Their two rounds of openings depend on no digit: they
travel with the two rounds in which the digits themselves are compared (`compare`).

Who learns what: nothing; every opened bit is masked by a random one that is used once. A peer that
deviates fixes what is opened, that is, takes other shares for its own; no message depends on it.
Rounds: 2 beside others, then 1. Bytes per node and direction: 14/8. Supplies: 4 AND pairs.
"""

import numpy as np

from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.and_bits import masked, multiplied
from ppodc.mpc.shares.xor_bits import XorShare

PAIRS = 4  # of a node
_ALL = (1 << 64) - 1


class Nodes:
    """Masks of a number of nodes, each of a row of words, and their products."""

    def __init__(self, session: Session, count: int, words: int) -> None:
        """Supplies are taken now; the products are there after two openings."""
        self._role, self._shape = session.role, (count, words)
        taken = session.supplies.take_pairs(PAIRS * count * words)
        first, *self._others = np.moveaxis(taken.reshape(5, PAIRS, -1), 1, 0)
        self._a2, self._a1, self._a0, self._a2a1, self._a2a0 = first
        self._b1, self._b0 = session.random.uint64((2, count * words))
        self._own, self._products = np.empty(0, U64), tuple[U64Array, ...]()

    def first(self) -> U64Array:
        """Own words of the first opening."""
        one, two, _ = self._others
        left = masked(self._a2, (self._b1, self._b0), one)
        self._own = np.concatenate([left, masked(self._a1, (self._a0, self._b0), two)])
        return self._own

    def second(self, peers: U64Array) -> U64Array:
        """Own words of the second opening, with the peer's of the first."""
        one, two, three = self._others
        left, right = np.split(self._own ^ peers, 2)
        # a2 b1, a2 b0, a1 a0, a1 b0
        self._products = (
            *multiplied(self._role, left, one, 2),
            *multiplied(self._role, right, two, 2),
        )
        self._own = masked(self._a2a1, (self._a0, self._b0), three)
        return self._own

    def finish(self, peers: U64Array) -> None:
        """All products, with the peer's words of the second opening."""
        # a2 a1 a0, a2 a1 b0
        self._products += (*multiplied(self._role, self._own ^ peers, self._others[2], 2),)

    def join(
        self, session: Session, at: slice, kind: str, digits: tuple[XorShare, XorShare]
    ) -> tuple[XorShare, XorShare]:
        """(g, e) of the nodes `at`, from bits (3 nodes, words) of digits, lowest first."""
        greater, equal = (each.words.reshape(-1, 3, self._shape[1]) for each in digits)
        parts = self._a2, self._a1, self._a0, self._b1, self._b0, self._a2a1, self._a2a0
        every = [each.reshape(self._shape)[at] for each in (*parts, *self._products)]
        a2, a1, a0, b1, b0, a2a1, a2a0, a2b1, a2b0, a1a0, a1b0, a2a1a0, a2a1b0 = every
        bits = equal[:, 2], equal[:, 1], equal[:, 0], greater[:, 1], greater[:, 0]
        masks = a2, a1, a0, b1, b0
        own = np.stack([bit ^ mask for bit, mask in zip(bits, masks, strict=True)])
        d2, d1, d0, f1, f0 = own ^ session.link.exchange(kind, own)
        public = U64(_ALL if self._role == 1 else 0)  # C1 adds what both know
        first = (d2 & f1 & public) ^ (d2 & b1) ^ (f1 & a2) ^ a2b1
        both = (d2 & d1 & public) ^ (d2 & a1) ^ (d1 & a2) ^ a2a1  # e2 e1

        def with_lowest(open_: U64Array, *products: U64Array) -> U64Array:
            mask, a2m, a1m, a2a1m = products
            rest: U64Array = (d2 & d1 & mask) ^ (d2 & a1m) ^ (d1 & a2m) ^ a2a1m
            rest ^= open_ & both
            return rest

        found = greater[:, 2] ^ first ^ with_lowest(f0, b0, a2b0, a1b0, a2a1b0)
        return XorShare(found), XorShare(with_lowest(d0, a0, a2a0, a1a0, a2a1a0))
