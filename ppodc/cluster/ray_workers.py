"""Workers as Ray actors, each in a process of its own.

Ray reads its settings from the environment when it is imported, so it is imported here, when it is
used, and nowhere at the top of a module.
"""

import logging
from collections.abc import Iterable
from typing import Any

from ppodc.cluster import ray_cluster
from ppodc.cluster.ray_cluster import Place
from ppodc.cluster.workers import DIED, Failure, failure_of

_WATCH = "watch"  # the group of methods that answer while the worker works

log = logging.getLogger(__name__)


class RayWorkers:
    """The workers of one cloud on its Ray cluster, joined or started at the first need."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._ours = False  # whether this object made the process a driver

    def __enter__(self) -> "RayWorkers":
        self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; workers that this process started end."""
        if self._ours:
            self._ours = False
            ray_cluster.disconnect()

    def check(self, wanted: int) -> None:
        self._connect()
        ray_cluster.check_workers(self._place, wanted)

    def both_clouds(self) -> bool:
        return all(ray_cluster.offers(cloud) for cloud in ("cloud1", "cloud2"))

    def start(self, make: type, *arguments: Any) -> Any:
        import ray

        remote: Any = ray.remote  # its types do not know concurrency groups
        actor = remote(
            num_cpus=0,
            resources={self._place.resource: 1},
            max_restarts=0,
            concurrency_groups={_WATCH: 1},
        )
        return actor(make).remote(*arguments)

    def call(self, worker: Any, method: str, *arguments: Any) -> Any:
        return getattr(worker, method).remote(*arguments)

    def watch(self, worker: Any) -> Any:
        return worker.progress.options(concurrency_group=_WATCH).remote()

    def ended(self, references: Iterable[Any], seconds: float) -> list[Any]:
        import ray

        done, _ = ray.wait(list(references), num_returns=1, timeout=seconds)
        return list(done)

    def outcome(self, reference: Any) -> Any:
        import ray
        from ray.exceptions import RayError

        try:
            return ray.get(reference)
        except RayError as error:
            return _failure(error)

    def end(self, worker: Any) -> None:
        import ray
        from ray.exceptions import RayError

        try:
            ray.kill(worker, no_restart=True)
        except (RayError, ValueError) as error:
            log.info("a worker was gone already: %s", type(error).__name__)

    def _connect(self) -> None:
        self._ours = ray_cluster.connect(self._place) or self._ours


def node_address() -> str:
    """The address under which Ray knows the node of this worker."""
    import ray

    return str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]


def _failure(error: Exception) -> Failure:
    from ray.exceptions import RayActorError, RayTaskError

    if isinstance(error, RayActorError):
        return DIED
    cause: BaseException = error.cause if isinstance(error, RayTaskError) else error
    failure = failure_of(cause)
    log.warning("a worker failed: %s", type(cause).__name__)
    return failure
