"""A join ahead of a job's own steps: one cloud's state of it between rounds.

Portions of pairs go to worker pairs as in a linkage (`ppodc.linkage.plan`): every upload of the
anchor's side meets every upload of the other sides. What the pairs of a round find adds up, and is
kept in a checkpoint with the match bits so far. After the last round the lead makes the joined rows
(`joiner`); if it dies the whole step is repeated, which opens nothing. From then on the job works
on the rows of the anchor alone, those of first passes, in the order of their uploads.

Who learns what: the clouds what a linkage with these blocks tells them; nothing of the matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, StateError
from ppodc.linkage import schedule
from ppodc.linkage.blocks.candidates import Work, pairs_of
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.findings import Found, Joined, Uploads, lane_bytes
from ppodc.linkage.plan import link_task
from ppodc.linkage.schedule import LEFT, RIGHT, Round, Rows, shard_name
from ppodc.linkage.tokens import ROW_BITS
from ppodc.pairs.plan import SlotView, Task
from ppodc.pairs.shards import Shard, split
from ppodc.service.sealed_uploads import Sealed

MOST_PAIRS = 1 << 33  # whose match bits a cloud keeps: 1 GB
MOST_ROWS = 1 << 24  # of the anchor: their weights must not pass 31 bits
_FETCHED, _USED, _BITS, _DONE = "fetched", "used", "bits", "done"  # arrays of a checkpoint
_VALUES, _KEEP, _WHOSE, _WEIGHT = "joined", "keep", "whose", "weight"  # once they are joined


def owners_by_side(columns: JoinedColumns, sealed: Sealed) -> list[list[str]]:
    """The owners with rows of each side, in the order of their first upload."""
    found: list[list[str]] = [[] for _ in columns.sides]
    for owner in dict.fromkeys(upload.owner for upload in sealed.uploads if upload.rows):
        found[columns.side_of(owner)].append(owner)
    return found


def rows_by_side(columns: JoinedColumns, sealed: Sealed) -> list[Rows]:
    """The rows of every upload: `owner` is its side, `number` that of its owner there."""
    space = columns.job.space(columns.spec.schema)
    owners = owners_by_side(columns, sealed)
    found = []
    for first, upload in sealed.places():
        counts = space.counts(upload.rows, sealed.outlines.get(upload.upload_id))
        side = columns.side_of(upload.owner)
        number = owners[side].index(upload.owner) if upload.rows else 0
        found.append(Rows(side, number, first, upload.rows, space.rows_of_passes(counts)))
    there = {rows.owner for rows in found}
    missing = [side.name for number, side in enumerate(columns.sides) if number not in there]
    if missing:
        raise StateError(
            f"{' and '.join(missing)} {'has' if len(missing) == 1 else 'have'} uploaded nothing: "
            "a join needs rows of every side. Wait for more uploads."
        )
    return found


def shards(
    columns: JoinedColumns, sealed: Sealed, pairs: int, usual: Sequence[Shard]
) -> list[Shard]:
    """Every upload on every pair, to compare, and the anchor's rows that count on one each."""
    uploads = rows_by_side(columns, sealed)
    sides = [
        Shard(shard_name(upload, RIGHT if rows.owner else LEFT), rows.first, rows.count, slot)
        for slot in range(pairs)
        for upload, rows in enumerate(uploads)
        if rows.count
    ]
    return [*sides, *_of_anchor(uploads, pairs, len(usual) // pairs)]


def _of_anchor(uploads: Sequence[Rows], pairs: int, per_pair: int) -> list[Shard]:
    """The rows that count, cut where the usual shards would be cut and between uploads."""
    own = [rows for rows in uploads if rows.owner == 0]
    count = sum(rows.in_first_pass for rows in own)
    found = []
    for part in split(count, pairs, per_pair):
        at = 0  # place of an upload's first row among them
        for rows in own:
            start, end = max(part.first, at), min(part.first + part.rows, at + rows.in_first_pass)
            if start < end:
                first = rows.first + start - at
                name = f"{first}-{first + end - start}"
                found.append(Shard(name, first, end - start, part.slot))
            at += rows.in_first_pass
    return found


def _most_candidates(work: Sequence[Work], uploads: Sequence[Rows]) -> int:
    """The most partners that any row can have, over all passes; public."""
    passes = 1 + max((each.earlier for each in work), default=0)
    most = 0
    for anchor in (True, False):
        counts = [[np.zeros(rows.count, np.int64) for rows in uploads] for _ in range(passes)]
        for each in work:
            here = counts[each.earlier]
            if anchor:
                here[each.x][slice(*each.block.xs)] += each.block.width
                continue
            for span in each.block.ys:
                here[each.y][slice(*span)] += each.block.height
        least = sum(max((int(c.max(initial=0)) for c in number), default=0) for number in counts)
        most = max(most, least)
    return most


@dataclass(slots=True)
class Joining:
    """The join between rounds; `least` are the fewest rows of the anchor that will do."""

    columns: JoinedColumns
    sealed: Sealed
    pairs: int
    least: int = 1
    done: int = 0  # blocks whose match bits are in what was found
    found: Found = field(init=False, repr=False)
    joined: Joined | None = field(default=None, init=False, repr=False)
    uploads: Uploads = field(init=False)
    work: tuple[Work, ...] = field(init=False, repr=False)
    rounds: list[Round] = field(init=False, repr=False)  # that are still to come

    def __post_init__(self) -> None:
        columns, sealed = self.columns, self.sealed
        rows = tuple(rows_by_side(columns, sealed))
        self._check_anchor(rows)
        outlines = [sealed.outlines.get(upload.upload_id) for upload in sealed.uploads]
        schema = columns.spec.schema
        self.work = tuple(schedule.all_work(columns.job, schema, rows, outlines, star=True))
        if pairs_of(self.work) > MOST_PAIRS:
            raise StateError(
                f"a join compares at most {MOST_PAIRS:,} pairs, and these uploads have more: "
                "agree on blocks that leave fewer."
            )
        self.uploads = Uploads(rows, lane_bytes(schema.ub, _most_candidates(self.work, rows)))
        self.found = self._nothing()
        self._count_rounds()

    def _check_anchor(self, rows: Sequence[Rows]) -> None:
        count = sum(each.in_first_pass for each in rows if each.owner == 0)
        if count < self.least:
            raise StateError(
                f"the job needs at least {self.least} rows of {self.columns.anchor.name}, whose "
                f"rows count, but there are {count}. Wait for more uploads."
            )
        if count > MOST_ROWS:
            raise StateError(
                f"a join takes at most {MOST_ROWS:,} rows of {self.columns.anchor.name}, whose "
                f"rows count, but there are {count:,}. Leave some out, or take another anchor."
            )

    def _nothing(self) -> Found:
        anchor, others = self.uploads.counts()
        width = sum(len(self.columns.sides[side].places) + 1 for side, _ in self.uploads.groups)
        kind = f"<u{self.uploads.top}"
        return Found(np.zeros((anchor, width), kind), np.zeros(others, kind), np.empty(0, np.uint8))

    def _count_rounds(self) -> None:
        most = self.columns.job.rule.portion_pairs
        self.rounds = schedule.rounds(self.work[self.done :], self.pairs, most)

    @property
    def home(self) -> bool:
        """Whether the rows are joined."""
        return self.joined is not None

    @property
    def over(self) -> bool:
        return self.home

    @property
    def rearranged(self) -> bool:
        """Whether rows stand in another order than their owners have them, with dummies."""
        return self.columns.job.rearranged

    def task(self, place: SlotView) -> Task:
        """The comparisons of a slot in this round."""
        return link_task(
            self.rounds[0][place.slot], self.uploads.rows, self.done, place, self.uploads.top
        )

    def take(self, parts: Sequence[Found]) -> None:
        """Add up the findings of a round, pair by pair."""
        found = self.found
        for part in parts:
            found = Found(
                found.fetched + part.fetched,
                found.used + part.used,
                np.concatenate([found.bits, part.bits]),
            )
        self.found, self.done = found, self.done + sum(map(len, self.rounds[0]))
        self.rounds = self.rounds[1:]

    def home_task(self) -> Task:
        """Make the joined rows of what was found."""
        told = (len(self.work), schedule.digest(self.work), self.uploads.top)
        return Task("home", (), told, (self.found, self.work, self.uploads))

    def bring_home(self, joined: Joined) -> None:
        """Take over the joined rows; what led to them is not needed any more."""
        self.joined, self.found = joined, replace(self._nothing(), bits=np.empty(0, np.uint8))

    def ready_task(self, place: SlotView) -> Task:
        """Give a worker the joined columns of its rows, and which of them count."""
        return Task("fill", place.names, inputs=tuple(map(self._of, place.shards)))

    @property
    def owners(self) -> list[str]:
        """All owners, if it takes weights to tell which thresholds are reached; else none.

        Owners of one side know their own rows of it. A threshold counts, for each of them, the
        joined rows that hold a row of another owner of its side; with m:1 the partners of such.
        """
        several = any(len(own) > 1 for own in owners_by_side(self.columns, self.sealed))
        return self.sealed.owners if several or self.columns.join.relation == "m:1" else []

    def whose(self, shards: Sequence[Shard]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """Numbers of the owners that share a partner's side; of each shard whose its rows are."""
        anchor, *partners = owners_by_side(self.columns, self.sealed)
        told = [self.owners.index(name) for own in partners if len(own) > 1 for name in own]
        runs = [
            self.sealed.owners_of(shard.first, shard.rows)
            if len(anchor) > 1
            else np.empty((0, 2), np.int64)
            for shard in shards
        ]
        return tuple(told), tuple(runs)

    def _of(self, shard: Shard) -> tuple[Any, Any, Any, Any]:
        """The joined columns of a shard's rows, who counts, whose partners they are, weights."""
        if self.joined is None:
            raise StateError("the rows are not joined yet.")
        first = next(
            at + shard.first - rows.first
            for rows, at in self._placed()
            if rows.first <= shard.first < rows.first + rows.in_first_pass
        )
        own = slice(first, first + shard.rows)
        joined = self.joined
        return joined.values[own], joined.keep[own], joined.whose[own], joined.weight[own]

    def uploads_of(self, shard: Shard) -> NDArray[np.uint64]:
        """Of each of a shard's rows, which of its owner's uploads it is in, as row numbers do."""
        seen: dict[str, int] = {}
        for first, upload in self.sealed.places():
            number = seen.get(upload.owner, 0)
            seen[upload.owner] = number + 1
            if first <= shard.first < first + upload.rows:
                return np.full(shard.rows, number << ROW_BITS, np.uint64)
        raise InputError(f"shard {shard.name!r} is of no upload.")

    def first_pass(self, shard: Shard) -> NDArray[np.bool_]:
        """Which of a shard's rows belong to the first pass: all."""
        return np.ones(shard.rows, np.bool_)

    def _placed(self) -> list[tuple[Rows, int]]:
        """Uploads of the anchor, each with the place of its first row among those that count."""
        own = [rows for rows in self.uploads.rows if rows.owner == 0]
        starts = np.cumsum([0, *(rows.in_first_pass for rows in own)])[:-1].tolist()
        return list(zip(own, starts, strict=True))

    # ------------------------------------------------------------ checkpoints

    def kept(self) -> dict[str, NDArray[Any]]:
        """The arrays that a checkpoint holds."""
        done = np.array([self.done, self.home], np.uint64)
        if self.joined is not None:
            keep, whose = np.packbits(self.joined.keep), np.packbits(self.joined.whose)
            values, weight = self.joined.values, self.joined.weight
            return {_VALUES: values, _KEEP: keep, _WHOSE: whose, _WEIGHT: weight, _DONE: done}
        found = self.found
        return {_FETCHED: found.fetched, _USED: found.used, _BITS: found.bits, _DONE: done}

    def fits(self, arrays: Mapping[str, NDArray[Any]]) -> bool:
        """Whether a checkpoint of these arrays holds it."""
        kind = self.found.fetched.dtype
        anchor = sum(rows.in_first_pass for rows, _ in self._placed())
        if _VALUES in arrays:
            values = arrays[_VALUES]
            bits = len(values) * len(self.uploads.apart)
            there = _KEEP in arrays and len(arrays.get(_WHOSE, ())) == -(-bits // 8)
            weighed = len(arrays.get(_WEIGHT, ())) == anchor
            return len(values) == anchor and values.dtype == kind and there and weighed
        fetched = arrays.get(_FETCHED)
        empty = self._nothing().fetched
        return fetched is not None and (fetched.shape, fetched.dtype) == (empty.shape, kind)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go back to what was kept."""
        self.done = int(arrays[_DONE][0])
        self._count_rounds()
        if _VALUES in arrays:
            values = arrays[_VALUES]
            keep, apart = np.unpackbits(arrays[_KEEP], count=len(values)), len(self.uploads.apart)
            whose = np.unpackbits(arrays[_WHOSE], count=len(values) * apart)
            each = whose.reshape(len(values), apart)
            self.joined = Joined(values, keep, each, arrays[_WEIGHT])
            return
        self.found = Found(arrays[_FETCHED], arrays[_USED], arrays[_BITS])
