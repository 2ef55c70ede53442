"""The regular noise of silent transfers, and the one set of its parameters that is used.

A batch has t blocks of 2^depth rows. In each block one row, which its receiver alone knows, carries
noise. Every row is the sum of `LOCALITY` secret rows out of k that the public code names, and of
its noise (`local_code`). That such rows look random is the assumption of regular LPN with a local
code (Yang, Weng, Lan, Zhang and Wang, Ferret, CCS 2020). docs/parameters.md says what
it costs to break it.
"""

from dataclasses import dataclass

LOCALITY = 10  # secret rows in the sum of each
CHECK_ROWS = 128  # of the base, which mask a batch's check


@dataclass(frozen=True, slots=True)
class Noise:
    """Parameters of a batch: k secret rows, t blocks of 2^depth rows each."""

    k: int  # a power of two
    t: int
    depth: int

    @property
    def n(self) -> int:
        """Rows of a batch."""
        return self.t << self.depth

    @property
    def base(self) -> int:
        """Rows that a batch starts from: secret ones, one for each level of a tree, the check's."""
        return self.k + self.t * self.depth + CHECK_ROWS

    @property
    def gained(self) -> int:
        """Rows that are left when the next batch has taken its base."""
        return self.n - self.base


NOISE = Noise(1 << 17, 1280, 10)
