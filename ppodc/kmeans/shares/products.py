"""The record-times-centre products, behind one small interface.

A `ProductStep` makes shares of t . R for all records t of a stretch and a *random* matrix R that
neither cloud knows. That depends on no centre, so it is offline work; online, the centres' matrix
V minus R is opened (masked by R) and t . V = t . R + t . (V - R) is local. A matrix R serves once.
`product_step` is the one place that chooses how a job's products are made.

Who learns what: nothing, whichever way is chosen.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ppodc.kmeans.shares.ingest import Shard
from ppodc.mpc.additive import AdditiveShare
from ppodc.mpc.session import Session
from ppodc.mpc.table_products import products

_AHEAD_BYTES = 1 << 27  # of products made ahead, for all shards together


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


def product_step() -> ProductStep:
    """How the products of a job are made; both clouds must choose alike."""
    return TransferProducts()


class TransferProducts:
    """Random products by correlated transfers on the shard's static keys (`mpc.table_products`).

    R = R1 + R2, each cloud drawing one.

    Rounds: 1 (batches overlap). Bytes per bit of a record and direction: those of a distance
    (w1 + 1 bits) per column. Operations per bit: 3 L / 2 hash blocks per column.
    """

    def make(
        self, session: Session, shard: Shard, start: int, end: int, columns: int
    ) -> RandomProducts:
        """For rows start..end-1 of the shard."""
        table = shard.table
        matrix = AdditiveShare(session.random.uint64((table.columns, columns, table.limbs)))
        return RandomProducts(matrix, products(session, table, start, end, matrix, shard.top))


class ProductsAhead:
    """Random products of later iterations, by shard, as far as they fit in memory.

    `make(shard)` gives those of one iteration, a `RandomProducts` per chunk of the shard.
    """

    def __init__(self, make: Callable[[Shard], list[RandomProducts]], bytes_per_row: int) -> None:
        self._make, self._bytes_per_row = make, bytes_per_row
        self._ready: dict[str, deque[list[RandomProducts]]] = {}

    def take(self, name: str) -> Sequence[RandomProducts] | None:
        """One iteration's products of a shard, if they were made ahead."""
        ready = self._ready.get(name)
        return ready.popleft() if ready else None

    def count(self, name: str) -> int:
        """For how many iterations a shard has its products."""
        return len(self._ready.get(name, ()))

    def fill(self, shards: Mapping[str, Shard], iterations: int) -> None:
        """Make those of so many iterations, the nearest ones of all shards first."""
        sizes = {name: self._bytes_per_row * shard.rows for name, shard in shards.items()}
        left = _AHEAD_BYTES - sum(sizes[name] * self.count(name) for name in shards)
        for number in range(iterations):
            for name, shard in shards.items():
                if self.count(name) <= number and sizes[name] <= left:
                    left -= sizes[name]
                    self._ready.setdefault(name, deque()).append(self._make(shard))
