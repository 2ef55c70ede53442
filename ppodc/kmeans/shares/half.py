"""One cloud's half of the shares suite: `ppodc.kmeans.half.Half` for both roles.

A state is a (k, l + 1) array of additive shares: sums and counts, right modulo 2^32 or 2^64
(`Rings.sum_bits`). Work on records is done in chunks (`demand`), so that memory does not grow with
m; supplies for a chunk come from what was made ahead and are made on the spot when that runs dry.
After any error the session is over, and a new pair starts with new secrets.
"""

import logging
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.half import Half, State
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares import inertia, new_centres, stop_test, update
from ppodc.kmeans.shares import ingest as taking_in
from ppodc.kmeans.shares import output as giving_out
from ppodc.kmeans.shares import sums as summing
from ppodc.kmeans.shares.assignment import AHEAD_BYTES, Assigner
from ppodc.kmeans.shares.demand import Demand
from ppodc.kmeans.shares.ingest import Shard
from ppodc.kmeans.shares.products import product_step
from ppodc.kmeans.shares.ring_sizes import Rings, checked, cut
from ppodc.kmeans.shares.scaled_states import ScaledStates
from ppodc.kmeans.shares.scaling import Centres
from ppodc.kmeans.shares.starts import Starts
from ppodc.mpc.meter import Meter
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.session_secrets import SessionSecrets
from ppodc.mpc.shares import select, widen
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.look_up import drained
from ppodc.mpc.shares.remask import remask
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.pairs.plan import Progress
from ppodc.records.result_shares import OutputShare
from ppodc.transport.channel import Channel

log = logging.getLogger(__name__)

MEMORY_BYTES = 128 << 20  # what shares and keys of records may keep in memory


