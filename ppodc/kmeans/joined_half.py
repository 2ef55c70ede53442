"""A half of the shares suite that clusters the columns of several sides.

It holds uploads for the join (`linkage.joined.joiner`) until the first of the anchor's records are
taken in. These wait for their joined columns (`fill`); from then on it is a `SharesHalf` whose sums
leave out the rows that are not joined. If fewer than `least` are joined, owners are told zeros.

Who learns what: nothing. Rounds, bytes: those of the join; then once a select a row. Iterations
cost what they cost without. `least` takes a comparison and a select at the output. Labels of the
anchor's rows cost what labels do, and a round with half an AND pair a bit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.half import State
from ppodc.kmeans.shares import output as giving_out
from ppodc.kmeans.shares import update
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.whole_centres import whole_centres
from ppodc.linkage.blocks.candidates import Work
from ppodc.linkage.compare.comparisons import is_side
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.joined_rows import both
from ppodc.linkage.joined.joiner import Found, Joined, Joiner, Uploads
from ppodc.linkage.token_shares import own_row_share
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.shares.additive import U64
from ppodc.mpc.shares.remask import remask
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

    def fill(self, shard: str, values: NDArray[Any], keep: Bits) -> None:
        """Take in the anchor's records of a shard with the columns of their partners."""
        own = self._waiting.pop(shard, None)
        if own is None or len(own) != len(values) or len(values) != len(keep):
            raise InputError(f"shard {shard!r} does not fit its joined columns.")
        places = [place for side in self._columns.partners for place in side.places]
        records = own.copy()
        records[:, places] = values
        super().ingest(shard, records)
        with self._session.step("join"):
            self._shards[shard].keep_only(self._session, keep, self._budget)

    def output(
        self,
        sums: State,
        squares: State | None = None,
        members: State | None = None,
        owners: int = 1,
    ) -> list[OutputShare]:
        """Halves of sums and sizes, the same for all; zeros if fewer than `least` are joined.

        Without sizes, halves of centres in whole steps, each with 1 behind it if it is told.
        """
        least = min(self._columns.join.least, self._p.m + 1)
        if least > 1:
            sums, squares = self._enough(sums, squares, least)
        if self._sizes:
            return super().output(sums, squares, members, owners)
        with self._session.step("output"):
            told, p = self._widened(self._clusters(sums)), self._p
            found = whole_centres(self._session, told, min(p.min_size, p.m + 1), p.m, p.ub)
            return [OutputShare.of_words(remask(self._session, found.reshape(-1)))]

    def joined_labels(self, shard: str, sums: State) -> OutputShare:
        """Halves of 1 + the label, or of 0 for a row that is not joined (or nothing is told)."""
        with self._session.step("labels"):
            held = self._shard(shard)
            if held.keep is None or (held.rows and not held.hot):
                raise InputError(f"shard {shard!r} has no labels before its first `assign`.")
            told, at, parts = held.keep, 0, [np.empty(0, U64)]
            least = min(self._columns.join.least, self._p.m + 1)
            if least > 1:
                told = self._told(told, sums, least)
            for rows, hot in held.hot:
                self._session.supplies.reserve(giving_out.label_needs(rows, len(hot) + 1))
                own = told[at : at + rows]
                parts.append(giving_out.labels(self._session, hot, rows, own))
                at += rows
            return OutputShare.of_words(np.concatenate(parts))

    def _told(self, keep: Bits, sums: State, least: int) -> Bits:
        """The rows that count if at least `least` rows are joined; otherwise none."""
        counts = self._widened(self._clusters(sums))[:, -1]
        self._session.supplies.reserve(update.small_needs(1))
        joined = counts.sum(dtype=U64).reshape(1, 1)
        few = update.small(self._session, joined, least).negated(self.role).unpack(1)
        return both(self._session, keep, np.repeat(few, len(keep)))

    def own_rows(
        self, shard: str, upload: NDArray[np.uint64], first: NDArray[np.bool_]
    ) -> OutputShare:
        """This cloud's half of the numbers of a shard's rows in their owners' uploads."""
        with self._session.step("labels"):
            own = self._numbers[shard]
            return own_row_share(self._session, own, upload, first, self._budget)

    def _enough(self, sums: State, squares: State | None, least: int) -> tuple[State, State | None]:
        """The sums as they are, or zeros if fewer than `least` rows are joined."""
        with self._session.step("output"):
            told = self._widened(self._clusters(sums))
            k, columns = told.shape
            further = np.empty((k, 0), U64) if squares is None else squares.astype(U64)
            whole = np.hstack([told, further])
            joined = told[:, -1].sum(dtype=U64).reshape(1, 1)
            self._session.supplies.reserve(update.small_needs(1))
            row = whole.reshape(1, -1)  # all of it is told, or nothing
            kept = giving_out.large(self._session, row, joined, least)[0].reshape(whole.shape)
        left = None if squares is None else np.ascontiguousarray(kept[:, columns:])
        return np.ascontiguousarray(kept[:, :columns]), left

    def close(self) -> None:
        """End the pair's session and forget all records."""
        self._joiner.close()
        self._waiting.clear()
        self._numbers.clear()
        super().close()
