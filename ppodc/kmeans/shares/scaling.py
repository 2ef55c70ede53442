"""The centres in fixed point, from shares of sums and counts: what SSED_OP needs of the clusters.

A state's sums and counts are widened once (`Wide`). Then, in the numbers of
`fixed_point`: the reciprocals T[n_h] by a look-up of the counts, which also tells empty clusters,
lambda_h T[n_h] cut to a_h = 2^C c_h, and b_h = ||a_h||^2 cut by C bits. Directions -2 a_h and
constants b_h leave less those of cluster 0. An update does the same beside other things
(`new_centres`).

Who learns what: nothing. Rounds: 1 to widen, 2 for the look-up, 1 for each product. Bytes: those of
k look-ups in tables of M entries, of k products with l columns and of k l squares in the ring of
`wide_bits`. Supplies: see `widen_needs`, `centre_needs`.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ppodc.kmeans.shares.fixed_point import reciprocals
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import look_up, multiply, widen
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.truncate import drop_bits
from ppodc.mpc.supplies import Needs


@dataclass(frozen=True, slots=True, repr=False)
class Wide:
    """Clusters in a ring in which all steps can multiply."""

    sums: AdditiveShare  # (k, l)
    counts: AdditiveShare  # (k)


@dataclass(frozen=True, slots=True, repr=False)
class Centres:
    """Centres as SSED_OP needs them: -2 (a_h - a_0) (l, k - 1) and b_h - b_0 (k - 1)."""

    directions: AdditiveShare
    constants: AdditiveShare

    def to_state(self) -> U64Array:
        """One array (l + 1, (k - 1) L), for other pairs of the same cloud."""
        rows = np.concatenate([self.directions.limbs, self.constants.limbs[None]])
        return rows.reshape(len(rows), -1)

    @classmethod
    def of_state(cls, state: U64Array, limbs: int) -> "Centres":
        """The centres in an array of `to_state`, in a ring of this many limbs."""
        rows = state.reshape(len(state), -1, limbs)
        return cls(AdditiveShare(rows[:-1]), AdditiveShare(rows[-1]))


def widen_needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `widened`."""
    return widen.needs(k * (l + 1), rings.sum_bits, rings.wide)


def widened(session: Session, clusters: U64Array, rings: Rings) -> Wide:
    """Clusters (k, l + 1), shares of numbers below half of the ring of sums, in the wide ring."""
    flat = widen.widen(session, AdditiveShare(clusters.reshape(-1, 1)), rings.wide, rings.sum_bits)
    table = flat.reshape(*clusters.shape).limbs
    return Wide(
        AdditiveShare(np.ascontiguousarray(table[:, :-1])),
        AdditiveShare(np.ascontiguousarray(table[:, -1])),
    )


def centre_needs(k: int, l: int, rings: Rings) -> Needs:
    """Supplies of `centres`."""
    return look_up.needs(k, rings.point.index_bits) + multiply.needs(k + k * l, rings.centre)


def empty(inverse: AdditiveShare) -> Bits:
    """Shares of [n_h = 0], the lowest bits of T[n_h]."""
    return (inverse.limbs[:, 0] & U64(1)).astype(np.uint8)


def centres(session: Session, wide: Wide, rings: Rings) -> Centres:
    """The centres' directions and constants in the ring of the distances."""
    (k, l), point, ring = wide.sums.shape, rings.point, rings.centre
    # T[n_h], n_h modulo the size of the table
    table = partial(reciprocals, point, ring)
    inverse = look_up.look_up(session, wide.counts.limbs[:, 0], point.index_bits, table, ring)
    # a_h = lambda_h T[n_h] / 2^(G - C)
    exact = multiply.scale(session, inverse, wide.sums.low(ring))
    scaled = drop_bits(exact, point.reciprocal - point.centre, session.role)
    flat = scaled.reshape(k * l)
    squares = multiply.multiply(session, flat, flat).reshape(k, l)
    return centres_from(session, scaled, squares, rings)


def centres_from(
    session: Session, scaled: AdditiveShare, squares: AdditiveShare, rings: Rings
) -> Centres:
    """`centres` from the a_h and the squares of their attributes (k, l). Local."""
    # b_h = ||a_h||^2 / 2^C
    norms = drop_bits(squares.sum(axis=1), rings.point.centre, session.role)
    directions = _less_first(scaled.low(rings.distance)).times(-2)
    return Centres(
        AdditiveShare(np.ascontiguousarray(np.moveaxis(directions.limbs, 0, 1))),
        _less_first(norms.low(rings.distance)),
    )


def _less_first(values: AdditiveShare) -> AdditiveShare:
    return values[1:] - values[0:1]
