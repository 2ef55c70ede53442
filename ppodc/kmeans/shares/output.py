"""Outputs for owners: fresh shares of sums and counts, and shares of the records' labels.

Sums and counts go out freshly masked (`mpc.remask`). *Small clusters*, for each owner o: n_o is the
number of the cluster's records that are not o's, b_o = [n_o < min_size] the sign of n_o - min_size;
(1 - b_o) times sums and count go out to o, and where the spec offers the inertia the sum over
clusters of (1 - b_o) sum ||x||^2, from which an owner computes it for the clusters that it is told
of. Counting o's own records would protect nobody from o: it knows them and subtracts them.
Rounds: those of a comparison and a select. Supplies: those of k comparisons and selects an owner
(`update.small_needs`).

*Members*: the number of o's records in a cluster, one select of a count for each record and cluster
but the last. Rounds: 1. Bytes per record, cluster and direction: 4 and a bit. Once a job and k.

*Labels*: bit j of a record's label is the xor of the one-hot's members h with bit j set, local;
the label sum_j 2^j bit_j is one select per bit. Rounds: 2. Bytes per bit of a label and
direction: 8 and a bit. Supplies: ceil(log2 k) transfers per record. Of joined rows it is the
label + 1, or 0 where a shared bit says that the row is not joined: half an AND pair a bit and a
round more.

Who learns what: nothing, nor whether a cluster was small to anybody; only an owner adds up two
halves. An owner cannot tell a small cluster from an empty one, unless a label says that a row of
its own is in it. Labels of such rows stay as they are: the owner learns that its own row lies in a
cluster with fewer than `min_size` records of others, and a label that hid which one would tell it
that as well.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.shares.ring_sizes import cut
from ppodc.kmeans.shares.update import small
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import and_bits, select
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public
from ppodc.mpc.shares.xor_bits import XorShare, pack
from ppodc.mpc.supplies import Needs

_COUNT_BYTES = 4  # of a number of records


def large(session: Session, counts: U64Array, least: int) -> Bits:
    """1 - b_oh = [counts_oh >= least] of counts (n, k), which are right modulo 2^32."""
    flat = counts.reshape(-1, 1)
    return small(session, flat, least).negated(session.role).unpack(len(flat)).reshape(counts.shape)


def told_to_each(session: Session, sums: U64Array, told: Bits) -> U64Array:
    """Clusters (k, columns) for each of n owners, zeros where its bit (n, k) is 0."""
    # (1 - b_oh) (lambda_h, |c_h|, ...)
    rows = AdditiveShare(np.ascontiguousarray(sums)[..., None])
    return select.select(session, told.reshape(-1), rows).limbs[..., 0].reshape(*told.shape, -1)


def members(
    session: Session,
    counts: U64Array,
    hot: Sequence[XorShare],
    whose: NDArray[np.int64],
    owners: int,
) -> U64Array:
    """The number of rows in each cluster, by owner: (k, owners) modulo 2^32.

    `counts` (rows) are shares of 1, or of 0 for a row that does not count; `whose` has the number
    of each row's owner.
    """
    by_row = np.empty((len(hot), len(counts)), U64)
    by_row[-1] = counts
    if len(hot) > 1:
        # b_h(i) for all clusters but the last
        bits = np.concatenate([member.unpack(len(counts)) for member in hot[:-1]])
        ones = AdditiveShare(np.ascontiguousarray(counts).reshape(-1, 1, 1))
        chosen = select.select(session, bits, ones, top=_COUNT_BYTES).limbs
        by_row[:-1] = chosen.reshape(len(hot) - 1, -1)
        by_row[-1] -= by_row[:-1].sum(axis=0, dtype=U64)
    out = np.zeros((owners, len(hot)), U64)
    first = np.append(0, np.flatnonzero(np.diff(whose)) + 1)  # of the rows of one owner in a row
    np.add.at(out, whose[first], np.add.reduceat(by_row, first, axis=1, dtype=U64).T)
    return cut(out.T, 8 * _COUNT_BYTES)


def label_needs(rows: int, k: int) -> Needs:
    """Supplies of `labels` from 0 to k - 1."""
    return select.needs(rows * (k - 1).bit_length())


def labels(session: Session, hot: list[XorShare], rows: int, told: Bits | None = None) -> U64Array:
    """Additive shares modulo 2^64 of the index of each record's cluster.

    With `told`, shared bits: 1 + that index where the bit is 1, and 0 elsewhere.
    """
    first = int(told is not None)  # the number of the first cluster
    width = (len(hot) - 1 + first).bit_length()
    if width == 0:
        return np.zeros(rows, U64)
    bits = []
    for j in range(width):
        # bit j of the label: xor of the members h that have it
        words = np.zeros_like(hot[0].words)
        for h, member in enumerate(hot, first):
            if h >> j & 1:
                words ^= member.words
        bits.append(XorShare(words))
    if told is not None:
        packed = pack(told)
        factor = XorShare(np.zeros_like(hot[0].words))  # which may be longer
        factor.words[: len(packed)] = packed
        pairs = [(factor, bits[j : j + 2]) for j in range(0, width, 2)]
        bits = [bit for both in and_bits.and_all(session, pairs) for bit in both]
    planes = np.stack([bit.unpack(rows) for bit in bits], axis=1)
    # sum_j 2^j bit_j
    powers = public([1 << j for j in range(width)], 1, session.role).reshape(width, 1)
    chosen = select.select(session, planes.reshape(-1), powers, width)
    return chosen.limbs[:, 0, 0]
