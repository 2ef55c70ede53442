"""Shots at the processes of a soak: kill -9, stopped for a while, Ctrl-C.

Each shot has its target and its moment; one whose target does not run yet waits for it. Services
are killed only while that is asked for: afterwards they shall live long enough that what they hold
can be compared.
"""

import contextlib
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ppodc.bench.soak_world import SoakWorld, hit

# Who may be hit, by its command line.
_SERVICES = {
    "service of cloud 1": r"ppodc.cli cloud1 serve .*cloud1\.toml",
    "service of cloud 2": r"ppodc.cli cloud2 serve",
    "service of the collector": r"ppodc.cli cloud1 serve .*collector\.toml",
}
_COMMANDS = {
    "master": "ppodc.cli (run|resume)",
    "owner's upload": "ppodc.cli upload",
}
_OTHERS = {
    "worker of cloud 1": "ray::Worker1",
    "worker of cloud 2": "ray::Worker2",
    "worker of the collector": "ray::ReportWorker",
    "driver of Ray": "ppodc.cluster.ray_driver",
    "raylet of Ray": "raylet/raylet",
    "GCS of Ray": "gcs/gcs_server",
}
_TARGETS = {**_SERVICES, **_COMMANDS, **_OTHERS}
_KILL, _STOP, _INTERRUPT = "kill -9", "stopped for a while", "Ctrl-C"
_SHOTS = (0, 1, 1, 2, 3)  # in one job
_SECONDS = 15.0  # within which they fall
_WAIT_SECONDS = 25.0  # for a target
_SHORT, _LONG = (1.0, 8.0), (16.0, 30.0)  # a long one is longer than a silent driver is borne
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Shot:
    """When, at whom, and what."""

    moment: float
    target: str
    action: str
    which: float  # of several targets, as a part of them
    pause: float


def draw_shots(chance: random.Random, *, kill_services: bool) -> list[Shot]:
    """The shots of one job, the earliest first."""
    shots = []
    for _ in range(chance.choice(_SHOTS)):
        target = chance.choice(list(_TARGETS))
        actions = [_KILL, _KILL, _STOP]
        if target in _COMMANDS:
            actions.append(_INTERRUPT)
        if target in _SERVICES and not kill_services:
            actions = [_STOP]
        pause = chance.uniform(*(_LONG if chance.random() < 0.15 else _SHORT))
        action, moment = chance.choice(actions), chance.uniform(0, _SECONDS)
        shots.append(Shot(moment, target, action, chance.random(), pause))
    return sorted(shots, key=lambda shot: shot.moment)


@contextlib.contextmanager
def under_fire(world: SoakWorld, shots: list[Shot]) -> Iterator[Counter[str]]:
    """Fire while the block runs; what struck."""
    over, hits = threading.Event(), Counter[str]()
    thread = threading.Thread(target=_fire, args=(world, shots, over, hits), daemon=True)
    thread.start()
    try:
        yield hits
    finally:
        over.set()
        thread.join()


def _fire(world: SoakWorld, shots: list[Shot], over: threading.Event, hits: Counter[str]) -> None:
    began = time.monotonic()
    for shot in shots:
        if over.wait(max(0.0, began + shot.moment - time.monotonic())):
            return
        pid = _aim(world, shot, over)
        if pid is None:
            continue
        number = {_KILL: signal.SIGKILL, _STOP: signal.SIGSTOP, _INTERRUPT: signal.SIGINT}
        hits[f"{shot.action}: {shot.target}"] += hit(pid, number[shot.action])
        if shot.action == _STOP:
            over.wait(shot.pause)
            hit(pid, signal.SIGCONT)


def _aim(world: SoakWorld, shot: Shot, over: threading.Event) -> int | None:
    """A process that is such a target, once there is one."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        pids = [p.pid for p in world.processes() if re.search(_TARGETS[shot.target], p.title)]
        if pids:
            return pids[int(shot.which * len(pids))]
        if time.monotonic() > deadline or over.wait(_LOOK_SECONDS):
            return None
