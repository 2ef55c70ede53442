"""Where a worker keeps what was made ahead, and what becomes of one that is cut off."""

import pytest

from ppodc.crypto.single_use import Field, Layout, SingleUsePool
from ppodc.errors import ChannelError
from ppodc.pairs.pair_worker import PairWorker, Setup
from ppodc.pairs.plan import Step, Task
from ppodc.transport.channel import memory_pair
from tests.service.data import make_spec

LAYOUT = Layout((Field("number", int, 1),))


def test_a_pair_whose_slot_is_still_held_has_a_folder_of_its_own(tmp_path):
    setup = Setup("owner/flowers", b"", 10, "shares", 5.0, str(tmp_path))
    slot = setup.pools_of("3.0")
    held = SingleUsePool(slot / "leaves", LAYOUT)
    other = setup.pools_of("3.1")
    assert other != slot
    SingleUsePool(other / "leaves", LAYOUT).close()
    held.close()
    assert setup.pools_of("3.1") == slot


def test_without_a_folder_nothing_is_kept():
    assert Setup("flowers", b"", 10, "shares", 5.0).pools_of("0.0") is None


def test_a_worker_that_is_cut_before_its_channel_is_open_waits_for_nobody():
    here, there = memory_pair()

    class Worker(PairWorker):
        def open_channel(self):
            return here, "0.0"

    worker = Worker(Setup("owner/flowers", make_spec().canonical(), 10, "shares", 5.0), 1, None)
    worker.cut()
    with pytest.raises(ChannelError, match="closed at this end"):
        worker.run(Step(0, "ingest", 0), 1, [Task("ingest")])
    with pytest.raises(ChannelError):
        there.receive_any()
