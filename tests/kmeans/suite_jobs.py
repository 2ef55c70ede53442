"""Whole jobs through a suite, compared with the reference iteration by iteration."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from ppodc.kmeans import job as kmeans_job
from ppodc.kmeans.half import Half
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.plan import SUMS
from ppodc.kmeans.reference import as_taken_in, kmeans
from ppodc.pairs.shards import cut
from ppodc.pairs.walk import OpenHalf, Walk, Walker
from ppodc.records.result_shares import OutputShare, open_output
from ppodc.records.schema import Column, Schema
from ppodc.records.sharing import mask, split
from ppodc.service.store import Checkpoint
from ppodc.spec import Spec
from ppodc.transport.channel import Channel
from tests.harness.together import together
from tests.harness.uploads import sealed

MakeHalf = Callable[[int, Channel, Parameters], Half]


@dataclass(frozen=True)
class Job:
    records: np.ndarray
    k: int
    ub: int
    beta: Fraction = Fraction(0)
    seed: int = 1
    max_iter: int = 4
    centres: np.ndarray | None = None
    min_size: int = 1

    @property
    def params(self) -> Parameters:
        m, l = self.records.shape
        return Parameters(m, l, self.k, self.ub, self.beta, self.min_size)

    @property
    def spec(self) -> Spec:
        columns = (Column(f"x{s}", 0, self.ub) for s in range(self.records.shape[1]))
        init = "random" if self.centres is None else tuple(map(tuple, self.centres.tolist()))
        options = {"max_iter": self.max_iter, "seed": self.seed, "min_size": self.min_size}
        job = kmeans_job.Job(self.k, self.beta, init=init, **options)
        return Spec("d", Schema(tuple(columns), self.ub), job)


def run_half(
    channel: Channel, half: Half, job: Job, share: np.ndarray
) -> list[tuple[OutputShare, OutputShare, bool]]:
    """This cloud's halves of sums, sizes and labels after every iteration."""
    rounds: list[tuple[OutputShare, OutputShare, bool]] = []

    def save(done: Checkpoint) -> None:
        (shard,) = walk.plan.facts.shards
        (told,) = half.output(done.arrays[SUMS])
        rounds.append((told, half.labels(shard.name), done.stop))

    walk = Walk(job.spec, sealed(("owner", len(share))), save=save)
    Walker(walk, [OpenHalf(channel, half)], partial(cut, share)).run()
    return rounds


def check(
    make: MakeHalf,
    job: Job,
    pair: tuple[Channel, Channel] | None = None,
    shares: tuple[np.ndarray, np.ndarray] | None = None,
) -> None:
    """Both halves together give the reference's trace, bit for bit, every iteration.

    `shares` are what was uploaded, if not shares of the job's records.
    """
    m, l = job.records.shape
    share, seed = split(job.records)
    theirs = mask(seed, 0, m, l)
    if shares is not None:
        share, theirs = shares
    first, second = together(
        lambda channel: run_half(channel, make(1, channel, job.params), job, share),
        lambda channel: run_half(channel, make(2, channel, job.params), job, theirs),
        pair,
    )
    trace = kmeans(
        job.records,
        job.k,
        beta=job.beta,
        max_iter=job.max_iter,
        seed=job.seed,
        centres=job.centres,
    )
    assert len(first) == len(second) == len(trace.iterations)
    for expected, (out1, lab1, stop1), (out2, lab2, stop2) in zip(
        trace.iterations, first, second, strict=True
    ):
        table = np.array(open_output(out1, out2), dtype=object).reshape(job.k, l + 1)
        sums, sizes = expected.revealed(job.min_size)
        assert table[:, :l].tolist() == sums.tolist()
        assert table[:, l].tolist() == sizes.tolist()
        assert open_output(lab1, lab2) == np.asarray(expected.labels).tolist()
        assert stop1 == stop2 == expected.stop


def random_job(case: int) -> Job:
    """Job number `case`: k = 1..6, l = 1..5, m = k..40, with ties, duplicates, empty clusters."""
    g = np.random.default_rng(case)
    k, l = int(g.integers(1, 7)), int(g.integers(1, 6))
    m = int(g.integers(k, 41))
    ub = int(g.choice([1, 3, 10, 1000]))
    records = g.integers(0, ub + 1, (m, l))
    kind = case % 4
    if kind == 1:  # few distinct values: ties, duplicates, clusters that go empty
        records = g.choice(records.reshape(-1)[: min(2, records.size)], (m, l))
    elif kind == 2:  # all records equal
        records[:] = records[0]
    beta = [Fraction(0), Fraction(1, 3), Fraction(10**12), Fraction(7, 2)][int(g.integers(0, 4))]
    centres = g.integers(0, ub + 1, (k, l)) if case % 5 == 4 else None
    if centres is not None and len(np.unique(centres, axis=0)) < k:
        centres = None  # specs refuse equal ones
    min_size = int(g.integers(1, 8))
    return Job(records, k, ub, beta, seed=case, max_iter=3, centres=centres, min_size=min_size)


def garbage(case: int) -> tuple[Job, tuple[np.ndarray, np.ndarray]]:
    """Job number `case`, and uploads of any words at all: most are no share of a value 0..ub."""
    job, g = random_job(case), np.random.default_rng(1000 + case)
    shape = job.records.shape
    first, second = (g.integers(0, 1 << 64, shape, np.uint64) for _ in range(2))
    near = g.random(shape) < 0.3  # just above ub, or far above and a small number below it
    first[near] = (second + g.integers(job.ub, 4 * job.ub + 2, shape, np.uint64))[near]
    taken = as_taken_in(first - second, job.ub)
    return replace(job, records=taken), (first, second)
