"""One cloud's half of a linkage job, on the two-party engine.

Every pair takes in all uploads, as left or right side of the comparisons that it may be given, and
compares the blocks of its portions. Match bits become sums of tokens as they are made (`outcome`),
which may be added up over portions and pairs. At the end one pair turns the sums into halves of
what owners learn.

Who learns what: nothing; `output` gives each cloud freshly masked halves, of which owners get their
own rows, or the number of links. Rounds, bytes: see `matchers` and `outcome`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.comparisons import Comparisons
from ppodc.linkage.encoding import link_columns
from ppodc.linkage.job import job_of
from ppodc.linkage.outcome import Count, Links
from ppodc.linkage.passes import (
    EXTRA,
    brought_home,
    counted_first,
    first_needs,
    take_in_keys,
)
from ppodc.linkage.result import output_names
from ppodc.linkage.tokens import ROW_BITS, row_numbers, tokens
from ppodc.linkage.upload import upload_columns
from ppodc.linkage.work import Rows, Work, batch_pairs, grouped, pairs_of
from ppodc.mpc.additive import AdditiveShare, Words, public, zeros
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.remask import remask_limbs
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.pairs.plan import Material, Progress
from ppodc.records.output_half import OutputHalf
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.transport.channel import Channel


class LinkageHalf:
    """The half of the cloud `role`."""

    def __init__(
        self, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> None:
        self._job = job = job_of(spec)
        self._columns, self._m = link_columns(job, spec.schema), m
        self._all = upload_columns(job, spec.schema)
        self._numbers: dict[int, list[AdditiveShare]] = {}  # of the rows of each upload
        self._tokens: dict[int, AdditiveShare] = {}
        self._keys: dict[int, Bits] = {}  # of earlier passes
        self._switches: dict[int, NDArray[np.uint64]] = {}  # as uploaded
        self._expected = Needs()
        text = f"linkage m={m} {spec.digest}"
        self._session = Session.start(role, channel, text, material.key, pools=material.pools)
        self._compared = Comparisons(self._session, job, spec.schema)

    # ------------------------------------------------------------------ taking in

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in an upload: t + r at C1 and r at C2."""
        padded = self._job.blocking.padded
        upload = int(shard[:-1])
        with self._session.step("ingest"):
            if share.ndim != 2 or share.shape[1] != self._all or len(share) > self._m:
                raise InputError(f"shard {shard!r} does not fit the job.")
            link, extra = np.split(share, [self._columns], axis=1)
            self._compared.take_in(shard, link, extra[:, :1] if padded else None)
            if self._job.output != "count" and upload not in self._numbers:
                own = np.ascontiguousarray(extra[:, 1:EXTRA]) if padded else None
                self._numbers[upload] = row_numbers(
                    self._session, own, len(share), self._job.max_links, self._compared.budget
                )
            later = self._job.blocking.passes - 1
            if later and upload not in self._keys:
                keys, self._switches[upload] = np.split(extra[:, EXTRA:], [later], axis=1)
                self._keys[upload] = take_in_keys(self._session, keys)

    # ------------------------------------------------------------------ comparing

    def link(
        self, work: Sequence[Work], uploads: Sequence[Rows], rows: int, progress: Progress
    ) -> Words:
        """This cloud's share of what these blocks add to the sums, told as `rows` of progress."""
        with self._session.step("link"):
            found: Links | Count = Count() if self._job.output == "count" else Links(*self._sizes())
            for batch in self._compared.matched(work, self._sums_need, rows, progress):
                for (each, _), bits in zip(batch, self._counted(batch), strict=True):
                    if isinstance(found, Count):
                        found.add(self._session, bits)
                    else:
                        self._add(each, uploads, bits, found)
            return found.sums

    def _sizes(self) -> tuple[int, int, int]:
        return self._m, self._m, self._job.max_links

    def _needs(self, batch: Sequence[Work]) -> Needs:
        """Supplies for comparing a batch, and for what becomes of it."""
        return self._compared.needs(batch) + self._sums_need(batch)

    def _sums_need(self, batch: Sequence[Work]) -> Needs:
        """Supplies for a select of every pair on each side, if it counts in this pass."""
        pairs, sides = pairs_of(batch), 1 if self._job.output == "count" else 2
        return Needs(transfers=sides * pairs) + first_needs(batch[0].earlier, pairs)

    def _counted(self, batch: Sequence[tuple[Work, Bits]]) -> list[Bits]:
        """Match bits of a batch without those of pairs that an earlier pass has."""
        earlier, matched = batch[0][0].earlier, [bits for _, bits in batch]
        if not earlier:
            return matched
        keys = self._keys[batch[0][0].x], self._keys[batch[0][0].y]
        blocks = [work.block for work, _ in batch]
        return counted_first(self._session, *keys, earlier, blocks, matched)

    def _add(self, work: Work, uploads: Sequence[Rows], bits: Bits, found: Links) -> None:
        """Links of both sides of a block."""
        left, right = uploads[work.x], uploads[work.y]
        xs, ys = np.arange(*work.block.xs), work.block.columns
        found.add(self._session, left.first + xs, bits, self._names(work.y, right, ys))
        found.add(self._session, right.first + ys, bits.T, self._names(work.x, left, xs))

    def _names(self, upload: int, rows: Rows, at: NDArray[np.intp]) -> AdditiveShare:
        """What names some rows of an upload."""
        if upload not in self._tokens:
            self._tokens[upload] = tokens(self._session, self._numbers[upload], rows)
        return AdditiveShare(self._tokens[upload].limbs[at])

    # --------------------------------------------------------------------- output

    def output(self, sums: Words, uploads: Sequence[Rows]) -> list[OutputHalf]:
        """Fresh halves of each output, from the sums of all portions."""
        with self._session.step("output"):
            if self._job.output == "count":
                return self._fresh(AdditiveShare(sums[..., None]))
            if not self._m:
                return [_nothing() for _ in output_names(self._job)]
            links = Links.of(self._home(AdditiveShare(sums), uploads).limbs, self._m)
            flags = self._job.output == "flags"
            halves = links.flags(self._session) if flags else links.half(self._session)
            fresh = self._fresh(self._away(halves, uploads))
            return fresh if not self._job.blocking.padded else [*self._own(uploads), *fresh]

    def _home(self, sums: AdditiveShare, uploads: Sequence[Rows]) -> AdditiveShare:
        """Sums over all passes of the rows as they stand in the first pass of each upload."""
        parts = []
        for upload, rows in enumerate(uploads):
            part = sums[rows.first : rows.first + rows.count]
            if rows.passes and rows.count:
                part = brought_home(self._session, part, self._switches[upload], rows.passes)
            parts.append(part)
        return AdditiveShare.concat(parts)

    def _away(self, halves: AdditiveShare, uploads: Sequence[Rows]) -> AdditiveShare:
        """What is of the rows of first passes, with nothing for those of later ones behind them."""
        parts, at = [], 0
        for rows in uploads:
            count = rows.passes[0] if rows.passes else rows.count
            nothing = zeros((rows.count - count, *halves.shape[1:]), halves.length)
            parts += [halves[at : at + count], nothing]
            at += count
        return AdditiveShare.concat(parts)

    def _own(self, uploads: Sequence[Rows]) -> list[OutputHalf]:
        """Which of its own rows each sealed row is, for its owner: upload 2^40 + row + 1."""
        parts = [
            (
                self._numbers[upload][0].low(1)
                + public([rows.number << ROW_BITS], 1, self._session.role)
            )[: rows.passes[0] if rows.passes else rows.count]
            for upload, rows in enumerate(uploads)
            if rows.count
        ]
        own = AdditiveShare.concat(parts).reshape(-1, 1)
        return self._fresh(self._away(own, uploads))

    def _fresh(self, halves: AdditiveShare) -> list[OutputHalf]:
        """Each column of (rows, columns) as an output of its own, masked anew."""
        limbs = remask_limbs(self._session, halves).limbs
        return [OutputHalf.of_limbs(limbs[:, column]) for column in range(limbs.shape[1])]

    # -------------------------------------------------------------------- made ahead

    def expect(self, portions: Sequence[Sequence[Work]]) -> None:
        """What this pair will compare, round by round: `prepare` makes the supplies for it."""
        self._expected = Needs()
        for portion in portions:
            for batch in grouped(portion, batch_pairs(self._job)):
                self._expected += self._needs(batch)

    def to_prepare(self, iterations: int, rows: Sequence[int] | None = None) -> int:
        """Transfers that `prepare` would make now."""
        return self._missing().work

    def prepare(
        self,
        iterations: int,
        progress: Progress | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Have the supplies for comparing what is expected; taking in makes its own."""
        with self._session.step("prepare", offline=True):
            self._session.supplies.prepare(self._missing(), progress)

    def _missing(self) -> Needs:
        return self._expected - self._session.supplies.available()

    def close(self) -> None:
        """End the pair's session."""
        self._compared.close()
        self._numbers.clear()
        self._tokens.clear()
        self._keys.clear()
        self._switches.clear()
        self._session.close()


def _nothing() -> OutputHalf:
    """An output of no rows."""
    return OutputHalf.of_limbs(np.empty((0, 1), np.uint64))
