"""Dropping low bits of additive shares, locally.

Of u = u1 + u2 modulo 2^W each cloud drops its low t bits r1, r2. What is left adds up to
(u - r1 - r2) / 2^t modulo 2^(W - t), whether or not u1 + u2 leaves the ring, since a multiple of
2^W divided by 2^t is one of 2^(W - t). With 1 added at C1 the error against u / 2^t lies in
(-1, 1].

Who learns what: nothing; no message is sent.
"""

import numpy as np

from ppodc.mpc.shares.additive import LIMB_BITS, U64, AdditiveShare, limbs_of


def drop_bits(values: AdditiveShare, bits: int, role: int) -> AdditiveShare:
    """values / 2^bits, off by at most 1; right modulo 2^(W - bits) if values are modulo 2^W.

    As many limbs as before come out, whose `bits` highest bits mean nothing.
    """
    limbs, shift = divmod(bits, LIMB_BITS)
    out = np.zeros_like(values.limbs)
    kept = values.limbs[..., limbs:]
    size = kept.shape[-1]
    out[..., :size] = kept >> U64(shift)
    if shift:
        out[..., : size - 1] |= kept[..., 1:] << U64(LIMB_BITS - shift)
    dropped = AdditiveShare(out)
    if role == 1:
        dropped = dropped + AdditiveShare(limbs_of([1], values.length)[0])
    return dropped
