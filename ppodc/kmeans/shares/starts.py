"""A half's state while a start is chosen: norms of its records, distances to the chosen ones.

Norms ||x||^2 are computed once for a shard (`mpc.share_squares`) and serve every start, and the
inertia. Distances belong to a start and to the records that it has chosen so far: a half that lacks
some, because its worker is new, makes up for them. Both halves of a pair know alike what they lack,
as they have done the same.

Over a slow link a `pick` makes in its waits what the next record takes, where a shard is one chunk.

Who learns what, rounds, bytes: as in `spread`. 24 bytes per record are kept, or 32 in a large job:
in memory up to the half's budget, beyond it in a file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares import spread
from ppodc.kmeans.shares.demand import Demand
from ppodc.kmeans.shares.ingest import Shard
from ppodc.kmeans.shares.products import Making, RandomProducts, products_beside
from ppodc.kmeans.shares.spread import SpreadBits
from ppodc.kmeans.shares.sums import with_count
from ppodc.mpc.session import Session
from ppodc.mpc.shares import share_squares
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.spill import Budget, Spool
from ppodc.mpc.supplies import Needs

_TRANSFERS = 1 << 20  # of norms at a time, in both directions together
_WAITS = 7  # of a `pick`, beside those that its supplies take behind their last messages
Random = Callable[[str, int, int, int], RandomProducts]  # of a shard: start, end, columns
RandomBeside = Callable[[str, int, int, int], Making]


@dataclass(slots=True, repr=False)
class _Nearest:
    """Squared distances of a shard's records to the nearest of the first `chosen` of a start."""

    start: int
    chosen: int
    values: Spool  # of numbers modulo 2^64
    wide: Spool  # the same in the ring of their sums
    total: AdditiveShare  # of the wide ones

    def close(self) -> None:
        """Forget the distances."""
        self.values.close()
        self.wide.close()


