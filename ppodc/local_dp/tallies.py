"""All reports of a job, as the collector goes through them: chunk by chunk, numbers that add up.

A mechanism makes whole numbers of a chunk (`Mechanism.tally`) that add up over chunks, so it does
not matter who counts which chunk, nor in what order: here one after another; on workers
(`cloud1.report_workers`) several at a time, to the very same totals. Memory is one chunk and one
set of numbers, whatever the number of reports.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError

Numbers = tuple[NDArray[np.int64], ...]
Tally = Callable[[NDArray[Any], Numbers], Numbers]  # of a chunk, given what was found so far
Chunks = Callable[[], Iterator[NDArray[Any]]]  # all reports, from the start, at every call


class Reports(Protocol):
    """All reports of a job, chunk by chunk."""

    def total(self, found: Numbers = ()) -> Numbers:
        """The tallies of all chunks, added up; `found` is what an iteration starts from."""

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The reports of these numbers."""


class ReportsHere:
    """Counted in this process."""

    def __init__(self, tally: Tally, chunks: Chunks) -> None:
        self._tally, self._chunks = tally, chunks

    def total(self, found: Numbers = ()) -> Numbers:
        return added(self._tally(chunk, found) for chunk in self._chunks())

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        return picked(self._chunks, numbers)


def added(parts: Iterator[Numbers]) -> Numbers:
    """The sums, number by number."""
    totals: Numbers | None = None
    for part in parts:
        totals = part if totals is None else plus(totals, part)
    if totals is None:
        raise InputError("there are no reports to count")
    return totals


def plus(first: Sequence[NDArray[np.int64]], second: Sequence[NDArray[np.int64]]) -> Numbers:
    """Two tallies together."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def picked(chunks: Chunks, numbers: NDArray[np.int64]) -> NDArray[Any]:
    """The reports of these numbers, in their order."""
    found: dict[int, NDArray[Any]] = {}
    start = 0
    for chunk in chunks():
        inside = numbers[(numbers >= start) & (numbers < start + len(chunk))]
        found |= {number: chunk[number - start] for number in inside.tolist()}
        start += len(chunk)
    return np.stack([found[number] for number in numbers.tolist()])
