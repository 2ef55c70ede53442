"""SMP with the one-hot: sums and counts of the records of each cluster, in Z_2^64.

lambda_h = sum_i b_h(i) t_i and |c_h| = sum_i b_h(i), with b_h the one-hot of SMIN_k: one select
per record and cluster but the last, with the row (t[1..l], 1), added up at once. The last cluster
is the total, which needs no message, less the others.

Who learns what: nothing. Rounds: 2. Bytes per record, cluster and direction: 8 (l + 1).
Supplies: k - 1 transfers per record.
"""

from collections.abc import Sequence

import numpy as np

from ppodc.mpc import select
from ppodc.mpc.additive import U64, AdditiveShare, Words
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import XorShare


def needs(rows: int, k: int) -> Needs:
    """Supplies for `rows` records."""
    return select.needs(rows * (k - 1))


def with_count(role: int, values: AdditiveShare) -> Words:
    """Rows (t[1..l], 1) modulo 2^64: (rows, l + 1). Local."""
    rows, attributes = values.shape
    table = np.empty((rows, attributes + 1), U64)
    table[:, :attributes] = values.limbs[..., 0]
    table[:, attributes] = 1 if role == 1 else 0
    return table


def sums(session: Session, table: Words, hot: Sequence[XorShare]) -> Words:
    """This cloud's shares of the clusters' sums and counts, from rows (t, 1): (k, l + 1)."""
    out = np.empty((len(hot), table.shape[1]), U64)
    # the sum over all records
    out[-1] = table.sum(axis=0, dtype=U64)
    if len(hot) > 1:
        # sum_i b_h(i) (t_i, 1) for all clusters but the last
        chosen = select.sum_selected(session, hot[:-1], AdditiveShare(table[..., None]))
        out[:-1] = chosen.limbs[..., 0]
        out[-1] -= out[:-1].sum(axis=0, dtype=U64)
    return out
