"""Workers as Ray actors: starting them, waiting for them, ending them.

Ray reads its settings from the environment when it is imported, so it is imported here, when it is
used, and nowhere at the top of a module.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ppodc.errors import InputError, PpodcError, RayUnusableError

WATCH = "watch"  # the group of methods that answer while the worker works
_START_SECONDS = 120.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a worker failed; a fatal failure would come again on a fresh pair."""

    text: str
    fatal: bool


def spawn(kind: type, resource: str, *arguments: Any) -> Any:
    """A new worker in its own process, on a node that offers the resource; its handle."""
    import ray

    remote: Any = ray.remote  # its types do not know concurrency groups
    make = remote(
        num_cpus=0, resources={resource: 1}, max_restarts=0, concurrency_groups={WATCH: 1}
    )
    return make(kind).remote(*arguments)


def ended(references: Iterable[Any], seconds: float) -> list[Any]:
    """Those of the calls that have ended, after at most so many seconds; one at least if any."""
    import ray

    waiting = list(references)
    done, _ = ray.wait(waiting, num_returns=1, timeout=seconds)
    return list(done)


def outcome(reference: Any) -> Any:
    """What an ended call gave, or the Failure that it ended in."""
    import ray
    from ray.exceptions import RayError

    try:
        return ray.get(reference)
    except RayError as error:
        return _failure(error)


def answers(references: Sequence[Any], who: str) -> list[Any]:
    """What freshly started workers say; RayUnusableError if they do not come up."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    try:
        return list(ray.get(list(references), timeout=_START_SECONDS))
    except GetTimeoutError as error:
        raise RayUnusableError(
            f"{who} did not start within {_START_SECONDS:g} s: is the Ray cluster busy? Free some "
            "of its workers or use fewer pairs."
        ) from error
    except RayError as error:
        raise RayUnusableError(f"{who} cannot start: {_failure(error).text}") from error


def kill(worker: Any) -> None:
    """End a worker's process at once; harmless if it is gone."""
    import ray
    from ray.exceptions import RayError

    try:
        ray.kill(worker, no_restart=True)
    except (RayError, ValueError) as error:
        log.info("a worker was gone already: %s", type(error).__name__)


def node_address() -> str:
    """The address under which Ray knows the node of this worker."""
    import ray

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def _failure(error: Exception) -> Failure:
    from ray.exceptions import RayActorError, RayTaskError

    cause = error.cause if isinstance(error, RayTaskError) else error
    if isinstance(cause, PpodcError):
        return Failure(str(cause), fatal=isinstance(cause, InputError))
    if isinstance(error, RayActorError):
        return Failure("a worker process died.", fatal=False)
    log.warning("a worker failed: %s", type(cause).__name__)
    return Failure(f"a worker failed ({type(cause).__name__}).", fatal=False)
