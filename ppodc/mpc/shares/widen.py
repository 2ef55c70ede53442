"""Shared numbers in a wider ring, for numbers below half of their ring.

Shared modulo 2^n, as integers x = x1 + x2 - 2^n carry. With x < 2^(n - 1) there is a carry unless
both shares have their highest bits h1, h2 clear: were just one of them set and the sum still inside
the ring, the highest bit of x would be set. So in the wider ring

    x = x1 + x2 - 2^n + 2^n (1 - h1) (1 - h2)

of which the last is one transfer: C1's row 2^n (1 - h1), chosen by C2's bit 1 - h2.

Who learns what: nothing. Rounds: 1. Bytes per number: the wide number from C1 to C2, and a bit
back. Supplies: one transfer per number.
"""

from collections.abc import Callable

import numpy as np

from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Run, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.shares import select
from ppodc.mpc.shares.additive import LIMB_BITS, U64, AdditiveShare, public
from ppodc.mpc.supplies import Needs


def needs(count: int, bits: int, limbs: int) -> Needs:
    """Supplies for widening `count` numbers from a ring of `bits` bits to `limbs` limbs."""
    return Needs() if LIMB_BITS * limbs <= bits else select.needs(count)


def widen(
    session: Session, values: AdditiveShare, limbs: int, bits: int | None = None
) -> AdditiveShare:
    """Numbers 0..2^(n - 1) - 1 modulo 2^(64 limbs), for any number of limbs: (count).

    n is `bits`, at most a limb, of which no more than these count; or all bits of the ring. Where
    the other ring has no more bits than that there is nothing to send.
    """
    return begin_widening(session, values, limbs, bits)()


def begin_widening(
    session: Session, values: AdditiveShare, limbs: int, bits: int | None = None
) -> Callable[[], AdditiveShare]:
    """Send as `widen` does; its outcome is received when the result is called.

    Until then other messages may be sent, but none received that the peer sent later.
    """
    length, count = values.length, len(values.limbs)
    bits = LIMB_BITS * length if bits is None else bits
    if LIMB_BITS * limbs <= bits:
        low = values.low(limbs)
        return lambda: low
    sums = np.zeros((count, limbs), U64)
    sums[:, :length] = values.limbs
    if bits < LIMB_BITS:
        sums &= U64((1 << bits) - 1)
    top, place = divmod(bits - 1, LIMB_BITS)
    clear = (~sums[:, top] >> U64(place)).astype(np.uint8) & np.uint8(1)
    keys = select.SuppliedKeys.take(session, count)
    # x1 - 2^n at C1 and x2 at C2, to which the transfers add 2^n (1 - h1) (1 - h2)
    batch = Batch(count, 1, limbs, session.ot.tweaks.reserve(count), sums)
    if session.role == 1:
        rows = np.zeros_like(sums)
        rows[:, bits // LIMB_BITS] = clear.astype(U64) << U64(bits % LIMB_BITS)
        run = Run(keys, batch, Sending(rows, np.zeros_like(clear)), None)
    else:
        run = Run(keys, batch, None, clear)
    rest = correlated_ot.begin_all(session.ot, [run])
    shift = public([1 << bits], limbs, session.role)

    def finish() -> AdditiveShare:
        rest()
        return AdditiveShare(sums) - shift

    return finish
