"""After an iteration: empty clusters, the stop test (SETC), output and labels.

*Re-seeding*: b = [count = 0] is the sign of count - 1; b times the candidate is added.

*Stop test* (Eq. 5.5): with e_h[s] = |c'_h| lambda_h[s] - |c_h| lambda'_h[s] and
E_h = sum_s e_h[s]^2 (small numbers), g_h = alpha_h alpha'_h and f = alpha alpha', the loop stops
when q sum_h g_h^2 E_h <= p f^2 for beta = p / q. One bit is opened.

Who learns what: both clouds learn the stop bit, nobody that a cluster was empty. Rounds: about
50, most of them inside `scaling`. Supplies: O(k l) products, see `needs`.
"""

import numpy as np

from ppodc.errors import WireError
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.scaling import Scaled, widen, widen_needs
from ppodc.mpc import compare, multiply, select
from ppodc.mpc.additive import AdditiveShare, Words, public
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs, Stock
from ppodc.mpc.xor_bits import XorShare

_STOP, _MASK = "shares.stop", "shares.output-mask"
_COUNT_BITS = 63


def reseed_needs(k: int) -> Needs:
    """Supplies of `reseed`."""
    return compare.needs(k, _COUNT_BITS) + select.needs(k)


def reseed(session: Session, stock: Stock, sums: Words, candidates: Words) -> Words:
    """Clusters (k, l + 1) in which an empty one has become its candidate."""
    k = len(sums)
    one = public([1] * k, 1, session.role)
    empty = compare.sign(session, stock, AdditiveShare(sums[:, -1:].copy()) - one, _COUNT_BITS)
    rows = AdditiveShare(np.ascontiguousarray(candidates)[..., None])
    added = select.select(session, stock, empty.unpack(k), rows)
    clusters: Words = sums + added.limbs[..., 0]
    return clusters


def stop_needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `stop_test`."""
    return (
        multiply.needs(2 * k, rings.movement)
        + multiply.needs(k * l, rings.movement)
        + widen_needs(k, rings.movement, rings.stop)
        + multiply.needs(2 * (k + 1) + k, rings.stop)
        + compare.needs(1, rings.stop_bits)
    )


def stop_test(session: Session, stock: Stock, old: Scaled, new: Scaled, rings: Rings) -> bool:
    """Whether the centres moved by at most beta in all; both clouds learn it."""
    moved = widen(session, stock, _movements(session, stock, old, new, rings.movement), rings.stop)
    ours = AdditiveShare.concat([old.alphas, old.alpha])
    theirs = AdditiveShare.concat([new.alphas, new.alpha])
    scales = multiply.multiply(session, stock, ours, theirs)
    squares = multiply.multiply(session, stock, scales, scales)
    left = multiply.multiply(session, stock, squares[:-1], moved).sum()
    right = squares[-1:]
    gap = right.times(rings.beta.numerator) - left.reshape(1).times(rings.beta.denominator)
    return not _open(session, compare.sign(session, stock, gap, rings.stop_bits))


def _movements(
    session: Session, stock: Stock, old: Scaled, new: Scaled, limbs: int
) -> AdditiveShare:
    """E_h for each cluster."""
    k, l = old.sums.shape
    counts = AdditiveShare.concat([new.counts, old.counts]).low(limbs)
    sums = AdditiveShare.concat([old.sums, new.sums]).low(limbs)
    crossed = multiply.scale(session, stock, counts, sums)
    gaps = (crossed[:k] - crossed[k:]).reshape(k * l)
    return multiply.multiply(session, stock, gaps, gaps).reshape(k, l).sum(axis=1)


def _open(session: Session, share: XorShare) -> bool:
    """The first bit, told to both clouds."""
    own = (share.words[:1] & np.uint64(1)).astype(np.uint8)
    other = session.link.exchange(_STOP, own)
    if other[0] > 1:
        raise WireError("the peer's share of the stop bit is no bit; stop both clouds.")
    return bool((own ^ other)[0])


def remask(session: Session, values: Words) -> Words:
    """Fresh shares of the same numbers modulo 2^64: owners see no share the protocol used."""
    if session.role == 1:
        mask = session.random.uint64(values.shape)
        session.link.send(_MASK, mask)
        return values + mask
    return values - session.link.receive(_MASK, np.uint64, *values.shape)


def label_needs(rows: int, k: int) -> Needs:
    """Supplies of `labels`."""
    return select.needs(rows * (k - 1).bit_length())


def labels(session: Session, stock: Stock, hot: list[XorShare], rows: int) -> Words:
    """Additive shares modulo 2^64 of the index of each record's cluster."""
    width = (len(hot) - 1).bit_length()
    if width == 0:
        return np.zeros(rows, np.uint64)
    planes = np.empty((rows, width), np.uint8)
    for j in range(width):
        words = np.zeros_like(hot[0].words)
        for h, member in enumerate(hot):
            if h >> j & 1:
                words ^= member.words
        planes[:, j] = XorShare(words).unpack(rows)
    powers = public([1 << j for j in range(width)], 1, session.role).reshape(width, 1)
    chosen = select.select(session, stock, planes.reshape(-1), powers, width)
    return chosen.limbs[:, 0, 0]
