"""Outputs for owners: fresh shares of sums and counts, and shares of the records' labels.

Sums and counts go out freshly masked (`mpc.remask`). *Small clusters*: b = [count < min_size] is
the sign of count - min_size; (1 - b) times sums and count go out, and where the spec offers the
inertia the sum over clusters of (1 - b) sum ||x||^2, from which an owner computes it for the
clusters that it is told of. Rounds: those of a comparison
and a select. Supplies: see `update.small_needs`.

*Labels*: bit j of a record's label is the xor of the one-hot's members h with bit j set, local;
the label sum_j 2^j bit_j is one select per bit. Rounds: 2. Bytes per bit of a label and
direction: 8 and a bit. Supplies: ceil(log2 k) transfers per record.

Who learns what: nothing, nor whether a cluster was small; only an owner adds up two halves. An
owner cannot tell a small cluster from an empty one, unless a label says that a row of its own is in
it. Labels of such rows stay as they are: the owner learns that its own row lies in a cluster of
fewer than `min_size` records, and a label that hid which one would tell it that as well.
"""

import numpy as np

from ppodc.kmeans.shares.update import small
from ppodc.mpc.session import Session
from ppodc.mpc.shares import select
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public
from ppodc.mpc.shares.xor_bits import XorShare
from ppodc.mpc.supplies import Needs


def large(session: Session, sums: U64Array, least: int, count: int) -> U64Array:
    """Clusters (k, columns), the count in one of them, with zeros for those of fewer records."""
    # (1 - b_h) (lambda_h, |c_h|, ...) with b_h = [|c_h| < least]
    counted = sums[:, : count + 1]
    bits = small(session, counted, least).negated(session.role).unpack(len(sums))
    kept = select.select(session, bits, AdditiveShare(np.ascontiguousarray(sums)[..., None]))
    return kept.limbs[..., 0]


def label_needs(rows: int, k: int) -> Needs:
    """Supplies of `labels`."""
    return select.needs(rows * (k - 1).bit_length())


def labels(session: Session, hot: list[XorShare], rows: int) -> U64Array:
    """Additive shares modulo 2^64 of the index of each record's cluster."""
    width = (len(hot) - 1).bit_length()
    if width == 0:
        return np.zeros(rows, U64)
    planes = np.empty((rows, width), np.uint8)
    for j in range(width):
        # bit j of the label: xor of the members h that have it
        words = np.zeros_like(hot[0].words)
        for h, member in enumerate(hot):
            if h >> j & 1:
                words ^= member.words
        planes[:, j] = XorShare(words).unpack(rows)
    # sum_j 2^j bit_j
    powers = public([1 << j for j in range(width)], 1, session.role).reshape(width, 1)
    chosen = select.select(session, planes.reshape(-1), powers, width)
    return chosen.limbs[:, 0, 0]
