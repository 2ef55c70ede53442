"""SSED_OP: for every record, the order-preserving squared distances to all centres.

S_h = ||A_h||^2 - 2 alpha (t . A_h) with A_h = alpha_h lambda_h is the squared distance of
Eq. 5.3 less ||alpha t||^2, which all clusters have in common. The output are the differences
S_h - S_0 for h = 1..k-1, of absolute value below 2^w1, modulo 2^(64 L).

Who learns what: nothing; opened is V - R, uniform whatever the centres are. Rounds: 1. Bytes and
direction: 8 L l (k - 1), however many records. Operations: local.
"""

import numpy as np

from ppodc.kmeans.shares.ingest import Shard
from ppodc.kmeans.shares.products import RandomProducts
from ppodc.kmeans.shares.scaling import Centres
from ppodc.mpc.additive import AdditiveShare, matrix_product
from ppodc.mpc.session import Session

_OPEN = "shares.centres"


def ssed_op(
    session: Session,
    shard: Shard,
    start: int,
    end: int,
    centres: Centres,
    random: RandomProducts,
) -> AdditiveShare:
    """S_h - S_0 for rows start..end-1: (rows, k - 1)."""
    # open V - R, the centres' matrix masked by a random one
    own = np.ascontiguousarray((centres.directions - random.matrix).limbs)
    other = session.link.exchange(_OPEN, own)
    opened = (AdditiveShare(own) + AdditiveShare(other)).limbs
    # t . V = t . R + t . (V - R): the second product is local, as V - R is public
    local = matrix_product(shard.table.additive(start, end).limbs, opened)
    # S_h - S_0 = t . (V_h - V_0) + ||A_h||^2 - ||A_0||^2
    return random.products + AdditiveShare(local) + centres.constants
