"""The linkage ahead of the clusters of a k-means job: one cloud's state of it between rounds.

Portions of pairs go to worker pairs as in a linkage (`ppodc.linkage.plan`). A portion leaves shares
of dup_j for all rows j, which no party opens: [j matches a row of an owner before its own, in order
of first upload]. The lead's portion takes in what was found before, so that there are never more
parts than pairs. Each round ends in a checkpoint. With several keys a row is there once for each,
and what was found of it is brought to its place in the first pass (`linkage.compare.first_pass`):
only there it counts. Workers turn the parts into keep_j = real_j and not dup_j of their own records
before they first use them.

Who learns what: the clouds what a linkage with these blocks tells them; nothing of the matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.half import State
from ppodc.kmeans.linked.columns import LinkedColumns
from ppodc.linkage.plan import link_task, rounds_left
from ppodc.linkage.schedule import Round, Rows, rows_of
from ppodc.linkage.tokens import ROW_BITS
from ppodc.pairs.plan import LEAD, SlotView, Task
from ppodc.pairs.shards import Shard
from ppodc.service.sealed_uploads import Sealed

Bits = NDArray[np.uint8]
_FOUND, _DONE = "found", "done"  # arrays of a checkpoint


@dataclass(slots=True)
class Linking:
    """The linkage between rounds; `found` are the parts (any number, m), a byte per bit."""

    columns: LinkedColumns
    sealed: Sealed
    pairs: int
    done: int = 0  # blocks whose match bits are in the parts
    found: Bits = field(init=False, repr=False)
    uploads: list[Rows] = field(init=False)
    rounds: list[Round] = field(init=False, repr=False)  # that are still to come
    home: bool = field(init=False)  # what was found stands at the rows that count

    def __post_init__(self) -> None:
        self.uploads = rows_of(self.columns.spec, self.sealed)
        self.found = np.zeros((1, self.sealed.m), np.uint8)
        self._count_rounds()
        self.home = not self.columns.layout.has_passes or not self.rounds

    def _count_rounds(self) -> None:
        spec, sealed = self.columns.spec, self.sealed
        self.rounds = rounds_left(spec, sealed, self.uploads, self.pairs, self.done)

    @property
    def over(self) -> bool:
        return not self.rounds and self.home

    def task(self, place: SlotView) -> Task:
        """The comparisons of a slot in this round."""
        before = self.found if place.slot == LEAD else self.found[:0]
        return link_task(self.rounds[0][place.slot], self.uploads, self.done, place, before)

    def take(self, parts: Sequence[Bits]) -> None:
        """Take over the findings of a round and of all before it."""
        self.found, self.done = np.stack(parts), self.done + sum(map(len, self.rounds[0]))
        self.rounds = self.rounds[1:]

    def home_task(self) -> Task:
        """Bring what was found to the rows of the first pass."""
        return Task("home", inputs=(self.found, tuple(self.uploads)))

    def bring_home(self, bits: Bits) -> None:
        """Take over the result of the `home` task."""
        self.found, self.home = bits[None], True

    def ready_task(self, place: SlotView) -> Task:
        """Tell a worker which of its records count."""
        inputs = tuple((self.parts(shard), self.first_pass(shard)) for shard in place.shards)
        return Task("dedup", place.names, inputs=inputs)

    @property
    def rearranged(self) -> bool:
        """Whether rows stand in another order than their owners have them, with dummies."""
        return self.columns.job.rearranged

    def parts(self, shard: Shard) -> Bits:
        """Those of a shard's rows."""
        return self.found[:, shard.first : shard.first + shard.rows]

    def first_pass(self, shard: Shard) -> NDArray[np.bool_]:
        """Which of a shard's rows belong to the first pass: the others never count."""
        own = [np.arange(rows.count) < rows.in_first_pass for rows in self.uploads]
        return np.concatenate(own)[shard.first : shard.first + shard.rows]

    def uploads_of(self, shard: Shard) -> NDArray[np.uint64]:
        """Of each of a shard's rows, which of its owner's uploads it is in, as row numbers do."""
        numbers = [rows.number << ROW_BITS for rows in self.uploads]
        every = np.repeat(np.array(numbers, np.uint64), [rows.count for rows in self.uploads])
        return every[shard.first : shard.first + shard.rows]

    # ------------------------------------------------------------ checkpoints

    def kept(self) -> dict[str, State]:
        """The arrays that a checkpoint holds."""
        done = np.array([self.done, self.home], np.uint64)
        return {_FOUND: np.packbits(self.found, axis=1), _DONE: done}

    def fits(self, arrays: Mapping[str, State]) -> bool:
        """Whether a checkpoint of these arrays holds it."""
        found = arrays.get(_FOUND)
        return found is not None and found.shape[1:] == (-(-self.sealed.m // 8),)

    def restore(self, arrays: Mapping[str, State]) -> None:
        """Go back to what was kept."""
        packed = arrays[_FOUND].astype(np.uint8, copy=False)
        self.found = np.unpackbits(packed, axis=1, count=self.sealed.m)
        self.done, self.home = int(arrays[_DONE][0]), bool(arrays[_DONE][1])
        self._count_rounds()
