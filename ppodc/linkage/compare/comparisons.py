"""Uploads at a worker, taken in for either side of pairs, and the match bits of their blocks.

Whatever becomes of the bits (`match_sums`), pairs are compared here.

Who learns what: nothing. Rounds, bytes: those of the rule's matcher.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ppodc.linkage.blocks.candidates import Work, pairs_of
from ppodc.linkage.compare.matcher import Share
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

    def __init__(self, session: Session, job: Job, schema: Schema) -> None:
        self._session, self._job = session, job
        self._matcher = job.rule_in_cells.matcher(schema)
        self.budget = Budget(_MEMORY_BYTES)
        self._rows: dict[str, Any] = {}

    def take_in(self, shard: str, share: Share, layout: RowLayout) -> None:
        """Take in an upload, as this cloud has it, for one side of comparisons."""
        link = np.ascontiguousarray(share[:, layout.link])
        real = np.ascontiguousarray(share[:, layout.real]) if layout.has_dummies else None
        self._rows[shard] = self._matcher.take_in(
            self._session, link, real, self.budget, first=shard.endswith(LEFT)
        )

    def needs(self, batch: Sequence[Work]) -> Needs:
        """Supplies for comparing a batch."""
        return self._matcher.needs(batch)

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
            yield list(zip(batch, bits, strict=True))
            done += pairs_of(batch)
            progress(rows * done // total - reported)
            reported = rows * done // total

    def close(self) -> None:
        """Forget all rows."""
        self._rows.clear()