class Starts:
    """Norms and distances of a half's records while a start is chosen."""

    def __init__(
        self,
        session: Session,
        p: Parameters,
        demand: Demand,
        random: Random,
        making: RandomBeside,
        budget: Budget,
        *,
        exact: bool,
    ) -> None:
        """`exact`: random products are; if not, `making` makes them in the waits of a step."""
        self._exact, self._making = exact, making
        self._ready: dict[str, RandomProducts] = {}  # of a shard that is one chunk
        self._session, self._l, self._demand, self._random = session, p.l, demand, random
        self._bits, self._budget = SpreadBits.of(p), budget
        self._norms: dict[str, Spool] = {}
        self._near: dict[str, _Nearest] = {}

    def norms(self, name: str, shard: Shard, start: int, end: int) -> AdditiveShare:
        """||x||^2 of the shard's records start..end-1."""
        if name not in self._norms:
            with self._session.meter.step("norms"):
                self._norms[name] = self._squares(shard)
        return AdditiveShare(self._norms[name].read(start, end))

    def close(self) -> None:
        """Forget norms and distances."""
        for norms in self._norms.values():
            norms.close()
        for near in self._near.values():
            near.close()
        self._norms, self._near = {}, {}

    def _squares(self, shard: Shard) -> Spool:
        table, found = shard.table, Spool(shard.rows, 1, U64, self._budget)
        step = max(1, _TRANSFERS // table.per_row)
        for start in range(0, shard.rows, step):
            records = table.additive(start, min(start + step, shard.rows)).low(1)
            needs = share_squares.needs(len(records.limbs), table.columns, table.bits)
            self._session.supplies.reserve(needs)
            found.append(share_squares.share_squares(self._session, records, table.bits).limbs)
        return found

    def total(self, name: str, shard: Shard, chosen: U64Array, start: int) -> U64Array:
        """The sum of the squared distances to the nearest of the chosen (j, l + 1): (1, limbs)."""
        near = self._near.pop(name, None)
        if near is not None and (near.start != start or near.chosen > len(chosen)):
            near.close()
            near = None
        for number in range(near.chosen if near else 0, len(chosen)):
            centre = AdditiveShare(np.ascontiguousarray(chosen[number, :-1, None]))
            near = self._moved(name, shard, near, centre, start)
        if near is None:
            raise ValueError("a start begins with one record")
        self._near[name] = near
        return near.total.limbs.reshape(1, -1)

    def pick(
        self, name: str, shard: Shard, totals: U64Array, number: int, word: int, *, last: bool
    ) -> U64Array:
        """The record that comes next as (x, 1), or zeros if it lies in another shard: (1, l + 1).

        `totals` are those of all shards in the order of their records, `number` says which is this
        one's, `last` that no record follows.
        """
        session, bits = self._session, self._bits
        chunks = self._demand.chunks(shard.rows)
        session.supplies.reserve(self._pick_needs(chunks))
        if session.slow and len(chunks) == 1:
            self._prepare_next(name, chunks)
        bound = spread.threshold(session, AdditiveShare(totals).sum().reshape(1), word, bits)
        before = AdditiveShare(totals[:number]).sum().reshape(1)
        out = np.zeros((1, self._l + 1), U64)
        seen = np.empty(0, np.uint8)  # the bit of the record before, none before the first chunk
        for start, end in chunks:
            session.supplies.reserve(spread.above_needs(end - start + 1, bits, slow=session.slow))
            sums = before + AdditiveShare(self._near[name].wide.read(start, end)).running_sums()
            compared = sums if len(seen) else AdditiveShare.concat([before, sums])
            steps = np.concatenate([seen, spread.above(session, compared, bound, bits)])
            if last and end == shard.rows:
                steps[-1] = 1 if session.role == 1 else 0  # where no sum is above the bound
            rows = with_count(session.role, shard.table.additive(start, end))[..., None]
            out += spread.chosen(session, spread.one_hot(steps), AdditiveShare(rows))
            before, seen = sums[-1:], steps[-1:]
        session.link.finish_beside()
        return out

    def _prepare_next(self, name: str, chunks: list[tuple[int, int]]) -> None:
        """Make supplies and products of the next record in the waits of this one's `pick`."""
        session = self._session
        needs = self._pick_needs(chunks) + self._spread_needs(chunks)
        session.supplies.make_beside(needs, _WAITS)
        if not self._exact and name not in self._ready:
            runs = [self._making(name, *chunk, 1) for chunk in chunks]
            kept = partial(self._keep, name)
            session.link.do_beside(products_beside(session.meter, runs, kept))

    def _keep(self, name: str, made: list[RandomProducts]) -> None:
        self._ready[name] = made[0]

    def _pick_needs(self, chunks: list[tuple[int, int]]) -> Needs:
        """Supplies of `pick`, of its records those of the first chunk."""
        bits, slow = self._bits, self._session.slow
        first = spread.above_needs(chunks[0][1] + 1, bits, slow=slow) if chunks else Needs()
        return spread.threshold_needs(bits, slow=slow) + first

    def _nearer_needs(self, rows: int) -> Needs:
        return spread.nearer_needs(rows, self._bits, exact=self._exact, slow=self._session.slow)

    def _spread_needs(self, chunks: list[tuple[int, int]]) -> Needs:
        """Supplies of `total` with a record more, of its records those of the first chunk.

        In one run with those of the `pick` that follows: fewer rounds over the link.
        """
        most = self._nearer_needs(chunks[0][1]) if chunks else Needs()
        return spread.norm_needs(self._l) + most + self._pick_needs(chunks)

    def _moved(
        self, name: str, shard: Shard, near: _Nearest | None, centre: AdditiveShare, start: int
    ) -> _Nearest:
        """The distances when a record more is chosen."""
        session, bits, chunks = self._session, self._bits, self._demand.chunks(shard.rows)
        self.norms(name, shard, 0, 0)  # made before anything of this step
        exact = self._exact
        session.supplies.reserve(self._spread_needs(chunks))
        square: AdditiveShare | None = None  # of the centre
        values = Spool(shard.rows, 1, U64, self._budget)
        wide = Spool(shard.rows, bits.limbs, U64, self._budget)
        total = AdditiveShare(np.zeros(bits.limbs, U64))
        for first, end in chunks:
            session.supplies.reserve(self._nearer_needs(end - first))
            records, random = shard.table.additive(first, end), self._ready.pop(name, None)
            random = random or self._random(name, first, end, 1)
            norms = self.norms(name, shard, first, end)
            found, square = spread.distances(
                session, records, norms, (centre, square), random, exact=exact
            )
            if near is not None:
                before = AdditiveShare(near.values.read(first, end))
                found = spread.nearer(session, before, found, bits)
            elif shard.keep is not None:  # rows that do not count are never drawn: 0 stays least
                found = spread.counted(session, shard.keep[first:end], found)
            widened = spread.widened(session, found, bits, exact=exact)
            values.append(found.limbs)
            wide.append(widened.limbs)
            total += widened.sum()
        chosen = 1 if near is None else near.chosen + 1
        if near is not None:
            near.close()
        return _Nearest(start, chosen, values, wide, total)
