"""Re-seeding: b = [count < 1], the sign of count - 1, times the candidate is added.

Who learns what: nothing, not even that a cluster was empty. Rounds: those of a comparison and a
select. Bytes and supplies: theirs, k of each.
"""

import numpy as np

from ppodc.mpc import compare, select
from ppodc.mpc.additive import AdditiveShare, Words, public
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import XorShare

_COUNT_BITS = 63  # of a count, or of what it lacks to a public number


def small_needs(k: int) -> Needs:
    """Supplies of `small` and a select by it."""
    return compare.needs(k, _COUNT_BITS) + select.needs(k)


def small(session: Session, sums: Words, least: int) -> XorShare:
    """b_h = [|c_h| - least < 0] for each of the clusters (k, l + 1)."""
    counts = AdditiveShare(sums[:, -1:].copy())
    return compare.sign(session, counts - public([least] * len(sums), 1, session.role), _COUNT_BITS)


def reseed(session: Session, sums: Words, candidates: Words) -> Words:
    """Clusters (k, l + 1) in which an empty one has become its candidate."""
    empty = small(session, sums, 1)
    # (lambda_h, |c_h|) + b_h (candidate_h, 1)
    rows = AdditiveShare(np.ascontiguousarray(candidates)[..., None])
    added = select.select(session, empty.unpack(len(sums)), rows)
    clusters: Words = sums + added.limbs[..., 0]
    return clusters
