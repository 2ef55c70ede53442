"""Where a worker keeps what was made ahead."""

from ppodc.crypto.single_use import Field, Layout, SingleUsePool
from ppodc.pairs.pair_worker import Setup

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
