"""Resources that a deployment holds between two jobs, and whether they grow.

They are counted after a job has ended and its processes have had time to end: memory, descriptors,
sockets and threads of each service; the number of all processes of the deployment, of those that
belong to no service, of listening ports, and their shared memory; files in the temporary folder
(Ray's sessions), in the pools and in the stores.

A service that was killed starts again. Growth is therefore judged over the jobs of its
longest-lived process, without the first fifth. Memory grows if the median of the slopes between all
pairs of observations (Theil and Sen) is too large; one late outlier does not change this median.
Counts grow if the medians of an early and a late fifth differ.
"""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import psutil

from tests.campaigns.processes import listening_ports, shared_bytes
from tests.campaigns.soak_world import SoakWorld, files_below

_MEMORY_SLACK = 100_000  # bytes a job: below the noise of an allocator in some hundred jobs
_LEAST_JOBS = 20
_COUNT_SLACK = 2  # a connection may be open at the moment of observation


@dataclass(frozen=True, slots=True)
class Held:
    """Resources of one service."""

    pid: int
    memory: int
    files: int  # descriptors, sockets among them
    sockets: int
    threads: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """Resources of the whole deployment."""

    services: dict[str, Held]
    processes: int
    strays: int
    ports: int
    shared_memory: int
    temporary: int  # entries of the temporary folder
    pools: int  # files
    stores: int  # files, including those of jobs whose records are still kept


def look(world: SoakWorld) -> Footprint:
    """Count all resources now."""
    processes = world.processes()
    parties = [world.clouds.party("cloud1"), world.clouds.party("cloud2")]
    stores = [*parties, world.reports.party("collector")]
    return Footprint(
        services={name: _held(process.pid) for name, process in world.services.items()},
        processes=len(processes),
        strays=len(world.strays()),
        ports=listening_ports(processes),
        shared_memory=sum(map(shared_bytes, processes)),
        temporary=len(list(world.temporary.iterdir())),
        pools=files_below([party.folder / "pools" for party in parties]),
        stores=files_below([party.folder / "store" for party in stores]),
    )


def _held(pid: int) -> Held:
    """Zeros if the service has just been killed."""
    try:
        process = psutil.Process(pid)
        sockets = len(process.net_connections("all"))
        threads, memory = process.num_threads(), process.memory_info().rss
        return Held(pid, memory, process.num_fds(), sockets, threads)
    except psutil.Error:
        return Held(pid, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of one figure: medians of an early and a late fifth, and the slope per job."""

    what: str
    jobs: int
    early: float
    late: float
    slope: float

    @property
    def leaks(self) -> bool:
        """Whether it grows by more than the noise, if there were enough jobs to tell."""
        if self.jobs < _LEAST_JOBS:
            return False
        if self.what.endswith("memory"):
            return self.slope > _MEMORY_SLACK
        return self.late - self.early > _COUNT_SLACK and self.slope > 0


def growth(footprints: Sequence[Footprint]) -> list[Growth]:
    """Growth of every figure. Those of a service are judged over its longest life."""
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
