"""Uploads at a worker, taken in for either side of pairs, and the match bits of their blocks.

Whatever becomes of the bits (`match_sums`), pairs are compared here. With several keys a pair
counts in the first pass in which it agrees (`first_pass`), unless `once` is false.

Who learns what: nothing. Rounds, bytes: those of the rule's matcher, and of `first_pass`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ppodc.linkage.blocks.candidates import Work, pairs_of
from ppodc.linkage.compare.first_pass import counted_first, first_needs, take_in_keys
from ppodc.linkage.compare.matcher import Share, blocks_of
from ppodc.linkage.job import Job
from ppodc.linkage.row_layout import RowLayout
from ppodc.linkage.schedule import LEFT, RIGHT, grouped, shard_name
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.pairs.plan import Progress
from ppodc.records.schema import Schema

_MEMORY_BYTES = 160 << 20  # what shares and keys of records may keep in memory


class Comparisons:
    """The rows of all uploads on shares, and the matcher of the job's rule."""

    def __init__(self, session: Session, job: Job, schema: Schema, *, once: bool = True) -> None:
        self._session, self._job, self._once = session, job, once
        self._matcher = job.rule_in_cells.matcher(schema)
        self.budget = Budget(_MEMORY_BYTES)
        self._rows: dict[str, Any] = {}
        self._keys: dict[int, Bits] = {}  # of each upload in earlier passes
        self.switches: dict[int, Share] = {}  # of each upload, as uploaded

    def take_in(self, shard: str, share: Share, layout: RowLayout) -> None:
        """Take in an upload, as this cloud has it, for one side of comparisons."""
        link = np.ascontiguousarray(share[:, layout.link])
        real = np.ascontiguousarray(share[:, layout.real]) if layout.has_dummies else None
        self._rows[shard] = self._matcher.take_in(
            self._session, link, real, self.budget, first=shard.endswith(LEFT)
        )
        upload = int(shard[:-1])
        if layout.has_passes and upload not in self.switches:
            self.switches[upload] = share[:, layout.switches]
            if self._once:
                self._keys[upload] = take_in_keys(self._session, share[:, layout.earlier])

    def needs(self, batch: Sequence[Work]) -> Needs:
        """Supplies for comparing a batch."""
        earlier = batch[0].earlier if self._once else 0
        return self._matcher.needs(batch) + first_needs(earlier, pairs_of(batch))

    def matched(
        self,
        work: Sequence[Work],
        needs: Callable[[Sequence[Work]], Needs],
        rows: int,
        progress: Progress,
    ) -> Iterator[list[tuple[Work, Bits]]]:
        """Batch by batch, the match bits (height, width) of every block; progress is `rows` in all.

        `needs` are what the caller takes besides for the bits of a batch.
        """
        total, done, reported = max(1, pairs_of(work)), 0, 0
        for batch in grouped(work, self._job.rule.batch_pairs):
            x, y = batch[0].x, batch[0].y
            left, right = self._rows[shard_name(x, LEFT)], self._rows[shard_name(y, RIGHT)]
            self._session.supplies.reserve(self.needs(batch) + needs(batch))
            bits = self._matcher.match(self._session, left, right, batch)
            if self._once and batch[0].earlier:
                keys, blocks = (self._keys[x], self._keys[y]), blocks_of(batch)
                bits = counted_first(self._session, *keys, batch[0].earlier, blocks, bits)
            yield list(zip(batch, bits, strict=True))
            done += pairs_of(batch)
            progress(rows * done // total - reported)
            reported = rows * done // total

    def close(self) -> None:
        """Forget all rows."""
        self._rows.clear()
        self._keys.clear()
        self.switches.clear()
