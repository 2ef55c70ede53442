"""A cloud's workers behind a small protocol: started, called in the background, ended.

The implementation decides where they run: as processes of a Ray cluster (`ray_workers`), or as
threads in tests. If a worker dies, its call ends with a `Failure`.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import Any, Protocol

from ppodc.errors import InputError, PpodcError, RayUnusableError

START_SECONDS = 120.0
_START_ATTEMPTS = 3  # of a worker that dies before it has said anything
_CHECK_SECONDS = 10.0  # between two looks whether a cluster that starts nothing can at all


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a worker. A fatal failure would recur on a new pair."""

    text: str
    fatal: bool


DIED = Failure("a worker process died.", fatal=False)
RAY_DIED = Failure("Ray died, and its workers with it.", fatal=False)


class Workers(Protocol):
    """A cloud's workers. Used by one thread at a time."""

    def check(self, wanted: int) -> None:
        """Refuse at once if this many workers can never run at the same time."""

    def both_clouds(self) -> bool:
        """Whether the other cloud's workers run in the same cluster: no trust separation."""

    def nodes(self) -> int:
        """The number of machines as last seen; 0 without a cluster."""

    def deaths(self) -> int:
        """Count the deaths of the whole cluster. Its workers then fail with `RAY_DIED`."""

    def start(self, make: type, *arguments: Any) -> Any:
        """A new worker, made in its own place; its handle."""

    def call(self, worker: Any, method: str, *arguments: Any) -> Any:
        """Begin a call of the worker; a reference to its end."""

    def watch(self, worker: Any) -> Any:
        """Begin a call of `progress`, which answers while the worker works."""

    def ended(self, references: Iterable[Any], seconds: float) -> list[Any]:
        """Wait for the first call to end, at most this long; return all ended calls."""

    def outcome(self, reference: Any) -> Any:
        """The result of an ended call, or its Failure."""

    def end(self, worker: Any) -> None:
        """End a worker at once, with its keys and its memory; harmless if it is gone."""


def failure_of(error: BaseException) -> Failure:
    """Describe an error of a worker. Only texts for users are included."""
    if isinstance(error, PpodcError):
        return Failure(str(error), fatal=isinstance(error, InputError))
    return Failure(f"a worker failed ({type(error).__name__}).", fatal=False)


def first_ended(references: "Iterable[Future[Any]]", seconds: float) -> "list[Future[Any]]":
    """`Workers.ended` for workers whose references are futures."""
    done, _ = wait(list(references), seconds, return_when=FIRST_COMPLETED)
    return list(done)


def in_background(work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
    """Begin work that calls a worker several times in turn; a reference to its end."""
    ended: Future[Any] = Future()

    def run() -> None:
        try:
            ended.set_result(work(*arguments))
        except BaseException as error:  # noqa: BLE001 - passed on to the waiting caller
            ended.set_exception(error)

    Thread(target=run, daemon=True).start()
    return ended


def launch(
    workers: Workers, start: Callable[[int, bool], Any], slots: Sequence[int], who: str
) -> list[Any]:
    """The first answer of a fresh worker in each slot; one that dies meanwhile is replaced.

    `start` puts a new worker into a slot, once more if that is true, and begins its first call.
    """
    said: dict[int, Any] = {}
    failed: dict[int, Failure] = {}
    for attempt in range(_START_ATTEMPTS):
        asked = {slot: start(slot, attempt > 0) for slot in slots if slot not in said}
        for slot, outcome in zip(asked, outcomes(workers, asked.values(), who), strict=True):
            (failed if isinstance(outcome, Failure) else said)[slot] = outcome
        if len(said) == len(slots):
            return [said[slot] for slot in slots]
        if any(failure.fatal for slot, failure in failed.items() if slot not in said):
            break
    reasons = sorted({failure.text for slot, failure in failed.items() if slot not in said})
    raise RayUnusableError(f"{who} cannot start: {' '.join(reasons)}")


def outcomes(workers: Workers, references: Iterable[Any], who: str) -> list[Any]:
    """The results of fresh workers' first calls; an error if they do not come up."""
    references = list(references)
    waiting, deadline = list(references), time.monotonic() + START_SECONDS
    while waiting:
        over = workers.ended(waiting, _CHECK_SECONDS)
        waiting = [reference for reference in waiting if reference not in over]
        if not over:
            workers.check(len(waiting))  # nodes may be gone since we asked
        if not over and time.monotonic() > deadline:
            raise RayUnusableError(
                f"{who} did not start within {START_SECONDS:g} s: is the Ray cluster busy? Free "
                "some of its workers or use fewer pairs."
            )
    return [workers.outcome(reference) for reference in references]
