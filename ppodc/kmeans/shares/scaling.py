"""Cluster-scale terms of SSED_OP: scaling factors, and the centres' matrix and constants.

From shares modulo 2^64 of the sums lambda_h and counts |c_h|: the same in a wider ring (`widen`),
alpha = prod_h |c_h| and alpha_h = prod_(g != h) |c_g| by a product tree, then with
A_h = alpha_h lambda_h the matrix V_h = -2 alpha A_h and the constants ||A_h||^2, less those of
cluster 0.

Who learns what: nothing. Rounds: about 4 log2(k) + 20. Bytes: those of about 3 k products of
stop-test size, 4 k of distance size and k l squares (`multiply`); k l numbers are widened.
Supplies: see `scale_needs`, `centre_needs`.
"""

from dataclasses import dataclass

import numpy as np

from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc import multiply, widen
from ppodc.mpc.additive import AdditiveShare, Words, public
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs


@dataclass(frozen=True, slots=True, repr=False)
class Scaled:
    """Clusters in the ring of the stop test, with their scaling factors."""

    sums: AdditiveShare  # (k, l)
    counts: AdditiveShare  # (k)
    alpha: AdditiveShare  # (1)
    alphas: AdditiveShare  # (k)


@dataclass(frozen=True, slots=True, repr=False)
class Centres:
    """What SSED_OP needs of the centres: V_h - V_0 (l, k - 1) and constants (k - 1)."""

    directions: AdditiveShare
    constants: AdditiveShare


def scale_needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `scale`."""
    products = _tree_products(k)
    return widen.needs(k * (l + 1), 1, rings.stop) + multiply.needs(products, rings.stop)


def scale(session: Session, clusters: Words, rings: Rings) -> Scaled:
    """Clusters (k, l + 1), shares modulo 2^64, with their scaling factors."""
    k, columns = clusters.shape
    wide = widen.widen(session, AdditiveShare(clusters.reshape(-1, 1)), rings.stop)
    table = wide.reshape(k, columns)
    counts = AdditiveShare(np.ascontiguousarray(table.limbs[:, -1]))
    alpha, alphas = _products(session, counts)
    return Scaled(AdditiveShare(table.limbs[:, :-1]), counts, alpha, alphas)


def centre_needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `centres`."""
    return (
        multiply.needs(k * l, rings.norm)
        + widen.needs(k, rings.norm, rings.distance)
        + multiply.needs(2 * k, rings.distance)  # alpha_h^2 and alpha alpha_h
        + multiply.needs(2 * k, rings.distance)  # directions and constants
    )


def centres(session: Session, scaled: Scaled, rings: Rings) -> Centres:
    """The centres' matrix and constants in the ring of the distances."""
    k, l = scaled.sums.shape
    ring = rings.distance
    # ||lambda_h||^2, in the small ring that holds it, then in that of the distances
    narrow = scaled.sums.low(rings.norm).reshape(k * l)
    squares = multiply.multiply(session, narrow, narrow).reshape(k, l)
    norms = widen.widen(session, squares.sum(axis=1), ring)
    alphas, alpha = scaled.alphas.low(ring), scaled.alpha.low(ring)
    # alpha_h^2 and alpha alpha_h, in one go
    factors = AdditiveShare.concat([alphas, AdditiveShare(np.repeat(alpha.limbs, k, axis=0))])
    twice = AdditiveShare.concat([alphas, alphas])
    scaled_twice = multiply.multiply(session, factors, twice)
    # ||A_h||^2 = alpha_h^2 ||lambda_h||^2 and V_h = -2 alpha alpha_h lambda_h
    constants = multiply.multiply(session, scaled_twice[:k], norms)
    directions = multiply.scale(session, scaled_twice[k:], scaled.sums.low(ring)).times(-2)
    return Centres(
        AdditiveShare(np.ascontiguousarray(np.moveaxis(_less_first(directions).limbs, 0, 1))),
        _less_first(constants),
    )


def _less_first(values: AdditiveShare) -> AdditiveShare:
    return values[1:] - values[0:1]


def _tree_products(k: int) -> int:
    """Products that `_products` takes."""
    total, sizes = 0, [k]
    while sizes[-1] > 1:
        total += sizes[-1] // 2
        sizes.append(-(-sizes[-1] // 2))
    for size in sizes[-3::-1]:
        total += 2 * (size // 2)
    return total


def _products(session: Session, values: AdditiveShare) -> tuple[AdditiveShare, AdditiveShare]:
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
