"""A half of the shares suite that links records first, so that each entity counts once.

It holds uploads for comparisons (`linkage.compare.comparisons`) until the first of its own records
are taken in; from then on it is a `SharesHalf` whose sums leave out the rows that do not count.

Who learns what: nothing. Rounds, bytes: those of the rule, an AND a pair; then once an AND and a
select a row. Iterations cost what they cost without.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.linked.columns import LinkedColumns
from ppodc.kmeans.linked.duplicates import Duplicates, any_needs
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.linkage.blocks.candidates import Work, pairs_of
from ppodc.linkage.compare.comparisons import Comparisons
from ppodc.linkage.compare.first_pass import any_pass
from ppodc.linkage.schedule import Rows, is_side
from ppodc.linkage.token_shares import own_row_share
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.shares import unmask
from ppodc.mpc.shares.additive import U64Array
from ppodc.mpc.supplies import Needs
from ppodc.pairs.plan import Progress
from ppodc.records.result_shares import OutputShare


def _needs(batch: Sequence[Work]) -> Needs:
    """Supplies for what becomes of the match bits of a batch."""
    return any_needs(pairs_of(batch))


class DistinctHalf(SharesHalf):
    """A half of the shares suite whose sums count each entity once."""

    def __init__(self, *arguments: Any, linked: LinkedColumns, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._linked = linked
        schema = linked.spec.schema
        self._compared = Comparisons(self._session, linked.job, schema, once=False)
        self._real: dict[str, Bits] = {}
        self._own: dict[str, NDArray[np.uint64]] = {}  # uploaded numbers of each shard's rows

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in an upload for comparisons, or a shard's records: rows as uploaded."""
        linked, layout = self._linked, self._linked.layout
        if share.ndim != 2 or share.shape[1] != linked.width or len(share) > self._p.m:
            raise InputError(f"shard {shard!r} does not fit the job.")
        if is_side(shard):
            with self._session.step("ingest"):
                self._compared.take_in(shard, share, layout)
            return
        self._compared.close()  # all pairs were compared before
        super().ingest(shard, np.ascontiguousarray(share[:, list(linked.places)]))
        if not layout.has_dummies:
            self._real[shard] = np.full(len(share), self.role == 1, np.uint8)
            return
        with self._session.step("ingest"):
            flat = np.ascontiguousarray(share[:, layout.real]).reshape(-1)
            self._real[shard] = unmask.low_bits(self._session, flat, 1).reshape(-1)
        self._own[shard] = np.ascontiguousarray(share[:, layout.number])

    def link(
        self,
        work: Sequence[Work],
        uploads: Sequence[Rows],
        before: Bits,
        rows: int,
        progress: Progress,
    ) -> Bits:
        """This cloud's shares of dup_j over all rows, of these blocks and of the parts `before`."""
        with self._session.step("link"):
            found = Duplicates(self._p.m)
            found.add_parts(self._session, before)
            for batch in self._compared.matched(work, _needs, rows, progress):
                at = [
                    np.tile(uploads[w.y].first + w.block.columns, w.block.height) for w, _ in batch
                ]
                bits = [match.reshape(-1) for _, match in batch]
                found.add(self._session, np.concatenate(at), np.concatenate(bits))
            return found.bits

    def home(self, found: Bits, uploads: Sequence[Rows]) -> Bits:
        """Shares of dup_j of the rows of first passes, from all passes; 0 for later ones."""
        with self._session.step("home"):
            whole = Duplicates(self._p.m)
            whole.add_parts(self._session, found)
            for number, rows in enumerate(uploads):
                own = slice(rows.first, rows.first + rows.count)
                bits = np.zeros(rows.count, np.uint8)
                switches = self._compared.switches[number]
                found_of = any_pass(self._session, whole.bits[own], switches, rows.passes)
                bits[: rows.in_first_pass] = found_of
                whole.bits[own] = bits
            return whole.bits

    def count_once(self, shard: str, parts: Bits, first: NDArray[np.bool_]) -> None:
        """From now on sums leave out dummies, duplicates and all but the first pass."""
        with self._session.step("dedup"):
            found = Duplicates(self._shard(shard).rows)
            found.add_parts(self._session, parts)
            keep = found.keep(self._session, self._real[shard]) * first.astype(np.uint8)
            self._shards[shard].keep_only(self._session, keep, self._budget)

    def own_rows(self, shard: str, upload: U64Array, first: NDArray[np.bool_]) -> OutputShare:
        """This cloud's half of the numbers of a shard's rows in their owners' uploads."""
        with self._session.step("labels"):
            return own_row_share(self._session, self._own[shard], upload, first, self._budget)

    def close(self) -> None:
        """End the pair's session and forget all records."""
        self._compared.close()
        super().close()
