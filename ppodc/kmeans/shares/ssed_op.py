"""SSED_OP: for every record, its squared distances to all centres, in fixed point.

z_h = b_h - 2 x.a_h (`fixed_point`) is the squared distance less ||x||^2, which all clusters have in
common, times 2^C and nearly exact. The output are v_h, the differences z_h - z_0 for h = 1..k-1
with their low bits dropped, of which neighbours can be compared exactly.

Who learns what: nothing; opened is V - R, uniform whatever the centres are. Rounds: 1. Bytes and
direction: 8 L l (k - 1), however many records. Operations: local.
"""

from collections.abc import Callable

import numpy as np

from ppodc.kmeans.shares.ingest import Shard
from ppodc.kmeans.shares.products import RandomProducts
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.scaling import Centres
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, AdditiveShare, add_matrix_product
from ppodc.mpc.shares.truncate import drop_bits

_OPEN = "shares.centres"


def ssed_op(
    session: Session,
    shard: Shard,
    start: int,
    end: int,
    centres: Centres,
    random: RandomProducts,
    rings: Rings,
) -> AdditiveShare:
    """v_h for rows start..end-1: (rows, k - 1)."""
    records = shard.table.additive(start, end)
    # z_h - z_0 = x . V_h + b_h - b_0 with V_h = -2 (a_h - a_0)
    scores = masked_products(session, records, centres.directions, random) + centres.constants
    return drop_bits(scores, rings.point.dropped, session.role).low(rings.compared)


def masked_products(
    session: Session,
    records: AdditiveShare,
    matrix: AdditiveShare,
    random: RandomProducts,
    beside: Callable[[], None] | None = None,
) -> AdditiveShare:
    """x . V of records (n, l) and a shared matrix V (l, c) in one ring: (n, c).

    `random` may be in a larger ring, and its products may be received in this round.
    `beside` receives what was sent before, for other numbers, in the same round.
    """
    # open V - R, masked by a random matrix
    own = np.ascontiguousarray((matrix - random.matrix.low(matrix.length)).limbs)
    session.link.send(_OPEN, own)
    session.link.turn()
    if beside is not None:
        beside()
    other = session.link.receive(_OPEN, U64, *own.shape)
    opened = (AdditiveShare(own) + AdditiveShare(other)).limbs
    # x . V = x . R + x . (V - R): the second product is local, as V - R is public
    products = random.products.limbs[..., : records.length].copy()
    add_matrix_product(records.limbs, opened, products)
    return AdditiveShare(products)
