"""The interface of a suite: one cloud's half of each step of exact k-means.

A worker at C1 and a worker at C2 form a pair. Each holds one `Half`; both call the same steps in
the same order with the same public arguments, and talk only to each other over their channel.
What a half hands out is opaque to everyone else: a `State` is that cloud's representation of
cluster-scale values (ciphertexts at C1 and nothing at C2 in the paillier suite, additive shares
at both in the shares suite). States of the same cloud from several pairs add up with `add`.

Who learns what: both clouds learn the shapes in `Parameters` and the stop bit that `update`
returns. `output` and `labels` give each cloud one half of a value that only an owner adds up;
neither cloud learns whether a cluster was empty or too small to be revealed, to whomever.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.pairs.cloud_side import PairHalf
from ppodc.pairs.plan import Progress
from ppodc.records.result_shares import OutputShare

if TYPE_CHECKING:  # the paillier suite needs no kernels
    from ppodc.linkage.blocks.candidates import Work
    from ppodc.mpc.ot.correlated_ot import Bits

State = NDArray[np.uint8] | NDArray[np.uint64]


class Half(PairHalf):
    """One cloud's half of a pair.

    Every suite has the steps of plain k-means. The others have defaults: centres are handed on by
    no pair, and a suite that cannot link records or choose among starts refuses to.
    """

    @abstractmethod
    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in a shard's records: (rows, l), t + r at C1 and r at C2, modulo 2^64.

        Whatever words these are, a value counts as min(t mod 2^b, ub) with b = bits(ub).
        """

    @abstractmethod
    def records(self, shard: str, rows: Sequence[int]) -> State:
        """Clusters of one record each (count 1), for initial centres and re-seeding."""

    @abstractmethod
    def centres(self, values: NDArray[np.int64]) -> State:
        """Clusters of count 1 at public centres (k, l), integers 0..ub."""

    @abstractmethod
    def join(self, states: Sequence[State]) -> State:
        """Clusters from several `records` calls, one behind the other. Local."""

    @abstractmethod
    def assign(
        self, shard: str, clusters: State, progress: Progress | None = None, *, more: bool = True
    ) -> State:
        """One-hot of the nearest cluster per record, summed: (k, l + 1) partial sums, counts.

        `more` says that records may be assigned again: what that takes may be made meanwhile.
        """

    @abstractmethod
    def add(self, states: Sequence[State]) -> State:
        """The sum of the partial sums of several shards. Local: no message is sent."""

    @abstractmethod
    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        """Re-seed empty clusters from the candidates; new clusters and the public stop bit."""

    def expect_assign(self, shards: Sequence[str], *, more: bool) -> None:
        """Learn, before `update`, that these will be assigned to its clusters unless it says stop.

        A half may do that within the update. `more` says that even more assignments may follow.
        """

    @abstractmethod
    def members(self, shard: str, runs: NDArray[np.int64], owners: int) -> State:
        """The number of records of each owner in each cluster, by the shard's last `assign`.

        `runs` says whose the shard's rows are: (rows in a row, number of their owner).
        """

    @abstractmethod
    def output(
        self,
        sums: State,
        squares: State | None = None,
        members: State | None = None,
        owners: int = 1,
    ) -> list[OutputShare]:
        """This cloud's share of the k * (l + 1) sums and counts of `add`, row by row, by owner.

        They are those before re-seeding. Clusters of fewer than `min_size` records are zeros in
        them; with `members`, those of fewer that are not the owner's own. Without, the one share is
        for every owner.
        Behind them, where `squares` are given, is their sum over the clusters that are revealed.
        """

    @abstractmethod
    def labels(self, shard: str) -> OutputShare:
        """This cloud's share of the labels of the shard's last `assign`."""

    # -------------------------------------------------- centres computed at one pair for all

    def scaled(self, clusters: State) -> State | None:
        """The centres that `assign` computes of two clusters or more before it looks at a record.

        None: every pair computes it for itself.
        """
        return None

    def take_scaled(self, clusters: State, scaled: State) -> None:
        """Take that from another pair, of clusters that its `update` made. Local."""

    # --------------------------------------------------------- each entity counted once

    def link(self, work: "Sequence[Work]", *inputs: Any) -> Any:
        """Findings of a portion of pairs about the rows; the last inputs are rows and progress.

        Each entity once: shares of [row matches one of an owner before]. A join: `joiner.Found`.
        """
        raise _cannot_link()

    def home(self, found: Any, *inputs: Any) -> Any:
        """The findings of all portions about a row in any pass, at its place in the first."""
        raise _cannot_link()

    def fill(
        self,
        shard: str,
        values: NDArray[Any],
        keep: "Bits",
        whose: "Bits",
        weight: NDArray[np.uint64],
    ) -> None:
        """Take in a shard's records, whose joined columns and shared bits of who counts these are.

        From now on sums leave out the others; nobody learns which. `whose` are bits of whose rows
        their partners are, `weight` what the records weigh for thresholds.
        """
        raise _cannot_link()

    def joined_labels(self, shard: str, sums: State) -> OutputShare:
        """This cloud's share of 1 + the label of each row of the shard's last `assign`.

        0 for a row that is not joined, and for all if the `sums` are of fewer rows than `least`.
        """
        raise _cannot_link()

    def count_once(self, shard: str, parts: "Bits", first: NDArray[np.bool_]) -> None:
        """From now on sums leave out rows that are not real, or that match one of an owner before,
        as these parts say of the shard, or do not belong to the `first` pass; nobody learns which.
        """
        raise _cannot_link()

    def own_rows(
        self, shard: str, upload: NDArray[np.uint64], first: NDArray[np.bool_]
    ) -> OutputShare:
        """This cloud's share of which of its owner's rows each row of the shard is; 0: none."""
        raise _cannot_link()

    # ------------------------------------------------- k-means++, several starts, inertia

    def spread(self, shard: str, chosen: State, start: int) -> State:
        """The sum over a shard of the squared distances to the nearest of the chosen records.

        `start` is the number of the start that they belong to; those chosen before come first.
        """
        raise cannot_choose()

    def pick(self, shard: str, totals: State, number: int, word: int, *, last: bool) -> State:
        """The next record as a cluster of count 1, or zeros if it lies in another shard.

        `totals` are what `spread` gave for all shards, in the order of their records; this is the
        one of `number`, and of `last` the last record. `word` / 2^64 is the public fraction.
        """
        raise cannot_choose()

    def squares(self, shard: str) -> State:
        """Sums of ||x||^2 by cluster, of the shard's last `assign`."""
        raise cannot_choose()

    def better(self, old: Sequence[State], new: Sequence[State]) -> Sequence[State]:
        """The states of the start of less inertia, `old` on ties; the first are its sums."""
        raise cannot_choose()


def _cannot_link() -> InputError:
    return InputError("only the shares suite links records.")


def cannot_choose() -> InputError:
    """The error of a suite without k-means++, several starts and inertia."""
    return InputError("only the shares suite chooses among starts and reveals the inertia.")
