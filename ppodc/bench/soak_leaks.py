"""What a deployment holds between two jobs, and whether that grows.

Looked at when a job is over and its processes had time to go: memory, descriptors, sockets and
threads of each service; over all processes that were started here how many there are, how many
belong to no service any more, ports that listen and shared memory; files that stay in the
temporary folder (Ray's sessions) and in the pools of the clouds.

A service that was killed starts anew, so growth is judged over the jobs that its longest-lived
process saw, without the first fifth: memory by the median of the slopes between all pairs of looks
(Theil and Sen), which one late outlier does not bend; counts by the medians of an early and a late
fifth.
"""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ppodc.bench import machine
from ppodc.bench.soak_world import SoakWorld, files_below

_MEMORY_SLACK = 100_000  # bytes a job: below the noise of an allocator in some hundred jobs
_LEAST_JOBS = 20
_COUNT_SLACK = 2  # a connection more or less at the moment of looking


@dataclass(frozen=True, slots=True)
class Held:
    """By one service."""

    pid: int
    memory: int
    files: int  # descriptors, sockets among them
    sockets: int
    threads: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """By all; see the module."""

    services: dict[str, Held]
    processes: int
    strays: int
    ports: int
    shared_memory: int
    temporary: int  # entries of the temporary folder
    pools: int  # files
    stores: int  # files, those of jobs whose records are still kept among them


def look(world: SoakWorld) -> Footprint:
    """What is held now."""
    processes = world.processes()
    pids = [process.pid for process in processes]
    parties = [world.clouds.party("cloud1"), world.clouds.party("cloud2")]
    stores = [*parties, world.reports.party("collector")]
    return Footprint(
        services={name: _held(process.pid) for name, process in world.services.items()},
        processes=len(processes),
        strays=len(world.strays()),
        ports=machine.listening(pids),
        shared_memory=sum(map(machine.shared_bytes, pids)),
        temporary=len(list(world.temporary.iterdir())),
        pools=files_below([party.folder / "pools" for party in parties]),
        stores=files_below([party.folder / "store" for party in stores]),
    )


def _held(pid: int) -> Held:
    links = machine.open_files(pid)
    return Held(
        pid,
        machine.resident_bytes(pid),
        len(links),
        sum(link.startswith("socket:") for link in links),
        machine.threads(pid),
    )


@dataclass(frozen=True, slots=True)
class Growth:
    """Of one figure: medians of an early and a late fifth, and what is added in one job."""

    what: str
    jobs: int
    early: float
    late: float
    slope: float

    @property
    def leaks(self) -> bool:
        """Whether it grows by more than what looking itself makes it vary; not over few jobs."""
        if self.jobs < _LEAST_JOBS:
            return False
        if self.what.endswith("memory"):
            return self.slope > _MEMORY_SLACK
        return self.late - self.early > _COUNT_SLACK and self.slope > 0


def growth(footprints: Sequence[Footprint]) -> list[Growth]:
    """Of every figure; those of a service over the life of its longest-lived process."""
    found = []
    for name in footprints[0].services if footprints else ():
        series = [footprint.services[name] for footprint in footprints]
        pids = [held.pid for held in series]
        longest = max(pids, key=pids.count)
        own = [asdict(held) for held in series if held.pid == longest]
        found += [
            _grown(f"{name}: {figure}", [held[figure] for held in own])
            for figure in ("memory", "files", "sockets", "threads")
        ]
    overall = ("processes", "strays", "ports", "shared_memory", "temporary", "pools", "stores")
    for figure in overall if footprints else ():
        values = [getattr(footprint, figure) for footprint in footprints]
        found.append(_grown(f"all: {figure.replace('_', ' ')}", values))
    return found


def _grown(what: str, values: Sequence[int]) -> Growth:
    settled = values[len(values) // 5 :]
    fifth = max(1, len(settled) // 5)
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in itertools.combinations(enumerate(settled), 2)]
    return Growth(
        what,
        len(values),
        statistics.median(settled[:fifth]),
        statistics.median(settled[-fifth:]),
        statistics.median(slopes) if slopes else 0.0,
    )
