"""A half's supplies: what is at hand, what is stored, and making more when both run dry.

Both halves ask for the same amounts in the same order, so their supplies stay in step and both
notice a shortage at the same moment. Making is offline work: it depends on no records. Every row
is used once (`single_use`).

All kinds that are short are made in one run of the OT extension. Nothing of a run is handed out
before all of it has passed its checks; if a check fails, the session ends and the folders are
emptied, since rows of the same session are in them.

Who learns what: nothing but the cursors of each other's folders. Rounds: one to agree on the
folders, then those of the extension. Bytes: about 4 per row of OT extension and 7 per leaf. With
silent transfers (`ot.silent.source`) 0.2 and 0.7; such supplies have folders of their own, so that
a job which does not rest on regular LPN never takes one.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.single_use import NAME_BYTES, NO_NAME, MemoryPool, SingleUsePool
from ppodc.errors import ChannelError, CheckError
from ppodc.mpc.meter import Meter
from ppodc.mpc.ot import digit_ot, random_ot
from ppodc.mpc.ot.recipe import Recipe, Source, make, make_beside
from ppodc.mpc.ot.transfer import ObliviousTransfer
from ppodc.mpc.shares import and_triples
from ppodc.mpc.shares.additive import U64Array
from ppodc.transport.wire import Body

Progress = Callable[[int], None]
_POOLS = "shares.pools"
_PORTION, _PORTION_BYTES = 1 << 23, 1 << 26  # rows and bytes made at a time when making ahead


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
        """The needs left when `other` is at hand."""
        return Needs(
            max(0, self.leaves - other.leaves),
            max(0, self.pairs - other.pairs),
            max(0, self.transfers - other.transfers),
        )

    @property
    def work(self) -> int:
        """Transfers of OT extension, in each direction, that making these amounts takes."""
        return sum(getattr(self, kind) * recipe.transfers for kind, recipe in _KINDS.items())

    @property
    def sent(self) -> float:
        """Bytes that each cloud sends to make these amounts."""
        return float(sum(getattr(self, kind) * recipe.bytes for kind, recipe in _KINDS.items()))

    @property
    def size(self) -> int:
        """Bytes that these amounts take."""
        return sum(getattr(self, kind) * recipe.layout.row_bytes for kind, recipe in _KINDS.items())

    def within(self, most: int) -> "Needs":
        """These amounts, or the same part of each so that they take at most this many bytes."""
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


_KINDS: dict[str, Recipe] = {
    "leaves": digit_ot.RECIPE,
    "pairs": and_triples.RECIPE,
    "transfers": random_ot.RECIPE,
}


class Supplies:
    """The supplies of one session; with a folder, what is left over serves a later one."""

    def __init__(
        self,
        ot: ObliviousTransfer,
        meter: Meter,
        folder: Path | None,
        source: Source | None = None,
    ) -> None:
        """From `source`, if it is not the OT extension itself; then no folder may mix both."""
        self._ot, self._meter, self._source = ot, meter, source
        self._ready = {kind: MemoryPool(recipe.layout) for kind, recipe in _KINDS.items()}
        self._stored: dict[str, SingleUsePool] = {}
        try:
            if folder is not None:
                for kind, recipe in _KINDS.items():
                    self._stored[kind] = SingleUsePool(folder / kind, recipe.layout)
            self._agree()
        except BaseException:
            self.close()  # or the folders stay locked until this process ends
            raise

    def reserve(self, needs: Needs) -> None:
        """Have these amounts at hand: from the folders first, the rest is made now."""
        if self._short(needs):
            self._ot.link.finish_beside()  # it may make them
            self._add(self._short(needs), self._ready)

    def make_beside(self, needs: Needs, parts: int) -> None:
        """Have these amounts at hand some waits later: what is short now is made in this many.

        All of it is at hand when the link has finished its work beside, and nothing before.
        """
        amounts = self._short(needs)
        if amounts:
            self._ot.link.do_beside(self._making(amounts, parts))

    def _making(self, amounts: Mapping[str, int], parts: int) -> Iterator[None]:
        orders = [(_KINDS[kind], amount) for kind, amount in amounts.items()]
        run = make_beside(self._ot, orders, parts, self._source)
        while True:
            with self._meter.step("supplies", offline=True), self._emptied_by_cheating():
                try:
                    next(run)
                except StopIteration as end:
                    for kind, columns in zip(amounts, end.value, strict=True):
                        self._ready[kind].add(columns)
                    return
            yield

    @property
    def kept_on_disk(self) -> bool:
        """Whether what is made ahead goes into folders."""
        return bool(self._stored)

    def prepare(self, needs: Needs, progress: Progress | None = None) -> None:
        """Make these amounts ahead; into the folders if there are any."""
        left = {kind: amount for kind in _KINDS if (amount := getattr(needs, kind)) > 0}
        targets: dict[str, MemoryPool | SingleUsePool] = {**self._ready, **self._stored}
        while left:
            # a portion of the first kinds that are left
            part, room, space = dict[str, int](), _PORTION, _PORTION_BYTES
            for kind, amount in left.items():
                rows, size = _KINDS[kind].transfers, _KINDS[kind].layout.row_bytes
                part[kind] = min(amount, room // rows, space // size)
                room, space = room - part[kind] * rows, space - part[kind] * size
            part = {kind: amount for kind, amount in part.items() if amount}
            self._add(part, targets)
            left = {k: rest for k, amount in left.items() if (rest := amount - part.get(k, 0))}
            if progress is not None:
                progress(sum(_KINDS[kind].transfers * amount for kind, amount in part.items()))

    def take_leaves(self, count: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """(tables as sender, choices and pads as receiver)."""
        self.reserve(Needs(leaves=count))
        table, mine = self._ready["leaves"].take(count)
        return table.reshape(-1), mine.reshape(-1)

    def take_pairs(self, words: int) -> U64Array:
        """(5, words): a, b0, b1, c0, c1."""
        self.reserve(Needs(pairs=words))
        (rows,) = self._ready["pairs"].take(words)
        return np.ascontiguousarray(rows.T)

    def take_transfers(self, count: int) -> tuple[U64Array, U64Array, NDArray[np.uint8]]:
        """(both keys as sender (n, 4), chosen key as receiver (n, 2), choices)."""
        self.reserve(Needs(transfers=count))
        pair, key, choice = self._ready["transfers"].take(count)
        return pair, key, choice.reshape(-1)

    def available(self) -> Needs:
        """Supplies at hand and in the folders."""
        amounts = {kind: pool.available for kind, pool in self._ready.items()}
        for kind, pool in self._stored.items():
            amounts[kind] += pool.available
        return Needs(**amounts)

    def close(self) -> None:
        """Release the folders."""
        for pool in self._stored.values():
            pool.close()
        self._stored = {}

    def _short(self, needs: Needs) -> dict[str, int]:
        """The shortage of each kind, after the folders have given what they have."""
        short = {}
        for kind, ready in self._ready.items():
            count, stored = getattr(needs, kind), self._stored.get(kind)
            if stored is not None and ready.available < count:
                part = min(count - ready.available, stored.available)
                if part:
                    ready.add(stored.take(part))
            if ready.available < count:
                short[kind] = count - ready.available
        return short

    def _add(
        self, amounts: Mapping[str, int], targets: Mapping[str, MemoryPool | SingleUsePool]
    ) -> None:
        """Make this many of each kind, in one run."""
        if not amounts:
            return
        orders = [(_KINDS[kind], amount) for kind, amount in amounts.items()]
        with self._meter.step("supplies", offline=True), self._emptied_by_cheating():
            found = make(self._ot, orders, source=self._source)
            for kind, columns in zip(amounts, found, strict=True):
                targets[kind].add(columns)

    @contextmanager
    def _emptied_by_cheating(self) -> Iterator[None]:
        """If a check fails, give up all that is stored; the other cloud sees it by the names."""
        try:
            yield
        except CheckError:
            for pool in self._stored.values():
                pool.agree(None, secrets.token_bytes(NAME_BYTES))
            raise

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
