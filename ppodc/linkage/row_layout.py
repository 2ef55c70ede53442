"""The columns of an uploaded row, by name.

Columns follow from the spec: the numbers that the rule compares, then those that the blocks add.
Owners fill them in (`owner`), clouds cut shares of them apart by the same slices.
"""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.blocks.blocking import Beside

ROW_HALF = 20  # bits of one half of a row's own number
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Slices of an uploaded row; a part that the job does not have is empty."""

    link: slice  # the numbers that the rule compares
    real: slice  # 0 for a dummy, else 1
    number: slice  # the row in the owner's table, from 1, as two halves; 0 for a dummy
    earlier: slice  # the cells of the row in earlier passes
    switches: slice  # of the network that leads rows of later passes to those of the first
    width: int

    @classmethod
    def of(cls, link: int, beside: Beside) -> "RowLayout":
        widths = link, beside.real, beside.number, beside.earlier, beside.switches
        a, b, c, d, e = accumulate(widths)
        return cls(slice(a), slice(a, b), slice(b, c), slice(c, d), slice(d, e), e)

    @property
    def has_dummies(self) -> bool:
        """Whether rows are sorted into cells, with dummies among them."""
        return bool(self.real.stop > self.real.start)

    @property
    def has_passes(self) -> bool:
        """Whether rows are sorted into cells more than once."""
        return bool(self.switches.stop > self.switches.start)


def halves(numbers: Ints) -> Ints:
    """Row numbers as two columns of 20 bits: (rows) to (rows, 2)."""
    return np.column_stack([numbers & ((1 << ROW_HALF) - 1), numbers >> ROW_HALF])


def row_numbers(columns: Ints) -> Ints:
    """Row numbers from two columns of 20 bits: (rows, 2) to (rows)."""
    numbers: Ints = columns[:, 0] | columns[:, 1] << ROW_HALF
    return numbers
