"""How often each outcome of a field occurs, and what it then counts: log2(m / u), in bits.

An outcome is the bits of a comparison (`Field.bits`). m is its frequency among pairs of records of
the same person, u that among other pairs. Every count is half a pair more, so that none is 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

Bits = tuple[bool, ...]
Counts = Mapping[Bits, float]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The frequencies of a field's outcomes."""

    matches: Counts
    others: Counts

    def gain(self, outcome: Bits) -> int:
        """Bits by which an outcome counts more than that in which no bit is set."""
        nothing = (False,) * len(outcome)
        m, u = ((of.get(outcome, 0) + 0.5) / (of.get(nothing, 0) + 0.5) for of in self._both)
        return round(math.log2(m / u))

    @property
    def _both(self) -> tuple[Counts, Counts]:
        return self.matches, self.others

    def odds(self, place: int) -> int:
        """log2 of the odds of one bit among matches over those among others, of present values."""
        m, u = (_odds(counts, place) for counts in self._both)
        return round(m - u)


def _odds(counts: Counts, place: int) -> float:
    present = {bits: count for bits, count in counts.items() if not bits[-1]}
    having = sum(count for bits, count in present.items() if bits[place])
    return math.log2((having + 0.5) / (sum(present.values()) - having + 0.5))
