"""The same shared numbers in a wider ring.

As integers x = x1 + x2 - 2^(64 L) * carry, where x1 + x2 leaves the ring by `carry`, a shared bit;
selected times 2^(64 L) in the wider ring, it is taken away there.

Who learns what: nothing. Rounds: those of a comparison of 64 L bits and of a select. Bytes and
supplies: theirs.
"""

import numpy as np

from ppodc.mpc import compare, select
from ppodc.mpc.additive import LIMB_BITS, U64, AdditiveShare, public
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs


def needs(count: int, length: int, limbs: int) -> Needs:
    """Supplies for widening `count` numbers from `length` limbs to `limbs`."""
    if limbs <= length:
        return Needs()
    return compare.needs(count, LIMB_BITS * length) + select.needs(count)


def widen(session: Session, values: AdditiveShare, limbs: int) -> AdditiveShare:
    """The same numbers 0..2^(64 L) - 1 modulo 2^(64 limbs), for any number of limbs."""
    if limbs <= values.length:
        return values.low(limbs)
    width = LIMB_BITS * values.length
    count = len(values.limbs)
    carry = compare.carry(session, values, width)
    # 2^(64 L) * carry
    modulus = public([1 << width], limbs, session.role).reshape(1, 1)
    overflow = select.select(session, carry.unpack(count), modulus).reshape(-1)
    wide = np.zeros((count, limbs), U64)
    wide[:, : values.length] = values.limbs
    return AdditiveShare(wide) - overflow
