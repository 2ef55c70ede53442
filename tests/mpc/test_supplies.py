"""Supplies of a session: single use on disk, agreement of two folders, making more."""

import shutil
import threading

import msgspec
import numpy as np
import pytest

from ppodc.crypto.single_use import SingleUsePool
from ppodc.errors import ChannelError, StoreError, WireError
from ppodc.mpc import supplies as supplies_module
from ppodc.mpc.messages import PeerLink
from ppodc.mpc.ot.random_ot import TRANSFERS
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, select
from ppodc.mpc.spill import Budget, Spool
from ppodc.mpc.supplies import Needs
from tests.harness.together import together
from tests.mpc.pair import JOB, opened, share

VALUES = [5, -7, 0, -1] * 50
WORK = compare.needs(len(VALUES), 60) + select.needs(len(VALUES))


def test_spools_in_memory_and_in_a_file_hold_the_same(tmp_path):
    data = np.random.default_rng(1).integers(0, 2**64, (50, 3), np.uint64)
    for limit in (0, 1 << 20):
        spool = Spool(50, 3, np.uint64, Budget(limit, tmp_path))
        spool.append(data[:20])
        spool.append(data[20:])
        assert np.array_equal(spool.read(0, 50), data)
        assert np.array_equal(spool.read(19, 33), data[19:33])
        spool.close()


def test_a_closed_spool_leaves_its_memory_to_others(tmp_path):
    budget = Budget(800, tmp_path)
    for _ in range(3):
        first, second = (Spool(100, 1, np.uint64, budget) for _ in range(2))
        assert (first._file, second._memory) == (None, None)
        first.close()
        second.close()
        first.close()
        assert budget.left == 800


def both(work, folders=(None, None)):
    """work(session) at both clouds of a fresh session."""

    def run(role):
        def half(channel):
            session = Session.start(role, channel, JOB, pools=folders[role - 1])
            try:
                return work(session)
            finally:
                session.close()

        return half

    return together(run(1), run(2))


def negative_parts(folders=(None, None)):
    """Use all kinds of supplies: x [x < 0] is right."""
    parts = share(VALUES, 1)

    def work(session):
        own = parts[session.role - 1]
        negative = compare.sign(session, own, 60).unpack(len(VALUES))
        return select.select(session, negative, own.reshape(-1, 1))

    result = opened(both(work, folders))
    assert result == [min(x, 0) % 2**64 for x in VALUES]


def available(folders):
    return both(lambda session: session.supplies.available(), folders)


def test_supplies_on_disk_serve_a_later_session_once(tmp_path, monkeypatch):
    folders = (tmp_path / "c1", tmp_path / "c2")
    served = {"c1": [], "c2": []}
    take = SingleUsePool.take

    def noted(self, count):
        columns = take(self, count)
        rows = [(self.folder.name, row.tobytes()) for row in columns[0]]
        served[self.folder.parent.name].extend(rows)
        return columns

    monkeypatch.setattr(SingleUsePool, "take", noted)
    progress = []
    both(lambda session: session.supplies.prepare(WORK * 2, progress.append), folders)
    assert sum(progress) == 2 * (WORK * 2).work > 0
    amounts = []
    make = supplies_module.make
    monkeypatch.setattr(
        supplies_module,
        "make",
        lambda ot, orders, **_: (amounts.append(orders), make(ot, orders))[1],
    )
    negative_parts(folders)
    negative_parts(folders)
    assert amounts == []  # everything came from the folders
    assert available(folders) == (Needs(), Needs())
    negative_parts(folders)
    assert amounts != []  # the folders ran dry and more was made
    for rows in served.values():
        keys = [row for kind, row in rows if kind == "transfers"]
        assert len(keys) == len(set(keys)) == 2 * WORK.transfers


def test_folders_that_differ_agree_on_what_both_have(tmp_path):
    folders = (tmp_path / "c1", tmp_path / "c2")
    both(lambda session: session.supplies.prepare(WORK), folders)
    # C2 was killed after it had reserved rows that C1 had not.
    ahead = SingleUsePool(folders[1] / "transfers", TRANSFERS)
    ahead.take(100)
    left = ahead.available
    ahead.close()
    amounts = available(folders)
    assert amounts[0] == amounts[1]
    assert amounts[0].transfers == left
    negative_parts(folders)
    both(lambda session: session.supplies.prepare(WORK), folders)
    # C1 lost its folder: both start with empty ones.
    for path in (folders[0] / "leaves").iterdir():
        path.unlink()
    amounts = available(folders)
    assert amounts[0] == amounts[1]
    assert (amounts[0].leaves, amounts[0].transfers) == (0, WORK.transfers)
    negative_parts(folders)


def test_a_folder_at_one_cloud_only_is_refused(tmp_path):
    with pytest.raises(ChannelError, match="both clouds or at none"):
        negative_parts((tmp_path / "c1", None))
    negative_parts((tmp_path / "c1", tmp_path / "c2"))  # the refused folder is not locked


def test_a_later_pool_that_cannot_open_releases_the_earlier_ones(tmp_path):
    folders = (tmp_path / "c1", tmp_path / "c2")
    folders[0].mkdir()
    (folders[0] / "transfers").write_bytes(b"")  # a file where the last pool's folder should be
    with pytest.raises(StoreError, match="cannot be used"):
        negative_parts(folders)
    (folders[0] / "transfers").unlink()
    negative_parts(folders)


def test_a_restored_folder_is_emptied(tmp_path):
    """Rows of two makings may have the same numbers; the name of a copy is out of date."""
    folders = (tmp_path / "c1", tmp_path / "c2")

    def make_more(session):
        session.supplies.prepare(Needs(transfers=100))

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
    assert available(folders) == (Needs(), Needs())


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
    exchange = PeerLink.exchange_body

    def send_malformed(self, kind, body, body_type):
        if kind == "shares.pools" and threading.current_thread() is second[0]:
            body = msgspec.structs.replace(body, **part)
        return exchange(self, kind, body, body_type)

    second: list[threading.Thread] = []
    monkeypatch.setattr(PeerLink, "exchange_body", send_malformed)

    def run(role):
        def half(channel):
            if role == 2:
                second.append(threading.current_thread())
            Session.start(role, channel, JOB, pools=tmp_path / str(role)).close()

        return half

    with pytest.raises((ChannelError, WireError), match=error):
        together(run(1), run(2))


def test_needs_add_up():
    assert Needs(1, 2, 3) + Needs(4, 5, 6) * 2 == Needs(9, 12, 15)
    assert Needs(5, 1, 0) - Needs(2, 3, 4) == Needs(3, 0, 0)
