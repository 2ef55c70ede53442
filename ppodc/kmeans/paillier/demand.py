"""The number of randomisers that a job takes, to fill pools ahead (the offline phase).

Everything is known from the public parameters: who encrypts what never depends on the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ppodc.kmeans.paillier.ingest import DIFFERENCE_BITS
from ppodc.kmeans.paillier.masking import slot_width, slots
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.widths import check_paillier


@dataclass(frozen=True, slots=True)
class Demand:
    """Randomisers that each cloud takes."""

    c1: int
    c2: int

    def __add__(self, other: "Demand") -> "Demand":
        return Demand(self.c1 + other.c1, self.c2 + other.c2)

    def __mul__(self, times: int) -> "Demand":
        return Demand(self.c1 * times, self.c2 * times)

    def of(self, role: int) -> int:
        """Randomisers that this cloud takes."""
        return self.c1 if role == 1 else self.c2


def ingest(p: Parameters, key_bits: int, shards: Sequence[int], batch_rows: int) -> Demand:
    """The demand of taking in shards of these sizes."""
    bits = p.ub.bit_length()
    clamped = p.ub < (1 << bits) - 1

    def packed(rows: int) -> int:
        return -(-rows * p.l // slots(key_bits, slot_width(DIFFERENCE_BITS)))

    total = Demand(0, 0)
    for size in shards:
        full, rest = divmod(size, batch_rows)
        values = size * p.l
        # SBD at C1; a comparison of `bits` and a public bit, and the masked difference to ub
        total += Demand(bits * (full * packed(batch_rows) + packed(rest)), values * (1 + bits))
        if clamped:
            total += Demand(values * (bits + 2), 2 * values)
    return total


def batch(p: Parameters, key_bits: int, rows: int) -> Demand:
    """The demand of `assign` for one batch of records."""
    if p.k == 1:
        return Demand(0, 0)
    w = check_paillier(p, key_bits)

    def packed(values: int, bits: int) -> int:
        return -(-values // slots(key_bits, slot_width(bits)))

    matches = p.k - 1
    moved = rows * ((matches - 1) * (w.distance + 1) + 1)  # differences, in the last one the index
    one_hot = rows * p.k
    c1 = (
        packed(rows * (p.l + 1), max(w.alpha, w.value))
        + packed(rows * p.l * p.k, w.alpha + w.value)
        + w.distance * packed(rows * p.k, w.distance)
        + rows * matches * (w.distance + 1)
        + moved
        + one_hot
        + packed(rows * (matches + p.l), w.value)
    )
    c2 = (
        rows * p.l
        + rows * p.k
        + rows * p.k * w.distance
        + rows * matches
        + moved
        + one_hot
        + matches * p.l
    )
    return Demand(c1, c2)


def iteration(p: Parameters, key_bits: int, rows: Sequence[int], batch_rows: int) -> Demand:
    """The demand of an iteration over shards of these sizes, with all its steps on clusters."""
    total = _update(p, key_bits)
    for size in rows:
        full, rest = divmod(size, batch_rows)
        total += _scale(p) + batch(p, key_bits, batch_rows) * full
        if rest:
            total += batch(p, key_bits, rest)
    return total


def _scale(p: Parameters) -> Demand:
    """An upper bound, as in `_update`."""
    most = 2 * (3 * p.k + 1) + 2 * p.k * p.l
    return Demand(most, most)


def _update(p: Parameters, key_bits: int) -> Demand:
    """An upper bound: every value in a ciphertext of its own. It does not depend on m."""
    w = check_paillier(p, key_bits)
    k, l = p.k, p.l
    reseed = w.counts * k + k * (w.counts + 2) + 2 * k * l
    setc = 2 * k + 2 * (3 * k + 1) + 2 * (k + 1) + 4 * k * l + k * l + 2 * k
    stop = 2 * w.stop + w.stop + 1
    most = reseed + setc + stop
    return Demand(most, most)
