"""Squares of taken-in values, by the transfers whose choices are their bits.

    t^2 = sum_j tbit_j (2^j t)        one correlated transfer a bit, the sender's share of 2^j t

Who learns what: nothing. Rounds: 1. Bytes per bit of a value and direction: `top`. Supplies: none
but those of the table's bits and transfers, which are made if nobody has asked before (`unmask`).
"""

import numpy as np

from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.unmask import SharedTable


def squares(
    session: Session,
    table: SharedTable,
    start: int,
    end: int,
    top: int = 8,
    other: U64Array | None = None,
) -> U64Array:
    """Shares of the squares in rows start..end-1: (rows, columns), right modulo 2^(8 top).

    With `other`, shares of as many values modulo 2^64, products with these instead.
    """
    factors = table.additive(start, end).limbs if other is None else other
    values = factors.reshape(-1, 1)
    shifted = values << np.arange(table.bits, dtype=U64)
    bits = table.choices(start, end)
    out = np.zeros((len(values), 1), U64)
    first = session.ot.tweaks.reserve(len(bits))
    batch = Batch(len(bits), table.bits, 1, first, out, top)
    keys = table.transfers.starting_at(start * table.per_row)
    sending = Sending(shifted.reshape(-1, 1), bits)
    correlated_ot.run(session.ot, keys, batch, sending, bits)
    return out.reshape(-1, table.columns)
