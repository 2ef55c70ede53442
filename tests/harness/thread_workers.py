"""Workers as threads of this process, so that tests can try thousands of faults without Ray.

The worker classes are those that run on Ray. Ending a worker cuts its channel, waits until its
thread has noticed and releases its resources. Nothing of it is left, as after a kill.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from ppodc.cluster.workers import DIED, failure_of, first_ended
from tests.harness.patience import LONG


class WorkerDiedError(BaseException):
    """Raised inside a worker to simulate its sudden death. No code may handle it."""


@dataclass(eq=False, slots=True)
class ThreadWorker:
    """A worker object and the only thread that calls it."""

    worker: Any
    thread: ThreadPoolExecutor
    current: "Future[Any] | None" = None


class ThreadWorkers:
    """Starts, calls and ends workers as threads. `adapt` receives every new worker object."""

    def __init__(self, adapt: Callable[[Any], None]) -> None:
        self._adapt = adapt

    def check(self, wanted: int) -> None:
        """Accept any number of workers."""

    def both_clouds(self) -> bool:
        return False

    def nodes(self) -> int:
        return 0

    def deaths(self) -> int:
        return 0

    def start(self, make: type, *arguments: Any) -> ThreadWorker:
        worker = make(*arguments)
        self._adapt(worker)
        return ThreadWorker(worker, ThreadPoolExecutor(1))

    def call(self, worker: ThreadWorker, method: str, *arguments: Any) -> "Future[Any]":
        worker.current = worker.thread.submit(getattr(worker.worker, method), *arguments)
        return worker.current

    def watch(self, worker: ThreadWorker) -> "Future[Any]":
        answer: Future[Any] = Future()
        answer.set_result(worker.worker.progress())
        return answer

    def ended(self, references: "Iterable[Future[Any]]", seconds: float) -> list[Any]:
        return first_ended(references, seconds)

    def outcome(self, reference: "Future[Any]") -> Any:
        error = reference.exception()
        if isinstance(error, WorkerDiedError):
            return DIED
        return reference.result() if error is None else failure_of(error)

    def end(self, worker: ThreadWorker) -> None:
        worker.worker.cut()
        if worker.current is not None:
            wait([worker.current], LONG)
        worker.thread.shutdown(wait=False, cancel_futures=True)
        worker.worker.close()
