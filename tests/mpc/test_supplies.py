"""Supplies: exact amounts, single use on disk, agreement of two folders, making more."""

import shutil
import threading
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from ppodc.crypto.single_use import SingleUsePool
from ppodc.errors import ChannelError, InputError, StoreError, WireError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.shares import half as half_module
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc import supplies as stock_module
from ppodc.mpc.messages import Link
from ppodc.mpc.random_ot import TRANSFERS
from ppodc.mpc.spill import Budget, Spool
from ppodc.mpc.supplies import Needs
from ppodc.records.sharing import mask, split
from tests.kmeans.suite_jobs import Job, check
from tests.mpc.pair import key
from tests.two_clouds import together

PARAMS = Parameters(30, 2, 3, 100, Fraction(0))


def test_spools_in_memory_and_in_a_file_hold_the_same(tmp_path):
    data = np.random.default_rng(1).integers(0, 2**64, (50, 3), np.uint64)
    for limit in (0, 1 << 20):
        spool = Spool(50, 3, np.uint64, Budget(limit, tmp_path))
        spool.append(data[:20])
        spool.append(data[20:])
        assert np.array_equal(spool.read(0, 50), data)
        assert np.array_equal(spool.read(19, 33), data[19:33])
        spool.close()


def job(half, share, *, iterations=1):
    """Take in the records and run iterations; returns nothing."""
    half.ingest("all", share)
    clusters = half.records("all", initial_rows(1, 30, 3))
    for i in range(1, iterations + 1):
        sums = half.assign("all", clusters)
        clusters, _ = half.update(clusters, sums, half.records("all", reseed_rows(1, i, 30, 3)))


def both(work, folders=(None, None)):
    """work(half, share) at both clouds of a fresh session."""
    share, seed = split(np.random.default_rng(1).integers(0, 101, (30, 2)))
    parts = (share, mask(seed, 0, 30, 2))

    def run(role):
        def half(channel):
            own = SharesHalf(role, channel, PARAMS, key(role), pools=folders[role - 1])
            try:
                return work(own, parts[role - 1])
            finally:
                own.close()

        return half

    return together(run(1), run(2))


