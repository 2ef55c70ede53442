"""The same shared numbers in a wider ring, for numbers below half of their ring.

Shared modulo 2^n, as integers x = x1 + x2 - 2^n carry. With x < 2^(n - 1) there is a carry unless
both shares have their highest bits h1, h2 clear: were just one of them set and the sum still inside
the ring, the highest bit of x would be set. So in the wider ring

    x = x1 + x2 - 2^n + 2^n (1 - h1) (1 - h2)

of which the last is one transfer: C1's row 2^n (1 - h1), chosen by C2's bit 1 - h2.

Who learns what: nothing. Rounds: 2. Bytes per number: the wide number from C1 to C2, and a bit
each way. Supplies: one transfer per number.
"""

import numpy as np

from ppodc.mpc import correlated_ot, select
from ppodc.mpc.additive import LIMB_BITS, U64, AdditiveShare, public
from ppodc.mpc.correlated_ot import Batch, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs


def needs(count: int, length: int, limbs: int) -> Needs:
    """Supplies for widening `count` numbers from `length` limbs to `limbs`."""
    return Needs() if limbs <= length else select.needs(count)


def widen(
    session: Session, values: AdditiveShare, limbs: int, bits: int | None = None
) -> AdditiveShare:
    """The same numbers 0..2^(n - 1) - 1 modulo 2^(64 limbs), for any number of limbs: (count).

    n is `bits`, at most a limb, of which no more than these count; or all bits of the ring.
    """
    length, count = values.length, len(values.limbs)
    if bits is None and limbs <= length:
        return values.low(limbs)
    bits = LIMB_BITS * length if bits is None else bits
    sums = np.zeros((count, limbs), U64)
    sums[:, :length] = values.limbs
    if bits < LIMB_BITS:
        sums &= U64((1 << bits) - 1)
    top, shift = divmod(bits - 1, LIMB_BITS)
    clear = (~sums[:, top] >> U64(shift)).astype(np.uint8) & np.uint8(1)
    choices = clear if session.role == 2 else np.zeros_like(clear)
    keys, flips = select.claim(session, choices)
    # x1 - 2^n at C1 and x2 at C2, to which the transfers add 2^n (1 - h1) (1 - h2)
    batch = Batch(count, 1, limbs, session.ot.tweaks.reserve(count), sums)
    if session.role == 1:
        rows = np.zeros_like(sums)
        rows[:, bits // LIMB_BITS] = clear.astype(U64) << U64(bits % LIMB_BITS)
        sending = Sending(rows, np.zeros_like(clear), flips)
        correlated_ot.run(session.ot, keys, batch, sending, None)
    else:
        correlated_ot.run(session.ot, keys, batch, None, choices)
    return AdditiveShare(sums) - public([1 << bits], limbs, session.role)
