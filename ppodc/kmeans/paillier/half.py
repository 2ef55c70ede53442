"""The two halves of a pair in the paillier suite: `ppodc.kmeans.half.Half` for C1 and for C2.

C1 leads: in every step it asks and C2 serves until C1 says that the step is finished. C2's menu is
that of the step, with the counts that the job has (`exchange.StepMenu`): only `update` has an
answer in the clear, once, the coin-blinded stop bit. A state is
the array of C1's ciphertexts; C2's states are empty. Each cloud makes randomisers ahead for itself,
if they come from a folder: no word about them passes between the two.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import Ciphertexts, PublicKey, SecretKey
from ppodc.crypto.paillier_arithmetic import Cipher, RandomiserSource
from ppodc.crypto.randomisers import PooledRandomisers
from ppodc.crypto.split_paillier import KeyShare
from ppodc.errors import ChannelError, ConfigError, KeyFileError
from ppodc.kmeans.half import Half, State, cannot_choose
from ppodc.kmeans.paillier import assign, demand, exchange, ingest, output, ssed_op, update
from ppodc.kmeans.paillier.exchange import Cloud1, Cloud2, Step, StepMenu
from ppodc.kmeans.paillier.questions import Answers, Requests
from ppodc.kmeans.paillier.update import Clusters
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.widths import check_paillier, clamp_beta
from ppodc.pairs.plan import Progress
from ppodc.records.result_shares import OutputShare
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Array, Body

T = TypeVar("T")

BATCH = 8  # records per question: large enough to hide the round trip, small enough to overlap
IN_FLIGHT = 4  # batches under way in pipelined mode
EMPTY: State = np.zeros((0, 0), dtype=np.uint8)
VERSION = 1
_HELLO = "paillier.hello"
_HIDDEN = frozenset({"products", "bit", "compare", "positions"})  # answered with ciphertexts


class Hello(Body, frozen=True):
    """The first message of each half."""

    version: int
    role: int
    job: str


class _Half(Half):
    """The base of both clouds' halves: a channel, a cipher, shards of known sizes."""

    def __init__(
        self,
        role: int,
        channel: Channel,
        params: Parameters,
        cipher: Cipher,
        batch: int,
        key: PublicKey | SecretKey | KeyShare,
    ) -> None:
        self.params = params
        self.widths = check_paillier(params, cipher.key.bits)
        self._role, self._batch = role, batch
        self._channel, self._cipher = channel, cipher
        self._sizes: dict[str, int] = {}  # rows of the shards taken in
        self._greet(split=isinstance(key, KeyShare))

    def _greet(self, *, split: bool) -> None:
        """Refuse a half of another release, job or key, or of a key that is split for one alone."""
        p, key = self.params, self._cipher.key
        numbers = f"m={p.m} l={p.l} k={p.k} ub={p.ub} beta={p.beta} min_size={p.min_size}"
        form = f"{key.fingerprint} split" if split else key.fingerprint
        own = Hello(VERSION, self._role, f"{numbers} key={form}")
        self._channel.send(_HELLO, own)
        other = self._channel.receive(_HELLO, Hello).body
        if other.version != VERSION or other.role == self._role:
            raise ChannelError(
                f"the peer is role {other.role} of paillier suite {other.version}, this is role "
                f"{self._role} of {VERSION}. Run the same release at both clouds, one as each role."
            )
        if other.job != own.job:
            raise ConfigError(
                "the two clouds were started for different jobs or keys. Compare their spec files, "
                "and cloud 1's Paillier public key with cloud 2's. A split key needs a share at "
                "either cloud."
            )

    def to_prepare(self, iterations: int, rows: Sequence[int] | None = None) -> int:
        """Randomisers that `prepare` would make now; none without a folder to keep them in."""
        pool = self._cipher.randomisers
        if not isinstance(pool, PooledRandomisers):
            return 0
        held = list(self._sizes.values())
        coming = [] if held else list(rows or [self.params.m])
        key_bits = self._cipher.key.bits
        needed = demand.iteration(self.params, key_bits, held or coming, self._batch) * iterations
        needed += demand.ingest(self.params, key_bits, coming, self._batch)
        return max(0, needed.of(self._role) - pool.available)

    def prepare(
        self,
        iterations: int,
        progress: Progress | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Have the randomisers of this many iterations in the folder.

        Before any shard is taken in, those for taking in shards of `rows` records (all m if not
        given) are made too.
        """
        pool = self._cipher.randomisers
        if isinstance(pool, PooledRandomisers):
            pool.fill(self.to_prepare(iterations, rows), progress)

    def close(self) -> None:
        if isinstance(self._cipher.randomisers, PooledRandomisers):
            self._cipher.randomisers.close()
        self._channel.close()


class Half1(_Half):
    """C1's half: holds ciphertexts, never a key that opens them by itself."""

    def __init__(
        self,
        channel: Channel,
        params: Parameters,
        key: PublicKey | KeyShare,
        randomisers: RandomiserSource,
        *,
        pipelined: bool = True,
        batch: int = BATCH,
    ) -> None:
        share = key if isinstance(key, KeyShare) else None
        public = key.public if isinstance(key, KeyShare) else key
        super().__init__(1, channel, params, Cipher(public, randomisers), batch, key)
        self.c1 = Cloud1(self._cipher, share=share)
        self._requests = Requests(channel)
        self._in_flight = IN_FLIGHT if pipelined else 1
        self._records: dict[str, list[list[Ciphertexts]]] = {}
        self._index: dict[str, list[Ciphertexts]] = {}
        self._hot: dict[str, list[list[Ciphertexts]]] = {}  # by batch, a column for each cluster

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        steps = (
            ingest.ingest(self.c1, shard, first, share[first : first + self._batch], self.params.ub)
            for first in range(0, len(share), self._batch)
        )
        self._records[shard] = self._run(steps)
        self._sizes[shard] = len(share)

    def records(self, shard: str, rows: Sequence[int]) -> State:
        batches = self._records[shard]
        chosen = []
        for row in rows:
            batch, within = divmod(row, self._batch)
            values = [column.values[within] for column in batches[batch]]
            chosen += [Ciphertexts(self.c1.key, values), self.c1.constant(1, 1)]
        return self._state(chosen)

    def centres(self, values: NDArray[np.int64]) -> State:
        ones = np.ones((len(values), 1), dtype=np.int64)
        flat = np.hstack([values, ones]).reshape(-1)
        return self._state([self.c1.constant(int(x), 1) for x in flat])

    def join(self, states: Sequence[State]) -> State:
        return np.concatenate([state for state in states if len(state)])

    def assign(
        self, shard: str, clusters: State, progress: Progress | None = None, *, more: bool = True
    ) -> State:
        current = self._clusters(clusters)
        (scaled,) = self._run(
            [ssed_op.scale(self.c1, current.sums, current.sizes, self.widths)], finish=False
        )
        batches = self._records[shard]
        total = None
        self._index[shard], self._hot[shard] = [], []

        def done(position: int) -> None:
            if progress is not None:
                progress(len(batches[position][0]))

        steps = (assign.assign(self.c1, batch, scaled, self.widths) for batch in batches)
        for assigned in self._run(steps, done):
            self._index[shard].append(assigned.index)
            self._hot[shard].append(assigned.hot)
            total = assigned.sums if total is None else self.c1.cipher.add(total, assigned.sums)
        return self._state([total] if total is not None else [self._nothing()])

    def add(self, states: Sequence[State]) -> State:
        total = self._read(states[0])
        for state in states[1:]:
            total = self.c1.cipher.add(total, self._read(state))
        return total.to_array()

    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        def step() -> Step[tuple[Clusters, bool]]:
            counted = self._clusters(sums)
            spare = self._clusters(candidates)
            new = yield from update.reseed(self.c1, counted, spare, self.widths)
            if not self.params.stops:
                return new, False
            beta = clamp_beta(self.params)
            stop = yield from update.setc(self.c1, self._clusters(clusters), new, beta, self.widths)
            yield from output.announce(stop)
            return new, stop

        ((new, stop),) = self._run([step()])
        return new.flat().to_array(), stop

    def members(self, shard: str, runs: NDArray[np.int64], owners: int) -> State:
        """Sums of the one-hot's ciphertexts, k for each owner in turn. Local."""
        whose = np.repeat(runs[:, 1], runs[:, 0])
        columns = [Ciphertexts.concat(list(parts)) for parts in zip(*self._hot[shard], strict=True)]
        own = [np.flatnonzero(whose == owner).tolist() for owner in range(owners)]
        counts = [
            self.c1.cipher.sum(column.take(rows)) if rows else self.c1.constant(0, 1)
            for rows in own
            for column in columns
        ]
        return self._state(counts)

    def output(
        self,
        sums: State,
        squares: State | None = None,
        members: State | None = None,
        owners: int = 1,
    ) -> list[OutputShare]:
        if squares is not None:
            raise cannot_choose()
        counted = None if members is None else self._read(members)

        def step() -> Step[list[int]]:
            clusters, least = self._clusters(sums), self.params.min_size
            told = yield from update.large(self.c1, clusters, least, self.widths, counted, owners)
            flat = Ciphertexts.concat([each.flat() for each in told])
            return (yield from output.output(self.c1, flat))

        (values,) = self._run([step()])
        return _by_owner(int(self.c1.key.n), values, owners)

    def labels(self, shard: str) -> OutputShare:
        if not self._index.get(shard):
            raise ChannelError("labels exist only after an iteration over the shard.")
        halves = self._run(output.labels(self.c1, index) for index in self._index[shard])
        return OutputShare.of(output.LABEL_MODULUS, [value for half in halves for value in half])

    def _run(
        self, steps: Iterable[Step[T]], done: Progress | None = None, *, finish: bool = True
    ) -> list[T]:
        results = exchange.run(steps, self._requests, self._in_flight, done)
        if finish:
            self._requests.finish()
        return results

    def _nothing(self) -> Ciphertexts:
        return self.c1.constant(0, self.params.k * (self.params.l + 1))

    def _read(self, state: State) -> Ciphertexts:
        return Ciphertexts.from_array(self.c1.key, state, own=True)

    def _clusters(self, state: State) -> Clusters:
        return Clusters.from_flat(self._read(state), self.params.l)

    def _state(self, parts: Sequence[Ciphertexts]) -> State:
        return Ciphertexts.concat(list(parts)).to_array()


class Half2(_Half):
    """C2's half: holds the key or its share, and answers what is on the menu, step by step."""

    def __init__(
        self,
        channel: Channel,
        params: Parameters,
        secret: SecretKey | KeyShare,
        randomisers: RandomiserSource,
        *,
        batch: int = BATCH,
    ) -> None:
        if isinstance(secret, SecretKey) and not secret.strong:
            raise KeyFileError(
                "the factors of p-1 and q-1 of cloud 2's Paillier key are unknown. Such a key may "
                "not hide C1's ciphertexts from cloud 2. Make a new one with `ppodc key`, or use "
                "the shares suite."
            )
        super().__init__(2, channel, params, Cipher(secret.public, randomisers), batch, secret)
        self.c2 = Cloud2(self._cipher, secret)
        self._answers = Answers(channel, self._answer)
        self._menu = StepMenu("the pair's start")

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        self.c2.shares[shard] = share
        self._serve(StepMenu("ingest", _HIDDEN, pieces={"share": len(share)}))
        del self.c2.shares[shard]
        self._sizes[shard] = len(share)

    def records(self, shard: str, rows: Sequence[int]) -> State:
        return EMPTY

    def centres(self, values: NDArray[np.int64]) -> State:
        return EMPTY

    def join(self, states: Sequence[State]) -> State:
        return EMPTY

    def assign(
        self, shard: str, clusters: State, progress: Progress | None = None, *, more: bool = True
    ) -> State:
        self._serve(StepMenu("assign", _HIDDEN))
        return EMPTY

    def add(self, states: Sequence[State]) -> State:
        return EMPTY

    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        if not self.params.stops:
            self._serve(StepMenu("update", _HIDDEN))
            return EMPTY, False
        self.c2.stops.clear()
        self._serve(StepMenu("update", _HIDDEN, {"reveal": self.widths.stop + 1, "stop": 1}))
        return EMPTY, self.c2.stops[0]

    def members(self, shard: str, runs: NDArray[np.int64], owners: int) -> State:
        return EMPTY

    def output(
        self,
        sums: State,
        squares: State | None = None,
        members: State | None = None,
        owners: int = 1,
    ) -> list[OutputShare]:
        if squares is not None:
            raise cannot_choose()
        values = owners * self.params.k * (self.params.l + 1)
        revealed = self._revealed(StepMenu("output", _HIDDEN, {"output": values}))
        return _by_owner(int(self.c2.secret.public.n), revealed, owners)

    def labels(self, shard: str) -> OutputShare:
        revealed = self._revealed(StepMenu("labels", pieces={"labels": self._sizes[shard]}))
        return OutputShare.of(output.LABEL_MODULUS, revealed)

    def _serve(self, menu: StepMenu) -> None:
        """Answer what is on the step's menu until C1 has finished it."""
        self._menu = menu
        self._answers.serve()
        menu.check_finished()

    def _revealed(self, menu: StepMenu) -> list[int]:
        self.c2.revealed.clear()
        self._serve(menu)
        return list(self.c2.revealed)

    def _answer(self, op: str, body: msgspec.Raw, arrays: tuple[Array, ...]) -> Sequence[Array]:
        return exchange.answer(self.c2, self._menu, op, body, arrays)


def _by_owner(modulus: int, values: Sequence[int], owners: int) -> list[OutputShare]:
    """Halves of the outputs of each owner, from all of them one behind the other."""
    size = len(values) // owners
    return [OutputShare.of(modulus, values[o * size : (o + 1) * size]) for o in range(owners)]
