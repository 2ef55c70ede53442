"""Re-seeding: b = [count < 1] times the candidate is added.

b is the sign of count - 1. Where centres are computed beside, `new_centres` does the same.

Who learns what: nothing, not even that a cluster was empty. Rounds: those of a comparison and of a
select. Bytes and supplies: theirs, k of each.
"""

import numpy as np

from ppodc.kmeans.shares.ring_sizes import cut
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, select
from ppodc.mpc.shares.additive import AdditiveShare, U64Array, public
from ppodc.mpc.shares.xor_bits import XorShare
from ppodc.mpc.supplies import Needs

_COUNT_BITS = 31  # of a count, and of what it lacks to a public number of as many bits


def small_needs(k: int) -> Needs:
    """Supplies of `small` and a select by it."""
    return compare.needs(k, _COUNT_BITS) + select.needs(k)


def small(session: Session, sums: U64Array, least: int) -> XorShare:
    """b_h = [|c_h| - least < 0] for each of the clusters (k, l + 1)."""
    counts = AdditiveShare(sums[:, -1:].copy())
    return compare.sign(session, counts - public([least] * len(sums), 1, session.role), _COUNT_BITS)


def empty(session: Session, sums: U64Array) -> Bits:
    """b_h = [|c_h| < 1]."""
    return small(session, sums, 1).unpack(len(sums))


def reseed(
    session: Session, sums: U64Array, candidates: U64Array, empty: Bits, bits: int
) -> U64Array:
    """Clusters (k, l + 1) in which an empty one has become its candidate, modulo 2^bits."""
    # (lambda_h, |c_h|) + b_h (candidate_h, 1)
    rows = AdditiveShare(np.ascontiguousarray(candidates)[..., None])
    added = select.select(session, empty, rows, top=bits // 8)
    return cut(sums + added.limbs[..., 0], bits)