def test_prepare_makes_exactly_what_iterations_use():
    def work(half, share):
        half.ingest("all", share)
        clusters = half.records("all", initial_rows(1, 30, 3))
        # Scaling the initial clusters belongs to no iteration.
        half._known(clusters)
        half.prepare(2)
        extra = half._stock.available() - half.iteration_needs([30]) * 2
        assert half.to_prepare(2) == 0
        half.meter.reset()
        for i in (1, 2):
            sums = half.assign("all", clusters)
            candidates = half.records("all", reseed_rows(1, i, 30, 3))
            clusters, _ = half.update(clusters, sums, candidates)
        offline = {name for phase, name in half.meter.costs if phase == "offline"}
        assert half.meter.phase("online").bytes_sent > 0
        return half._stock.available(), extra, offline

    for left, extra, offline in both(work):
        assert left == extra
        assert offline == set()


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
    for kind, (layout, maker, per) in list(stock_module._KINDS.items()):
        monkeypatch.setitem(
            stock_module._KINDS,
            kind,
            (layout, lambda s, n, m=maker: (makers.append(n), m(s, n))[1], per),
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


def test_folders_that_differ_agree_on_what_both_have(tmp_path):
    folders = (tmp_path / "c1", tmp_path / "c2")
    both(lambda half, _: half.prepare(1), folders)
    # C2 was killed after it had reserved rows that C1 had not.
    ahead = SingleUsePool(folders[1] / "transfers", TRANSFERS)
    ahead.take(100)
    left = ahead.available
    ahead.close()
    amounts = both(lambda half, _: half._stock.available(), folders)
    assert amounts[0] == amounts[1]
    assert amounts[0].transfers == left
    both(job, folders)
    # C1 lost its folder: both start with empty ones.
    for path in (folders[0] / "leaves").iterdir():
        path.unlink()
    amounts = both(lambda half, _: half._stock.available(), folders)
    assert amounts[0] == amounts[1]
    assert amounts[0].leaves == 0
    both(job, folders)


def test_a_folder_at_one_cloud_only_is_refused(tmp_path):
    with pytest.raises(ChannelError, match="both clouds or at none"):
        both(job, (tmp_path / "c1", None))
    both(job, (tmp_path / "c1", tmp_path / "c2"))  # the refused folder is not locked


def test_a_later_pool_that_cannot_open_releases_the_earlier_ones(tmp_path):
    folders = (tmp_path / "c1", tmp_path / "c2")
    folders[0].mkdir()
    (folders[0] / "transfers").write_bytes(b"")  # a file where the last pool's folder should be
    with pytest.raises(StoreError, match="cannot be used"):
        both(job, folders)
    (folders[0] / "transfers").unlink()
    both(job, folders)


def test_a_restored_folder_is_emptied(tmp_path):
    """Rows of two makings may have the same numbers; the name of a copy is out of date."""
    folders = (tmp_path / "c1", tmp_path / "c2")

    def make_more(half, _):
        half._stock.prepare(Needs(transfers=100))

    both(make_more, folders)
    shutil.copytree(folders[1], tmp_path / "before")
    both(make_more, folders)
    # C2 was killed before it counted the second hundred; C1's folder is copied now.
    shutil.rmtree(folders[1])
    shutil.copytree(tmp_path / "before", folders[1])
    shutil.copytree(folders[0], tmp_path / "copy")
    both(make_more, folders)
    shutil.rmtree(folders[0])
    shutil.copytree(tmp_path / "copy", folders[0])
    assert both(lambda half, _: half._stock.available(), folders) == (Needs(), Needs())


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ({"fresh": ()}, "both clouds or at none"),
        ({"fresh": (b"short",) * 3}, "shares.pools"),
        ({"names": (b"short",) * 3}, "shares.pools"),
        ({"cursors": (-1, 0, 0)}, "shares.pools"),
    ],
)
def test_a_malformed_inventory_is_refused(tmp_path, monkeypatch, part, error):
    exchange = Link.exchange_body

    def send_malformed(self, kind, body, body_type):
        if kind == "shares.pools" and threading.current_thread() is second[0]:
            body = msgspec.structs.replace(body, **part)
        return exchange(self, kind, body, body_type)

    second: list[threading.Thread] = []
    monkeypatch.setattr(Link, "exchange_body", send_malformed)

    def run(role):
        def half(channel):
            if role == 2:
                second.append(threading.current_thread())
            SharesHalf(role, channel, PARAMS, key(role), pools=tmp_path / str(role)).close()

        return half

    with pytest.raises((ChannelError, WireError), match=error):
        together(run(1), run(2))


def test_a_job_with_folders_is_exact(tmp_path):
    records = np.random.default_rng(6).integers(0, 101, (30, 2))

    def make(role, channel, params):
        half = SharesHalf(role, channel, params, key(role), pools=tmp_path / str(role))
        half.prepare(1)
        return half

    check(make, Job(records, 3, 100, max_iter=3))


def test_products_made_ahead_share_one_budget(monkeypatch):
    """Two shards of 15 records: memory for three stretches of one iteration, not three of each."""
    size = 8 * 15 * (PARAMS.k - 1) * Rings.of(PARAMS).distance
    monkeypatch.setattr(half_module, "_AHEAD_BYTES", 3 * size)

    def work(half, share):
        half.ingest("a", share[:15])
        half.ingest("b", share[15:])
        half.prepare(4)
        ahead = [len(half._ahead[name]) for name in ("a", "b")]
        half.prepare(4)
        assert [len(half._ahead[name]) for name in ("a", "b")] == ahead
        return ahead

    assert both(work) == ([2, 1], [2, 1])


def test_a_chunk_counts_its_supplies(monkeypatch):
    needs, _ = both(lambda half, _: half._chunk_needs(1280))
    # A row of leaves has 5 bytes, a word of pairs 40.
    monkeypatch.setattr(half_module, "_CHUNK_BYTES", (5 * needs.leaves + 40 * needs.pairs) // 2)
    first, second = both(lambda half, _: half._chunks(1280))
    assert first == second
    assert len(first) >= 2


def test_more_records_than_announced_are_refused():
    def work(half, share):
        half.ingest("all", share)
        half.ingest("more", share[:1])

    with pytest.raises(InputError, match="31 records; the job was announced with 30"):
        both(work)


def test_needs_add_up():
    assert Needs(1, 2, 3) + Needs(4, 5, 6) * 2 == Needs(9, 12, 15)
    assert Needs(5, 1, 0) - Needs(2, 3, 4) == Needs(3, 0, 0)
