"""Multiply additively shared numbers (Gilboa): a share's bits choose multiples of the other's.

a * b = a1 b1 + a2 b2 + a1 b2 + a2 b1. For a1 b2 = sum_i a1[i] 2^i b2 the bits a1[i] choose, in
one correlated transfer each, 2^i * b2; the other cross product runs the other way at the same
time. One scalar may multiply several columns for the same number of transfers. Meant for few
values: a row of a table takes too many transfers.

Who learns what: nothing. Rounds: 2. Bytes per product and direction: 64 L transfers of 8 L bytes
per column. Supplies: 64 L transfers.
"""

import numpy as np

from ppodc.mpc import correlated_ot
from ppodc.mpc.additive import LIMB_BITS, U64, AdditiveShare, Words, product
from ppodc.mpc.compiled import compiled, in_u8_3, out_u8_2
from ppodc.mpc.correlated_ot import Batch, Sending
from ppodc.mpc.select import claim
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import unpack

_TABLE_BYTES = 1 << 25


def needs(scalars: int, limbs: int) -> Needs:
    """Supplies for multiplying with `scalars` numbers of `limbs` limbs."""
    return Needs(transfers=scalars * LIMB_BITS * limbs)


def scale(session: Session, scalars: AdditiveShare, rows: AdditiveShare) -> AdditiveShare:
    """scalars[i] * rows[i, c]: (n) and (n, C) -> (n, C)."""
    count, columns, limbs = rows.limbs.shape
    per_scalar = LIMB_BITS * limbs * columns * limbs * 8
    step = max(1, _TABLE_BYTES // per_scalar)
    parts = []
    for start in range(0, count, step):
        part = slice(start, start + step)
        parts.append(_scale(session, scalars.limbs[part], rows.limbs[part]))
    return AdditiveShare.concat(parts)


def multiply(session: Session, a: AdditiveShare, b: AdditiveShare) -> AdditiveShare:
    """a[i] * b[i]."""
    return scale(session, a, b.reshape(-1, 1)).reshape(-1)


def _scale(session: Session, scalars: Words, rows: Words) -> AdditiveShare:
    count, columns, limbs = rows.shape
    # 64 L choice bits per scalar; transfer (n, i) carries 2^i times the row that n multiplies
    bits = unpack(scalars, LIMB_BITS * limbs).reshape(-1)
    keys, flips = claim(session, bits)
    table = np.empty((len(bits), columns * limbs), U64)
    _doublings(np.ascontiguousarray(rows), table)
    # the own product a1 b1, to which the transfers add both cross products
    sums = product(np.broadcast_to(scalars[:, None, :], rows.shape), rows)
    sums = sums.reshape(count, columns * limbs)
    batch = Batch(len(bits), LIMB_BITS * limbs, limbs, session.ot.tweaks.reserve(len(bits)), sums)
    correlated_ot.run(session.ot, keys, batch, Sending(table, np.zeros_like(bits), flips), bits)
    return AdditiveShare(sums.reshape(count, columns, limbs))


def doublings(rows: Words, count: int) -> Words:
    """2^j * rows[i] for j < count: (n, C, L) -> (n * count, C * L)."""
    out = np.empty((len(rows) * count, rows.shape[1] * rows.shape[2]), U64)
    _doublings(np.ascontiguousarray(rows), out)
    return out


@compiled(in_u8_3, out_u8_2)
def _doublings(rows: Words, out: Words) -> None:
    count, columns, limbs = rows.shape
    bits = out.shape[0] // count
    for i in range(count):
        for c in range(columns):
            for e in range(limbs):
                out[i * bits, c * limbs + e] = rows[i, c, e]
            for j in range(1, bits):
                above = U64(0)
                for e in range(limbs):
                    word = out[i * bits + j - 1, c * limbs + e]
                    out[i * bits + j, c * limbs + e] = (word << U64(1)) | above
                    above = word >> U64(63)
