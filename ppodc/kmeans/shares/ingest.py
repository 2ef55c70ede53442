"""Taking in a shard's records: `mpc.unmask` in the rings of the job, and what `assign` leaves.

Who learns what, rounds, bytes, supplies: as in `mpc.unmask`, with b = bits(ub) bits per value and
the L limbs of a distance.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.unmask import SharedTable, unmask
from ppodc.mpc.xor_bits import XorShare

ALL_BYTES = 8  # of a limb


@dataclass(slots=True, repr=False)
class Shard:
    """One cloud's shares of a shard's records, and of the clusters they were last assigned to."""

    table: SharedTable
    top: int  # bytes of the last limb that a distance needs
    hot: list[tuple[int, list[XorShare]]] = field(default_factory=list)  # rows and one-hot, chunks

    @property
    def rows(self) -> int:
        """Records in the shard."""
        return self.table.rows


def ingest(session: Session, share: NDArray[np.uint64], rings: Rings, budget: Budget) -> Shard:
    """A shard from this cloud's share (rows, l): t + r at C1, r at C2."""
    # The sums over records need the values modulo 2^64, whatever the distances need.
    top = ALL_BYTES if rings.distance == 1 else rings.distance_top
    table = unmask(session, share, rings.bits, budget, limbs=rings.distance, top=top)
    return Shard(table, rings.distance_top)
