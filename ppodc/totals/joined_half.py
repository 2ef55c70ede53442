"""One cloud's half of totals over joined rows.

Uploads are joined first (`ppodc.linkage.joined`). Then, with keep_i the shared bit of who is joined
and t the values of a row, z_i = keep_i t_i is a select a row, and modulo 2^64

    n = sum_i keep_i,   S = sum_i z_i                               local
    Q_s = sum_i t_is z_is = sum_i sum_j tbit_isj (2^j z_is)         one transfer a bit
    C_sq = sum_i t_is z_iq = sum_i sum_j tbit_isj (2^j z_iq)        all q at once, one a bit

keep_i being 0 or 1, Q and C are those of the joined rows. If n < `least`, zeros go out. For an
owner that shares its side with others, n counts the joined rows that hold a row of one of these: it
knows its own columns of the rest, and would subtract them.

Who learns what: nothing, nor whether n reached `least`; `output` gives each cloud a freshly masked
half. Rounds: those of the join, of taking in, 1 for z, 1 for Q or C, and a comparison and a select
for `least`. Bytes per row, in each direction: 8 (l + 1) for z, 8 b l for Q, 8 b l^2 for C.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.blocks.candidates import Work
from ppodc.linkage.joined.findings import Found, Joined, Uploads, Words
from ppodc.linkage.joined.joined_rows import both, others
from ppodc.linkage.joined.joiner import Joiner
from ppodc.linkage.schedule import is_side
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.shares import compare, select
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public
from ppodc.mpc.shares.remask import remask
from ppodc.mpc.shares.squares import squares
from ppodc.mpc.shares.unmask import SharedTable
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.plan import Progress
from ppodc.records.result_shares import OutputShare
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.totals.half import TotalsHalf
from ppodc.totals.job import job_of
from ppodc.transport.channel import Channel

_COUNT_BITS = 47  # |n - least| < 2^41, and 2^6 times as much of weights


class JoinedTotalsHalf(TotalsHalf):
    """The half of the cloud `role`."""

    def __init__(
        self, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> None:
        super().__init__(role, channel, spec, m, material)
        job = job_of(spec)
        joined = job.joined(spec.schema)
        if joined is None:
            raise InputError("this job joins no rows.")
        self._joined, self._cross = joined, job.cross
        self._sides = joined.join.sides_counted(len(joined.partners))
        self._least = min(joined.join.least, m + 1)
        self._joiner = Joiner(self._session, joined)
        self._waiting: dict[str, NDArray[np.uint64]] = {}  # own columns of rows not joined yet
        self._keep: dict[str, Bits] = {}
        self._weights: dict[str, tuple[U64Array, Bits]] = {}  # of rows, and whose partners

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in an upload for the join, or the anchor's rows: as uploaded."""
        if share.ndim != 2 or share.shape[1] != self._joined.width or len(share) > self._m:
            raise InputError(f"shard {shard!r} does not fit the job.")
        if is_side(shard):
            with self._session.step("ingest"):
                self._joiner.take_in(shard, share)
            return
        self._joiner.close()  # all rows were joined before
        self._waiting[shard] = share[:, self._joined.layout.width :]

    def link(self, work: Sequence[Work], *inputs: Any) -> Found:
        """Findings that this portion adds to the join."""
        uploads, top, rows, progress = inputs
        with self._session.step("link"):
            return self._joiner.link(work, Uploads(tuple(uploads), top), rows, progress)

    def home(self, found: Found, work: Sequence[Work], uploads: Uploads) -> Joined:
        """The joined rows, from the findings of all portions."""
        with self._session.step("join"):
            return self._joiner.join(found, work, uploads)

    def fill(self, shard: str, values: Words, keep: Bits, whose: Bits, weight: U64Array) -> None:
        """Take in the anchor's rows of a shard with the columns of their partners."""
        own = self._waiting.pop(shard, None)
        if own is None or not len(own) == len(values) == len(keep) == len(whose):
            raise InputError(f"shard {shard!r} does not fit its joined columns.")
        records = own.copy()
        records[:, [place for side in self._joined.partners for place in side.places]] = values
        super().ingest(shard, records)
        self._keep[shard], self._weights[shard] = keep, (weight, whose)

    def sum(
        self,
        shards: Sequence[str],
        progress: Progress,
        owners: int = 0,
        partners: Sequence[int] = (),
        runs: Sequence[NDArray[np.int64]] = (),
    ) -> U64Array:
        """This cloud's share of n, S and Q or C of these shards, one behind the other.

        Behind them, if owners are told apart, the weights of all rows that are not their own, for
        each side and owner: by `runs` of the anchor's rows, and by the numbers of owners whose
        partners `fill` told of.
        """
        with self._session.step("sum"):
            columns = self._columns
            size = columns * columns if self._cross else columns * self._variance
            total, counts = np.zeros(1 + columns + size, U64), np.zeros(self._sides * owners, U64)
            for place, name in enumerate(shards):
                table, keep = self._tables[name], self._keep[name]
                for start, end in self._chunks(table.rows):
                    kept = self._kept(table, keep[start:end], start, end)
                    total[:1] += kept[:, -1].sum(dtype=U64)
                    total[1 : 1 + columns] += kept[:, :-1].sum(axis=0, dtype=U64)
                    total[1 + columns :] += self._products(table, kept[:, :-1], start, end)
                    progress(end - start)
                if owners:
                    arguments = *self._weights[name], owners, partners, runs[place]
                    counts += others(self._session, *arguments).sum(axis=0, dtype=U64)
            return np.concatenate([total, counts])

    def _kept(self, table: SharedTable, keep: Bits, start: int, end: int) -> U64Array:
        """(keep t, keep) of some rows."""
        rows = np.empty((end - start, self._columns + 1, 1), U64)
        rows[:, :-1, 0] = table.additive(start, end).limbs[..., 0]
        rows[:, -1, 0] = self._session.role == 1
        return select.select(self._session, keep, AdditiveShare(rows)).limbs[..., 0]

    def _products(self, table: SharedTable, kept: U64Array, start: int, end: int) -> U64Array:
        """Q or C of some rows; nothing without variances."""
        if not self._variance:
            return np.empty(0, U64)
        kept = np.ascontiguousarray(kept)
        if not self._cross:
            found: U64Array = squares(self._session, table, start, end, other=kept).sum(axis=0)
            return found
        rows, columns = kept.shape
        bits = table.choices(start, end).reshape(rows, columns, -1)
        width = bits.shape[2]
        shifted = kept[:, None, :] << np.arange(width, dtype=U64)[None, :, None]
        wide = AdditiveShare(np.ascontiguousarray(shifted).reshape(rows * width, columns, 1))
        flat = np.ascontiguousarray(bits.transpose(1, 0, 2)).reshape(-1)
        self._session.supplies.reserve(select.needs(len(flat)))
        return select.select(self._session, flat, wide, rows * width).limbs.reshape(-1)

    def output(self, parts: Sequence[U64Array], owners: int = 0) -> list[OutputShare]:
        """Fresh halves of n, S and Q or C over all pairs, for each owner or once for all.

        Zeros for whom less than `least` of the n are not its own.
        """
        with self._session.step("output"):
            total: U64Array = np.stack(parts).sum(axis=0, dtype=U64)
            total, counts = np.split(total, [len(total) - self._sides * owners])
            told = np.tile(total, (max(1, owners), 1))
            if self._least > 1:
                told = self._told(total, counts if owners else total[:1].copy())
            cuts = [np.split(row, [1, 1 + self._columns]) for row in remask(self._session, told)]
            return [OutputShare.of_words(part) for row in cuts for part in row if len(part)]

    def _told(self, total: U64Array, counts: U64Array) -> U64Array:
        """The totals, or zeros, by the counts of all sides: [n >= least] is decided on shares."""
        session, least = self._session, self._least * self._joined.join.whole
        above = AdditiveShare(counts[:, None]) - public([least] * len(counts), 1, session.role)
        each = compare.sign(session, above, _COUNT_BITS).negated(session.role).unpack(len(counts))
        bits, *more = np.split(each, self._sides)
        for part in more:
            bits = both(session, bits, part)
        return select.select(session, bits, AdditiveShare(total[None, :, None])).limbs[..., 0]

    def close(self) -> None:
        """End the pair's session and forget all rows."""
        self._joiner.close()
        self._waiting.clear()
        super().close()
