"""The weighted squares of a table's rows: sum_s w_s x_s^2, from the bits and the shares of x.

With x_s = sum_j 2^j (u_sj xor v_sj), u at C1 and v at C2, bit j of x_s chooses 2^j w_s x_s of
either cloud's share: one correlated transfer for each bit and direction, on the table's static
transfers. For who has no other use for these, `share_squares` costs less.

Who learns what: nothing. Rounds: 1 (batches overlap). Bytes per bit of a row and direction: 8.
Operations per bit: 3 hash blocks.
"""

import numpy as np

from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.multiply import doublings
from ppodc.mpc.shares.unmask import SharedTable

_TRANSFERS = 1 << 20  # at a time


def row_squares(session: Session, table: SharedTable, weights: U64Array) -> AdditiveShare:
    """sum_s weights[s] x_s^2 of every row, modulo 2^64: (rows)."""
    rows, step = table.rows, max(1, _TRANSFERS // table.per_row)
    sums = np.zeros((rows, 1), U64)
    for start in range(0, rows, step):
        end = min(start + step, rows)
        own = table.additive(start, end).low(1).limbs * weights[:, None]
        choices = table.choices(start, end)
        first = session.ot.tweaks.reserve(len(choices))
        batch = Batch(len(choices), table.per_row, 1, first, sums[start:end])
        sent = doublings(own.reshape(-1, 1, 1), table.bits)
        sending = Sending(sent, choices)
        keys = table.transfers.starting_at(start * table.per_row)
        correlated_ot.run(session.ot, keys, batch, sending, choices)
    return AdditiveShare(sums)
