"""Re-seeding: b = [count = 0], the sign of count - 1, times the candidate is added.

Who learns what: nothing, not even that a cluster was empty. Rounds: those of a comparison and a
select. Bytes and supplies: theirs, k of each.
"""

import numpy as np

from ppodc.mpc import compare, select
from ppodc.mpc.additive import AdditiveShare, Words, public
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs

_COUNT_BITS = 63


def reseed_needs(k: int) -> Needs:
    """Supplies of `reseed`."""
    return compare.needs(k, _COUNT_BITS) + select.needs(k)


def reseed(session: Session, sums: Words, candidates: Words) -> Words:
    """Clusters (k, l + 1) in which an empty one has become its candidate."""
    k = len(sums)
    # b_h = [|c_h| - 1 < 0]
    one = public([1] * k, 1, session.role)
    empty = compare.sign(session, AdditiveShare(sums[:, -1:].copy()) - one, _COUNT_BITS)
    # (lambda_h, |c_h|) + b_h (candidate_h, 1)
    rows = AdditiveShare(np.ascontiguousarray(candidates)[..., None])
    added = select.select(session, empty.unpack(k), rows)
    clusters: Words = sums + added.limbs[..., 0]
    return clusters
