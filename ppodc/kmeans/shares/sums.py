"""SMP with the one-hot: sums and counts of the records of each cluster, in Z_2^64.

One select per record and cluster but the last, with the row (t[1..l], 1), added up at once; the
last cluster is the total less the others.

Who learns what: nothing. Rounds: 2. Bytes per record, cluster and direction: 8 (l + 1).
Supplies: k - 1 transfers per record.
"""

from collections.abc import Sequence

import numpy as np

from ppodc.mpc.additive import U64, AdditiveShare, Words
from ppodc.mpc.select import select
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs, Stock
from ppodc.mpc.xor_bits import XorShare


def needs(rows: int, k: int) -> Needs:
    """Supplies for `rows` records."""
    return Needs(transfers=rows * (k - 1))


def with_count(session: Session, values: AdditiveShare) -> Words:
    """Rows (t[1..l], 1) modulo 2^64: (rows, l + 1)."""
    rows, attributes = values.shape
    table = np.empty((rows, attributes + 1), U64)
    table[:, :attributes] = values.limbs[..., 0]
    table[:, attributes] = 1 if session.role == 1 else 0
    return table


def sums(session: Session, stock: Stock, values: AdditiveShare, hot: Sequence[XorShare]) -> Words:
    """This cloud's shares of the clusters' sums and counts: (k, l + 1)."""
    table = with_count(session, values)
    rows = len(table)
    out = np.empty((len(hot), table.shape[1]), U64)
    out[-1] = table.sum(axis=0, dtype=U64)
    if len(hot) > 1:
        bits = np.concatenate([member.unpack(rows) for member in hot[:-1]])
        chosen = select(session, stock, bits, AdditiveShare(table[..., None]), rows)
        out[:-1] = chosen.limbs[..., 0]
        out[-1] -= out[:-1].sum(axis=0, dtype=U64)
    return out
