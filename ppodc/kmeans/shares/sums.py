"""SMP with the one-hot: sums and counts of the records of each cluster, modulo 2^64.

lambda_h = sum_i b_h(i) t_i and |c_h| = sum_i b_h(i), with b_h the one-hot of SMIN_k: one select
per record and cluster but the last, with the row (t[1..l], 1), added up at once. The last cluster
is the total, which needs no message, less the others.

A large shard's are added up modulo 2^32 where they stay below half of that, and widened at the end:
half the bytes for two more rounds.

Who learns what: nothing. Rounds: 2. Bytes per record, cluster and direction: 8 (l + 1), or half as
many. Supplies: k - 1 transfers per record; k (l + 1) to widen.
"""

from collections.abc import Sequence

import numpy as np

from ppodc.mpc import select, widen
from ppodc.mpc.additive import U64, AdditiveShare, Words
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import XorShare

WORD_BYTES = 8
LARGE = 1 << 15  # rows from which on half the bytes are worth two rounds


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


def sum_bytes(rows: int, ub: int) -> int:
    """Bytes of a sum over a shard's rows that are computed: 4 where that is enough and worth it."""
    return 4 if rows >= LARGE and rows * ub < 1 << 31 else WORD_BYTES


def widened(session: Session, sums: Words) -> Words:
    """Sums modulo 2^32, modulo 2^64."""
    flat = AdditiveShare(sums.reshape(-1, 1))
    return widen.widen(session, flat, 1, 32).limbs.reshape(sums.shape)


def sums(session: Session, table: Words, hot: Sequence[XorShare], size: int = WORD_BYTES) -> Words:
    """This cloud's shares of the clusters' sums and counts, from rows (t, 1): (k, l + 1).

    Right modulo 2^(8 size).
    """
    out = np.empty((len(hot), table.shape[1]), U64)
    # the sum over all records
    out[-1] = table.sum(axis=0, dtype=U64)
    if len(hot) > 1:
        # sum_i b_h(i) (t_i, 1) for all clusters but the last
        rows = AdditiveShare(table[..., None])
        chosen = select.sum_selected(session, hot[:-1], rows, size)
        out[:-1] = chosen.limbs[..., 0]
        out[-1] -= out[:-1].sum(axis=0, dtype=U64)
    return out
