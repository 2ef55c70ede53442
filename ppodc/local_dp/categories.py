"""Records of categories: the response of LDPK-modes, attribute by attribute, and joint cells.

A record has m attributes; value v_j of attribute j is a whole number 0..k_j - 1. Its joint cell is
sum_j v_j prod_(i > j) k_i. The published mechanism draws the whole record with probability
proportional to e^(eps (m - z)) at Hamming distance z; the normaliser is the product of the
(e^eps + k_j - 1), so it is generalised randomized response on every attribute by itself, and drawn
so here. It keeps e^(eps z) for records at distance z; for one record that is m eps, attained.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, SpecError
from ppodc.local_dp.oracles import MAX_CELLS, Counts, respond
from ppodc.local_dp.report_streams import RecordStreams
from ppodc.privacy.chances import WORD, log_ratio, other_words
from ppodc.privacy.guarantee import Guarantee, PrivacyReport
from ppodc.records.upload_form import RowsPart

SOURCE = "LDPK-modes"


def check_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The numbers of values of the attributes."""
    if not sizes or any(not 2 <= size <= 1 << 16 for size in sizes):
        raise SpecError("every attribute needs 2 to 65536 values")
    return tuple(int(size) for size in sizes)


def cells_of(records: NDArray[Any], sizes: Sequence[int]) -> NDArray[np.int64]:
    """The joint cell of each record."""
    cells = np.zeros(len(records), np.int64)
    for j, size in enumerate(sizes):
        cells = cells * size + records[:, j]
    return cells


def values_of(cells: NDArray[np.int64], sizes: Sequence[int]) -> NDArray[np.int64]:
    """The record of each joint cell."""
    return np.stack(np.unravel_index(cells, tuple(sizes)), axis=1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class AttributeResponse:
    """The mechanism of LDPK-modes; `others` are the words of one other value of an attribute."""

    sizes: tuple[int, ...]
    others: tuple[int, ...]
    claimed: float | None = None

    @classmethod
    def as_published(cls, sizes: Sequence[int], epsilon: float) -> "AttributeResponse":
        """epsilon for every attribute: what the source calls epsilon."""
        checked = check_sizes(sizes)
        _check_joint(checked)
        return cls(checked, tuple(other_words(epsilon, size) for size in checked), epsilon)

    @classmethod
    def of(cls, sizes: Sequence[int], epsilon: float) -> "AttributeResponse":
        """epsilon for the record: shared out evenly."""
        made = cls.as_published(sizes, epsilon / len(sizes))
        return cls(made.sizes, made.others)

    @property
    def _epsilons(self) -> tuple[float, ...]:
        pairs = zip(self.sizes, self.others, strict=True)
        return tuple(log_ratio(WORD - (size - 1) * other, other) for size, other in pairs)

    def guarantee(self) -> PrivacyReport:
        """The sum over attributes, since two records may differ in all of them."""
        claim = None if self.claimed is None else Guarantee(self.claimed)
        return PrivacyReport(
            Guarantee(math.fsum(self._epsilons)),
            self._epsilons,
            claimed=claim,
            source=SOURCE if claim else "",
            claimed_for="one unit of Hamming distance" if claim else "",
        )

    @property
    def part(self) -> RowsPart:
        """The form of reports; `check` looks closer."""
        return RowsPart(np.uint16, len(self.sizes), max(self.sizes) - 1)

    def check(self, reports: NDArray[Any]) -> None:
        """Refuse categories that an attribute does not have."""
        if bool((reports >= np.array(self.sizes)).any()):
            raise InputError("a chunk holds categories that its attribute does not have.")

    def perturb(self, records: NDArray[Any], streams: RecordStreams) -> NDArray[np.uint16]:
        """At the owner: one report a record."""
        reports = np.empty(records.shape, np.uint16)
        for rows, words in streams.batches(len(self.sizes)):
            for j, (size, other) in enumerate(zip(self.sizes, self.others, strict=True)):
                reports[rows, j] = respond(records[rows, j], words[:, j], size, other)
        return reports

    def count(self, reports: NDArray[Any]) -> Counts:
        """Reports in each joint cell; adds up over chunks."""
        cells = cells_of(reports, self.sizes)
        return np.bincount(cells, minlength=math.prod(self.sizes)).astype(np.int64)

    def estimate(self, counts: Counts, n: int) -> NDArray[np.float64]:
        """The counts c with E[c*] = P c, P the Kronecker product: one axis after the other.

        Along an axis of k values p - q = 1 - k q, so a <- (a - q sum(a)) / (1 - k q).
        """
        table = counts.astype(np.float64).reshape(self.sizes)
        for axis, (size, other) in enumerate(zip(self.sizes, self.others, strict=True)):
            q = other / WORD
            table = (table - q * table.sum(axis=axis, keepdims=True)) / (1 - size * q)
        return table.ravel()

    def variance(self, counts: Counts, n: int) -> NDArray[np.float64]:
        """The variance that noise gives each of these estimates, itself estimated.

        A report's contribution to a cell is a product over attributes; its square is one, too. Of
        the sum of squares each record in the cell has 1 without any noise.
        """
        table = counts.astype(np.float64).reshape(self.sizes)
        for axis, (size, other) in enumerate(zip(self.sizes, self.others, strict=True)):
            q = other / WORD
            same, apart = ((1 - q) / (1 - size * q)) ** 2, (q / (1 - size * q)) ** 2
            table = (same - apart) * table + apart * table.sum(axis=axis, keepdims=True)
        return np.asarray(np.maximum(table.ravel() - np.maximum(self.estimate(counts, n), 0), 0.0))

    @property
    def usual_variance(self) -> float:
        """The variance of an estimated share, times the reports, if all cells are as frequent."""
        moments = []
        for size, other in zip(self.sizes, self.others, strict=True):
            q = other / WORD
            same, apart = ((1 - q) / (1 - size * q)) ** 2, (q / (1 - size * q)) ** 2
            told = 1 / size  # how often a report tells a value of all
            moments.append(told * same + (1 - told) * apart)
        return max(math.prod(moments) - 1 / math.prod(self.sizes), 0.0)


def _check_joint(sizes: Sequence[int]) -> None:
    if math.prod(sizes) > MAX_CELLS:
        raise SpecError(
            f"{math.prod(sizes)} joint cells are more than the {MAX_CELLS} that can be counted; "
            "leave out attributes or merge values"
        )
