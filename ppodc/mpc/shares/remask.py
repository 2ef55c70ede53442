"""Fresh shares of the same numbers: whoever gets them sees no share that the protocol used.

Who learns what: nothing; z is uniform modulo 2^64. Rounds: 1. Bytes: 8 per number, from C1.
"""

import numpy as np

from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import AdditiveShare, U64Array

_MASK = "shares.output-mask"


def remask(session: Session, values: U64Array) -> U64Array:
    """x1 + z at C1 and x2 - z at C2, modulo 2^64."""
    if session.role == 1:
        mask = session.random.uint64(values.shape)
        session.link.send(_MASK, mask)
        return values + mask
    return values - session.link.receive(_MASK, np.uint64, *values.shape)


def remask_limbs(session: Session, values: AdditiveShare) -> AdditiveShare:
    """Fresh shares of numbers of several limbs, modulo 2^(64 L)."""
    if session.role == 1:
        mask = session.random.uint64(values.limbs.shape)
        session.link.send(_MASK, mask)
        return values + AdditiveShare(mask)
    mask = session.link.receive(_MASK, np.uint64, *values.limbs.shape)
    return values - AdditiveShare(mask)
