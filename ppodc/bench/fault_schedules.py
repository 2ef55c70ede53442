"""Fault schedules, each drawn from its seed: a small job of any kind, and what goes wrong in it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.bench.fault_points import ACTIONS, Fault, phases
from ppodc.kmeans.job import Job as KMeansJob
from ppodc.kmeans.noisy.job import NoisyJob
from ppodc.linkage.blocking import Blocking, adtree
from ppodc.linkage.job import Job as LinkageJob
from ppodc.linkage.job import Output
from ppodc.linkage.rules import SquaredDistance
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from ppodc.totals.job import Job as TotalsJob

UB = 20
MAX_OWNERS = 3
_LATEST = {"worker1 message": 400, "worker2 message": 400}  # passes that a fault is drawn from
_LATEST_ELSEWHERE = 60


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is run and what goes wrong; all of it follows from the seed."""

    seed: int
    spec: Spec
    suite: str
    pairs: int
    prepare: int  # iterations whose supplies are made ahead; 0: none
    tables: tuple[NDArray[np.int64], ...]  # one of each owner
    faults: tuple[Fault, ...]
    withdraws: int = 0  # so many owners take their records back, and give them again


def draw(seed: int) -> Schedule:
    """The schedule of this seed."""
    chance = random.Random(seed)
    columns, k = chance.randint(1, 2), chance.randint(1, 3)
    schema = Schema(tuple(Column(f"x{i}", 0.0, float(UB)) for i in range(columns)), UB)
    tables = tuple(
        np.array([[chance.randint(0, UB) for _ in range(columns)] for _ in range(rows)], np.int64)
        for rows in (chance.randint(3, 9) for _ in range(chance.randint(1, MAX_OWNERS)))
    )
    kind = chance.choices(("kmeans", "totals", "private"), (4, 1, 1))[0]
    job: Any = TotalsJob(variance=chance.random() < 0.5, least=3)
    suite = "shares"
    if kind == "private":
        job = NoisyJob(k, epsilon=8.0, iterations=chance.randint(1, 4), seed=seed)
    if kind == "kmeans":
        job = KMeansJob(
            k,
            max_iter=chance.randint(1, 5),
            seed=seed,
            labels=chance.random() < 0.6,
            min_size=chance.randint(1, 5),
        )
        suite = chance.choices(("shares", "paillier"), (7, 1))[0]
        if suite == "shares":
            starts = random.Random(f"starts of {seed}")
            job = job if starts.random() < 0.5 else with_starts(job, starts)
            job = with_linkage(job, random.Random(f"linkage inside {seed}"), columns)
    faults = tuple(_fault(chance) for _ in range(chance.randint(1, 5)))
    spec = Spec(f"schedule-{seed}", schema, job)
    prepare = chance.choice((0, 0, 1))
    pairs, withdraws = chance.randint(1, 3), chance.choice((0, 0, 1))
    linkage = random.Random(f"linkage of {seed}")
    if len(tables) > 1 and linkage.random() < 0.3:
        spec = Spec(spec.name, schema, linkage_job(linkage, columns))
        suite = "shares"
    return Schedule(seed, spec, suite, pairs, prepare, tables, faults, withdraws)


def with_linkage(job: KMeansJob, chance: random.Random, columns: int) -> KMeansJob:
    """Some jobs count records that several owners hold once."""
    if chance.random() < 0.7:
        return job
    rule = SquaredDistance((1,) * columns, chance.choice((0, 2, 10)))
    return replace(job, dedup=LinkageJob(rule, "shared"))


def with_starts(job: KMeansJob, chance: random.Random) -> KMeansJob:
    """The same job with a chosen start, perhaps the inertia, several starts, several k."""
    return replace(
        job,
        init=chance.choice(("random", "k-means++", "k-means++")),
        inertia=chance.random() < 0.5,
        n_init=chance.choice((1, 2, 3)),
        ks=tuple(range(1, job.k + 1)) if job.k > 1 and chance.random() < 0.4 else (),
    )


def _fault(chance: random.Random) -> Fault:
    point = chance.choice(list(ACTIONS))
    phase = chance.choice((chance.choice(phases(point)), ""))
    latest = _LATEST.get(point, _LATEST_ELSEWHERE) // (8 if phase else 1)
    # As many early as late: most that can go wrong does so at the start of something.
    count = int(latest ** chance.random())
    return Fault(point, count, chance.choice(ACTIONS[point]), phase)


def with_faults(schedule: Schedule, faults: Sequence[Fault]) -> Schedule:
    """The same job with these faults instead."""
    return replace(schedule, faults=tuple(faults))


def linkage_job(chance: random.Random, columns: int) -> LinkageJob:
    """Links, flags or their number, with cells of an owner's own tree or without."""
    tree = adtree(epsilon=4, delta="1/100")
    output: Output = chance.choice(("links", "links", "flags", "count"))
    return LinkageJob(
        SquaredDistance((1,) * columns, chance.choice((0, 2, 10))),
        output,
        chance.choice((Blocking(), tree)),
        chance.choice((1, 3)) if output == "links" else 1,
    )
