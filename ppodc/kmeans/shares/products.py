"""The record-times-centre products, behind one small interface.

A `ProductStep` makes shares of t . R for all records t of a stretch and a *random* matrix R that
neither cloud knows. That depends on no centre, so it is offline work; online, the centres' matrix
V minus R is opened (masked by R) and t . V = t . R + t . (V - R) is local. Another way to make
t . R (fewer bytes for slow links) need only implement `make`.

`TransferProducts`: R = R1 + R2, each cloud draws one. Sum over attributes s and bits j of
2^j tbit R[s] is one correlated transfer per bit and direction whose row covers all columns, on
the static keys of the shard.

Who learns what: nothing. Rounds: 1 (batches overlap). Bytes per bit of a record and direction:
those of a distance (w1 + 1 bits) per column. Operations per bit: 3 L / 2 hash blocks per column.
A matrix R serves once.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ppodc.kmeans.shares.ingest import Shard, StaticKeys
from ppodc.mpc import correlated_ot
from ppodc.mpc.additive import U64, AdditiveShare
from ppodc.mpc.correlated_ot import Batch, Sending
from ppodc.mpc.multiply import doublings
from ppodc.mpc.session import Session


@dataclass(frozen=True, slots=True, repr=False)
class RandomProducts:
    """Shares of a random matrix R (l, columns) and of t . R (rows, columns); for one use."""

    matrix: AdditiveShare
    products: AdditiveShare


class ProductStep(Protocol):
    """A way to make random products."""

    def make(
        self, session: Session, shard: Shard, start: int, end: int, columns: int
    ) -> RandomProducts:
        """For rows start..end-1 of the shard, modulo 2^(64 (limbs - 1) + 8 top) of the shard."""


class TransferProducts:
    """Random products by correlated transfers on static keys."""

    def make(
        self, session: Session, shard: Shard, start: int, end: int, columns: int
    ) -> RandomProducts:
        rows, limbs = end - start, shard.limbs
        matrix = session.random.uint64((shard.attributes, columns, limbs))
        choices = shard.choices(start, end)
        sums = np.zeros((rows, columns * limbs), U64)
        first = session.tweaks.reserve(len(choices))
        batch = Batch(len(choices), shard.per_row, limbs, first, sums, shard.top)
        table = doublings(matrix, shard.bits)
        sending = Sending(table, choices, np.zeros_like(choices))
        keys = StaticKeys(shard, start * shard.per_row)
        correlated_ot.run(session, keys, batch, sending, choices)
        products = AdditiveShare(sums.reshape(rows, columns, limbs))
        return RandomProducts(AdditiveShare(matrix), products)
