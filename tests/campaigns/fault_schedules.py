"""Fault schedules: a small job of any kind and the faults that strike it, drawn from a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.job import Job as KMeansJob
from ppodc.kmeans.private.job import NoisyJob
from ppodc.linkage.blocks import NoBlocks
from ppodc.linkage.blocks.tree_blocks import adtree
from ppodc.linkage.job import Job as LinkageJob
from ppodc.linkage.joined.join import Join
from ppodc.linkage.outputs import Shared, output_named
from ppodc.linkage.rules import SquaredDistance
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from ppodc.totals.job import Job as TotalsJob
from tests.campaigns.fault_points import ACTIONS, Fault, phases

UB = 20
MAX_OWNERS = 3
_LATEST = {"worker1 message": 400, "worker2 message": 400}  # the last pass at which a fault strikes
_LATEST_ELSEWHERE = 60


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job, its owners' tables and its faults. All of it follows from the seed."""

    seed: int
    spec: Spec
    suite: str
    pairs: int
    prepare: int  # iterations whose supplies are precomputed; may be 0
    tables: tuple[NDArray[np.int64], ...]  # one for each owner
    faults: tuple[Fault, ...]
    withdraws: int = 0  # owners that withdraw their records and upload them again


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
    joined = random.Random(f"join of {seed}")
    if len(tables) > 1 and joined.random() < 0.25:
        spec, tables = joined_job(joined, len(tables))
        spec, suite = replace(spec, name=f"schedule-{seed}"), "shares"
    return Schedule(seed, spec, suite, pairs, prepare, tables, faults, withdraws)


def joined_job(
    chance: random.Random, owners: int, kind: str = ""
) -> tuple[Spec, tuple[NDArray[np.int64], ...]]:
    """A job over joined columns: each table has `x`, by which rows are joined, and its own."""
    others = tuple(f"owner{number}" for number in range(2, owners + 1))
    anchor = chance.choice(("owner1", "owner2"))
    columns = (
        Column("x", 0.0, float(UB), use="link"),
        Column("a", 0.0, float(UB), held_by=("owner1",)),
        Column("b", 0.0, float(UB), held_by=others),
    )
    linkage = LinkageJob(SquaredDistance((1,), chance.choice((0, 0, 2))), Shared())
    relation: Any = chance.choice(("1:1", "m:1"))
    join = Join(linkage, relation, anchor, chance.choice((1, 1, 3)))
    job: Any = TotalsJob(join=join, cross=chance.random() < 0.5)
    if kind == "kmeans" or (not kind and chance.random() < 0.7):
        means = KMeansJob(
            chance.randint(1, 3),
            max_iter=chance.randint(1, 4),
            seed=chance.randrange(1 << 30),
            min_size=chance.randint(1, 3),
            join=join,
            labels=True,
        )
        job = with_starts(means, chance) if chance.random() < 0.5 else means
    rows = (chance.randint(3, 9) for _ in range(owners))
    tables = tuple(
        np.array([[chance.randint(0, UB) for _ in range(2)] for _ in range(count)], np.int64)
        for count in rows
    )
    return Spec("joined", Schema(columns, UB), job), tables


def column_names(spec: Spec, owner: str) -> list[str]:
    """The columns of an owner's table."""
    schema = spec.schema
    held = [column.name for column in schema.columns if owner in (column.held_by or (owner,))]
    return [*held, *(text.name for text in schema.texts)]


def with_linkage(job: KMeansJob, chance: random.Random, columns: int) -> KMeansJob:
    """Let three jobs in ten count each record once, even if several owners hold it."""
    if chance.random() < 0.7:
        return job
    rule = SquaredDistance((1,) * columns, chance.choice((0, 2, 10)))
    return replace(job, dedup=LinkageJob(rule, Shared()))


def with_starts(job: KMeansJob, chance: random.Random) -> KMeansJob:
    """Draw the start of a job, and whether it has inertia, several starts and several k."""
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
    # Early and late passes are equally likely, because most failures happen at the start.
    count = int(latest ** chance.random())
    return Fault(point, count, chance.choice(ACTIONS[point]), phase)


def with_faults(schedule: Schedule, faults: Sequence[Fault]) -> Schedule:
    """Replace the faults of a schedule."""
    return replace(schedule, faults=tuple(faults))


def linkage_job(chance: random.Random, columns: int) -> LinkageJob:
    """A linkage that outputs links, flags or a count, with or without cells of a private tree."""
    tree = adtree(epsilon=4, delta="1/100")
    output = chance.choice(("links", "links", "flags", "count"))
    rule = SquaredDistance((1,) * columns, chance.choice((0, 2, 10)))
    blocks = chance.choice((NoBlocks(), tree))
    most = chance.choice((1, 3)) if output == "links" else 1
    return LinkageJob(rule, output_named(output, most), blocks)
