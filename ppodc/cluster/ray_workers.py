"""Workers as Ray actors, each in a process of its own, through a driver in another.

The driver, and with a "local" address Ray itself, is started at the first need, and again when it
has died: to whoever uses the workers that is the death of them all, and no more.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

from ppodc.cluster.driver_process import SILENT_SECONDS, DriverProcess
from ppodc.cluster.ray_cluster import RayPlacement
from ppodc.cluster.workers import RAY_DIED, Failure, first_ended
from ppodc.errors import RayUnusableError

_ATTEMPTS = 2  # to get an answer; between two a driver may die


@dataclass(frozen=True, slots=True)
class _Handle:
    driver: DriverProcess
    key: int


class RayWorkers:
    """The workers of one cloud on its Ray cluster; any thread may call."""

    def __init__(self, place: RayPlacement, silent: float = SILENT_SECONDS) -> None:
        self._place, self._silent = place, silent
        self._driver: DriverProcess | None = None
        self._starting = threading.Lock()
        self._keys = count()
        self._deaths = 0

    def __enter__(self) -> "RayWorkers":
        self._living()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; workers that this object started end."""
        with self._starting:
            if self._driver is not None:
                self._driver.close()
                self._driver = None

    def check(self, wanted: int) -> None:
        answer = self._ask("check", wanted)
        if isinstance(answer, Failure):
            raise RayUnusableError(answer.text)

    def both_clouds(self) -> bool:
        return self._ask("both_clouds") is True

    def nodes(self) -> int:
        driver = self._driver
        return 0 if driver is None else driver.nodes  # reading the count starts nothing

    def deaths(self) -> int:
        return self._deaths

    def start(self, make: type, *arguments: Any) -> _Handle:
        handle = _Handle(self._living(), next(self._keys))
        handle.driver.call("start", handle.key, make, arguments)
        return handle

    def call(self, worker: _Handle, method: str, *arguments: Any) -> Any:
        return worker.driver.call("call", worker.key, method, arguments)

    def watch(self, worker: _Handle) -> Any:
        return worker.driver.call("watch", worker.key)

    def ended(self, references: Iterable[Any], seconds: float) -> list[Any]:
        return first_ended(references, seconds)

    def outcome(self, reference: Any) -> Any:
        return reference.result()

    def end(self, worker: _Handle) -> None:
        worker.driver.call("end", worker.key)

    def _ask(self, operation: str, *arguments: Any) -> Any:
        for _ in range(_ATTEMPTS):
            answer = self._living().call(operation, *arguments).result()
            if answer != RAY_DIED:
                break
        return answer

    def _living(self) -> DriverProcess:
        """The driver; another if the last one has died."""
        with self._starting:
            if self._driver is not None and self._driver.alive:
                return self._driver
            for attempt in range(1, _ATTEMPTS + 1):
                driver = DriverProcess(self._place, self._note_death, self._silent)
                refused = driver.ready()
                if refused is None:
                    break
                driver.close()
                if refused.fatal or attempt == _ATTEMPTS:
                    raise RayUnusableError(refused.text)
            self._driver = driver
            return driver

    def _note_death(self) -> None:
        self._deaths += 1


def node_address() -> str:
    """The address under which Ray knows the node of this worker."""
    import ray

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
