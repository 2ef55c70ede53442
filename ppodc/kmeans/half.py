"""What a suite must offer: one cloud's half of each step of exact k-means, and the loop over them.

A worker at C1 and a worker at C2 form a pair. Each holds one `Half`; both call the same steps in
the same order with the same public arguments, and talk only to each other over their channel.
What a half hands out is opaque to everyone else: a `State` is that cloud's representation of
cluster-scale values (ciphertexts at C1 and nothing at C2 in the paillier suite, additive shares
at both in the shares suite). States of the same cloud from several pairs add up with `add`.

Who learns what: both clouds learn the shapes in `Parameters` and the stop bit that `update`
returns. `output` and `labels` give each cloud one half of a value that only an owner adds up;
neither cloud learns whether a cluster was empty or too small to be told of.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.work import Rows, Work
from ppodc.mpc.correlated_ot import Bits
from ppodc.pairs.plan import Prepares, Progress
from ppodc.records.output_half import OutputHalf

State = NDArray[np.uint8] | NDArray[np.uint64]
S = TypeVar("S")
Products = Literal["auto", "lattice", "transfers"]  # how the shares suite multiplies records


@dataclass(frozen=True, slots=True)
class Parameters:
    """The public numbers of a job: m records, l attributes in 0..ub, k clusters.

    Of a cluster of fewer than `min_size` records owners learn nothing.
    """

    m: int
    l: int
    k: int
    ub: int
    beta: Fraction
    min_size: int = 1
    products: Products = "auto"


class Half(Prepares, Protocol):
    """One cloud's half of a pair."""

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in a shard's records: (rows, l), t + r at C1 and r at C2, modulo 2^64.

        Whatever words these are, a value counts as min(t mod 2^b, ub) with b = bits(ub).
        """

    def records(self, shard: str, rows: Sequence[int]) -> State:
        """Clusters of one record each (count 1), for initial centres and re-seeding."""

    def centres(self, values: NDArray[np.int64]) -> State:
        """Clusters of count 1 at public centres (k, l), integers 0..ub."""

    def join(self, states: Sequence[State]) -> State:
        """Clusters from several `records` calls, one behind the other. Local."""

    def assign(self, shard: str, clusters: State, progress: Progress | None = None) -> State:
        """One-hot of the nearest cluster per record, summed: (k, l + 1) partial sums, counts."""

    def add(self, states: Sequence[State]) -> State:
        """The sum of the partial sums of several shards. Local: no message is sent."""

    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        """Re-seed empty clusters from the candidates; new clusters and the public stop bit."""

    def output(self, sums: State) -> OutputHalf:
        """This cloud's half of the k * (l + 1) sums and counts of `add`, row by row.

        They are those before re-seeding, with zeros for clusters of fewer than `min_size` records.
        """

    def labels(self, shard: str) -> OutputHalf:
        """This cloud's half of the labels of the shard's last `assign`."""

    def close(self) -> None:
        """End the pair's session."""


@runtime_checkable
class HandsOnCentres(Protocol):
    """A half whose centres can be computed at one pair for all; each cloud hands on its own."""

    def scaled(self, clusters: State) -> State:
        """What `assign` computes of two clusters or more before it looks at a record."""

    def take_scaled(self, clusters: State, scaled: State) -> None:
        """Have that from another pair, of clusters that its `update` made. Local."""


@runtime_checkable
class CountsOnce(Protocol):
    """A half that can link the records of several owners, and count each entity once."""

    def link(
        self,
        work: Sequence[Work],
        uploads: Sequence[Rows],
        before: Bits,
        rows: int,
        progress: Progress,
    ) -> Bits:
        """Shares of [row matches one of an owner before] of all rows, over a portion of pairs."""

    def home(self, found: Bits, uploads: Sequence[Rows]) -> Bits:
        """What all portions have found of a row in any pass, at its place in the first."""

    def count_once(self, shard: str, parts: Bits, first: NDArray[np.bool_]) -> None:
        """From now on sums leave out rows that are not real, or that match one of an owner before,
        as these parts say of the shard, or do not belong to the `first` pass; nobody learns which.
        """

    def own_rows(
        self, shard: str, upload: NDArray[np.uint64], first: NDArray[np.bool_]
    ) -> OutputHalf:
        """This cloud's half of which of its owner's rows each row of the shard is; 0: none."""


@runtime_checkable
class ChoosesStarts(Protocol):
    """A half that starts by k-means++, finds the better of two starts and tells the inertia."""

    def spread(self, shard: str, chosen: State, start: int) -> State:
        """The sum over a shard of the squared distances to the nearest of the chosen records.

        `start` is the number of the start that they belong to; those chosen before come first.
        """

    def pick(self, shard: str, totals: State, number: int, word: int, *, last: bool) -> State:
        """The next record as a cluster of count 1, or zeros if it lies in another shard.

        `totals` are what `spread` gave for all shards, in the order of their records; this is the
        one of `number`, and of `last` the last record. `word` / 2^64 is the public fraction.
        """

    def squares(self, shard: str) -> State:
        """Sums of ||x||^2 by cluster, of the shard's last `assign`."""

    def better(self, old: Sequence[State], new: Sequence[State]) -> Sequence[State]:
        """The states of the start of less inertia, `old` on ties; the first are its sums."""

    def output(self, sums: State, squares: State | None = None) -> OutputHalf:
        """As `Half.output`, then the sum of `squares` over the clusters that are told of."""


@dataclass(frozen=True, slots=True)
class Round(Generic[S]):
    """The state after one iteration; both clouds know its number and its stop bit.

    `sums` are of the records as assigned; `clusters`, with which the next iteration begins, have
    a record in the place of each empty one.
    """

    iteration: int
    clusters: S
    sums: S
    stop: bool


def iterate(
    start: S,
    assign: Callable[[S], S],
    update: Callable[[S, S, S], tuple[S, bool]],
    candidates: Callable[[int], S],
    max_iter: int,
) -> Iterator[Round[S]]:
    """The loop of k-means over steps as `Half` has them; both clouds run it alike.

    `assign` gives the sums over all records, `candidates(i)` the records that would re-seed empty
    clusters in iteration i.
    """
    clusters = start
    for iteration in range(1, max_iter + 1):
        sums = assign(clusters)
        clusters, stop = update(clusters, sums, candidates(iteration))
        yield Round(iteration, clusters, sums, stop)
        if stop:
            return
