"""A job's supplies: exact amounts, made ahead and kept on disk, within memory."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ppodc.crypto.single_use import SingleUsePool
from ppodc.errors import InputError
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.shares import assignment
from ppodc.kmeans.shares import demand as demand_module
from ppodc.kmeans.shares import half as half_module
from ppodc.kmeans.shares import products as products_module
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc import supplies as supplies_module
from ppodc.records.sharing import mask, split
from tests.harness.together import together
from tests.kmeans.suite_jobs import Job, check

PARAMS = Parameters(30, 2, 3, 100, Fraction(0))


def job(half, share, *, iterations=1):
    """Take in the records and run iterations; returns nothing."""
    half.ingest("all", share)
    clusters = half.records("all", initial_rows(1, 30, 3))
    for i in range(1, iterations + 1):
        sums = half.assign("all", clusters)
        clusters, _ = half.update(clusters, sums, half.records("all", reseed_rows(1, i, 30, 3)))


def both(work, folders=(None, None), params=PARAMS):
    """work(half, share) at both clouds of a fresh session."""
    share, seed = split(np.random.default_rng(1).integers(0, 101, (30, 2)))
    parts = (share, mask(seed, 0, 30, 2))

    def run(role):
        def half(channel):
            own = SharesHalf(role, channel, params, pools=folders[role - 1])
            try:
                return work(own, parts[role - 1])
            finally:
                own.close()

        return half

    return together(run(1), run(2))


@pytest.mark.parametrize("stops", [True, False])
def test_prepare_makes_exactly_what_iterations_use(stops):
    """Where the link is fast: over a slow one the next chunk's supplies are made in the waits."""

    def work(half, share):
        half.ingest("all", share)
        clusters = half.records("all", initial_rows(1, 30, 3))
        # The centres of the initial clusters belong to no iteration.
        half.scaled(clusters)
        half.prepare(2)
        extra = half._session.supplies.available() - half._demand.iteration([30]) * 2
        assert half.to_prepare(2) == 0
        half.meter.reset()
        for i in (1, 2):
            sums = half.assign("all", clusters)
            candidates = half.records("all", reseed_rows(1, i, 30, 3))
            clusters, _ = half.update(clusters, sums, candidates)
        offline = {name for phase, name in half.meter.costs if phase == "offline"}
        assert half.meter.phase("online").bytes_sent > 0
        return half._session.supplies.available(), extra, offline

    for left, extra, offline in both(work, params=replace(PARAMS, stops=stops)):
        assert left == extra
        assert offline == set()


def test_what_is_made_ahead_in_memory_is_bounded(monkeypatch):
    """The rest is made when it is needed."""
    monkeypatch.setattr(assignment, "AHEAD_BYTES", 10_000)
    monkeypatch.setattr(half_module, "AHEAD_BYTES", 10_000)

    def work(half, share):
        half.prepare(3)
        assert half._session.supplies.available().size <= 10_000
        assert half.to_prepare(3) <= 3  # of each kind a part of a row may be missing
        job(half, share, iterations=2)

    both(work)


def test_supplies_on_disk_serve_a_later_session_once(tmp_path, monkeypatch):
    folders = (tmp_path / "c1", tmp_path / "c2")
    served = {1: [], 2: []}
    take = SingleUsePool.take

    def noted(self, count):
        columns = take(self, count)
        role = 1 if "c1" in str(self.folder) else 2
        served[role] += [(self.folder.name, row.tobytes()) for row in columns[0]]
        return columns

    monkeypatch.setattr(SingleUsePool, "take", noted)
    told = []
    made = both(lambda half, _: (half.to_prepare(2), half.prepare(2, told.append)), folders)
    assert sum(told) == 2 * made[0][0] > 0
    makers = []
    make = supplies_module.make
    monkeypatch.setattr(
        supplies_module,
        "make",
        lambda ot, orders, **_: (makers.append(orders), make(ot, orders))[1],
    )
    both(job, folders)
    assert makers == []  # everything came from the folders
    both(job, folders)
    both(job, folders)
    assert makers != []  # the folders ran dry and more was made
    for rows_ in served.values():
        keys = [row for kind, row in rows_ if kind == "transfers"]
        assert len(keys) > 1000
        assert len(set(keys)) == len(keys)


def test_a_job_with_folders_is_exact(tmp_path):
    records = np.random.default_rng(6).integers(0, 101, (30, 2))

    def make(role, channel, params):
        half = SharesHalf(role, channel, params, pools=tmp_path / str(role))
        half.prepare(1)
        return half

    check(make, Job(records, 3, 100, max_iter=3))


def test_products_made_ahead_share_one_budget(monkeypatch):
    """Two shards of 15 records: memory for three stretches of one iteration, not three of each."""
    size = 8 * 15 * (PARAMS.k - 1) * Rings.of(PARAMS).distance
    monkeypatch.setattr(products_module, "AHEAD_BYTES", 3 * size)

    def work(half, share):
        half.ingest("a", share[:15])
        half.ingest("b", share[15:])
        half.prepare(4)
        ahead = [half._assigner.products_ahead.count(name) for name in ("a", "b")]
        half.prepare(4)
        assert [half._assigner.products_ahead.count(name) for name in ("a", "b")] == ahead
        return ahead

    assert both(work) == ([2, 1], [2, 1])


def test_a_chunk_counts_its_supplies(monkeypatch):
    needs, _ = both(lambda half, _: half._demand.chunk(1280, half._p.k))
    # A row of leaves has 5 bytes, a word of pairs 40.
    monkeypatch.setattr(demand_module, "_CHUNK_BYTES", (5 * needs.leaves + 40 * needs.pairs) // 2)
    first, second = both(lambda half, _: half._demand.chunks(1280))
    assert first == second
    assert len(first) >= 2


def test_more_records_than_announced_are_refused():
    def work(half, share):
        half.ingest("all", share)
        half.ingest("more", share[:1])

    with pytest.raises(InputError, match="31 records; the job was announced with 30"):
        both(work)
