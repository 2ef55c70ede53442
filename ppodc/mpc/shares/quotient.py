"""Numbers divided by 2^n exactly, where they are a multiple of 2^n and a little more.

Shared is u = 2^n X + e modulo 2^W with 0 <= e < 2^(n - 1). Of the low n bits of both shares, which
add up to e or to e + 2^n, there is a carry unless both have their highest bits h1, h2 clear: were
just one of them set without a carry, e would be at least 2^(n - 1). So

    X = floor(u1 / 2^n) + floor(u2 / 2^n) + 1 - (1 - h1) (1 - h2)      modulo 2^(W - n)

of which the last is one transfer: C1's -(1 - h1), chosen by C2's bit 1 - h2.

Who learns what: nothing. Rounds: 1. Bytes per number: 8 from C1 to C2, and a bit back. Supplies:
one transfer per number.
"""

import numpy as np

from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.shares import select
from ppodc.mpc.shares.additive import U64, AdditiveShare
from ppodc.mpc.supplies import Needs


def needs(count: int) -> Needs:
    """Supplies for `count` numbers."""
    return select.needs(count)


def quotient(session: Session, values: AdditiveShare, bits: int) -> AdditiveShare:
    """X of numbers u modulo 2^64: (n) -> (n), right modulo 2^(64 - bits)."""
    own = values.limbs
    clear = (~own[:, 0] >> U64(bits - 1)).astype(np.uint8) & np.uint8(1)
    sums = own >> U64(bits)
    if session.role == 1:
        sums += U64(1)
    keys = select.SuppliedKeys.take(session, len(own))
    batch = Batch(len(own), 1, 1, session.ot.tweaks.reserve(len(own)), sums)
    if session.role == 1:
        rows = U64(0) - clear.astype(U64)[:, None]
        sending = Sending(rows, np.zeros_like(clear))
        correlated_ot.run(session.ot, keys, batch, sending, None)
    else:
        correlated_ot.run(session.ot, keys, batch, None, clear)
    return AdditiveShare(sums)
