"""A half of the shares suite that clusters the columns of several sides.

It holds uploads for the join (`linkage.joined.joiner`) until the first of the anchor's records are
taken in. These wait for their joined columns (`fill`); from then on it is a `SharesHalf` whose sums
leave out the rows that are not joined. If fewer than `least` are joined, owners are told zeros.

Of an owner that shares its side with others, thresholds count the joined rows that hold a row of
one of these: it knows its own columns of the others, and would subtract them. With m:1 they count
partners, not rows (`joined_rows`).

Who learns what: nothing. Rounds, bytes: those of the join; then once a select a row. Iterations
cost what they cost without. `least` takes a comparison and an AND at the output. Labels of the
anchor's rows cost what labels do, and a round with half an AND pair a bit. Where owners are told
apart, once for each k: a select a row and owner, and one of all owners a row and cluster.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.half import State
from ppodc.kmeans.shares import output as giving_out
from ppodc.kmeans.shares import sums as summing
from ppodc.kmeans.shares import update
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.ring_sizes import checked
from ppodc.kmeans.shares.whole_centres import whole_centres
from ppodc.linkage.blocks.candidates import Work
from ppodc.linkage.joined import joined_rows
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.findings import Found, Joined, Uploads
from ppodc.linkage.joined.joined_rows import both
from ppodc.linkage.joined.joiner import Joiner
from ppodc.linkage.joined.joining import MOST_ROWS
from ppodc.linkage.schedule import is_side
from ppodc.linkage.token_shares import own_row_share
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.records.result_shares import OutputShare


class JoinedHalf(SharesHalf):
    """A half of the shares suite over joined rows."""

    def __init__(
        self, *arguments: Any, columns: JoinedColumns, sizes: bool = True, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._columns, self._sizes = columns, sizes
        self._joiner = Joiner(self._session, columns)
        self._waiting: dict[str, NDArray[np.uint64]] = {}  # own columns of rows not joined yet
        self._numbers: dict[str, NDArray[np.uint64]] = {}  # of rows, where there are dummies
        self._weights: dict[str, tuple[Bits, U64Array]] = {}  # of rows: whose partners, weights

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in an upload for the join, or the anchor's rows: as uploaded."""
        columns = self._columns
        if share.ndim != 2 or share.shape[1] != columns.width or len(share) > self._p.m:
            raise InputError(f"shard {shard!r} does not fit the job.")
        if is_side(shard):
            with self._session.step("ingest"):
                self._joiner.take_in(shard, share)
            return
        self._joiner.close()  # all rows were joined before
        self._waiting[shard] = share[:, columns.layout.width :]
        if columns.layout.has_dummies:
            self._numbers[shard] = np.ascontiguousarray(share[:, columns.layout.number])

    def link(self, work: Sequence[Work], *inputs: Any) -> Found:
        """Findings that this portion adds to the join."""
        uploads, top, rows, progress = inputs
        with self._session.step("link"):
            return self._joiner.link(work, Uploads(tuple(uploads), top), rows, progress)

    def home(self, found: Found, *inputs: Any) -> Joined:
        """The joined rows, from the findings of all portions."""
        work, uploads = inputs
        with self._session.step("join"):
            return self._joiner.join(found, work, uploads)

    def fill(
        self, shard: str, values: NDArray[Any], keep: Bits, whose: Bits, weight: U64Array
    ) -> None:
        """Take in the anchor's records of a shard with the columns of their partners."""
        own = self._waiting.pop(shard, None)
        if own is None or not len(own) == len(values) == len(keep) == len(whose):
            raise InputError(f"shard {shard!r} does not fit its joined columns.")
        places = [place for side in self._columns.partners for place in side.places]
        records = own.copy()
        records[:, places] = values
        super().ingest(shard, records)
        with self._session.step("join"):
            self._shards[shard].keep_only(self._session, keep, self._budget)
        self._weights[shard] = whose, weight

    def members(self, shard: str, runs: NDArray[np.int64], owners: int, *partners: int) -> State:
        """Weights of the clusters without an owner's own rows: (k, sides * owners).

        `runs` are empty if the anchor has one owner; `partners` are the numbers of the owners
        whose partners `fill` has told of.
        """
        held, (whose, weight) = self._shard(shard), self._weights[shard]
        with self._session.step("members"):
            arguments = whose, owners, partners, runs
            counted = joined_rows.others(self._session, weight, *arguments)
            k = len(held.hot[0][1]) if held.hot else 1
            at, total = 0, np.zeros((k, counted.shape[1]), U64)
            for rows, hot in held.hot:
                self._session.supplies.reserve(summing.needs(rows, len(hot)))
                own = np.ascontiguousarray(counted[at : at + rows])
                total += summing.sums(self._session, own, hot, 32)
                at += rows
            return total

    def _counts(self, clusters: U64Array, members: State | None, owners: int) -> U64Array:
        """Without weights all rows count for all; with them (sides * owners, k)."""
        return super()._counts(clusters, None, 1) if members is None else checked(members).T

    def _told(self, counts: U64Array) -> Bits | None:
        """Those clusters with enough people on every side, if all have enough together."""
        join, most = self._columns.join, self._p.m + 1
        sides = join.sides_counted(len(self._columns.partners))
        bits = None
        for least, parts in ((self._p.min_size, counts), (join.least, counts.sum(axis=1)[:, None])):
            if least > 1:
                self._session.supplies.reserve(update.small_needs(parts.size))
                wanted = min(least, most, MOST_ROWS + 1) * join.whole
                large = giving_out.large(self._session, parts, wanted)
                large = np.ascontiguousarray(np.broadcast_to(large, counts.shape))
                bits = large if bits is None else both(self._session, bits, large)
        if bits is None:
            return None
        told, *others = np.split(bits, sides)
        for part in others:
            told = both(self._session, told, part)
        return told

    def _as_told(self, clusters: U64Array) -> U64Array:
        """Without sizes, centres in whole steps, each with 1 behind it if it is told."""
        if self._sizes:
            return clusters
        least = min(self._p.min_size, self._p.m + 1)
        return whole_centres(self._session, clusters, least, self._p.m, self._p.ub)

    def joined_labels(self, shard: str, sums: State) -> OutputShare:
        """Halves of 1 + the label, or of 0 for a row that is not joined (or nothing is told)."""
        with self._session.step("labels"):
            held = self._shard(shard)
            if held.keep is None or (held.rows and not held.hot):
                raise InputError(f"shard {shard!r} has no labels before its first `assign`.")
            told, at, parts = held.keep, 0, [np.empty(0, U64)]
            least = min(self._columns.join.least, self._p.m + 1)
            if least > 1:
                told = self._enough(told, sums, least)
            for rows, hot in held.hot:
                self._session.supplies.reserve(giving_out.label_needs(rows, len(hot) + 1))
                own = told[at : at + rows]
                parts.append(giving_out.labels(self._session, hot, rows, own))
                at += rows
            return OutputShare.of_words(np.concatenate(parts))

    def _enough(self, keep: Bits, sums: State, least: int) -> Bits:
        """The rows that count if at least `least` rows are joined; otherwise none."""
        counts = self._widened(self._clusters(sums))[:, -1]
        self._session.supplies.reserve(update.small_needs(1))
        enough = giving_out.large(self._session, counts.sum(dtype=U64).reshape(1, 1), least)
        return both(self._session, keep, np.repeat(enough, len(keep)))

    def own_rows(
        self, shard: str, upload: NDArray[np.uint64], first: NDArray[np.bool_]
    ) -> OutputShare:
        """This cloud's half of the numbers of a shard's rows in their owners' uploads."""
        with self._session.step("labels"):
            own = self._numbers[shard]
            return own_row_share(self._session, own, upload, first, self._budget)

    def close(self) -> None:
        """End the pair's session and forget all records."""
        self._joiner.close()
        self._waiting.clear()
        self._numbers.clear()
        self._weights.clear()
        super().close()
