"""The two halves of a pair in the paillier suite: `ppodc.kmeans.half.Half` for C1 and for C2.

C1 leads: in every step it asks and C2 serves until C1 says that the step is finished. A state is
the array of C1's ciphertexts; C2's states are empty.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import Cipher, Ciphertexts, PublicKey, RandomiserSource, SecretKey
from ppodc.errors import ChannelError
from ppodc.kmeans.half import Parameters, Progress, State
from ppodc.kmeans.paillier import assign, exchange, ingest, output, ssed_op, update
from ppodc.kmeans.paillier.exchange import Cloud1, Cloud2, Step
from ppodc.kmeans.paillier.questions import Answers, Requests
from ppodc.kmeans.paillier.update import Clusters
from ppodc.kmeans.widths import check_paillier, clamp_beta
from ppodc.records.output_half import OutputHalf
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Array

T = TypeVar("T")

BATCH = 8  # records per question: large enough to hide the round trip, small enough to overlap
IN_FLIGHT = 4  # batches under way in pipelined mode
EMPTY: State = np.zeros((0, 0), dtype=np.uint8)


class Half1:
    """C1's half: holds ciphertexts, never a key that opens them."""

    def __init__(
        self,
        channel: Channel,
        params: Parameters,
        key: PublicKey,
        randomisers: RandomiserSource,
        *,
        pipelined: bool = True,
        batch: int = BATCH,
    ) -> None:
        self.params = params
        self.widths = check_paillier(params, key.bits)
        self.c1 = Cloud1(Cipher(key, randomisers))
        self._channel = channel
        self._requests = Requests(channel)
        self._in_flight = IN_FLIGHT if pipelined else 1
        self._batch = batch
        self._records: dict[str, list[list[Ciphertexts]]] = {}
        self._index: dict[str, list[Ciphertexts]] = {}

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        steps = (
            ingest.ingest(self.c1, shard, first, share[first : first + self._batch])
            for first in range(0, len(share), self._batch)
        )
        self._records[shard] = self._run(steps)

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

    def assign(self, shard: str, clusters: State, progress: Progress | None = None) -> State:
        current = self._clusters(clusters)
        (scaled,) = self._run(
            [ssed_op.scale(self.c1, current.sums, current.sizes, self.widths)], finish=False
        )
        batches = self._records[shard]
        total = None
        self._index[shard] = []

        def done(position: int) -> None:
            if progress is not None:
                progress(len(batches[position][0]))

        steps = (assign.assign(self.c1, batch, scaled, self.widths) for batch in batches)
        for assigned in self._run(steps, done):
            self._index[shard].append(assigned.index)
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
            beta = clamp_beta(self.params)
            stop = yield from update.setc(self.c1, self._clusters(clusters), new, beta, self.widths)
            yield from output.announce(stop)
            return new, stop

        ((new, stop),) = self._run([step()])
        return new.flat().to_array(), stop

    def output(self, clusters: State) -> OutputHalf:
        (values,) = self._run([output.output(self.c1, self._read(clusters))])
        return OutputHalf.of(int(self.c1.key.n), values)

    def labels(self, shard: str) -> OutputHalf:
        if not self._index.get(shard):
            raise ChannelError("labels exist only after an iteration over the shard.")
        halves = self._run(output.labels(self.c1, index) for index in self._index[shard])
        return OutputHalf.of(output.LABEL_MODULUS, [value for half in halves for value in half])

    def close(self) -> None:
        self._channel.close()

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


class Half2:
    """C2's half: holds the secret key and answers what is on the menu, step by step."""

    def __init__(
        self,
        channel: Channel,
        params: Parameters,
        secret: SecretKey,
        randomisers: RandomiserSource,
    ) -> None:
        check_paillier(params, secret.public.bits)
        self.params = params
        self.c2 = Cloud2(Cipher(secret.public, randomisers), secret)
        self._channel = channel
        self._answers = Answers(channel, self._answer)

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        self.c2.shares[shard] = share
        self.serve()
        del self.c2.shares[shard]

    def records(self, shard: str, rows: Sequence[int]) -> State:
        return EMPTY

    def centres(self, values: NDArray[np.int64]) -> State:
        return EMPTY

    def join(self, states: Sequence[State]) -> State:
        return EMPTY

    def assign(self, shard: str, clusters: State, progress: Progress | None = None) -> State:
        self.serve()
        return EMPTY

    def add(self, states: Sequence[State]) -> State:
        return EMPTY

    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        self.c2.stops.clear()
        self.serve()
        if len(self.c2.stops) != 1:
            raise ChannelError("C1 ended the stop test without its outcome.")
        return EMPTY, self.c2.stops[0]

    def output(self, clusters: State) -> OutputHalf:
        return OutputHalf.of(int(self.c2.secret.public.n), self._revealed())

    def labels(self, shard: str) -> OutputHalf:
        return OutputHalf.of(output.LABEL_MODULUS, self._revealed())

    def close(self) -> None:
        self._channel.close()

    def serve(self) -> None:
        """Answer until C1 has finished its step."""
        self._answers.serve()

    def _revealed(self) -> list[int]:
        self.c2.revealed.clear()
        self.serve()
        return list(self.c2.revealed)

    def _answer(self, op: str, body: msgspec.Raw, arrays: tuple[Array, ...]) -> Sequence[Array]:
        return exchange.answer(self.c2, op, body, arrays)
