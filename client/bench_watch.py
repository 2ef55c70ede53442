"""What a running job on this machine costs, seen from outside: wall time and CPU per worker.

A thread looks again and again which iteration the job has finished, and what CPU time the operating
system has counted for each worker by then (in ticks of a hundredth of a second). The first
iteration is where counting starts: it compiles and connects.
"""

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppodc.errors import PpodcError
from ppodc.service.config import Cloud1Config
from ppodc.service.store import Store

_LOOK_SECONDS = 0.05
_CLOUDS = {b"ray::Worker1": 1, b"ray::Worker2": 2}


@dataclass(frozen=True, slots=True)
class _Look:
    """When an iteration was first seen to be done, and each worker's CPU seconds by then."""

    time: float
    cpu: dict[int, tuple[int, float]]  # by process: (cloud, seconds)


class Watch:
    """Looks at a running job; with `local`, its workers run below this process and are watched."""

    def __init__(self, config: Cloud1Config, dataset: str, *, local: bool) -> None:
        self._config, self._dataset = config, dataset
        self._local = local
        self._reached: dict[int, _Look] = {}
        self._cpu: dict[int, tuple[int, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with Store.open(self._config.store, "cloud1") as store:
            while True:
                last = self._stop.is_set()
                if self._local:
                    self._cpu.update(_worker_seconds())  # one that has ended keeps its last figure
                iteration = store.jobs.get(self._dataset).iteration
                if iteration:
                    self._reached.setdefault(iteration, _Look(time.monotonic(), dict(self._cpu)))
                if last:
                    return
                self._stop.wait(_LOOK_SECONDS)

    def figures(self) -> dict[str, Any]:
        """Per iteration between the first look and the last."""
        if len(self._reached) < 2:
            raise PpodcError("the job was over before it could be watched; use more records.")
        first, last = min(self._reached), max(self._reached)
        count = last - first
        begin, end = self._reached[first], self._reached[last]
        cpu = [
            sorted(
                (seconds - begin.cpu[pid][1]) / count
                for pid, (cloud, seconds) in end.cpu.items()
                if cloud == wanted and pid in begin.cpu
            )
            for wanted in (1, 2)
        ]
        known = all(cpu)
        return {
            "iterations": count,
            "wall_s": (end.time - begin.time) / count,
            "cpu_c1_s": cpu[0],
            "cpu_c2_s": cpu[1],
            "critical_s": max(cpu[0][-1], cpu[1][-1]) if known else None,
            "turns_s": cpu[0][-1] + cpu[1][-1] if known else None,
        }


def _worker_seconds() -> dict[int, tuple[int, float]]:
    """CPU seconds so far of every worker that a process below this one has started."""
    parents: dict[int, int] = {}
    found: dict[int, tuple[int, float]] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has just ended
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(stat[1])
            title = (entry / "cmdline").read_bytes()[:12]
            if title in _CLOUDS:
                found[int(entry.name)] = (_CLOUDS[title], (int(stat[11]) + int(stat[12])) / tick)
    return {pid: value for pid, value in found.items() if _below(pid, parents)}


def _below(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()