class SharesHalf(Half):
    """The half of the cloud `role`.

    `pools` is a folder for supplies made ahead (both clouds or none); `scratch` one for what is
    kept of records beyond `memory` bytes (if not given `pools`, or the system's for such files).
    """

    def __init__(
        self,
        role: int,
        channel: Channel,
        parameters: Parameters,
        *,
        pools: Path | None = None,
        scratch: Path | None = None,
        memory: int = MEMORY_BYTES,
        secrets: SessionSecrets | None = None,
    ) -> None:
        p = self._p = parameters
        self._rings = Rings.of(p)
        self._budget = Budget(memory, scratch or pools)
        self._shards: dict[str, Shard] = {}
        job = f"m={p.m} l={p.l} k={p.k} ub={p.ub} beta={p.beta} min_size={p.min_size}"
        job += f" products={p.products} stops={p.stops}"
        silent = p.supplies == "silent"
        self._session = Session.start(
            role, channel, job, pools=pools, secrets=secrets, silent=silent
        )
        slow = self._session.slow
        self._products = product_step(p, self._rings, self._budget, slow=slow)
        self._demand = Demand(p, self._rings, bits=p.k > 1 and self._products.needs_bits, slow=slow)
        log.info(
            "the link is %s; products with records by %s",
            "slow, fewer rounds for more bytes" if slow else "fast",
            "transfers" if self._products.exact else "lattice encryption",
        )
        self._states = ScaledStates(self._session, self._rings, self._demand)
        self._assigner = Assigner(
            self._session,
            p,
            self._rings,
            self._demand,
            self._states,
            self._products,
            self._shards,
        )
        self._starts = Starts(
            self._session,
            p,
            self._demand,
            self._assigner.random,
            self._assigner.making,
            self._budget,
            exact=self._products.exact,
        )

    @property
    def meter(self) -> Meter:
        """Time and bytes by step."""
        return self._session.meter

    @property
    def role(self) -> int:
        """1 or 2."""
        return self._session.role

    def prepare(
        self,
        iterations: int,
        progress: Progress | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Have the supplies of this many iterations ahead; both halves call it alike.

        Before any shard is taken in, supplies for taking in shards of `rows` records (all m if
        not given) are made too. With shards, their random products are made as well, as far as
        they fit in memory. `progress` hears how many transfers each portion took; all of them are
        `to_prepare(iterations)`.
        """
        with self._session.step("prepare", offline=True):
            if self._p.k > 1:  # the peer's answers come with the supplies
                self._assigner.products_ahead.fill(self._shards, iterations)
            self._session.supplies.prepare(self._missing(iterations, rows), progress)
            self._session.link.settle()

    def to_prepare(self, iterations: int, rows: Sequence[int] | None = None) -> int:
        """Transfers that `prepare` would make for its supplies now."""
        return self._missing(iterations, rows).work

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in a shard's records: (rows, l), t + r at C1 and r at C2."""
        with self._session.step("ingest"):
            if share.ndim != 2 or share.shape[1] != self._p.l:
                raise InputError(f"shard {shard!r} must have {self._p.l} columns.")
            if shard in self._shards:
                raise InputError(f"shard {shard!r} has been taken in already.")
            total = len(share) + sum(held.rows for held in self._shards.values())
            if total > self._p.m:
                raise InputError(
                    f"shard {shard!r} brings this worker to {total} records; "
                    f"the job was announced with {self._p.m}. Start a job of the right size."
                )
            held = taking_in.ingest(self._session, share, self._p.ub, self._rings, self._budget)
            self._shards[shard] = held
            if self._p.k > 1:
                self._assigner.take_in(shard)

    def records(self, shard: str, rows: Sequence[int]) -> State:
        """Clusters of one record each (count 1). Local."""
        held = self._shard(shard)
        if any(not 0 <= row < held.rows for row in rows):
            raise InputError(f"shard {shard!r} has rows 0 to {held.rows - 1}.")
        values = [held.table.additive(row, row + 1) for row in rows]
        picked = [summing.with_count(self.role, value) for value in values]
        return np.concatenate([np.empty((0, self._p.l + 1), U64), *picked])

    def centres(self, values: NDArray[np.int64]) -> State:
        """Clusters of count 1 at public centres (k, l): C1 holds them, C2 zeros. Local."""
        if values.ndim != 2 or values.shape[1] != self._p.l:
            raise InputError(f"public centres must have {self._p.l} columns.")
        if values.size and (values.min() < 0 or values.max() > self._p.ub):
            raise InputError(f"public centres must lie in 0..{self._p.ub}.")
        state = np.zeros((len(values), self._p.l + 1), U64)
        if self.role == 1:
            state[:, :-1] = values
            state[:, -1] = 1
        return state

    def join(self, states: Sequence[State]) -> State:
        """Clusters from several `records` calls, one behind the other. Local."""
        return np.concatenate([checked(state) for state in states])

    def add(self, states: Sequence[State]) -> State:
        """The sum of partial sums. Local."""
        total: U64Array = np.sum([checked(state) for state in states], axis=0, dtype=U64)
        return total

    def assign(
        self, shard: str, clusters: State, progress: Progress | None = None, *, more: bool = True
    ) -> State:
        """SSED_OP, SMIN_k and SMP over a shard's records: (k, l + 1) sums.

        Nothing is left to do where the update has assigned them already (`expect_assign`).
        """
        with self._session.step("assign"):
            self._shard(shard)
            state = self._clusters(clusters)
            return self._assigner.assign(shard, state, progress or (lambda _: None), more)

    def expect_assign(self, shards: Sequence[str], *, more: bool) -> None:
        """Let the next update assign these ahead, if that takes less time than its stop test."""
        self._assigner.expect(shards, more)

    def scaled(self, clusters: State) -> State:
        """The centres that `assign` needs; without a round if `update` made the clusters here."""
        with self._session.step("scaling"):
            return self._states.centres(self._clusters(clusters)).to_state()

    def take_scaled(self, clusters: State, scaled: State) -> None:
        """Remember what another pair's `scaled` gave for clusters that its `update` made. Local."""
        state, centres, limbs = self._clusters(clusters), checked(scaled), self._rings.distance
        wanted = (self._p.l + 1, (len(state) - 1) * limbs)
        if len(state) < 2 or centres.shape != wanted:
            raise InputError(f"centres of {len(state)} clusters cannot have {centres.shape} words.")
        self._states.take_over(state, Centres.of_state(centres, limbs))

    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        """Re-seed empty clusters from the candidates; new clusters and the public stop bit."""
        with self._session.step("update"):
            old = self._clusters(clusters)
            k = len(old)
            self._session.supplies.reserve(self._demand.update(k))
            parts = self._clusters(sums, k), self._clusters(candidates, k)
            if self._demand.centres_beside(k):
                return self._update_and_centres(old, *parts)
            with self.meter.step("re-seed"):
                empty = update.empty(self._session, parts[0])
                new = update.reseed(self._session, *parts, empty, self._rings.sum_bits)
            if not self._p.stops:
                return new, False
            wide = self._states.wide(old), self._states.made_here(new)
            if not self._rings.beta:
                with self.meter.step("stop test"):
                    return new, stop_test.unmoved(self._session, *wide, self._rings)
            factors = self._states.factors(old), self._states.factors(new)
            with self.meter.step("stop test"):
                return new, stop_test.moved_little(self._session, wide, factors, self._rings)

    def _update_and_centres(
        self, old: U64Array, sums: U64Array, candidates: U64Array
    ) -> tuple[U64Array, bool]:
        """`update` for beta = 0 or without a test, with what the next `assign` needs of centres."""
        session, rings = self._session, self._rings
        before = self._states.wide(old) if self._p.stops else None
        with self.meter.step("centres"):
            found = new_centres.update(session, sums, candidates, before, rings)
        self._states.add(found.clusters, found.wide, found.centres)
        if found.movements is None:
            return found.clusters, False
        test = stop_test.all_still(session, found.movements, rings)
        if not self._assigner.pays_ahead():
            with self.meter.step("stop test"):
                return found.clusters, drained(test)
        bits: list[bool] = []
        session.link.do_beside(self._tested(test, bits))
        self._assigner.ahead(found.clusters)  # which ends with all that is beside it
        if bits[0]:
            self._assigner.drop_ahead()
        return found.clusters, bits[0]

    def _tested(self, test: Generator[None, None, bool], bits: list[bool]) -> Iterator[None]:
        """The stop test in the waits of other steps; the bit goes to `bits`."""
        over = False
        while not over:
            with self.meter.step("stop test"):
                try:
                    next(test)
                except StopIteration as end:
                    bits.append(end.value)
                    over = True
            if not over:
                yield

    def members(self, shard: str, runs: NDArray[np.int64], owners: int) -> State:
        """Sizes by owner of the clusters of the shard's last `assign`: (k, owners)."""
        with self._session.step("members"):
            held, whose = self._shard(shard), np.repeat(runs[:, 1], runs[:, 0])
            if len(whose) != held.rows or not np.isin(whose, range(owners)).all():
                raise InputError(f"owners of {len(whose)} rows do not fit shard {shard!r}.")
            at, total = 0, np.zeros((len(held.hot[0][1]) if held.hot else 1, owners), U64)
            for rows, hot in held.hot:
                counts = held.summed(self.role, at, at + rows)[:, -1]
                self._session.supplies.reserve(summing.needs(rows, len(hot)))
                here = whose[at : at + rows]
                total += giving_out.members(self._session, counts, hot, here, owners)
                at += rows
            return total

    def output(
        self,
        sums: State,
        squares: State | None = None,
        members: State | None = None,
        owners: int = 1,
    ) -> list[OutputShare]:
        """Halves of the k * (l + 1) sums and counts by owner, masked afresh at each call.

        Clusters of fewer than `min_size` records, or with `members` (k, owners) of fewer that are
        not the owner's own, are zeros in it. With `squares` (k, 1), the sums of ||x||^2, their sum
        over the other clusters follows.
        """
        with self._session.step("output"):
            clusters = self._widened(self._clusters(sums))
            columns = clusters.shape[1]
            told = self._told(self._counts(clusters, members, owners))
            found = self._as_told(clusters)
            if squares is not None:
                found = np.hstack([found, checked(squares)])
            by_owner = np.broadcast_to(found, (owners, *found.shape))
            if told is not None:
                by_owner = giving_out.told_to_each(self._session, found, told)
            flat = by_owner[:, :, :columns].reshape(owners, -1)
            if squares is not None:
                flat = np.hstack([flat, by_owner[:, :, columns].sum(axis=1, dtype=U64)[:, None]])
            return [OutputShare.of_words(row) for row in remask(self._session, flat)]

    def _counts(self, clusters: U64Array, members: State | None, owners: int) -> U64Array:
        """Counts for thresholds: each cluster's records that are not an owner's own."""
        counts = np.tile(clusters[:, -1], (owners, 1))
        return counts if members is None else counts - checked(members).T

    def _told(self, counts: U64Array) -> Bits | None:
        """Bits of the clusters revealed to each owner, by the counts (owners, k); None: all."""
        # more than all records is as good as any larger number
        least = min(self._p.min_size, self._p.m + 1)
        if least <= 1:
            return None
        self._session.supplies.reserve(update.small_needs(counts.size))
        return giving_out.large(self._session, counts, least)

    def _as_told(self, clusters: U64Array) -> U64Array:
        """The part of clusters (k, l + 1) for an owner to whom they are revealed."""
        return clusters

    def _widened(self, clusters: U64Array) -> U64Array:
        """Clusters modulo 2^64, whatever their ring is."""
        bits = self._rings.sum_bits
        self._session.supplies.reserve(widen.needs(clusters.size, bits, 1))
        flat = AdditiveShare(clusters.reshape(-1, 1))
        return widen.widen(self._session, flat, 1, bits).limbs.reshape(clusters.shape)

    def spread(self, shard: str, chosen: State, start: int) -> State:
        """The sum of the records' squared distances to the nearest of those chosen so far."""
        with self._session.step("spread"):
            return self._starts.total(shard, self._shard(shard), checked(chosen), start)

    def pick(self, shard: str, totals: State, number: int, word: int, *, last: bool) -> State:
        """The record that k-means++ chooses next, a cluster of count 1, or zeros (`spread`)."""
        with self._session.step("pick"):
            held, all_totals = self._shard(shard), checked(totals)
            return self._starts.pick(shard, held, all_totals, number, word, last=last)

    def squares(self, shard: str) -> State:
        """Sums of ||x||^2 by cluster of the shard's last `assign`: (k, 1)."""
        with self._session.step("squares"):
            held = self._shard(shard)
            at, total = 0, np.zeros((len(held.hot[0][1]) if held.hot else 1, 1), U64)
            for rows, hot in held.hot:
                norms = self._starts.norms(shard, held, at, at + rows)
                if held.keep is not None:
                    keep = held.keep[at : at + rows]
                    norms = select.select(self._session, keep, norms.reshape(rows, 1))
                self._session.supplies.reserve(summing.needs(rows, len(hot)))
                total += summing.sums(self._session, norms.limbs.reshape(-1, 1), hot)
                at += rows
            return total

    def better(self, old: Sequence[State], new: Sequence[State]) -> list[State]:
        """Of two starts, states of which the first are the sums, those of the less inertia."""
        with self._session.step("better"):
            rings = inertia.ScoreRings.of(self._p)
            before, after = (cut(checked(states[0]), rings.sums) for states in (old, new))
            bit = inertia.better(self._session, before, after, rings)
            pairs = zip(old, new, strict=True)
            return [inertia.chosen(self._session, bit, checked(a), checked(b)) for a, b in pairs]

    def labels(self, shard: str) -> OutputShare:
        """This cloud's half of the labels of the shard's last `assign`."""
        with self._session.step("labels"):
            held = self._shard(shard)
            if held.rows and not held.hot:
                raise InputError(f"shard {shard!r} has no labels before its first `assign`.")
            parts = [np.empty(0, U64)]
            for rows, hot in held.hot:
                self._session.supplies.reserve(giving_out.label_needs(rows, len(hot)))
                parts.append(giving_out.labels(self._session, hot, rows))
            return OutputShare.of_words(np.concatenate(parts))

    def close(self) -> None:
        """End the pair's session and forget all records."""
        for shard in self._shards.values():
            shard.close()
        self._assigner.close()
        self._starts.close()
        self._shards.clear()
        self._session.close()

    def _missing(self, iterations: int, rows: Sequence[int] | None) -> Needs:
        """Supplies for this many iterations, and for taking in records if none are held yet."""
        held = [shard.rows for shard in self._shards.values()]
        coming = [] if held else list(rows or [self._p.m])
        needs = self._demand.iteration(held or coming) * iterations + self._demand.ingest(coming)
        ready = self._session.supplies.available()
        missing = needs - ready
        if self._session.supplies.kept_on_disk:
            return missing
        return missing.within(AHEAD_BYTES - ready.size)

    def _shard(self, name: str) -> Shard:
        try:
            return self._shards[name]
        except KeyError:
            raise InputError(f"shard {name!r} has not been taken in at this worker.") from None

    def _clusters(self, state: State, k: int | None = None) -> U64Array:
        """A state of k clusters, or of any number that the job has, in the ring of sums."""
        found, wanted = checked(state), self._p.k if k is None else k
        fits = len(found) == k if k else 1 <= len(found) <= self._p.k
        if not fits or found.shape[1] != self._p.l + 1:
            raise InputError(
                f"a state of {wanted} clusters has the shape {(wanted, self._p.l + 1)}, "
                f"not {found.shape}."
            )
        return cut(found, self._rings.sum_bits)
