"""Assigning records to their nearest clusters: chunk by chunk, with what comes next in the waits.

Over a slow link supplies and products of the chunk that comes next are made in the waits of each.
There an update may also assign the records to its new clusters before the stop bit is known, with
the stop test in the waits (`ahead`). If the bit says stop, that is dropped: its supplies are spent,
and all that it sent was masked.

Who learns what: nothing. Rounds, bytes, supplies: those of SSED_OP, SMIN_k and the sums.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares import smin_k, ssed_op
from ppodc.kmeans.shares import sums as summing
from ppodc.kmeans.shares.demand import Demand
from ppodc.kmeans.shares.fixed_point import MARGIN
from ppodc.kmeans.shares.ingest import Hot, Shard
from ppodc.kmeans.shares.products import (
    Making,
    ProductsAhead,
    ProductStep,
    RandomProducts,
    ShardProducts,
    products_beside,
)
from ppodc.kmeans.shares.ring_sizes import Rings, cut
from ppodc.kmeans.shares.scaled_states import ScaledStates
from ppodc.kmeans.shares.scaling import Centres
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare
from ppodc.mpc.shares.additive import U64Array
from ppodc.mpc.shares.xor_bits import XorShare
from ppodc.pairs.plan import Progress

AHEAD_BYTES = 256 << 20  # supplies made ahead; the rest of them are made when they are needed
_FEW = compare.QUICK  # comparisons that cost less than the waits of a stop test


@dataclass(frozen=True, slots=True, repr=False)
class _Ahead:
    """Sums and one-hots of shards, for clusters whose stop bit was not known yet."""

    clusters: U64Array
    found: dict[str, tuple[U64Array, Hot]]


class Assigner:
    """Assigns the records of a session's shards; `shards` gets more of them from outside."""

    def __init__(
        self,
        session: Session,
        p: Parameters,
        rings: Rings,
        demand: Demand,
        states: ScaledStates,
        products: ProductStep,
        shards: Mapping[str, Shard],
    ) -> None:
        self._session, self._p, self._rings, self._demand = session, p, rings, demand
        self._states, self._products, self._shards = states, products, shards
        self._makers: dict[str, ShardProducts] = {}
        self.products_ahead = ProductsAhead(self._all_products, 8 * (p.k - 1) * rings.distance)
        self._coming: tuple[Sequence[str], bool] = (), False
        self._ahead: _Ahead | None = None

    def take_in(self, name: str) -> None:
        """Get ready for products with a new shard's records."""
        self._makers[name] = self._products.take_in(self._session, self._shards[name])

    def assign(self, name: str, clusters: U64Array, progress: Progress, more: bool) -> U64Array:
        """The sums of a shard's records by cluster; its one-hots stay with it (`Shard.hot`)."""
        held, known, self._coming = self._shards[name], self._ahead, ((), False)
        if known is not None and np.array_equal(known.clusters, clusters) and name in known.found:
            total, held.hot = known.found.pop(name)
            progress(held.rows)
            return total
        self._ahead = None
        held.hot = []
        total, held.hot = self._assigned(name, clusters, progress, more)
        return total

    def expect(self, names: Sequence[str], more: bool) -> None:
        """The update that comes may assign these shards ahead; `more` will follow even then."""
        self._coming = names, more

    def pays_ahead(self) -> bool:
        """Whether to assign ahead: the link is slow, and all that may be dropped is little."""
        names, _ = self._coming
        rows = sum(self._shards[name].rows for name in names if name in self._shards)
        there = bool(names) and all(name in self._shards for name in names)
        return self._session.slow and there and rows * (self._p.k - 1) <= _FEW

    def ahead(self, clusters: U64Array) -> None:
        """Assign the shards that come next, and keep what is found for `assign`."""
        (names, more), self._coming = self._coming, ((), False)
        found = {
            name: self._assigned(name, clusters, lambda _: None, more or name != names[-1])
            for name in names
        }
        self._ahead = _Ahead(clusters.copy(), found)

    def drop_ahead(self) -> None:
        """Forget what was assigned ahead: nothing follows."""
        self._ahead = None

    def close(self) -> None:
        """Forget what was kept of the shards."""
        for maker in self._makers.values():
            maker.close()

    def random(self, name: str, start: int, end: int, columns: int) -> RandomProducts:
        """Random products with rows start..end-1 of a shard, made now."""
        with self._session.meter.step("products", offline=True):
            return self._makers[name].make(self._session, start, end, columns)

    def making(self, name: str, start: int, end: int, columns: int) -> Making:
        """Random products as of `random`, made in the waits of other steps."""
        return self._makers[name].making(self._session, start, end, columns)

    def _assigned(
        self, name: str, clusters: U64Array, progress: Progress, more: bool
    ) -> tuple[U64Array, Hot]:
        """SSED_OP, SMIN_k and SMP over a shard's records, chunk by chunk: sums, and one-hots."""
        session, k, held = self._session, len(clusters), self._shards[name]
        centres = self._states.centres(clusters) if k > 1 else None
        total, bits = np.zeros_like(clusters), self._rings.sum_bits
        every: Hot = []
        beside, chunks = k > 1 and session.slow, self._demand.chunks(held.rows)
        if not beside:
            self._reserve_iteration(held.rows, k)
        ready = self.products_ahead.take(name)
        if beside and more and not self._products.exact and self.products_ahead.fits(held):
            ready = ready or self._all_products(name)
        for number, (start, end) in enumerate(chunks):
            session.supplies.reserve(self._demand.chunk(end - start, k))
            if beside and more and ready and not number and not self._products.exact:
                self._products_beside(name)
            if beside and (more or end < held.rows):
                after = chunks[(number + 1) % len(chunks)]
                beside_it = self._demand.beside(end - start, after[1] - after[0], k)
                session.supplies.make_beside(*beside_it)
            if centres is None:
                hot = [smin_k.always(session.role, end - start)]
            else:
                if ready:
                    products = ready[number].first(k - 1)
                else:
                    products = self.random(name, start, end, k - 1)
                hot = self._nearest(held, start, end, centres, products)
            every.append((end - start, hot))
            with session.meter.step("sums"):
                rows = held.summed(session.role, start, end)
                total += summing.sums(session, rows, hot, bits)
            progress(end - start)
        session.link.finish_beside()
        return cut(total, bits), every

    def _nearest(
        self, shard: Shard, start: int, end: int, centres: Centres, products: RandomProducts
    ) -> list[XorShare]:
        """The one-hot of the nearest cluster of rows start..end-1."""
        session, rings = self._session, self._rings
        with session.meter.step("SSED_OP"):
            distances = ssed_op.ssed_op(session, shard, start, end, centres, products, rings)
        with session.meter.step("SMIN_k"):
            bits, slow = rings.distance_bits, session.slow
            return smin_k.smin_k(session, distances, bits, MARGIN, slow=slow)

    def _reserve_iteration(self, rows: int, k: int) -> None:
        """In one run what assigning a shard and the update after it take, as far as it fits."""
        needs = self._demand.iteration([rows], k)
        if needs.size <= AHEAD_BYTES:
            self._session.supplies.reserve(needs)

    def _products_beside(self, name: str) -> None:
        """Make the products of the next shard in the waits of this one."""
        names = list(self._shards)
        after = names[(names.index(name) + 1) % len(names)]
        ahead = self.products_ahead
        if ahead.fits(self._shards[after]) and not ahead.count(after):
            chunks = self._demand.chunks(self._shards[after].rows)
            runs = (self.making(after, *chunk, self._p.k - 1) for chunk in chunks)
            made = partial(ahead.add, after)
            self._session.link.do_beside(products_beside(self._session.meter, runs, made))

    def _all_products(self, name: str) -> list[RandomProducts]:
        """The random products of one iteration over a shard, by chunk."""
        chunks = self._demand.chunks(self._shards[name].rows)
        return [self.random(name, *chunk, self._p.k - 1) for chunk in chunks]
