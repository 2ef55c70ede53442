"""The stop test (SETC): whether the centres moved by at most beta in all.

With e_h[s] = |c'_h| lambda_h[s] - |c_h| lambda'_h[s] and E_h = sum_s e_h[s]^2, small numbers:

*beta = 0*: no centre moved, that is sum_h E_h = 0 (`mpc.zero_test`). With two clusters or more the
E_h come from `new_centres`.

*beta = p / q > 0* (Eq. 5.5): with alpha = prod_h |c_h| and alpha_h = prod_(g != h) |c_g| by a
product tree, g_h = alpha_h alpha'_h and f = alpha alpha', stop when q sum_h g_h^2 E_h <= p f^2.

Who learns what: both clouds learn the stop bit, nothing else. Rounds: 1 for each of two products, 4
for the test, 1 to open; for beta > 0 those of a comparison and about 4 log2(k) + 8. Bytes: those of
k products with l columns and k l squares; for beta > 0 also those of about 6 k products of
stop-test size, which grows with k. Supplies: see `needs`, `factor_needs`.
"""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from ppodc.errors import WireError
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.scaling import Wide
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, multiply, widen, zero_test
from ppodc.mpc.shares.additive import LIMB_BITS, AdditiveShare, public
from ppodc.mpc.shares.look_up import drained
from ppodc.mpc.supplies import Needs

_STOP = "shares.stop"


@dataclass(frozen=True, slots=True, repr=False)
class Factors:
    """The scaling factors of clusters, in the ring of the stop test for beta > 0."""

    alpha: AdditiveShare  # (1)
    alphas: AdditiveShare  # (k)


def factor_needs(k: int, rings: Rings) -> Needs:
    """Supplies of `factors`."""
    return multiply.needs(_tree_products(k), rings.stop)


def factors(session: Session, wide: Wide, rings: Rings) -> Factors:
    """alpha and alpha_h of clusters."""
    return Factors(*products(session, wide.counts.low(rings.stop)))


def needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `unmoved` (beta = 0) or of `moved_little`."""
    movements = multiply.needs(2 * k, rings.movement) + multiply.needs(k * l, rings.movement)
    if not rings.beta:
        return movements + still_needs(rings)
    return (
        movements
        + widen.needs(k, LIMB_BITS * rings.movement, rings.stop)
        + multiply.needs(2 * (k + 1) + k, rings.stop)
        + compare.needs(1, rings.stop_bits)
    )


def unmoved(session: Session, old: Wide, new: Wide, rings: Rings) -> bool:
    """Whether no centre moved; both clouds learn it."""
    return drained(all_still(session, _movements(session, old, new, rings.movement), rings))


def still_needs(rings: Rings) -> Needs:
    """Supplies of `all_still`."""
    return zero_test.needs(1, rings.movement_bits)


def all_still(
    session: Session, movements: AdditiveShare, rings: Rings
) -> Generator[None, None, bool]:
    """[sum_h E_h = 0], opened; with a stop in each of its waits."""
    total = movements.sum().reshape(1)
    share = yield from zero_test.all_zero_rounds(session, total, rings.movement_bits)
    return (yield from _open(session, share))


def moved_little(
    session: Session, clusters: tuple[Wide, Wide], scales: tuple[Factors, Factors], rings: Rings
) -> bool:
    """Whether the centres moved by at most beta > 0, from old and new; both clouds learn it."""
    # E_h, in the ring of the test
    moved = widen.widen(session, _movements(session, *clusters, rings.movement), rings.stop)
    # g_h = alpha_h alpha'_h and f = alpha alpha', then their squares
    ours, theirs = (AdditiveShare.concat([scale.alphas, scale.alpha]) for scale in scales)
    both = multiply.multiply(session, ours, theirs)
    squares = multiply.multiply(session, both, both)
    # sum_h g_h^2 E_h, and f^2
    left = multiply.multiply(session, squares[:-1], moved).sum()
    right = squares[-1:]
    # open the sign of p f^2 - q sum_h g_h^2 E_h
    gap = right.times(rings.beta.numerator) - left.reshape(1).times(rings.beta.denominator)
    negative = compare.sign(session, gap, rings.stop_bits)
    return not drained(_open(session, int(negative.words[0]) & 1))


def _movements(session: Session, old: Wide, new: Wide, limbs: int) -> AdditiveShare:
    """E_h = sum_s (|c'_h| lambda_h[s] - |c_h| lambda'_h[s])^2 for each cluster."""
    k, l = old.sums.shape
    counts = AdditiveShare.concat([new.counts, old.counts]).low(limbs)
    sums = AdditiveShare.concat([old.sums, new.sums]).low(limbs)
    crossed = multiply.scale(session, counts, sums)
    gaps = (crossed[:k] - crossed[k:]).reshape(k * l)
    return multiply.multiply(session, gaps, gaps).reshape(k, l).sum(axis=1)


def _open(session: Session, share: int) -> Generator[None, None, bool]:
    """A shared bit, told to both clouds."""
    own = np.array([share], np.uint8)
    session.link.send(_STOP, own)
    yield
    other = session.link.receive(_STOP, np.uint8, 1)
    if other[0] > 1:
        raise WireError("the other cloud's share of the stop bit is no bit.")
    return bool((own ^ other)[0])


def _tree_products(k: int) -> int:
    """Products that `products` takes."""
    total, sizes = 0, [k]
    while sizes[-1] > 1:
        total += sizes[-1] // 2
        sizes.append(-(-sizes[-1] // 2))
    for size in sizes[-3::-1]:
        total += 2 * (size // 2)
    return total


def products(session: Session, values: AdditiveShare) -> tuple[AdditiveShare, AdditiveShare]:
    """The product of all values, and for each value the product of all others.

    Up a tree, each node is the product of its two children; down again, what lies outside a node
    is (outside of its parent) * (its sibling).
    """
    levels = [values]
    while len(levels[-1].limbs) > 1:
        below = levels[-1]
        pairs = 2 * (len(below.limbs) // 2)
        joined = multiply.multiply(session, below[0:pairs:2], below[1:pairs:2])
        levels.append(AdditiveShare.concat([joined, below[pairs:]]))
    above = public([1], values.length, session.role)  # what lies outside the root
    for depth, level in enumerate(reversed(levels[:-1])):
        pairs = 2 * (len(level.limbs) // 2)
        siblings = np.empty_like(level.limbs)
        siblings[0:pairs:2], siblings[1:pairs:2] = level.limbs[1:pairs:2], level.limbs[0:pairs:2]
        outside = siblings[:pairs]
        if depth > 0:
            parents = AdditiveShare(np.repeat(above.limbs[: pairs // 2], 2, axis=0))
            outside = multiply.multiply(session, parents, AdditiveShare(outside)).limbs
        # The odd one out has the same outside as its parent, which is itself.
        above = AdditiveShare(np.concatenate([outside, above.limbs[pairs // 2 :]]))
    return levels[-1], above
