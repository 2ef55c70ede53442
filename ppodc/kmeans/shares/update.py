"""After an iteration: empty clusters and the stop test (SETC).

*Re-seeding*: b = [count = 0] is the sign of count - 1; b times the candidate is added.

*Stop test* (Eq. 5.5): with e_h[s] = |c'_h| lambda_h[s] - |c_h| lambda'_h[s] and
E_h = sum_s e_h[s]^2 (small numbers), g_h = alpha_h alpha'_h and f = alpha alpha', the loop stops
when q sum_h g_h^2 E_h <= p f^2 for beta = p / q. One bit is opened.

Who learns what: both clouds learn the stop bit, nobody that a cluster was empty. Rounds: about
50, most of them inside `scaling`. Bytes: those of 3 k + 2 products of stop-test size and
k (l + 2) smaller ones (`multiply`). Supplies: see `reseed_needs`, `stop_needs`.
"""

import numpy as np

from ppodc.errors import WireError
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.scaling import Scaled
from ppodc.mpc import compare, multiply, select, widen
from ppodc.mpc.additive import AdditiveShare, Words, public
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import XorShare

_STOP = "shares.stop"
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


def stop_needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `stop_test`."""
    return (
        multiply.needs(2 * k, rings.movement)
        + multiply.needs(k * l, rings.movement)
        + widen.needs(k, rings.movement, rings.stop)
        + multiply.needs(2 * (k + 1) + k, rings.stop)
        + compare.needs(1, rings.stop_bits)
    )


def stop_test(session: Session, old: Scaled, new: Scaled, rings: Rings) -> bool:
    """Whether the centres moved by at most beta in all; both clouds learn it."""
    # E_h, in the ring of the test
    moved = widen.widen(session, _movements(session, old, new, rings.movement), rings.stop)
    # g_h = alpha_h alpha'_h and f = alpha alpha', then their squares
    ours = AdditiveShare.concat([old.alphas, old.alpha])
    theirs = AdditiveShare.concat([new.alphas, new.alpha])
    scales = multiply.multiply(session, ours, theirs)
    squares = multiply.multiply(session, scales, scales)
    # sum_h g_h^2 E_h, and f^2
    left = multiply.multiply(session, squares[:-1], moved).sum()
    right = squares[-1:]
    # open the sign of p f^2 - q sum_h g_h^2 E_h
    gap = right.times(rings.beta.numerator) - left.reshape(1).times(rings.beta.denominator)
    return not _open(session, compare.sign(session, gap, rings.stop_bits))


def _movements(session: Session, old: Scaled, new: Scaled, limbs: int) -> AdditiveShare:
    """E_h = sum_s (|c'_h| lambda_h[s] - |c_h| lambda'_h[s])^2 for each cluster."""
    k, l = old.sums.shape
    counts = AdditiveShare.concat([new.counts, old.counts]).low(limbs)
    sums = AdditiveShare.concat([old.sums, new.sums]).low(limbs)
    crossed = multiply.scale(session, counts, sums)
    gaps = (crossed[:k] - crossed[k:]).reshape(k * l)
    return multiply.multiply(session, gaps, gaps).reshape(k, l).sum(axis=1)


def _open(session: Session, share: XorShare) -> bool:
    """The first bit, told to both clouds."""
    own = (share.words[:1] & np.uint64(1)).astype(np.uint8)
    other = session.link.exchange(_STOP, own)
    if other[0] > 1:
        raise WireError("the peer's share of the stop bit is no bit; stop both clouds.")
    return bool((own ^ other)[0])
