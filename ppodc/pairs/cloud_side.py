"""A cloud's side of a job on worker pairs: check it, plan it, run its half of a pair.

Only shares come here. A kind's `cloud.py` says how its jobs are planned and computed; masters,
followers and workers know kinds through these base classes alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ppodc.pairs.plan import JobFacts, Plan, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.upload_form import Cloud
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel

if TYPE_CHECKING:  # who plans a job needs neither Paillier nor the engine's kernels
    from ppodc.crypto.paillier import PublicKey, SecretKey
    from ppodc.crypto.split_paillier import KeyShare
    from ppodc.mpc.session_secrets import SessionSecrets


class PairHalf(ABC):
    """One cloud's half of a pair; the rest of it is between a kind's plan and its halves."""

    @abstractmethod
    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in a shard's rows of this cloud's share."""

    def expect(self, work: Any) -> None:  # noqa: B027 - most halves know enough from their shards
        """Learn from the plan (`Plan.ahead`) what will come, before making supplies for it."""

    @abstractmethod
    def to_prepare(self, iterations: int, rows: Sequence[int] | None = None) -> int:
        """The work that `prepare` would be now, in the units that its `progress` counts."""

    @abstractmethod
    def prepare(
        self,
        iterations: int,
        progress: Progress | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        """Make what is missing for this many iterations over shards of these sizes, on disk."""

    @abstractmethod
    def close(self) -> None:
        """End the pair's session."""


@dataclass(frozen=True, slots=True)
class Material:
    """Inputs of a half besides its channel.

    The key is C2's Paillier key, public at C1 and secret at C2, or each cloud's share of a split
    one; the paillier suite alone needs it.
    """

    key: "PublicKey | SecretKey | KeyShare | None" = field(default=None, repr=False)
    pools: Path | None = None  # this pair's folder of supplies made ahead
    secrets: "SessionSecrets | None" = None  # of the session, where an auditor may ask for them


class CloudSide(ABC):
    """A cloud's side of the job of one spec."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    @abstractmethod
    def check(self, m: int, suite: str, key_bits: int) -> None:
        """Refuse, before anything runs, a job whose numbers the suite cannot hold."""

    def shards(self, sealed: Sealed, pairs: int, usual: Sequence[Shard]) -> Sequence[Shard]:
        """Which rows lie on which pair; `usual` has every row once, on one pair.

        It follows from public facts alone, so that both clouds agree.
        """
        return usual

    @abstractmethod
    def plan(self, facts: JobFacts) -> Plan:
        """One cloud's plan at its start."""

    @abstractmethod
    def open_half(
        self, suite: str, role: Cloud, channel: Channel, m: int, material: Material
    ) -> PairHalf:
        """One cloud's half of a pair; both clouds call it at the same time."""

    @abstractmethod
    def perform(self, half: Any, task: Task, progress: Progress) -> Any:
        """Do a task of this kind's plan; `progress` counts records."""
