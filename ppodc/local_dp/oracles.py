"""Frequency oracles: how many records lie in each cell, when each record tells its cell noisily.

*GRR* reports the true cell with probability e^eps/(e^eps + P - 1), else another one. *OUE* reports
a bit a cell: the true one is 1 with 1/2, any other with 1/(e^eps + 1). *Hadamard* reports a column
y of the Hadamard matrix H in which the entry of row x + 1 is +1 with probability
e^eps/(e^eps + 1), uniform among those. Counts of reports add up over chunks and owners; estimates
are unbiased. The collector learns of one record what epsilon allows, and nothing else.

Costs a record, P cells: GRR one word of randomness and 2 or 4 bytes; OUE P words and P/8 bytes;
Hadamard two words and 4 bytes. Variance of an estimated share over n records, for a rare cell:
GRR (e^eps + P - 2)/(n (e^eps - 1)^2), OUE 4 e^eps/(n (e^eps - 1)^2), Hadamard
((e^eps + 1)/(e^eps - 1))^2/n.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ppodc.errors import OptionError
from ppodc.local_dp.published.packed_bits import bit_counts, check_padding, pack, words_for
from ppodc.local_dp.report_streams import RecordStreams
from ppodc.privacy.chances import WORD, log_ratio, other_words
from ppodc.records.upload_form import RowsPart

MAX_CELLS = 1 << 22
MAX_OUE_CELLS = 1 << 12

Counts = NDArray[np.int64]


class Oracle(Protocol):
    """A frequency oracle: perturbs cells and estimates their counts."""

    @property
    def name(self) -> str:
        """The text form of a spec."""

    @property
    def cells(self) -> int:
        """P."""

    @property
    def epsilon(self) -> float:
        """The epsilon of the integer probabilities, at most the one asked for."""

    @property
    def part(self) -> RowsPart:
        """The form of reports."""

    @property
    def counters(self) -> int:
        """The number of counters at the collector."""

    def perturb(self, cells: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        """At the owner: one report a record."""

    def check(self, reports: NDArray[Any]) -> None:
        """Refuse reports that nobody could have drawn, beyond what `part` finds."""

    def count(self, reports: NDArray[Any]) -> Counts:
        """At the collector: numbers that add up over chunks."""

    def estimate(self, counts: Counts, n: int) -> NDArray[np.float64]:
        """Records in each cell, unbiased: may be negative."""

    @property
    def variance(self) -> float:
        """n times the variance of the estimated share of a rare cell."""


def _check_cells(cells: int) -> None:
    if not 2 <= cells <= MAX_CELLS:
        raise OptionError(f"a frequency oracle needs 2 to {MAX_CELLS} cells, not {cells}")


@dataclass(frozen=True, slots=True)
class DirectResponse:
    """GRR."""

    cells: int
    other: int  # words of one other cell
    name: str = "grr"

    @classmethod
    def of(cls, cells: int, epsilon: float) -> "DirectResponse":
        _check_cells(cells)
        return cls(cells, other_words(epsilon, cells))

    @property
    def _keep(self) -> int:
        return WORD - (self.cells - 1) * self.other

    @property
    def epsilon(self) -> float:
        return log_ratio(self._keep, self.other)

    @property
    def part(self) -> RowsPart:
        kind: DTypeLike = np.uint16 if self.cells <= 1 << 16 else np.uint32
        return RowsPart(kind, 1, self.cells - 1)

    @property
    def counters(self) -> int:
        return self.cells

    def perturb(self, cells: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        reports = respond(cells, streams.words(1)[:, 0], self.cells, self.other)
        return reports.astype(self.part.dtype)[:, None]

    def check(self, reports: NDArray[Any]) -> None:
        """Every number up to the largest is possible."""

    def count(self, reports: NDArray[Any]) -> Counts:
        return np.bincount(reports[:, 0], minlength=self.cells).astype(np.int64)

    def estimate(self, counts: Counts, n: int) -> NDArray[np.float64]:
        lie, signal = self.other / WORD, (self._keep - self.other) / WORD
        return np.asarray((counts - n * lie) / signal, np.float64)

    @property
    def variance(self) -> float:
        lie, signal = self.other / WORD, (self._keep - self.other) / WORD
        return lie * (1 - lie) / signal**2


def respond(
    values: NDArray[Any], words: NDArray[np.uint32], size: int, other: int
) -> NDArray[np.int64]:
    """Generalised randomized response: words below (size - 1) `other` shift the value.

    Each other value gets exactly `other` words: v + 1 + floor(word / other) mod size.
    """
    shift = words.astype(np.int64) // other + 1
    shift[shift >= size] = 0
    moved = values.astype(np.int64) + shift
    moved[moved >= size] -= size
    return moved


@dataclass(frozen=True, slots=True)
class UnaryResponse:
    """OUE."""

    cells: int
    rise: int  # words that raise a 0
    name: str = "oue"

    @classmethod
    def of(cls, cells: int, epsilon: float) -> "UnaryResponse":
        _check_cells(cells)
        return cls(cells, other_words(epsilon))

    @property
    def epsilon(self) -> float:
        return log_ratio(WORD - self.rise, self.rise)

    @property
    def part(self) -> RowsPart:
        return RowsPart(np.uint64, words_for(self.cells), (1 << 64) - 1)

    @property
    def counters(self) -> int:
        return self.cells

    def perturb(self, cells: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        reports = np.empty((len(cells), words_for(self.cells)), np.uint64)
        for rows, words in streams.batches(self.cells):
            own = np.asarray(cells[rows])[:, None]
            kept = np.take_along_axis(words, own, axis=1) < np.uint32(WORD // 2)
            bits = words < np.uint32(self.rise)
            np.put_along_axis(bits, own, kept, axis=1)
            reports[rows] = pack(bits)
        return reports

    def check(self, reports: NDArray[Any]) -> None:
        check_padding(reports, self.cells)

    def count(self, reports: NDArray[Any]) -> Counts:
        return bit_counts(reports, self.cells)

    def estimate(self, counts: Counts, n: int) -> NDArray[np.float64]:
        q = self.rise / WORD
        return np.asarray((counts - n * q) / (0.5 - q), np.float64)

    @property
    def variance(self) -> float:
        q = self.rise / WORD
        return q * (1 - q) / (0.5 - q) ** 2


@dataclass(frozen=True, slots=True)
class HadamardResponse:
    """A column of the Hadamard matrix of P' > P rows, P' a power of 2."""

    cells: int
    flip: int  # words that lead to the other half of the columns
    columns: int = field(init=False)
    name: str = "hadamard"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", 1 << self.cells.bit_length())

    @classmethod
    def of(cls, cells: int, epsilon: float) -> "HadamardResponse":
        _check_cells(cells)
        return cls(cells, other_words(epsilon))

    @property
    def epsilon(self) -> float:
        return log_ratio(WORD - self.flip, self.flip)

    @property
    def part(self) -> RowsPart:
        return RowsPart(np.uint32, 1, self.columns - 1)

    @property
    def counters(self) -> int:
        return self.columns

    def perturb(self, cells: NDArray[Any], streams: RecordStreams) -> NDArray[Any]:
        """A uniform column, moved to the wanted half by flipping the lowest bit of x + 1 in it:

        H[x + 1, y] = (-1)^popcount((x + 1) & y), and that flip pairs the two halves.
        """
        words = streams.words(2)
        row = cells.astype(np.uint32) + np.uint32(1)
        y = words[:, 1] & np.uint32(self.columns - 1)
        negative = (np.bitwise_count(row & y) & 1).astype(bool)
        wanted = words[:, 0] < np.uint32(self.flip)
        lowest = row & (~row + np.uint32(1))
        return np.where(negative == wanted, y, y ^ lowest).astype(np.uint32)[:, None]

    def check(self, reports: NDArray[Any]) -> None:
        """Every number up to the largest is possible."""

    def count(self, reports: NDArray[Any]) -> Counts:
        return np.bincount(reports[:, 0], minlength=self.columns).astype(np.int64)

    def estimate(self, counts: Counts, n: int) -> NDArray[np.float64]:
        """share = C (share of +1 minus share of -1), by the fast transform."""
        signal = (WORD - 2 * self.flip) / WORD
        return _hadamard(counts)[1 : self.cells + 1] / signal

    @property
    def variance(self) -> float:
        return (WORD / (WORD - 2 * self.flip)) ** 2


def _hadamard(counts: Counts) -> NDArray[np.float64]:
    """H counts, in n log n additions; exact in integers."""
    values, half = counts.astype(np.int64, copy=True), 1
    while half < len(values):
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        values, half = values.reshape(-1), 2 * half
    return values.astype(np.float64)


_ORACLES: dict[str, Callable[[int, float], Oracle]] = {
    "grr": DirectResponse.of,
    "oue": UnaryResponse.of,
    "hadamard": HadamardResponse.of,
}


def oracle(cells: int, epsilon: float, name: str = "auto") -> Oracle:
    """The oracle of this name, or the one with the least variance that is not too large."""
    if name == "auto":
        small = cells < 3 * math.exp(min(epsilon, 60.0)) + 2
        name = "grr" if small else "oue" if cells <= MAX_OUE_CELLS else "hadamard"
    if name not in _ORACLES:
        raise OptionError(f"there is no oracle {name!r}; known are auto, {', '.join(_ORACLES)}")
    return _ORACLES[name](cells, epsilon)
