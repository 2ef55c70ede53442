"""One cloud's half of a join: compare, fetch, and tell on shares which rows count.

Every worker takes in all uploads, as in a linkage, and fetches over its portion of the pairs; what
it finds adds up over portions and pairs. The lead then makes the joined rows of all uploads of the
anchor, once (`joined_rows`). With several keys, sums of later passes come home first, and one_j is
taken to all places of its row (`compare.first_pass`).

Who learns what: nothing. Rounds, bytes: see `joined_rows`.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.blocks.candidates import Block, Work, pairs_of
from ppodc.linkage.compare.comparisons import Comparisons
from ppodc.linkage.compare.first_pass import brought_home, taken_away
from ppodc.linkage.joined import joined_rows
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.findings import LANES, Found, Joined, Uploads, Words
from ppodc.linkage.schedule import Rows, grouped
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.lanes import Lanes
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.supplies import Needs
from ppodc.pairs.plan import Progress


class Joiner:
    """The rows of all uploads on shares, and the steps of a join on them."""

    def __init__(self, session: Session, columns: JoinedColumns) -> None:
        self._session, self._columns = session, columns
        self.compared = Comparisons(session, columns.job, columns.spec.schema)
        self._values: dict[int, U64Array] = {}  # joined columns of each upload, additive
        self._lanes = self._places()

    def _places(self) -> dict[int, tuple[slice, tuple[int, ...]]]:
        """Each other side's columns side by side, the count last, and among the joined columns."""
        found, at = {}, 0
        for number, side in enumerate(self._columns.sides):
            if number:
                found[number] = slice(at, at + len(side.places) + 1), side.places
                at += len(side.places) + 1
        return found

    def _groups(self, uploads: Uploads) -> dict[tuple[int, int], slice]:
        """For each owner of another side its columns in `fetched`, the count last."""
        found, at = {}, 0
        for side, number in uploads.groups:
            width = len(self._columns.sides[side].places) + 1
            found[side, number] = slice(at, at + width)
            at += width
        return found

    def take_in(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in an upload for one side of comparisons: t + r at C1 and r at C2."""
        columns, layout, upload = self._columns, self._columns.layout, int(shard[:-1])
        if share.ndim != 2 or share.shape[1] != columns.width:
            raise InputError(f"shard {shard!r} does not fit the job.")
        self.compared.take_in(shard, share, layout)
        joined = share[:, layout.width :]
        self._values[upload] = joined.copy() if self._session.role == 1 else U64(0) - joined

    # ------------------------------------------------------------------ fetching

    def link(self, work: Sequence[Work], uploads: Uploads, rows: int, progress: Progress) -> Found:
        """Findings that these blocks add to all others; progress is `rows` in all."""
        matched = self.compared.matched(work, self._needs, rows, progress)
        return self.fetch(matched, uploads)

    def fetch(self, batches: Iterable[Sequence[tuple[Work, Bits]]], uploads: Uploads) -> Found:
        """Findings over the match bits of some batches."""
        anchor, others = uploads.counts()
        groups, kind = self._groups(uploads), LANES[uploads.top]
        width = sum(lanes.stop - lanes.start for lanes in groups.values())
        fetched, used = np.zeros((anchor, width), kind), np.zeros(others, kind)
        first = uploads.places
        bits, tables = [], dict[int, Lanes]()
        for batch in batches:
            x, y = batch[0][0].x, batch[0][0].y
            blocks, matched = [each.block for each, _ in batch], [bits for _, bits in batch]
            theirs = uploads.rows[y]
            lanes, places = groups[theirs.owner, theirs.number], self._lanes[theirs.owner][1]
            own = slice(first[x], first[x] + uploads.rows[x].count)
            there = slice(first[y], first[y] + theirs.count)
            if y not in tables:
                values = self._values[y][:, list(places)]
                tables[y] = joined_rows.table_of(self._session, values, uploads.top)
            sums = fetched[own, lanes], used[there]
            joined_rows.fetch(self._session, blocks, matched, tables[y], sums)
            bits += [np.packbits(part.reshape(-1)) for part in matched]
        return Found(fetched, used, np.concatenate([np.empty(0, np.uint8), *bits]))

    def _needs(self, batch: Sequence[Work]) -> Needs:
        return joined_rows.fetch_needs(pairs_of(batch))

    # ------------------------------------------------------------------- joining

    def join(self, found: Found, work: Sequence[Work], uploads: Uploads) -> Joined:
        """The joined rows, from what all portions of all the work have found."""
        session, top = self._session, uploads.top
        fetched = self._home(self._by_side(found.fetched, uploads), uploads.of_anchor(), top)
        counts = np.ascontiguousarray(
            fetched[:, [lane.stop - 1 for lane, _ in self._lanes.values()]]
        )
        few = joined_rows.below_two(session, counts, top)
        if self._columns.join.relation == "1:1":
            has = self._mutual(found, work, uploads)
        else:
            has = joined_rows.parity(counts)
        keep = joined_rows.both(session, few, has)
        kept = np.ascontiguousarray(keep[:, 0])
        for side in range(1, keep.shape[1]):
            kept = joined_rows.both(session, kept, np.ascontiguousarray(keep[:, side]))
        values = np.concatenate([self._filled(kept, fetched, s, uploads) for s in self._lanes], 1)
        shared = values if session.role == 1 else U64(0) - values
        whose = self._whose(kept, fetched, uploads)
        if self._columns.join.relation == "1:1":
            weight = joined_rows.as_numbers(session, kept[:, None]).limbs[..., 0]
        else:
            weight = joined_rows.weights(session, kept, self._parts(found, work, uploads))
        return Joined(shared.astype(LANES[top]), kept, whose, weight)

    def _by_side(self, found: Words, uploads: Uploads) -> U64Array:
        """Columns and count of every side, and behind all the counts of owners that share one."""
        groups, sums = self._groups(uploads), found.astype(U64)
        parts = [
            np.add.reduce([sums[:, lanes] for (of, _), lanes in groups.items() if of == side])
            for side in self._lanes
        ]
        counts = [sums[:, groups[group].stop - 1 : groups[group].stop] for group in uploads.apart]
        return np.concatenate([*parts, *counts], axis=1)

    def _whose(self, kept: Bits, fetched: U64Array, uploads: Uploads) -> Bits:
        """Whose the partners of the rows that count are: of such a row each side has one."""
        apart = len(uploads.apart)
        if not apart:
            return np.empty((len(kept), 0), np.uint8)
        own = joined_rows.parity(np.ascontiguousarray(fetched[:, -apart:]))
        counted = np.repeat(kept[:, None], apart, axis=1)
        return joined_rows.both(self._session, counted, own)

    def _home(self, sums: U64Array, uploads: Iterator[tuple[int, Rows, int]], top: int) -> U64Array:
        """Sums (rows of all passes, columns) of the rows of first passes over all passes."""
        parts = [np.empty((0, sums.shape[1]), U64)]
        for number, rows, at in uploads:
            part = AdditiveShare(np.ascontiguousarray(sums[at : at + rows.count])[..., None])
            if rows.passes and rows.count:
                switches = self.compared.switches[number]
                part = brought_home(self._session, part, switches, rows.passes, top)
            parts.append(part.limbs[..., 0])
        return np.concatenate(parts)

    def _mutual(self, found: Found, work: Sequence[Work], uploads: Uploads) -> Bits:
        """Shares of [the row's partner has no other], of a row with one: (rows, other sides)."""
        session, anchor = self._session, uploads.counts()[0]
        one = self._ones(found, uploads)
        bits = np.zeros((len(self._lanes), anchor), np.uint8)
        for blocks, matched, side, own, there in self._once_more(found, work, uploads):
            session.supplies.reserve(joined_rows.mutual_needs(blocks))
            joined_rows.mutual(session, blocks, matched, one[there], bits[side - 1, own])
        rows = np.ascontiguousarray(bits.T)
        if not self._columns.layout.has_passes:
            return rows
        numbers = joined_rows.as_numbers(session, rows).limbs[..., 0]
        return joined_rows.parity(self._home(numbers, uploads.of_anchor(), 1))

    def _used(self, found: Found, uploads: Uploads) -> U64Array:
        """How many partners the rows of the other sides have, in all passes."""
        used = found.used.astype(U64)[:, None]
        return self._home(used, uploads.of_others(), uploads.top)

    def _ones(self, found: Found, uploads: Uploads) -> Bits:
        """Shares of [the row has one partner], at all places of each row of the other sides."""
        session = self._session
        one = joined_rows.exactly_one(session, self._used(found, uploads), uploads.top)
        if not self._columns.layout.has_passes:
            return one.reshape(-1)
        numbers = joined_rows.as_numbers(session, one)
        return joined_rows.parity(self._at_all_places(numbers, uploads))

    def _parts(self, found: Found, work: Sequence[Work], uploads: Uploads) -> U64Array:
        """Of a row with one partner, the part that it is of its rows: (rows, other sides)."""
        session, anchor = self._session, uploads.counts()[0]
        parts = joined_rows.part_of_one(session, self._used(found, uploads), uploads.top)
        if self._columns.layout.has_passes:
            numbers = AdditiveShare(parts.astype(U64).reshape(-1, 1, 1))
            parts = self._at_all_places(numbers, uploads).astype(np.uint8)
        sums = np.zeros((anchor, len(self._lanes)), np.uint8)
        for blocks, matched, side, own, there in self._once_more(found, work, uploads):
            joined_rows.weigh(session, blocks, matched, parts[there], sums[own, side - 1])
        return self._home(sums.astype(U64), uploads.of_anchor(), 1)

    def _once_more(
        self, found: Found, work: Sequence[Work], uploads: Uploads
    ) -> Iterator[tuple[list[Block], list[Bits], int, slice, slice]]:
        """Blocks and their match bits, the other side, and the places of the rows of both."""
        first = uploads.places
        at = 0
        for batch in grouped(work, self._columns.job.rule.batch_pairs):
            x, y = uploads.rows[batch[0].x], uploads.rows[batch[0].y]
            blocks = [each.block for each in batch]
            matched, at = _unpacked(found.bits, at, blocks)
            left, right = first[batch[0].x], first[batch[0].y]
            own, there = slice(left, left + x.count), slice(right, right + y.count)
            yield blocks, matched, y.owner, own, there
        if at != len(found.bits):
            raise InputError("the match bits of a join do not fit its blocks.")

    def _at_all_places(self, numbers: AdditiveShare, uploads: Uploads) -> U64Array:
        """Numbers modulo 2^8 of the rows of the other sides, at their places in all passes."""
        at, parts = 0, []
        for number, rows, _ in uploads.of_others():
            own = numbers[at : at + rows.passes[0]]
            at += rows.passes[0]
            switches = self.compared.switches[number]
            parts.append(taken_away(self._session, own, switches, rows.passes, 1))
        return AdditiveShare.concat(parts).limbs[..., 0].reshape(-1)

    def _filled(self, keep: Bits, fetched: U64Array, side: int, uploads: Uploads) -> U64Array:
        """The columns of one other side for every row of the anchor."""
        lanes, places = self._lanes[side]
        own = [
            self._values[number][: rows.in_first_pass, list(places)]
            for number, rows, _ in uploads.of_others()
            if rows.owner == side
        ]
        found = fetched[:, lanes.start : lanes.stop - 1]
        return joined_rows.filled(self._session, keep, found, np.concatenate(own), uploads.top)

    def close(self) -> None:
        """Forget all rows."""
        self.compared.close()
        self._values.clear()


def _unpacked(
    packed: NDArray[np.uint8], at: int, blocks: Sequence[Block]
) -> tuple[list[Bits], int]:
    """The match bits (height, width) of some blocks, from a byte on; and the next byte."""
    found = []
    for block in blocks:
        end = at + -(-block.pairs // 8)
        bits = np.unpackbits(packed[at:end], count=block.pairs)
        found.append(bits.reshape(block.height, block.width))
        at = end
    return found, at
