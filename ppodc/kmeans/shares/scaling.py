"""Cluster-scale terms of SSED_OP: scaling factors, and the centres' matrix and constants.

From shares modulo 2^64 of the sums and counts: the same in a wider ring (`widen`), alpha = the
product of all counts and alpha_h = the product of all but the h-th by a product tree, then
V_h = -2 alpha alpha_h lambda_h and ||A_h||^2 = alpha_h^2 ||lambda_h||^2, less those of cluster 0.

Who learns what: nothing. Rounds: about 4 log2(k) + 20. Supplies: O(k l) products; see `needs`.
"""

from dataclasses import dataclass

import numpy as np

from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc import compare, multiply, select
from ppodc.mpc.additive import (
    LIMB_BITS,
    AdditiveShare,
    Words,
    public,
)
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs, Stock


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


def widen(session: Session, stock: Stock, values: AdditiveShare, limbs: int) -> AdditiveShare:
    """The same numbers 0..2^(64 L) - 1 modulo 2^(64 limbs), for any number of limbs.

    As integers x = x1 + x2 - 2^(64 L) * carry; the shared carry bit is selected into the new ring.
    """
    if limbs <= values.length:
        return values.low(limbs)
    width = LIMB_BITS * values.length
    count = len(values.limbs)
    carry = compare.carry(session, stock, values, width)
    modulus = public([1 << width], limbs, session.role).reshape(1, 1)
    overflow = select.select(session, stock, carry.unpack(count), modulus).reshape(-1)
    wide = np.zeros((count, limbs), np.uint64)
    wide[:, : values.length] = values.limbs
    return AdditiveShare(wide) - overflow


def widen_needs(count: int, length: int, limbs: int) -> Needs:
    """Supplies of `widen`."""
    if limbs <= length:
        return Needs()
    return compare.needs(count, LIMB_BITS * length) + select.needs(count)


def scale_needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `scale`."""
    products = _tree_products(k)
    return widen_needs(k * (l + 1), 1, rings.stop) + multiply.needs(products, rings.stop)


def scale(session: Session, stock: Stock, clusters: Words, rings: Rings) -> Scaled:
    """Clusters (k, l + 1), shares modulo 2^64, with their scaling factors."""
    k, columns = clusters.shape
    wide = widen(session, stock, AdditiveShare(clusters.reshape(-1, 1)), rings.stop)
    table = wide.reshape(k, columns)
    counts = AdditiveShare(np.ascontiguousarray(table.limbs[:, -1]))
    alpha, alphas = _products(session, stock, counts)
    return Scaled(AdditiveShare(table.limbs[:, :-1]), counts, alpha, alphas)


def centre_needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `centres`."""
    return (
        multiply.needs(k * l, rings.norm)
        + widen_needs(k, rings.norm, rings.distance)
        + multiply.needs(2 * k, rings.distance)  # alpha_h^2 and alpha alpha_h
        + multiply.needs(2 * k, rings.distance)  # directions and constants
    )


def centres(session: Session, stock: Stock, scaled: Scaled, rings: Rings) -> Centres:
    """The centres' matrix and constants in the ring of the distances."""
    k, l = scaled.sums.shape
    ring = rings.distance
    narrow = scaled.sums.low(rings.norm).reshape(k * l)
    squares = multiply.multiply(session, stock, narrow, narrow).reshape(k, l)
    norms = widen(session, stock, squares.sum(axis=1), ring)
    alphas, alpha = scaled.alphas.low(ring), scaled.alpha.low(ring)
    factors = AdditiveShare.concat([alphas, AdditiveShare(np.repeat(alpha.limbs, k, axis=0))])
    twice = AdditiveShare.concat([alphas, alphas])
    scaled_twice = multiply.multiply(session, stock, factors, twice)
    constants = multiply.multiply(session, stock, scaled_twice[:k], norms)
    directions = multiply.scale(session, stock, scaled_twice[k:], scaled.sums.low(ring)).times(-2)
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


def _products(
    session: Session, stock: Stock, values: AdditiveShare
) -> tuple[AdditiveShare, AdditiveShare]:
    """The product of all values, and for each value the product of all others."""
    levels = [values]
    while len(levels[-1].limbs) > 1:
        below = levels[-1]
        pairs = 2 * (len(below.limbs) // 2)
        joined = multiply.multiply(session, stock, below[0:pairs:2], below[1:pairs:2])
        levels.append(AdditiveShare.concat([joined, below[pairs:]]))
    above = public([1], values.length, session.role)  # what lies outside the root
    for depth, level in enumerate(reversed(levels[:-1])):
        pairs = 2 * (len(level.limbs) // 2)
        siblings = np.empty_like(level.limbs)
        siblings[0:pairs:2], siblings[1:pairs:2] = level.limbs[1:pairs:2], level.limbs[0:pairs:2]
        outside = siblings[:pairs]
        if depth > 0:
            parents = AdditiveShare(np.repeat(above.limbs[: pairs // 2], 2, axis=0))
            outside = multiply.multiply(session, stock, parents, AdditiveShare(outside)).limbs
        # The odd one out has the same outside as its parent, which is itself.
        above = AdditiveShare(np.concatenate([outside, above.limbs[pairs // 2 :]]))
    return levels[-1], above
