"""One cloud's half of a linkage job, on the two-party engine.

Every pair takes in all uploads, as left or right side of the comparisons that it may be given, and
compares the blocks of its portions. Match bits become sums as they are made (`match_sums`), which
may be added up over portions and pairs. At the end one pair turns the sums into shares of what
owners learn.

Who learns what: nothing; `output` gives each cloud freshly masked halves, of which owners get their
own rows, or the number of links. Rounds, bytes: see `compare` and `match_sums`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.blocks.candidates import Work, pairs_of
from ppodc.linkage.compare.comparisons import Comparisons
from ppodc.linkage.compare.first_pass import brought_home
from ppodc.linkage.job import job_of
from ppodc.linkage.match_sums import Side
from ppodc.linkage.schedule import Rows, grouped
from ppodc.linkage.token_shares import row_numbers, tokens
from ppodc.linkage.tokens import ROW_BITS, base
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public, zeros
from ppodc.mpc.shares.remask import remask_limbs
from ppodc.mpc.supplies import Needs
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.plan import Progress
from ppodc.pairs.supplied_half import SuppliedHalf
from ppodc.records.result_shares import OutputShare
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.transport.channel import Channel


class LinkageHalf(SuppliedHalf):
    """The half of the cloud `role`."""

    def __init__(
        self, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> None:
        self._job = job = job_of(spec)
        self._output, self._layout, self._m = job.output, job.layout(spec.schema), m
        self._numbers: dict[int, list[AdditiveShare]] = {}  # of the rows of each upload
        self._tokens: dict[int, AdditiveShare] = {}
        self._expected = Needs()
        text = f"linkage m={m} {spec.digest}"
        self._session = Session.start(role, channel, text, pools=material.pools)
        self._compared = Comparisons(self._session, job, spec.schema)

    # ------------------------------------------------------------------ taking in

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in an upload: t + r at C1 and r at C2."""
        layout, upload = self._layout, int(shard[:-1])
        with self._session.step("ingest"):
            if share.ndim != 2 or share.shape[1] != layout.width or len(share) > self._m:
                raise InputError(f"shard {shard!r} does not fit the job.")
            self._compared.take_in(shard, share, layout)
            named = layout.has_dummies or self._output.max_links > 1
            if self._output.by_row and named and upload not in self._numbers:
                own = np.ascontiguousarray(share[:, layout.number]) if layout.has_dummies else None
                self._numbers[upload] = row_numbers(
                    self._session, own, len(share), self._output.max_links, self._compared.budget
                )

    # ------------------------------------------------------------------ comparing

    def link(
        self, work: Sequence[Work], uploads: Sequence[Rows], rows: int, progress: Progress
    ) -> U64Array:
        """This cloud's share of what these blocks add to the sums; progress is `rows` in all."""
        with self._session.step("link"):
            found = self._output.sums(self._m, self._output.empty(self._m))
            for batch in self._compared.matched(work, self._sums_need, rows, progress):
                blocks = [
                    (
                        bits,
                        self._side(each.x, uploads, np.arange(*each.block.xs)),
                        self._side(each.y, uploads, each.block.columns),
                    )
                    for each, bits in batch
                ]
                found.add(self._session, blocks)
            return found.sums

    def _needs(self, batch: Sequence[Work]) -> Needs:
        """Supplies for comparing a batch, and for what becomes of it."""
        return self._compared.needs(batch) + self._sums_need(batch)

    def _sums_need(self, batch: Sequence[Work]) -> Needs:
        """Supplies for the selects of every pair, if it counts in this pass."""
        pairs, (sides, _) = pairs_of(batch), self._output.selects(not self._layout.has_dummies)
        return Needs(transfers=sides * pairs)

    def _side(self, upload: int, uploads: Sequence[Rows], at: NDArray[np.intp]) -> Side:
        """Some rows of an upload, and how to name them."""
        rows = uploads[upload]

        def names() -> AdditiveShare:
            if upload not in self._tokens:
                self._tokens[upload] = tokens(self._session, self._numbers[upload], rows)
            return AdditiveShare(self._tokens[upload].limbs[at])

        known = None
        if not self._layout.has_dummies:  # names need nobody's shares
            first = base(rows.owner, rows.number) + 1
            known = at.astype(U64) + U64(first)
        return Side(rows.first + at, names, known)

    # --------------------------------------------------------------------- output

    def output(self, sums: U64Array, uploads: Sequence[Rows]) -> list[OutputShare]:
        """Fresh halves of each output, from the sums of all portions."""
        with self._session.step("output"):
            if not self._output.by_row:
                found = self._output.sums(self._m, sums)
                return self._fresh(found.learned(self._session))
            if not self._m:
                return [_nothing() for _ in self._job.output_names]
            found = self._output.sums(self._m, self._home(AdditiveShare(sums), uploads).limbs)
            fresh = self._fresh(self._away(found.learned(self._session), uploads))
            return [*self._own(uploads), *fresh] if self._layout.has_dummies else fresh

    def _home(self, sums: AdditiveShare, uploads: Sequence[Rows]) -> AdditiveShare:
        """Sums over all passes of the rows as they stand in the first pass of each upload."""
        parts = []
        for upload, rows in enumerate(uploads):
            part = sums[rows.first : rows.first + rows.count]
            if rows.passes and rows.count:
                part = brought_home(
                    self._session, part, self._compared.switches[upload], rows.passes
                )
            parts.append(part)
        return AdditiveShare.concat(parts)

    def _away(self, halves: AdditiveShare, uploads: Sequence[Rows]) -> AdditiveShare:
        """Values of the rows of first passes, with zeros for those of later passes."""
        parts, at = [], 0
        for rows in uploads:
            count = rows.in_first_pass
            nothing = zeros((rows.count - count, *halves.shape[1:]), halves.length)
            parts += [halves[at : at + count], nothing]
            at += count
        return AdditiveShare.concat(parts)

    def _own(self, uploads: Sequence[Rows]) -> list[OutputShare]:
        """Which of its own rows each sealed row is, for its owner: upload 2^40 + row + 1."""
        parts = [
            (
                self._numbers[upload][0].low(1)
                + public([rows.number << ROW_BITS], 1, self._session.role)
            )[: rows.in_first_pass]
            for upload, rows in enumerate(uploads)
            if rows.count
        ]
        own = AdditiveShare.concat(parts).reshape(-1, 1)
        return self._fresh(self._away(own, uploads))

    def _fresh(self, halves: AdditiveShare) -> list[OutputShare]:
        """Each column of (rows, columns) as an output of its own, masked anew."""
        limbs = remask_limbs(self._session, halves).limbs
        return [OutputShare.of_limbs(limbs[:, column]) for column in range(limbs.shape[1])]

    # -------------------------------------------------------------------- made ahead

    def expect(self, work: Sequence[Sequence[Work]]) -> None:
        """Have `prepare` make the supplies for these portions, one a round."""
        self._expected = Needs()
        for portion in work:
            for batch in grouped(portion, self._job.rule.batch_pairs):
                self._expected += self._needs(batch)

    def _missing(self, iterations: int, rows: Sequence[int] | None) -> Needs:
        """Supplies for the expected comparisons; taking in makes its own."""
        return self._expected - self._session.supplies.available()

    def close(self) -> None:
        """End the pair's session."""
        self._compared.close()
        self._numbers.clear()
        self._tokens.clear()
        self._session.close()


def _nothing() -> OutputShare:
    """An output of no rows."""
    return OutputShare.of_limbs(np.empty((0, 1), np.uint64))
