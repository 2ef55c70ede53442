"""The demand of a job of the shares suite: chunks of records, and supplies of each step.

All of it follows from the public numbers of the job, so both clouds compute the same. A job with
several numbers of clusters has rings and chunks for the largest, `Parameters.k`.
"""

from collections.abc import Sequence
from itertools import pairwise

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares import new_centres, scaling, smin_k, stop_test, sums, update
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.lattice.parameters import DEGREE
from ppodc.mpc.ot.digit_ot import DIGIT
from ppodc.mpc.shares import unmask
from ppodc.mpc.supplies import Needs

CHUNK_ROWS = 16 * DEGREE  # some blocks of encrypted records, or a part of one: all go in step
_CHUNK_BYTES = 1 << 27  # of a chunk's distances and supplies
_LAST_PARTS = 5  # waits that supplies take behind their last messages, for their checks
_DIGIT_BYTES = 12  # of supplies per digit of a comparison: leaves and AND pairs


class Demand:
    """Chunks and supplies of one job."""

    def __init__(
        self, parameters: Parameters, rings: Rings, *, bits: bool = False, slow: bool = False
    ) -> None:
        """With `bits`, the records' bits are made when they are taken in; `slow` is the link."""
        self._p, self._rings, self._bits, self.slow = parameters, rings, bits, slow

    def chunks(self, rows: int) -> list[tuple[int, int]]:
        """Stretches of 2^i rows and a rest; distances and supplies of one fit in memory.

        All records of a stretch go through each round together, so that a slow link is waited for
        once a stretch.
        """
        digits = -(-self._rings.distance_bits // DIGIT)
        per_row = max(1, self._p.k - 1) * (8 * self._rings.distance + _DIGIT_BYTES * digits)
        most = 1 << max(0, (_CHUNK_BYTES // per_row).bit_length() - 1)
        return list(pairwise([*range(0, rows, min(most, CHUNK_ROWS)), rows]))

    def chunk(self, rows: int, k: int) -> Needs:
        """Supplies for assigning a chunk of this many records to k clusters."""
        compared = smin_k.needs(rows, k, self._rings.distance_bits, slow=self.slow)
        return compared + sums.needs(rows, k)

    def widening(self, k: int) -> Needs:
        """Supplies for k clusters in the wide ring."""
        return scaling.widen_needs(k, self._p.l, self._rings)

    def factors(self, k: int) -> Needs:
        """Supplies for the scaling factors that the stop test for beta > 0 needs."""
        return stop_test.factor_needs(k, self._rings) if self._rings.beta else Needs()

    def centres(self, k: int) -> Needs:
        """Supplies for what SSED_OP needs of the clusters."""
        return scaling.centre_needs(k, self._p.l, self._rings)

    def centres_beside(self, k: int) -> bool:
        """Whether an update computes the next centres as well (`new_centres`)."""
        return k > 1 and not (self._rings.beta and self._p.stops)

    def update(self, k: int) -> Needs:
        """Supplies for re-seeding, the stop test if there is one, and the centres beside it."""
        if self.centres_beside(k):
            found = new_centres.needs(k, self._p.l, self._rings, moved=self._p.stops)
            return found + stop_test.still_needs(self._rings) if self._p.stops else found
        if not self._p.stops:
            return update.small_needs(k)
        return update.small_needs(k) + stop_test.needs(k, self._p.l, self._rings)

    def iteration(self, shards: Sequence[int], clusters: int | None = None) -> Needs:
        """Supplies of one iteration over shards of these sizes, update included."""
        k = self._p.k if clusters is None else clusters
        total = self.update(k) + self.factors(k)
        if self._p.stops and not self.centres_beside(k):
            total += self.widening(k)
        if k > 1 and not self.centres_beside(k):
            total += self.centres(k)
        for rows in shards:
            for start, end in self.chunks(rows):
                total += self.chunk(end - start, k)
        return total

    def beside(self, rows: int, after: int, k: int) -> tuple[Needs, int]:
        """Supplies at hand so that none are missing behind a chunk, and waits to make them in.

        For a chunk of `rows` records, the one `after` it, an update and an output.
        """
        needs = self.iteration([], k) + self.widening(k)
        waits = smin_k.waits(rows, k, self._rings.distance_bits, slow=True)
        return needs + self.chunk(rows, k) + self.chunk(after, k), waits - _LAST_PARTS

    def ingest(self, shards: Sequence[int]) -> Needs:
        """Supplies for taking in shards of these sizes."""
        total = Needs()
        for rows in shards:
            total += unmask.needs(rows, self._p.l, self._rings.bits, self._p.ub)
            if self._bits:
                total += unmask.bit_needs(rows, self._p.l, self._rings.bits)
        return total
