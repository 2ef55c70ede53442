"""Rows of a shared table times a shared matrix: t . M, by transfers that the table's bits choose.

With M = M1 + M2 and tbit = u xor v the shared bits of t (u at C1, v at C2),

    t . M = sum_s sum_j 2^j (u_sj xor v_sj) (M1[s] + M2[s]):

one correlated transfer for each bit and direction, on the static transfers of the table, whose row
2^j M[s] of the sender's own M covers all columns.

Who learns what: nothing. Rounds: 1 (batches overlap). Bytes per bit of a row and direction: `top`
per column, and 8 for each further limb. Operations per bit: 3 L / 2 hash blocks per two columns.
"""

import numpy as np

from ppodc.mpc import correlated_ot
from ppodc.mpc.additive import U64, AdditiveShare
from ppodc.mpc.correlated_ot import Batch, Sending
from ppodc.mpc.multiply import doublings
from ppodc.mpc.session import Session
from ppodc.mpc.unmask import SharedTable


def products(
    session: Session, table: SharedTable, start: int, end: int, matrix: AdditiveShare, top: int
) -> AdditiveShare:
    """(rows start..end-1) . matrix (columns of the table, c): (rows, c).

    Right modulo 2^(64 (L - 1) + 8 top), L the limbs of the matrix.
    """
    rows, (_, columns, limbs) = end - start, matrix.limbs.shape
    choices = table.choices(start, end)
    sums = np.zeros((rows, columns * limbs), U64)
    first = session.ot.tweaks.reserve(len(choices))
    batch = Batch(len(choices), table.per_row, limbs, first, sums, top)
    sending = Sending(doublings(matrix.limbs, table.bits), choices, np.zeros_like(choices))
    keys = table.transfers.starting_at(start * table.per_row)
    correlated_ot.run(session.ot, keys, batch, sending, choices)
    return AdditiveShare(sums.reshape(rows, columns, limbs))
