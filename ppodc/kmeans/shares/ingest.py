"""Taking in a shard's records: `mpc.unmask` in the rings of the job, and what `assign` leaves.

Whatever was uploaded counts as min((t + r) - r mod 2^b, ub), b = bits(ub): a value of 0..ub.

Who learns what, rounds, bytes, supplies: as in `mpc.unmask`, with b bits per value, the largest
value ub and the L limbs of a distance. Bits of the records are made only for who needs them.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.linked.duplicates import kept_rows
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.sums import with_count
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.unmask import SharedTable, unmask
from ppodc.mpc.shares.xor_bits import XorShare
from ppodc.mpc.spill import Budget, Spool

ALL_BYTES = 8  # of a limb
_ROWS = 1 << 14  # rows that are kept or not, at a time
Hot = list[tuple[int, list[XorShare]]]  # rows of each chunk, and the one-hot of their clusters


@dataclass(slots=True, repr=False)
class Shard:
    """One cloud's shares of a shard's records, and of the clusters they were last assigned to."""

    table: SharedTable
    top: int  # bytes of the last limb that a distance needs
    hot: Hot = field(default_factory=list)  # of the last assignment
    kept: Spool | None = None  # (keep t, keep) instead of (t, 1), where duplicates are dropped
    keep: Bits | None = None  # this cloud's shares of those bits

    @property
    def rows(self) -> int:
        """Records in the shard."""
        return self.table.rows

    def summed(self, role: int, start: int, end: int) -> U64Array:
        """The addends of rows start..end-1 to the sums of their cluster: (rows, l + 1)."""
        if self.kept is not None:
            rows: U64Array = self.kept.read(start, end)
            return rows
        return with_count(role, self.table.additive(start, end))

    def keep_only(self, session: Session, keep: Bits, budget: Budget) -> None:
        """Sums get only the rows whose shared bit is 1; one select a row."""
        kept = Spool(self.rows, self.table.columns + 1, U64, budget)
        for start in range(0, self.rows, _ROWS):
            end = min(start + _ROWS, self.rows)
            values = self.table.additive(start, end)
            kept.append(kept_rows(session, keep[start:end], values))
        self.kept, self.keep = kept, keep

    def close(self) -> None:
        """Forget all shares and keys."""
        self.table.close()
        if self.kept is not None:
            self.kept.close()


def ingest(
    session: Session,
    share: NDArray[np.uint64],
    ub: int,
    rings: Rings,
    budget: Budget,
) -> Shard:
    """A shard from this cloud's share (rows, l): t + r at C1, r at C2."""
    # The sums over records need the values modulo 2^64, whatever the distances need.
    top = ALL_BYTES if rings.distance == 1 else rings.distance_top
    table = unmask(session, share, rings.bits, budget, largest=ub, limbs=rings.distance, top=top)
    return Shard(table, rings.distance_top)
