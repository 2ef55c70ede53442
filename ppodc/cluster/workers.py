"""A cloud's workers behind a small protocol: started, called in the background, ended.

Where they run is the implementation's business: processes of a Ray cluster (`ray_workers`), or
threads of this process (`thread_workers`). A worker that dies shows as the `Failure` of its call.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ppodc.errors import InputError, PpodcError, RayUnusableError

START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker failed; a fatal failure would come again on a fresh pair."""

    text: str
    fatal: bool


DIED = Failure("a worker process died.", fatal=False)


class Workers(Protocol):
    """See the module. Used by one thread at a time."""

    def check(self, wanted: int) -> None:
        """Refuse at once what can never be had: so many workers at the same time."""

    def both_clouds(self) -> bool:
        """Whether the other cloud's workers run in the same cluster: no trust separation."""

    def start(self, make: type, *arguments: Any) -> Any:
        """A new worker, made in its own place; its handle."""

    def call(self, worker: Any, method: str, *arguments: Any) -> Any:
        """Begin a call of the worker; a reference to its end."""

    def watch(self, worker: Any) -> Any:
        """Begin a call of `progress`, which answers while the worker works."""

    def ended(self, references: Iterable[Any], seconds: float) -> list[Any]:
        """Those of the calls that have ended, after at most so many seconds; one at least."""

    def outcome(self, reference: Any) -> Any:
        """What an ended call gave, or the Failure that it ended in."""

    def end(self, worker: Any) -> None:
        """End a worker at once, with its keys and its memory; harmless if it is gone."""


def failure_of(error: BaseException) -> Failure:
    """How an error that a worker raised is told; only words that were meant for users."""
    if isinstance(error, PpodcError):
        return Failure(str(error), fatal=isinstance(error, InputError))
    return Failure(f"a worker failed ({type(error).__name__}).", fatal=False)


def answers(workers: Workers, references: Sequence[Any], who: str) -> list[Any]:
    """What freshly started workers say; an error if they do not come up."""
    waiting, deadline = list(references), time.monotonic() + START_SECONDS
    while waiting:
        over = workers.ended(waiting, max(0.0, deadline - time.monotonic()))
        if not over:
            raise RayUnusableError(
                f"{who} did not start within {START_SECONDS:g} s: is the Ray cluster busy? Free "
                "some of its workers or use fewer pairs."
            )
        waiting = [reference for reference in waiting if reference not in over]
    replies = [workers.outcome(reference) for reference in references]
    for reply in replies:
        if isinstance(reply, Failure):
            raise RayUnusableError(f"{who} cannot start: {reply.text}")
    return replies
