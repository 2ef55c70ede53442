"""SMP with the one-hot: sums and counts of the records of each cluster.

lambda_h = sum_i b_h(i) t_i and |c_h| = sum_i b_h(i), with b_h the one-hot of SMIN_k: one select
per record and cluster but the last, with the row (t[1..l], 1), added up at once. The last cluster
is the total, which needs no message, less the others.

They are right modulo 2^32 where that holds all sums of the job, and modulo 2^64 else
(`ring_sizes.sum_bits`). Whatever needs them in a larger ring widens them there; bits above the ring
hold parts of a cloud's own share and are cut off.

Who learns what: nothing. Rounds: 1. Bytes per record, cluster and direction: 4 (l + 1), or 8
(l + 1). Supplies: k - 1 transfers per record.
"""

from collections.abc import Sequence

import numpy as np

from ppodc.kmeans.shares.ring_sizes import cut
from ppodc.mpc.session import Session
from ppodc.mpc.shares import select
from ppodc.mpc.shares.additive import LIMB_BITS, U64, AdditiveShare, U64Array
from ppodc.mpc.shares.xor_bits import XorShare
from ppodc.mpc.supplies import Needs


def needs(rows: int, k: int) -> Needs:
    """Supplies for `rows` records."""
    return select.needs(rows * (k - 1))


def with_count(role: int, values: AdditiveShare) -> U64Array:
    """Rows (t[1..l], 1) modulo 2^64: (rows, l + 1). Local."""
    rows, attributes = values.shape
    table = np.empty((rows, attributes + 1), U64)
    table[:, :attributes] = values.limbs[..., 0]
    table[:, attributes] = 1 if role == 1 else 0
    return table


def sums(
    session: Session, table: U64Array, hot: Sequence[XorShare], bits: int = LIMB_BITS
) -> U64Array:
    """This cloud's shares of the clusters' sums and counts, from rows (t, 1): (k, l + 1).

    Modulo 2^bits, 32 or 64.
    """
    out = np.empty((len(hot), table.shape[1]), U64)
    # the sum over all records
    out[-1] = table.sum(axis=0, dtype=U64)
    if len(hot) > 1:
        # sum_i b_h(i) (t_i, 1) for all clusters but the last
        rows = AdditiveShare(table[..., None])
        chosen = select.sum_selected(session, hot[:-1], rows, bits // 8)
        out[:-1] = chosen.limbs[..., 0]
        out[-1] -= out[:-1].sum(axis=0, dtype=U64)
    return cut(out, bits)
