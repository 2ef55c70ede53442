"""One cloud's half of the shares suite: `ppodc.kmeans.half.Half` for both roles.

A state is a (k, l + 1) array of additive shares modulo 2^64: sums and counts. Work on records is
done in chunks, so that memory does not grow with m; supplies for a chunk come from the stock and
are made on the spot when it runs dry. After any error the session is over: its transfers are
never used again, and a new pair starts with new secrets.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.kmeans.half import Parameters, Progress, State
from ppodc.kmeans.shares import ingest as taking_in
from ppodc.kmeans.shares import scaling, smin_k, update
from ppodc.kmeans.shares import sums as summing
from ppodc.kmeans.shares.ingest import Shard
from ppodc.kmeans.shares.products import ProductStep, RandomProducts, TransferProducts
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.scaling import Centres, Scaled
from ppodc.kmeans.shares.ssed_op import ssed_op
from ppodc.mpc.additive import U64, Words
from ppodc.mpc.digit_ot import DIGIT
from ppodc.mpc.meter import Meter
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs, Stock
from ppodc.records.output_half import OutputHalf
from ppodc.transport.channel import Channel

MEMORY_BYTES = 400 << 20  # what shares and keys of records may keep in memory
_CHUNK_ROWS = 1 << 14
_CHUNK_BYTES = 1 << 27  # of a chunk's distances and supplies
_DIGIT_BYTES = 12  # of supplies per digit of a comparison: leaves and AND pairs
_AHEAD_BYTES = 1 << 27  # of products made ahead, for all shards together
_REMEMBERED = 2  # scaled clusters: the old and the new ones of an update
_SCALED = "shares.remembered"


@dataclass(slots=True, repr=False)
class _Known:
    """What has been computed from a state; `number` is the same at both clouds."""

    number: int
    state: Words
    scaled: Scaled
    centres: Centres | None = None


class SharesHalf:
    """The half of the cloud `role`; `key` is C2's Paillier key, public at C1 and secret at C2.

    `pools` is a folder for supplies made ahead (both clouds or none); `scratch` one for the keys
    of records beyond `memory` bytes (the system's folder for temporary files if not given).
    """

    def __init__(
        self,
        role: int,
        channel: Channel,
        parameters: Parameters,
        key: PublicKey | SecretKey,
        *,
        pools: Path | None = None,
        scratch: Path | None = None,
        memory: int = MEMORY_BYTES,
        products: ProductStep | None = None,
    ) -> None:
        self._p = parameters
        self._rings = Rings.of(parameters)
        self._product_step = TransferProducts() if products is None else products
        self._budget = Budget(memory, scratch)
        self._shards: dict[str, Shard] = {}
        self._ahead: dict[str, deque[list[RandomProducts]]] = {}
        self._scalings = 0
        self._remembered: list[_Known] = []
        self._ended: str | None = None
        self._session = Session.start(role, channel, parameters, key)
        with self._session.meter.step("start", offline=True):
            self._stock = Stock(self._session, pools)

    @property
    def meter(self) -> Meter:
        """Time and bytes by step."""
        return self._session.meter

    @property
    def role(self) -> int:
        return self._session.role

    def prepare(
        self,
        iterations: int,
        progress: Progress | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Have the supplies of so many iterations ahead; both halves call it alike.

        Before any shard is taken in, supplies for taking in shards of `rows` records (all m if
        not given) are made too. With shards, their random products are made as well, as far as
        they fit in memory. `progress` hears how many transfers each portion took; all of them are
        `to_prepare(iterations)`.
        """
        with self._working("prepare", offline=True):
            self._stock.prepare(self._missing(iterations, rows), progress)
            self._products_ahead(iterations)

    def to_prepare(self, iterations: int, rows: Sequence[int] | None = None) -> int:
        """Transfers that `prepare` would make for its stock now."""
        return self._missing(iterations, rows).work

    def _missing(self, iterations: int, rows: Sequence[int] | None = None) -> Needs:
        held = [shard.rows for shard in self._shards.values()]
        coming = [] if held else list(rows or [self._p.m])
        needs = self.iteration_needs(held or coming) * iterations
        for size in coming:
            needs += taking_in.needs(size, self._p.l, self._rings.bits)
        return needs - self._stock.available()

    def iteration_needs(self, rows: Sequence[int]) -> Needs:
        """Supplies of one iteration over shards of these sizes, update included."""
        k, l, rings = self._p.k, self._p.l, self._rings
        total = update.reseed_needs(k) + update.stop_needs(k, l, rings)
        total += scaling.scale_needs(k, l, rings)
        if k > 1:
            total += scaling.centre_needs(k, l, rings)
        for size in rows:
            for start, end in self._chunks(size):
                total += self._chunk_needs(end - start)
        return total

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        with self._working("ingest"):
            if share.ndim != 2 or share.shape[1] != self._p.l:
                raise InputError(f"shard {shard!r} must have {self._p.l} columns.")
            if shard in self._shards:
                raise InputError(f"shard {shard!r} has been taken in already.")
            held = sum(found.rows for found in self._shards.values())
            if held + len(share) > self._p.m:
                raise InputError(
                    f"shard {shard!r} brings this worker to {held + len(share)} records; "
                    f"the job was announced with {self._p.m}. Start a job of the right size."
                )
            self._shards[shard] = taking_in.ingest(
                self._session,
                self._stock,
                share,
                self._rings.bits,
                self._rings.distance,
                self._rings.distance_top,
                self._budget,
            )
            self._ahead[shard] = deque()

    def records(self, shard: str, rows: Sequence[int]) -> State:
        found = self._shard(shard)
        if any(not 0 <= row < found.rows for row in rows):
            raise InputError(f"shard {shard!r} has rows 0 to {found.rows - 1}.")
        picked = [summing.with_count(self._session, found.additive(r, r + 1)) for r in rows]
        return np.concatenate([np.empty((0, self._p.l + 1), U64), *picked])

    def centres(self, values: NDArray[np.int64]) -> State:
        if values.ndim != 2 or values.shape[1] != self._p.l:
            raise InputError(f"public centres must have {self._p.l} columns.")
        if values.size and (values.min() < 0 or values.max() > self._p.ub):
            raise InputError(f"public centres must lie in 0..{self._p.ub}.")
        state = np.zeros((len(values), self._p.l + 1), U64)
        if self.role == 1:
            state[:, :-1] = values
            state[:, -1] = 1
        return state

    def join(self, states: Sequence[State]) -> State:
        return np.concatenate([_checked(state) for state in states])

    def add(self, states: Sequence[State]) -> State:
        total: Words = np.sum([_checked(state) for state in states], axis=0, dtype=U64)
        return total

    def assign(self, shard: str, clusters: State, progress: Progress | None = None) -> State:
        with self._working("assign"):
            found = self._shard(shard)
            state = self._clusters(clusters)
            centres = self._centres_of(state) if self._p.k > 1 else None
            total = np.zeros_like(state)
            found.hot.clear()
            ready = self._ahead[shard].popleft() if self._ahead[shard] else []
            for number, (start, end) in enumerate(self._chunks(found.rows)):
                random = ready[number] if ready else None
                total += self._assign_chunk(found, start, end, centres, random)
                if progress is not None:
                    progress(end - start)
            return total

    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        with self._working("update"):
            old = self._known(self._clusters(clusters)).scaled
            k, l = self._p.k, self._p.l
            self._stock.reserve(update.reseed_needs(k) + update.stop_needs(k, l, self._rings))
            with self.meter.step("re-seed"):
                new = update.reseed(
                    self._session, self._stock, self._clusters(sums), self._clusters(candidates)
                )
            scaled = self._known(new).scaled
            with self.meter.step("stop test"):
                stop = update.stop_test(self._session, self._stock, old, scaled, self._rings)
            return new, stop

    def output(self, clusters: State) -> OutputHalf:
        with self._working("output"):
            values = update.remask(self._session, self._clusters(clusters))
            return OutputHalf.of_words(values)

    def labels(self, shard: str) -> OutputHalf:
        with self._working("labels"):
            found = self._shard(shard)
            if found.rows and not found.hot:
                raise InputError(f"shard {shard!r} has no labels before its first `assign`.")
            parts = [np.empty(0, U64)]
            for rows, hot in found.hot:
                self._stock.reserve(update.label_needs(rows, len(hot)))
                parts.append(update.labels(self._session, self._stock, hot, rows))
            return OutputHalf.of_words(np.concatenate(parts))

    def close(self) -> None:
        if self._ended is None:
            self._ended = "it was closed."
        self._stock.close()
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()
        self._session.link.channel.close()

    @contextmanager
    def _working(self, name: str, *, offline: bool = False) -> Iterator[None]:
        """A step of the protocol: timed, and the end of the session if it fails."""
        if self._ended is not None:
            raise ChannelError(f"this pair's session is over: {self._ended}")
        try:
            with self.meter.step(name, offline=offline):
                yield
        except BaseException as error:
            reason = str(error) if isinstance(error, PpodcError) else "an internal error."
            self._ended = f"{name} failed: {reason}"
            self._session.link.channel.fail(self._ended)
            raise

    def _shard(self, name: str) -> Shard:
        try:
            return self._shards[name]
        except KeyError:
            raise InputError(f"shard {name!r} has not been taken in at this worker.") from None

    def _clusters(self, state: State) -> Words:
        checked = _checked(state)
        if checked.shape != (self._p.k, self._p.l + 1):
            raise InputError(
                f"a state of {self._p.k} clusters has the shape {(self._p.k, self._p.l + 1)}, "
                f"not {checked.shape}."
            )
        return checked

    def _chunks(self, rows: int) -> list[tuple[int, int]]:
        """Stretches of rows of nearly equal size; distances and supplies of one fit in memory."""
        digits = -(-self._rings.distance_bits // DIGIT)
        per_row = max(1, self._p.k - 1) * (8 * self._rings.distance + _DIGIT_BYTES * digits)
        most = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // per_row))
        count = -(-rows // most)
        edges = [rows * i // max(count, 1) for i in range(count + 1)]
        return list(pairwise(edges))

    def _chunk_needs(self, rows: int) -> Needs:
        k = self._p.k
        return smin_k.needs(rows, k, self._rings.distance_bits) + summing.needs(rows, k)

    def _assign_chunk(
        self,
        shard: Shard,
        start: int,
        end: int,
        centres: Centres | None,
        random: RandomProducts | None,
    ) -> Words:
        """This cloud's shares of the sums over rows start..end-1; keeps their one-hots."""
        session, stock, meter = self._session, self._stock, self.meter
        self._stock.reserve(self._chunk_needs(end - start))
        if centres is None:
            hot = [smin_k.always(session.role, end - start)]
        else:
            if random is None:
                random = self._random_products(shard, start, end)
            with meter.step("SSED_OP"):
                distances = ssed_op(session, shard, start, end, centres, random)
            with meter.step("SMIN_k"):
                hot = smin_k.smin_k(session, stock, distances, self._rings.distance_bits)
        shard.hot.append((end - start, hot))
        with meter.step("sums"):
            return summing.sums(session, stock, shard.additive(start, end), hot)

    def _random_products(self, shard: Shard, start: int, end: int) -> RandomProducts:
        with self.meter.step("products", offline=True):
            return self._product_step.make(self._session, shard, start, end, self._p.k - 1)

    def _products_ahead(self, iterations: int) -> None:
        """Random products of all shards for later iterations, the nearest ones first."""
        per_row = 8 * (self._p.k - 1) * self._rings.distance
        shards = self._shards.items()
        left = _AHEAD_BYTES - sum(per_row * s.rows * len(self._ahead[name]) for name, s in shards)
        for number in range(iterations if self._p.k > 1 else 0):
            for name, shard in shards:
                size, ahead = per_row * shard.rows, self._ahead[name]
                if len(ahead) <= number and size <= left:
                    left -= size
                    parts = self._chunks(shard.rows)
                    ahead.append([self._random_products(shard, *part) for part in parts])

    def _centres_of(self, state: Words) -> Centres:
        known = self._known(state)
        if known.centres is None:
            self._stock.reserve(scaling.centre_needs(self._p.k, self._p.l, self._rings))
            with self.meter.step("scaling"):
                known.centres = scaling.centres(
                    self._session, self._stock, known.scaled, self._rings
                )
        return known.centres

    def _known(self, state: Words) -> _Known:
        """The scaled clusters of a state: remembered by both halves, or computed now.

        The halves compare numbers, since one half's state alone may not tell two states apart.
        """
        found = next((x for x in self._remembered if np.array_equal(x.state, state)), None)
        number = np.array([0 if found is None else found.number], U64)
        with self.meter.step("scaling"):
            other = self._session.link.exchange(_SCALED, number)
        if found is not None and other[0] == found.number:
            return found
        self._stock.reserve(scaling.scale_needs(self._p.k, self._p.l, self._rings))
        with self.meter.step("scaling"):
            scaled = scaling.scale(self._session, self._stock, state, self._rings)
        self._scalings += 1
        known = _Known(self._scalings, state.copy(), scaled)
        self._remembered = [known, *self._remembered][:_REMEMBERED]
        return known


def _checked(state: State) -> Words:
    """A state of this suite; one of the other suite has another type."""
    if state.dtype != np.uint64 or state.ndim != 2:
        raise InputError("this state does not belong to the shares suite.")
    return state.astype(U64, copy=False)
