"""Squares of small shared numbers, added up by rows: sum_s x_s^2, from additive shares alone.

A number x of b bits is shared as x1 + x2 modulo 2^64. With y1, y2 the low b bits of its shares and
c the carry out of their sum, x = y1 + y2 - 2^b c, and as c is a bit

    x^2 = y1^2 + y2^2 + 2 y1 y2 + c (2^(2b) - 2^(b+1) (y1 + y2)).

The first two are local. 2 y1 y2 is b transfers: bit j of one cloud's y chooses 2^(j+1) times the
other's; C1 sends for the first half of the rows and C2 for the second. The last is a select.

Who learns what: nothing. Rounds: those of a carry of b bits, and 2. Bytes per number and direction:
4 b for the transfers, 8 for the select, and those of the carry. Supplies: see `needs`.
"""

import numpy as np

from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Run, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, select
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.multiply import doublings
from ppodc.mpc.shares.xor_bits import unpack
from ppodc.mpc.supplies import Needs


def needs(rows: int, columns: int, bits: int) -> Needs:
    """Supplies for rows of this many numbers."""
    values = rows * columns
    crossed = select.needs(_half(rows) * columns * bits)
    return compare.needs(values, bits) + select.needs(values) + crossed


def share_squares(session: Session, numbers: AdditiveShare, bits: int) -> AdditiveShare:
    """sum_s x_s^2 of rows (n, columns) of numbers below 2^bits, modulo 2^64: (n)."""
    rows, columns = numbers.shape
    own = numbers.limbs[..., 0] & U64((1 << bits) - 1)
    # y^2 of the own share
    sums: U64Array = (own * own).sum(axis=1, dtype=U64)
    # c (2^(2b) - 2^(b+1) (y1 + y2))
    rest = U64(0) - (own << U64(bits + 1))
    if session.role == 1:
        rest += U64(1 << (2 * bits))
    flat = AdditiveShare(own.reshape(-1, 1))
    carry = compare.carry(session, flat, bits).unpack(rows * columns)
    chosen = select.select(session, carry, AdditiveShare(rest.reshape(-1, 1, 1)), columns)
    sums += chosen.limbs[:, 0, 0]
    sums += _crossed(session, own, bits)
    return AdditiveShare(sums.reshape(-1, 1))


def _crossed(session: Session, own: U64Array, bits: int) -> U64Array:
    """2 sum_s y1_s y2_s of every row."""
    rows, columns = own.shape
    half = _half(rows)
    padded = np.zeros((2 * half, columns), U64)
    padded[:rows] = own
    first, second = padded[:half], padded[half:]
    # C1 sends for the first half of the rows and chooses in the second
    mine, theirs = (first, second) if session.role == 1 else (second, first)
    choices = unpack(theirs.reshape(-1, 1), bits).reshape(-1)
    keys = select.SuppliedKeys.take(session, len(choices))
    table = doublings((mine << U64(1)).reshape(-1, 1, 1), bits)
    sending = Sending(table, np.zeros_like(choices))
    out = np.zeros((2, half, 1), U64)
    runs = []
    for part, sender in enumerate((1, 2)):
        tweak = session.ot.tweaks.reserve(len(choices))
        batch = Batch(len(choices), columns * bits, 1, tweak, out[part])
        if session.role == sender:
            runs.append(Run(keys, batch, sending, None))
        else:
            runs.append(Run(keys, batch, None, choices))
    correlated_ot.run_all(session.ot, runs)
    flat: U64Array = out.reshape(-1)[:rows]
    return flat


def _half(rows: int) -> int:
    return -(-rows // 2)
