"""Shots at the processes of a soak: kill -9, a pause, Ctrl-C.

A shot falls some seconds after its target first appears in the job, so that slow machines have the
same faults. Services are killed only on request, because their resources can be compared only over
a long life.
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

from tests.campaigns.processes import title
from tests.campaigns.soak_world import SoakWorld, hit

# Targets and the patterns of their command lines.
_SERVICES = {
    "service of cloud 1": r"ppodc.cli cloud1 serve .*cloud1\.toml",
    "service of cloud 2": r"ppodc.cli cloud2 serve",
    "service of the collector": r"ppodc.cli cloud1 serve .*collector\.toml",
}
_COMMANDS = {
    "master": "ppodc.cli (run|resume)",
    "owner's upload": "ppodc.cli upload",
}
_WORKERS = {
    "worker of cloud 1": "ray::Worker1",
    "worker of cloud 2": "ray::Worker2",
}
_COUNTERS = {"worker of the collector": "ray::ReportWorker"}
_OTHERS = {
    "driver of Ray": "ppodc.cluster.ray_driver",
    "raylet of Ray": "raylet/raylet",
    "GCS of Ray": "gcs/gcs_server",
}
_TARGETS = {**_SERVICES, **_COMMANDS, **_WORKERS, **_COUNTERS, **_OTHERS}
_KILL, _STOP, _INTERRUPT = "kill -9", "stopped for a while", "Ctrl-C"
_SIGNALS = {_KILL: signal.SIGKILL, _STOP: signal.SIGSTOP, _INTERRUPT: signal.SIGINT}
_SHOTS = (0, 1, 1, 2, 3)  # in one job
_SECONDS = 15.0  # within which a shot falls at a lasting process
_SHORT_LIFE = 5.0  # and at one that may end soon
_SHORT, _LONG = (1.0, 8.0), (16.0, 30.0)  # a long pause exceeds the patience with a silent driver
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Shot:
    """An action against a target, some seconds after the target appears."""

    moment: float
    target: str
    action: str
    which: float  # chooses one of several targets, 0 to 1
    pause: float


def draw_shots(chance: random.Random, *, kill_services: bool, local: bool) -> list[Shot]:
    """The shots of one job. A collector runs a local job."""
    shots = []
    targets = {**_SERVICES, **_COMMANDS, **(_COUNTERS if local else _WORKERS), **_OTHERS}
    for _ in range(chance.choice(_SHOTS)):
        target = chance.choice(list(targets))
        actions = [_KILL, _KILL, _STOP]
        if target in _COMMANDS:
            actions.append(_INTERRUPT)
        if target in _SERVICES and not kill_services:
            actions = [_STOP]
        pause = chance.uniform(*(_LONG if chance.random() < 0.15 else _SHORT))
        lasting = target in _SERVICES or target in _OTHERS
        moment = chance.uniform(0, _SECONDS if lasting else _SHORT_LIFE)
        shots.append(Shot(moment, target, chance.choice(actions), chance.random(), pause))
    return shots


@contextlib.contextmanager
def under_fire(world: SoakWorld, shots: list[Shot]) -> Iterator[Counter[str]]:
    """Fire while the block runs, and count the shots that struck."""
    over, hits = threading.Event(), Counter[str]()
    thread = threading.Thread(target=_fire, args=(world, shots, over, hits), daemon=True)
    thread.start()
    try:
        yield hits
    finally:
        over.set()
        thread.join()


def _fire(world: SoakWorld, shots: list[Shot], over: threading.Event, hits: Counter[str]) -> None:
    seen: dict[str, float] = {}
    waiting, stopped = list(shots), dict[int, float]()  # by process: when it continues
    while (waiting or stopped) and not over.wait(_LOOK_SECONDS):
        now, running = time.monotonic(), world.processes() if waiting else []
        for shot in list(waiting):
            pids = [p.pid for p in running if re.search(_TARGETS[shot.target], title(p))]
            if pids and now >= seen.setdefault(shot.target, now) + shot.moment:
                waiting.remove(shot)
                pid = pids[int(shot.which * len(pids))]
                hits[f"{shot.action}: {shot.target}"] += hit(pid, _SIGNALS[shot.action])
                if shot.action == _STOP:
                    stopped[pid] = now + shot.pause
        for pid in [pid for pid, end in stopped.items() if now >= end]:
            hit(pid, signal.SIGCONT)
            del stopped[pid]
    for pid in stopped:
        hit(pid, signal.SIGCONT)
