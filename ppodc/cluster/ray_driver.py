"""The process that is a driver of a cloud's Ray: `python -m ppodc.cluster.ray_driver`.

Its starter (`driver_process`) sends operations and gets their ends; when the starter is gone, this
process ends in order. Every second it asks Ray for its nodes and shows by a pulse that it was
answered. It ends at once when its own node is gone, or does not answer for as long as Ray's GCS
waits (15 s if the Ray is our own), or when a Ray that it has started itself loses a process.
"""

import contextlib
import json
import logging
import os
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ppodc.cluster import plain_values
from ppodc.cluster.ray_cluster import (
    OwnNode,
    RayPlacement,
    check_workers,
    connect,
    end_at_once,
    end_with_ray,
    living_nodes,
    offers,
    ray_module,
)
from ppodc.cluster.ray_folder import RayFolder
from ppodc.cluster.workers import DIED, Failure, failure_of
from ppodc.errors import PpodcError, WireError

_WATCH = "watch"  # the group of methods that answer while the worker works
_PULSE_SECONDS = 1.0
_PULSE, _READY = -1, 0  # numbers of answers without a request

log = logging.getLogger(__name__)


class Driver:
    """Performs the requests of the starting process in their order."""

    def __init__(self, line: "Connection[Any, Any]", place: RayPlacement) -> None:
        self._line, self._place = line, place
        self._actors: dict[int, Any] = {}
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Until the starter says stop, or is gone."""
        threading.Thread(target=self._show_pulse, daemon=True).start()
        self._answer(_READY, None)
        with contextlib.suppress(EOFError, OSError):
            while True:
                number, operation, arguments = plain_values.receive(self._line)
                if operation == "stop":
                    return
                self._perform(number, operation, arguments)

    def _perform(self, number: int, operation: str, arguments: tuple[Any, ...]) -> None:
        match operation, arguments:
            case "check", (wanted,):
                self._answer(number, self._check(wanted))
            case "both_clouds", ():
                self._answer(number, all(offers(cloud) for cloud in ("cloud1", "cloud2")))
            case "start", (key, make, given):
                self._actors[key] = self._actor(make).remote(*given)
                self._answer(number, None)
            case "call", (key, method, given):
                self._await(number, getattr(self._actors[key], method).remote(*given))
            case "watch", (key,):
                watching = self._actors[key].progress.options(concurrency_group=_WATCH)
                self._await(number, watching.remote())
            case "end", (key,):
                self._end(key)
                self._answer(number, None)

    def _check(self, wanted: int) -> Failure | None:
        try:
            check_workers(self._place, wanted)
        except PpodcError as error:
            return Failure(str(error), fatal=True)
        return None

    def _actor(self, make: type) -> Any:
        remote: Any = ray_module().remote  # its types do not know concurrency groups
        return remote(
            num_cpus=0,
            resources={self._place.resource: 1},
            max_restarts=0,
            concurrency_groups={_WATCH: 1},
        )(make)

    def _end(self, key: int) -> None:
        from ray.exceptions import RayError

        try:
            ray_module().kill(self._actors.pop(key), no_restart=True)
        except (RayError, ValueError) as error:
            log.info("a worker was gone already: %s", type(error).__name__)

    def _await(self, number: int, reference: Any) -> None:
        reference.future().add_done_callback(partial(self._report, number))

    def _report(self, number: int, done: Any) -> None:
        """In a thread of Ray's."""
        error = done.exception()
        try:
            self._answer(number, done.result() if error is None else _failure(error))
        except WireError as unfit:
            self._answer(number, Failure(str(unfit), fatal=True))

    def _answer(self, number: int, outcome: Any) -> None:
        with self._sending, contextlib.suppress(OSError):  # without a starter we end anyway
            plain_values.send(self._line, (number, outcome))

    def _show_pulse(self) -> None:
        node = OwnNode()
        while True:
            living = living_nodes()
            fault = node.fault(living)
            if fault:
                end_at_once(fault)
            self._answer(_PULSE, len(living))
            time.sleep(_PULSE_SECONDS)


def _failure(error: Exception) -> Failure:
    from ray.exceptions import RayActorError, RayTaskError

    if isinstance(error, RayActorError):
        return DIED
    cause: BaseException = error.cause if isinstance(error, RayTaskError) else error
    log.warning("a worker failed: %s", type(cause).__name__)
    return failure_of(cause)


def _main() -> None:
    descriptor, path, place = (
        int(sys.argv[1]),
        Path(sys.argv[2]),
        RayPlacement(**json.loads(sys.argv[3])),
    )
    os.set_inheritable(descriptor, False)
    line: Connection[Any, Any] = Connection(descriptor)
    folder = RayFolder.join(path)
    leaving = threading.Event()
    threading.Thread(target=end_with_ray, args=(leaving,), daemon=True).start()
    try:
        joined = connect(place, folder)
    except PpodcError as error:
        plain_values.send(line, (_READY, Failure(str(error), fatal=place.foreign)))
    else:
        Driver(line, joined).serve()
    leaving.set()
    ray_module().shutdown()
    folder.remove()  # the starter may be gone


if __name__ == "__main__":
    _main()
