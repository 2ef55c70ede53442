"""Multiply additively shared numbers (Gilboa): a share's bits choose multiples of the other's.

a * b = a1 b1 + a2 b2 + a1 b2 + a2 b1. For a1 b2 = sum_i a1[i] 2^i b2 the bits a1[i] choose, in
one correlated transfer each, 2^i * b2; the other cross product runs the other way at the same
time. One scalar may multiply several columns for the same number of transfers. Meant for few
values: a row of a table takes too many transfers.

Who learns what: nothing. Rounds: 1. Bytes per product and direction: 64 L transfers of 8 L bytes
per column. Supplies: 64 L transfers.
"""

from collections.abc import Iterator

import numpy as np

from ppodc.mpc.compiled import compiled, in_u8_3, out_u8_2
from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Run, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import LIMB_BITS, U64, AdditiveShare, U64Array, product
from ppodc.mpc.shares.select import SuppliedKeys
from ppodc.mpc.shares.xor_bits import unpack
from ppodc.mpc.supplies import Needs

_TABLE_BYTES = 1 << 25


def needs(scalars: int, limbs: int) -> Needs:
    """Supplies for multiplying with `scalars` numbers of `limbs` limbs."""
    return Needs(transfers=scalars * LIMB_BITS * limbs)


def scale(session: Session, scalars: AdditiveShare, rows: AdditiveShare) -> AdditiveShare:
    """scalars[i] * rows[i, c]: (n) and (n, C) -> (n, C)."""
    session.supplies.reserve(needs(len(rows.limbs), rows.length))
    sums, runs = scale_runs(session, scalars, rows)
    correlated_ot.run_all(session.ot, runs)
    return sums


def scale_runs(
    session: Session, scalars: AdditiveShare, rows: AdditiveShare
) -> tuple[AdditiveShare, Iterator[Run]]:
    """`scale`, which is right when its runs are done; others may be done in the same round.

    Supplies must be at hand: nothing is made while messages are on their way.
    """
    count, columns, limbs = rows.limbs.shape
    per_scalar = LIMB_BITS * limbs * columns * limbs * 8
    step = max(1, _TABLE_BYTES // per_scalar)
    parts = [slice(start, start + step) for start in range(0, count, step)]
    # the own products a1 b1, to which the transfers add both cross products
    sums = product(np.broadcast_to(scalars.limbs[:, None, :], rows.limbs.shape), rows.limbs)
    flat = sums.reshape(count, columns * limbs)
    runs = (_run(session, scalars.limbs[part], rows.limbs[part], flat[part]) for part in parts)
    return AdditiveShare(sums), runs


def multiply(session: Session, a: AdditiveShare, b: AdditiveShare) -> AdditiveShare:
    """a[i] * b[i]."""
    return scale(session, a, b.reshape(-1, 1)).reshape(-1)


def multiply_runs(
    session: Session, a: AdditiveShare, b: AdditiveShare
) -> tuple[AdditiveShare, Iterator[Run]]:
    """`multiply` by runs, as `scale_runs`."""
    sums, runs = scale_runs(session, a, b.reshape(-1, 1))
    return sums.reshape(-1), runs


def _run(session: Session, scalars: U64Array, rows: U64Array, sums: U64Array) -> Run:
    """Transfers of some scalars: 64 L choice bits each; (n, i) carries 2^i times the row of n."""
    limbs = rows.shape[2]
    bits = unpack(scalars, LIMB_BITS * limbs).reshape(-1)
    table = doublings(rows, LIMB_BITS * limbs)
    first = session.ot.tweaks.reserve(len(bits))
    batch = Batch(len(bits), LIMB_BITS * limbs, limbs, first, sums)
    keys = SuppliedKeys.take(session, len(bits))
    return Run(keys, batch, Sending(table, np.zeros_like(bits)), bits)


def doublings(rows: U64Array, count: int) -> U64Array:
    """2^j * rows[i] for j < count: (n, C, L) -> (n * count, C * L)."""
    out = np.empty((len(rows) * count, rows.shape[1] * rows.shape[2]), U64)
    _doublings(np.ascontiguousarray(rows), out)
    return out


@compiled(in_u8_3, out_u8_2)
def _doublings(rows: U64Array, out: U64Array) -> None:
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
