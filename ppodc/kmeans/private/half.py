"""One cloud's half of k-means with noise, on the two-party engine.

Centres c_h are public, so the distance of a record t to them is local on shares up to ||t||^2,
which all have in common:

    d_h = ||c_h||^2 - 2 t.c_h                 local
    d_K = r^2 - ||t||^2                       nobody: wins where all centres are farther than r
    b   = one-hot of the least of d_0..d_K    SMIN_k, ties to the lowest
    S_h = sum_i b_h(i) (t_i - c_h),  n_h = sum_i b_h(i)     one select a record and centre

||t||^2 is computed once, when a record is taken in. Then each cloud adds its own noise to its own
share of (S, n), reduced to the ring, and both exchange what that gives.

Who learns what: both clouds learn S and n with both noises in them, from the exchange in `open`,
and nothing else: a share is uniform, what C2 gets from C1 is S + noise - (its own share). `output`
gives each cloud a fresh half.
Rounds of an iteration: those of SMIN_k of K + 1 numbers, 2 for the sums, 1 to open. Bytes per
record, centre and direction: a comparison and a select of w bits, w = bits(l ub^2), and 4 (l + 1)
or 8 (l + 1) for the sums; no product of a record with a centre.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.kmeans.private.job import plan_of
from ppodc.kmeans.private.noisy_kmeans import Integers, own_noise
from ppodc.kmeans.private.ring import Ring
from ppodc.kmeans.shares import smin_k
from ppodc.kmeans.shares.sums import with_count
from ppodc.mpc.meter import Meter
from ppodc.mpc.session import Session
from ppodc.mpc.shares import select, unmask
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.remask import remask
from ppodc.mpc.shares.squares import squares
from ppodc.mpc.shares.unmask import SharedTable
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.plan import Progress
from ppodc.pairs.supplied_half import SuppliedHalf
from ppodc.records.result_shares import OutputShare
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.transport.channel import Channel

_MEMORY_BYTES = 128 << 20  # what shares and keys of records may keep in memory
_CHUNK_BYTES = 1 << 27  # of a chunk's distances, supplies and selects
_CHUNK_ROWS = 1 << 14
_SQUARED_BITS = 1 << 20  # bits squared at a time
_OPEN = "noisy.sums"


@dataclass(slots=True, repr=False)
class _Shard:
    table: SharedTable
    norms: U64Array  # this cloud's shares of ||t||^2


class NoisyHalf(SuppliedHalf):
    """The half of the cloud `role`."""

    def __init__(
        self, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> None:
        self._plan, self._m = plan_of(spec), m
        self._ring = Ring.of(self._plan, m)
        self._budget = Budget(_MEMORY_BYTES)
        self._shards: dict[str, _Shard] = {}
        job = f"private-kmeans 2 m={m} {self._plan}"
        self._session = Session.start(role, channel, job, pools=material.pools)

    @property
    def meter(self) -> Meter:
        """Time and bytes by step."""
        return self._session.meter

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in a shard's records: (rows, l), t + r at C1 and r at C2."""
        with self._session.step("ingest"):
            total = len(share) + sum(held.table.rows for held in self._shards.values())
            columns = self._plan.columns
            if shard in self._shards or share.ndim != 2 or share.shape[1] != columns:
                raise InputError(f"shard {shard!r} does not fit the job.")
            if total > self._m:
                raise InputError(
                    f"shard {shard!r} brings this worker to {total} records; the job was "
                    f"announced with {self._m}. Start a job of the right size."
                )
            table = unmask.unmask(
                self._session,
                share,
                self._ring.bits,
                self._budget,
                largest=self._plan.ub,
                top=max(self._ring.distance_top, self._ring.sum_top),
            )
            self._shards[shard] = _Shard(table, self._norms(table))
            table.forget_bits()  # nothing chooses by the bits of a record any more

    def _norms(self, table: SharedTable) -> U64Array:
        """Shares of ||t||^2 = sum_s t_s^2 for every record."""
        with self.meter.step("norms"):
            step = max(1, _SQUARED_BITS // table.per_row)
            parts = [np.empty(0, U64)]
            for start in range(0, table.rows, step):
                end = min(start + step, table.rows)
                found = squares(self._session, table, start, end, self._ring.distance_top)
                parts.append(found.sum(axis=1, dtype=U64))
            return np.concatenate(parts)

    def assign(self, shards: Sequence[str], centres: Integers, progress: Progress) -> U64Array:
        """This cloud's share of residual sums and counts over these shards: (K, l + 1)."""
        with self._session.step("assign"):
            self._check(centres)
            total = np.zeros((len(centres), self._plan.columns + 1), U64)
            for name in shards:
                held = self._shards[name]
                for start, end in self._chunks(held.table.rows):
                    total += self._chunk_sums(held, start, end, centres)
                    progress(end - start)
            # sum_i b_h(i) (t_i - c_h)
            total[:, :-1] -= centres.astype(U64) * total[:, -1:]
            return total

    def _chunk_sums(self, held: _Shard, start: int, end: int, centres: Integers) -> U64Array:
        """Shares of sum_i b_h(i) (t_i, 1) over rows start..end-1."""
        session, values = self._session, held.table.additive(start, end)
        session.supplies.reserve(self._needs(end - start))
        with self.meter.step("SMIN_k"):
            differences = self._differences(values.limbs[..., 0], held.norms[start:end], centres)
            hot = smin_k.smin_k(session, differences, self._ring.distance_bits)
        with self.meter.step("sums"):
            bits = np.concatenate([member.unpack(end - start) for member in hot[:-1]])
            rows = AdditiveShare(with_count(session.role, values)[..., None])
            chosen = select.select(session, bits, rows, end - start, self._ring.sum_top)
        return chosen.limbs[..., 0]

    def _differences(self, values: U64Array, norms: U64Array, centres: Integers) -> AdditiveShare:
        """Shares of d_1 - d_0, ..., d_K - d_0: (rows, K). Local."""
        public = centres.astype(U64)
        distances = np.empty((len(values), len(centres) + 1), U64)
        distances[:, :-1] = U64(0) - U64(2) * (values @ public.T)
        distances[:, -1] = U64(0) - norms
        if self._session.role == 1:
            distances[:, :-1] += (public * public).sum(axis=1, dtype=U64)
            distances[:, -1] += U64(self._plan.radius**2)
        return AdditiveShare((distances[:, 1:] - distances[:, :1])[..., None])

    def open(self, parts: Sequence[U64Array], seed: bytes) -> Integers:
        """Sums and counts over all pairs with both clouds' noise: (K, l + 1), known to both.

        `seed` is this cloud's own, for this opening and no other.
        """
        with self._session.step("open"):
            total: U64Array = np.stack(parts).sum(axis=0, dtype=U64)
            noise = own_noise(self._plan, SecureRandom(seed))
            own = self._ring.reduced(total + noise.astype(U64))
            return self._ring.signed(own + self._session.link.exchange(_OPEN, own))

    def output(self, values: Integers) -> OutputShare:
        """A fresh half of what both clouds know, for the owners."""
        with self._session.step("output"):
            words = values.astype(U64)
            share = words if self._session.role == 1 else np.zeros_like(words)
            return OutputShare.of_words(remask(self._session, share))

    def close(self) -> None:
        """End the pair's session and forget all records."""
        for held in self._shards.values():
            held.table.close()
        self._shards.clear()
        self._session.close()

    def _missing(self, iterations: int, rows: Sequence[int] | None) -> Needs:
        """Supplies for these iterations, and for taking records in before there are any."""
        held = [shard.table.rows for shard in self._shards.values()]
        total = Needs()
        for size in [] if held else list(rows or [self._m]):
            shape = size, self._plan.columns, self._ring.bits
            total += unmask.needs(*shape, self._plan.ub) + unmask.bit_needs(*shape)
        for size in held or list(rows or [self._m]):
            for start, end in self._chunks(size):
                total += self._needs(end - start) * iterations
        return total - self._session.supplies.available()

    def _needs(self, rows: int) -> Needs:
        """Supplies for a chunk of one iteration."""
        centres = self._plan.centres
        players = smin_k.needs(rows, centres + 1, self._ring.distance_bits)
        return players + select.needs(rows * centres)

    def _chunks(self, rows: int) -> Iterator[tuple[int, int]]:
        # a centre's distances, digits, keys of a select and sums, all at once
        per_row = self._plan.centres * (64 + 3 * self._ring.distance_bits)
        step = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // per_row))
        for start in range(0, rows, step):
            yield start, min(start + step, rows)

    def _check(self, centres: Integers) -> None:
        plan = self._plan
        if centres.shape != (plan.centres, plan.columns):
            raise InputError(f"the job has {plan.centres} centres of {plan.columns} columns.")
        if centres.min() < 0 or centres.max() > plan.ub:
            raise InputError(f"public centres must lie in 0..{plan.ub}.")
