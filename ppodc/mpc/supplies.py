"""A half's supplies: what is at hand, what is stored, and making more when both run dry.

Both halves ask for the same amounts in the same order, so their supplies stay in step and both
notice a shortage at the same moment. Making is offline work: it depends on no records. Every row
is used once (`single_use`).

Who learns what: nothing but the cursors of each other's folders. Rounds: one to agree on the
folders, then those of the makers. Bytes: 4 per row of OT extension and direction (`Needs.work`).
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.single_use import (
    NAME_BYTES,
    NO_NAME,
    Array,
    Layout,
    MemoryPool,
    SingleUsePool,
)
from ppodc.errors import ChannelError
from ppodc.mpc import and_triples, digit_ot, random_ot
from ppodc.mpc.additive import Words
from ppodc.mpc.meter import Meter
from ppodc.mpc.oblivious_transfer import ObliviousTransfer
from ppodc.transport.wire import Body

Progress = Callable[[int], None]
_POOLS = "shares.pools"
_PORTION = 1 << 21  # rows made at a time when filling folders


@dataclass(frozen=True, slots=True)
class Needs:
    """Amounts of each kind: leaves, words of 64 AND pairs, transfers."""

    leaves: int = 0
    pairs: int = 0
    transfers: int = 0

    def __add__(self, other: "Needs") -> "Needs":
        return Needs(
            self.leaves + other.leaves,
            self.pairs + other.pairs,
            self.transfers + other.transfers,
        )

    def __sub__(self, other: "Needs") -> "Needs":
        """What is missing when `other` is there."""
        return Needs(
            max(0, self.leaves - other.leaves),
            max(0, self.pairs - other.pairs),
            max(0, self.transfers - other.transfers),
        )

    @property
    def work(self) -> int:
        """Rows of OT extension, in each direction, that making these amounts takes."""
        return sum(getattr(self, kind) * rows for kind, (_, _, rows) in _KINDS.items())

    @property
    def size(self) -> int:
        """Bytes that these amounts take."""
        return sum(
            getattr(self, kind) * layout.row_bytes for kind, (layout, _, _) in _KINDS.items()
        )

    def within(self, most: int) -> "Needs":
        """These amounts, or the same part of each so that they take at most so many bytes."""
        size = self.size
        if size <= most:
            return self
        amounts = (self.leaves, self.pairs, self.transfers)
        return Needs(*(amount * max(0, most) // size for amount in amounts))

    def __mul__(self, times: int) -> "Needs":
        return Needs(times * self.leaves, times * self.pairs, times * self.transfers)


_Name = Annotated[bytes, msgspec.Meta(min_length=NAME_BYTES, max_length=NAME_BYTES)]
_Row = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Inventory(Body, frozen=True):
    """Name, cursor, end and a proposed new name of each stored pool, in the order of `_KINDS`."""

    names: tuple[_Name, ...]
    cursors: tuple[_Row, ...]
    ends: tuple[_Row, ...]
    fresh: tuple[_Name, ...]


Maker = Callable[[ObliviousTransfer, int], Sequence[Array]]
_KINDS: dict[str, tuple[Layout, Maker, int]] = {
    # layout, maker, rows of OT extension per row
    "leaves": (digit_ot.LEAVES, digit_ot.make, 4),
    "pairs": (and_triples.PAIRS, and_triples.make, 64),
    "transfers": (random_ot.TRANSFERS, random_ot.make, 1),
}


class Supplies:
    """The supplies of one session; with a folder, what is left over serves a later one."""

    def __init__(self, ot: ObliviousTransfer, meter: Meter, folder: Path | None) -> None:
        self._ot, self._meter = ot, meter
        self._ready = {kind: MemoryPool(layout) for kind, (layout, _, _) in _KINDS.items()}
        self._stored: dict[str, SingleUsePool] = {}
        try:
            if folder is not None:
                for kind, (layout, _, _) in _KINDS.items():
                    self._stored[kind] = SingleUsePool(folder / kind, layout)
            self._agree()
        except BaseException:
            self.close()  # or the folders stay locked until this process ends
            raise

    def reserve(self, needs: Needs) -> None:
        """Have these amounts at hand: from the folders first, the rest is made now."""
        for kind in _KINDS:
            self._reserve(kind, getattr(needs, kind))

    @property
    def kept_on_disk(self) -> bool:
        """Whether what is made ahead goes into folders."""
        return bool(self._stored)

    def prepare(self, needs: Needs, progress: Progress | None = None) -> None:
        """Make these amounts ahead; into the folders if there are any."""
        for kind, (_, _, rows) in _KINDS.items():
            target: MemoryPool | SingleUsePool = self._stored.get(kind, self._ready[kind])
            left = getattr(needs, kind)
            while left > 0:
                part = min(left, _PORTION // rows)
                target.add(self._make(kind, part))
                left -= part
                if progress is not None:
                    progress(part * rows)

    def take_leaves(self, count: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """(tables as sender, choices and pads as receiver)."""
        self._reserve("leaves", count)
        table, mine = self._ready["leaves"].take(count)
        return table.reshape(-1), mine.reshape(-1)

    def take_pairs(self, words: int) -> Words:
        """(5, words): a, b0, b1, c0, c1."""
        self._reserve("pairs", words)
        (rows,) = self._ready["pairs"].take(words)
        return np.ascontiguousarray(rows.T)

    def take_transfers(self, count: int) -> tuple[Words, Words, NDArray[np.uint8]]:
        """(both keys as sender (n, 4), chosen key as receiver (n, 2), choices)."""
        self._reserve("transfers", count)
        pair, key, choice = self._ready["transfers"].take(count)
        return pair, key, choice.reshape(-1)

    def available(self) -> Needs:
        """What is at hand and in the folders."""
        amounts = {kind: pool.available for kind, pool in self._ready.items()}
        for kind, pool in self._stored.items():
            amounts[kind] += pool.available
        return Needs(**amounts)

    def close(self) -> None:
        """Release the folders."""
        for pool in self._stored.values():
            pool.close()
        self._stored = {}

    def _reserve(self, kind: str, count: int) -> None:
        ready, stored = self._ready[kind], self._stored.get(kind)
        if stored is not None and ready.available < count:
            part = min(count - ready.available, stored.available)
            if part:
                ready.add(stored.take(part))
        if ready.available < count:
            ready.add(self._make(kind, count - ready.available))

    def _make(self, kind: str, count: int) -> Sequence[Array]:
        _, maker, _ = _KINDS[kind]
        with self._meter.step(kind, offline=True):
            return maker(self._ot, count)

    def _agree(self) -> None:
        """Both halves go on from the same rows or start with none, under C1's new names."""
        pools = list(self._stored.values())
        own = Inventory(
            tuple(pool.name for pool in pools),
            tuple(pool.cursor for pool in pools),
            tuple(pool.end for pool in pools),
            tuple(secrets.token_bytes(NAME_BYTES) for _ in pools),
        )
        other = self._ot.link.exchange_body(_POOLS, own, Inventory)
        lengths = map(len, (own.names, other.names, other.cursors, other.ends, other.fresh))
        if len(set(lengths)) != 1:
            raise ChannelError(
                "one cloud keeps its pools in a folder and the other does not. "
                "Configure a pool folder at both clouds or at none."
            )
        first = own if self._ot.role == 1 else other
        for i, pool in enumerate(pools):
            cursor = max(own.cursors[i], other.cursors[i])
            end = min(own.ends[i], other.ends[i])
            if own.names[i] == other.names[i] != NO_NAME and cursor <= end:
                pool.agree(own.names[i], first.fresh[i], cursor, end)
            else:
                pool.agree(None, first.fresh[i])
