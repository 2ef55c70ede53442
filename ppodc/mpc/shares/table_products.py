"""Rows of a shared table times a shared matrix: t . M, by transfers that the table's bits choose.

With M = M1 + M2 and tbit = u xor v the shared bits of t (u at C1, v at C2),

    t . M = sum_s sum_j 2^j (u_sj xor v_sj) (M1[s] + M2[s]):

one correlated transfer for each bit and direction, on the static transfers of the table, whose row
2^j M[s] of the sender's own M covers all columns. Modulo 2^w a product with bit j matters modulo
2^(w - j) only. Bits from `low` on that need no more bytes than its own go together, with rows
2^(j - low) M[s]; their sum counts 2^low times.

Who learns what: nothing. Rounds: 1 (batches overlap). Bytes per bit j of a row and direction: those
of w - j bits per column, 1, 2, 4 or 8, and 8 for each further limb. Operations per bit: 3 hash
blocks per 16 such bytes.
"""

from itertools import groupby

import numpy as np

from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Run, Sending, top_bytes
from ppodc.mpc.ot.static_ot import StridedKeys
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import LIMB_BITS, U64, AdditiveShare
from ppodc.mpc.shares.multiply import doublings
from ppodc.mpc.shares.unmask import SharedTable


def products(
    session: Session, table: SharedTable, start: int, end: int, matrix: AdditiveShare, width: int
) -> AdditiveShare:
    """(rows start..end-1) . matrix (columns of the table, c): (rows, c), right modulo 2^width."""
    rows, (_, columns, limbs) = end - start, matrix.limbs.shape
    bits = table.choices(start, end).reshape(-1, table.bits)
    keys = table.transfers.starting_at(0)
    runs, places = [], _places(table.bits, width)
    for low, high in places:
        count = high - low
        choices = np.ascontiguousarray(bits[:, low:high]).reshape(-1)
        sums = np.zeros((rows, columns * limbs), U64)
        first = session.ot.tweaks.reserve(len(choices))
        batch = Batch(
            len(choices), table.columns * count, limbs, first, sums, top_bytes(width - low)
        )
        sending = Sending(doublings(matrix.limbs, count), choices)
        own = StridedKeys(keys, table.bits, start * table.columns, count, low)
        runs.append(Run(own, batch, sending, choices))
    correlated_ot.run_all(session.ot, runs)
    parts = [AdditiveShare(run.batch.sums.reshape(rows, columns, limbs)) for run in runs]
    total = parts[0]
    for (low, _), part in zip(places[1:], parts[1:], strict=True):
        total = total + part.times(1 << low)
    return total


def value_bytes(bits: int, width: int) -> int:
    """Bytes each way that the bits of a value take for one column, modulo 2^width <= 2^64."""
    return sum((high - low) * top_bytes(width - low) for low, high in _places(bits, width))


def _places(bits: int, width: int) -> list[tuple[int, int]]:
    """Bits that go together, start and end: products with them take as many bytes."""
    if width > LIMB_BITS:
        return [(0, bits)]
    groups = groupby(range(min(bits, width)), lambda j: top_bytes(width - j))
    found = [list(group) for _, group in groups]
    return [(group[0], group[-1] + 1) for group in found]
