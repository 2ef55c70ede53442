"""Reports counted by workers of the collector's cluster: the same totals as in one process.

This process reads chunks from the store and hands them out, one to each worker that is free; what
comes back adds up. Under way are at most as many chunks as there are workers, so memory does not
grow with the number of reports. A worker that dies is replaced and its chunk is counted again. A
worker learns what the collector learns: the spec and reports.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.cluster.workers import RAY_DIED, Failure, Workers
from ppodc.errors import StepFailedError
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.tallies import Chunks, Numbers, picked, plus
from ppodc.spec import Spec

_DEATHS = 3  # in one pass, until it is given up: of workers, or of Ray with all of them
_PATIENCE = 3600.0  # seconds for one chunk


class ReportWorker:
    """One worker: the mechanism of a spec, and nothing kept between two calls."""

    def __init__(self, spec: bytes) -> None:
        self._mechanism = form_of(Spec.from_bytes(spec)).mechanism

    def tally(self, chunk: NDArray[Any], found: Numbers) -> Numbers:
        """The numbers of a chunk."""
        return self._mechanism.tally(chunk, found)

    def progress(self) -> int:
        """There is none within a chunk."""
        return 0

    def cut(self) -> None:
        """There is no link to cut."""

    def close(self) -> None:
        """There is nothing to release."""


class ReportsOnWorkers:
    """All reports of a job (`ppodc.local_dp.tallies`). Ends its workers when the block is left."""

    def __init__(self, workers: Workers, count: int, spec: Spec, chunks: Chunks) -> None:
        self._workers, self._spec, self._chunks = workers, spec.canonical(), chunks
        workers.check(count)
        self._free = [self._start() for _ in range(count)]
        self._busy: dict[Any, tuple[Any, NDArray[Any]]] = {}  # call: worker, its chunk
        self._deaths, self._of_ray = 0, 0

    def __enter__(self) -> "ReportsOnWorkers":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._free, *(worker for worker, _ in self._busy.values())):
            self._workers.end(worker)

    def total(self, found: Numbers = ()) -> Numbers:
        self._deaths = 0
        totals: Numbers | None = None
        for part in self._tallies(found):
            totals = part if totals is None else plus(totals, part)
        if totals is None:
            raise StepFailedError("there are no reports to count")
        return totals

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        return picked(self._chunks, numbers)

    def _tallies(self, found: Numbers) -> Iterator[Numbers]:
        """The tally of every chunk, in any order."""
        for chunk in self._chunks():
            if not self._free:
                yield from self._wait(found)
            self._give(self._free.pop(), chunk, found)
        while self._busy:
            yield from self._wait(found)

    def _give(self, worker: Any, chunk: NDArray[Any], found: Numbers) -> None:
        self._busy[self._workers.call(worker, "tally", chunk, found)] = worker, chunk

    def _wait(self, found: Numbers) -> Iterator[Numbers]:
        """Until a call has ended well, whose worker is free then."""
        free = len(self._free)
        while len(self._free) == free:
            ended = self._workers.ended(list(self._busy), _PATIENCE)
            if not ended:
                raise StepFailedError(f"no worker counted a chunk within {_PATIENCE:g} s.")
            for call in ended:
                worker, chunk = self._busy.pop(call)
                outcome = self._workers.outcome(call)
                if isinstance(outcome, Failure):
                    self._replace(worker, chunk, found, outcome)
                else:
                    self._free.append(worker)
                    yield outcome

    def _replace(
        self, worker: Any, chunk: NDArray[Any], found: Numbers, failure: Failure
    ) -> None:  # fmt: skip
        """A new worker for the chunk of one that failed."""
        self._workers.end(worker)
        self._count(failure)
        if failure.fatal or self._deaths > _DEATHS:
            raise StepFailedError(f"the reports could not be counted: {failure.text}")
        self._give(self._start(), chunk, found)

    def _count(self, failure: Failure) -> None:
        """One more death; that of Ray is one, however many workers it took along."""
        if failure == RAY_DIED:
            known, self._of_ray = self._of_ray, self._workers.deaths()
            self._deaths += self._of_ray > known
        else:
            self._deaths += 1

    def _start(self) -> Any:
        return self._workers.start(ReportWorker, self._spec)
