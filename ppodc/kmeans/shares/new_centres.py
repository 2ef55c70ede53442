"""An update in few rounds: re-seeding, the next centres and the squared movement, side by side.

From the sums lambda_h and counts n_h of an iteration, candidates c_h for clusters that it leaves
empty, and the clusters that it began with, lambda~_h and n~_h. With b_h = [n_h = 0], which the
look-up of T[n_h] tells (`fixed_point`), the new clusters are lambda_h + b_h c_h and n_h + b_h. None
of the products below waits for them:

    2^C a_h   T[n_h] lambda_h + 2^G b_h c_h, less G - C bits: an empty cluster's lambda_h is 0
    e_h       n_h lambda~_h - n~_h lambda_h + b_h (lambda~_h - n~_h c_h), how far a centre moved

    round 1   indices of the look-up; lambda, n and c widened
    round 2   its tables; n~ c
    round 3   T lambda; n lambda~ and n~ lambda; b times (c, 1) and (lambda~ - n~ c)
    round 4   the squares of a and of e

Where no stop test follows, everything with ~ is left out.

Who learns what: nothing. Rounds: 4. Bytes: those of k look-ups in tables of M entries, 4 k products
with l columns and 2 k l squares, each in the ring that it needs. Supplies: see `needs`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from ppodc.kmeans.shares.fixed_point import reciprocals
from ppodc.kmeans.shares.ring_sizes import Rings, cut
from ppodc.kmeans.shares.scaling import Centres, Wide, centres_from, empty
from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Run
from ppodc.mpc.session import Session
from ppodc.mpc.shares import look_up, multiply, select, widen
from ppodc.mpc.shares.additive import AdditiveShare, U64Array
from ppodc.mpc.shares.truncate import drop_bits
from ppodc.mpc.supplies import Needs


@dataclass(frozen=True, slots=True, repr=False)
class Updated:
    """New clusters (k, l + 1), the same in the wide ring, their centres, and E_h of each (k)."""

    clusters: U64Array
    wide: Wide
    centres: Centres
    movements: AdditiveShare | None


def needs(k: int, l: int, rings: Rings, *, moved: bool) -> Needs:
    """Supplies of `update`; with `moved` the movements are asked for."""
    found = (
        look_up.needs(k, rings.point.index_bits)
        + widen.needs(2 * k * (l + 1), rings.sum_bits, rings.wide)
        + multiply.needs(k + k * l, rings.centre)
        + select.needs(k)
    )
    if moved:
        found += multiply.needs(3 * k + k * l, rings.movement) + select.needs(k)
    return found


def update(
    session: Session, sums: U64Array, candidates: U64Array, old: Wide | None, rings: Rings
) -> Updated:
    """New clusters and what the next iteration needs of them; movements from `old`, if given."""
    k, l = len(sums), sums.shape[1] - 1
    session.supplies.reserve(needs(k, l, rings, moved=old is not None))
    inverse, wide, spare, far = _first_rounds(session, sums, candidates, old, rings)
    # round 3; b_h (c_h, 1) in all rings at once
    chosen, run = select.select_run(session, empty(inverse), spare)
    exact, runs = multiply.scale_runs(session, inverse, _sums(wide).low(rings.centre))
    crossed = apart = None
    beside: list[Iterable[Run]] = []
    if old is not None and far is not None:
        ring = rings.movement
        counts = AdditiveShare.concat([_counts(wide), old.counts]).low(ring)
        rows = AdditiveShare.concat([old.sums, _sums(wide)]).low(ring)
        crossed, more = multiply.scale_runs(session, counts, rows)
        apart, last = select.select_run(session, empty(inverse), old.sums.low(ring) - far)
        beside = [more, [last]]
    correlated_ot.run_all(session.ot, chain([run], runs, *beside))
    # round 4; a_h cut to C bits behind the point, and e_h
    exact = exact + _sums(chosen).low(rings.centre).times(1 << rings.point.reciprocal)
    scaled = drop_bits(exact, rings.point.reciprocal - rings.point.centre, session.role)
    flat = scaled.reshape(k * l)
    squares, runs = multiply.multiply_runs(session, flat, flat)
    moved = None
    beside = []
    if crossed is not None and apart is not None:
        gaps = (crossed[:k] - crossed[k:] + apart).reshape(k * l)
        moved, more = multiply.multiply_runs(session, gaps, gaps)
        beside = [more]
    correlated_ot.run_all(session.ot, chain(runs, *beside))
    new = wide + chosen
    return Updated(
        cut(sums + chosen.limbs[..., 0], rings.sum_bits),
        Wide(_sums(new), _counts(new)),
        centres_from(session, scaled, squares.reshape(k, l), rings),
        None if moved is None else moved.reshape(k, l).sum(axis=1),
    )


def _first_rounds(
    session: Session, sums: U64Array, candidates: U64Array, old: Wide | None, rings: Rings
) -> tuple[AdditiveShare, AdditiveShare, AdditiveShare, AdditiveShare | None]:
    """T[n_h] (k), clusters and candidates in the wide ring (k, l + 1), and n~_h c_h (k, l)."""
    point, ring = rings.point, rings.centre
    both = AdditiveShare(np.concatenate([sums, candidates]).reshape(-1, 1))
    widened = widen.begin_widening(session, both, rings.wide, rings.sum_bits)
    table = partial(reciprocals, point, ring)
    rounds = look_up.look_up_rounds(session, sums[:, -1], point.index_bits, table, ring)
    next(rounds)
    values = widened().reshape(2, *sums.shape)
    wide, spare = values[0], values[1]
    next(rounds)
    rest: Callable[[], None] | None = None
    far = None
    if old is not None:
        limbs = rings.movement
        far, runs = multiply.scale_runs(session, old.counts.low(limbs), _sums(spare).low(limbs))
        rest = correlated_ot.begin_all(session.ot, runs)
    next(rounds)
    if rest is not None:
        rest()
    return look_up.drained(rounds), wide, spare, far


def _sums(clusters: AdditiveShare) -> AdditiveShare:
    return AdditiveShare(np.ascontiguousarray(clusters.limbs[:, :-1]))


def _counts(clusters: AdditiveShare) -> AdditiveShare:
    return AdditiveShare(np.ascontiguousarray(clusters.limbs[:, -1]))
