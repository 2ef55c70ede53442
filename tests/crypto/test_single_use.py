"""Single use on disk: kills, forks, full disks, damage, copies, agreement of two folders."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ppodc
from ppodc.crypto import single_use
from ppodc.crypto.single_use import Field, Layout, MemoryPool, SingleUsePool
from ppodc.errors import PoolError, StoreError

LAYOUT = Layout((Field("number", np.uint32, 1), Field("more", np.uint8, 3)))
STATE_BYTES = 56


def rows(start, count):
    numbers = np.arange(start, start + count)
    return numbers.astype(np.uint32)[:, None], np.repeat(numbers % 64, 3).reshape(-1, 3)


def filled(folder, count, layout=LAYOUT):
    pool = SingleUsePool(folder, layout)
    pool.add(rows(0, count))
    return pool


def numbers(columns):
    first, second = columns
    assert second.tolist() == [[n % 64] * 3 for n in first.ravel().tolist()]
    return first.ravel().tolist()


def python(code, *arguments):
    """A child process that has this package, the layout and the code's own arguments."""
    root = str(Path(ppodc.__file__).parent.parent)
    prelude = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from ppodc.crypto.single_use import SingleUsePool\n"
        "from tests.crypto.test_single_use import LAYOUT, numbers, rows\n"
        "folder = Path(sys.argv[1])\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_rows_come_in_order_and_once(tmp_path, kind):
    pool = MemoryPool(LAYOUT) if kind == "memory" else SingleUsePool(tmp_path / "p", LAYOUT)
    pool.add(rows(0, 5))
    pool.add(rows(5, 7))
    assert numbers(pool.take(3)) == [0, 1, 2]
    assert [column.shape for column in pool.take(0)] == [(0, 1), (0, 3)]
    assert numbers(pool.take(6)) == [3, 4, 5, 6, 7, 8]
    with pytest.raises(PoolError, match="3 rows left"):
        pool.take(4)
    assert numbers(pool.take(3)) == [9, 10, 11]
    pool.add(rows(12, 2))
    assert numbers(pool.take(2)) == [12, 13]


def test_a_folder_goes_on_where_it_stopped(tmp_path):
    pool = SingleUsePool(tmp_path, LAYOUT)
    pool.agree(None, b"n" * 16)
    pool.add(rows(0, 10))
    pool.take(4)
    pool.close()
    again = SingleUsePool(tmp_path, LAYOUT)
    assert (again.name, again.available) == (b"n" * 16, 6)
    assert numbers(again.take(1)) == [4]
    again.add(rows(10, 2))
    assert numbers(again.take(7)) == list(range(5, 12))


def test_a_pool_is_its_owners_alone(tmp_path):
    folder = tmp_path / "a" / "b"
    filled(folder, 1).close()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o755)
    SingleUsePool(folder, LAYOUT).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_kill_after_the_cursor_moved_loses_rows_and_repeats_none(tmp_path, monkeypatch):
    pool = filled(tmp_path, 10)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", killed)
        with pytest.raises(KeyboardInterrupt):
            pool.take(4)
    pool.close()
    assert numbers(SingleUsePool(tmp_path, LAYOUT).take(1)) == [4]


def test_the_cursor_is_on_disk_before_rows_are_read(tmp_path, monkeypatch):
    pool = filled(tmp_path, 10)
    calls = []
    for name in ("pwrite", "fsync", "preadv"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, name=name, real=real: (calls.append(name), real(*a))[1]
        )
    pool.take(2)
    assert calls[:3] == ["pwrite", "fsync", "preadv"]


@pytest.mark.parametrize("size", [1, 3, 64])
def test_killed_processes_never_make_a_row_come_back(tmp_path, size):
    filled(tmp_path, 5000).close()
    code = (
        "pool = SingleUsePool(folder, LAYOUT)\n"
        "for _ in range(26):\n"  # three children leave a rest of the 5000 rows
        "    for number in numbers(pool.take(int(sys.argv[2]))): print(number, flush=True)\n"
        "    time.sleep(0.001)\n"
        "time.sleep(600)\n"
    )
    seen = []
    for lines in (1, 10, 25):
        child = python(code, tmp_path, size)
        seen += [int(child.stdout.readline()) for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        # What is left in the pipe was handed out, too; a line cut in two is no whole number.
        rest = child.stdout.read()
        seen += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
    pool = SingleUsePool(tmp_path, LAYOUT)
    seen += numbers(pool.take(pool.available))
    assert len(seen) == len(set(seen))
    assert seen[-1] == 4999


def test_a_killed_fill_leaves_a_usable_pool(tmp_path):
    code = (
        "pool = SingleUsePool(folder, LAYOUT)\n"
        "for start in range(0, 10**9, 100):\n"
        "    pool.add(rows(start, 100))\n"
        "    print(pool.end, flush=True)\n"
    )
    child = python(code, tmp_path)
    for _ in range(3):
        end = int(child.stdout.readline())
    child.kill()
    child.communicate()
    pool = SingleUsePool(tmp_path, LAYOUT)
    assert pool.available >= end == 300
    assert numbers(pool.take(end)) == list(range(end))


def test_a_full_disk_is_told_and_the_pool_stays_usable(tmp_path):
    # A limit on file size stands in for the end of the disk: writes are cut short, then fail.
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "pool = SingleUsePool(folder, LAYOUT)\n"
        "try:\n"
        "    for start in range(0, 4000, 1000): pool.add(rows(start, 1000))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        "print(pool.available, len(numbers(pool.take(600))))\n"
    )
    message, amounts = python(code, tmp_path).communicate()[0].splitlines()
    assert message.startswith("DiskFullError the disk is full")
    assert "Free some space" in message
    assert amounts == "1000 600"
    assert (tmp_path / "number").stat().st_size == 4000  # what was half-written is given back
    pool = SingleUsePool(tmp_path, LAYOUT)
    pool.add(rows(1000, 3))
    assert numbers(pool.take(403)) == list(range(600, 1003))


def test_a_pool_is_open_once(tmp_path):
    pool = filled(tmp_path, 10)
    with pytest.raises(PoolError, match="open already"):
        SingleUsePool(tmp_path, LAYOUT)
    code = (
        "try: SingleUsePool(folder, LAYOUT)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    refusal, _ = python(code, tmp_path).communicate()
    assert refusal.startswith("PoolError")
    assert "open already" in refusal
    pool.close()
    assert SingleUsePool(tmp_path, LAYOUT).available == 10


def test_a_dropped_pool_is_free_again(tmp_path):
    pool = filled(tmp_path, 10)
    del pool
    assert SingleUsePool(tmp_path, LAYOUT).available == 10


def test_a_closed_pool_gives_nothing(tmp_path):
    pool = filled(tmp_path, 10)
    pool.close()
    pool.close()
    for action in (
        lambda: pool.take(1),
        lambda: pool.add(rows(0, 1)),
        lambda: pool.agree(None, b"n" * 16),
    ):
        with pytest.raises(PoolError, match="closed"):
            action()


def test_a_forked_child_may_not_use_its_parents_pool(tmp_path):
    pool = filled(tmp_path, 10)
    child = os.fork()
    if child == 0:
        refused = 0
        for action in (lambda: pool.take(1), lambda: pool.add(rows(0, 1))):
            try:
                action()
            except PoolError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert numbers(pool.take(1)) == [0]


@pytest.mark.parametrize("at", range(STATE_BYTES))
def test_a_state_with_one_byte_changed_is_refused(tmp_path, at):
    filled(tmp_path, 3).close()
    state = bytearray((tmp_path / "state").read_bytes())
    assert len(state) == STATE_BYTES
    state[at] ^= 1
    (tmp_path / "state").write_bytes(state)
    with pytest.raises(PoolError, match="prepare anew"):
        SingleUsePool(tmp_path, LAYOUT)


@pytest.mark.parametrize("length", [1, 8, 40, 48, 55])
def test_a_cut_state_is_refused(tmp_path, length):
    filled(tmp_path, 3).close()
    os.truncate(tmp_path / "state", length)
    with pytest.raises(PoolError, match="prepare anew"):
        SingleUsePool(tmp_path, LAYOUT)


def test_a_folder_without_its_state_has_no_rows(tmp_path):
    filled(tmp_path, 3).close()
    (tmp_path / "state").unlink()
    assert SingleUsePool(tmp_path, LAYOUT).available == 0


def test_a_file_that_is_cut_short_is_refused(tmp_path):
    filled(tmp_path, 10).close()
    os.truncate(tmp_path / "number", 6 * 4 + 1)
    pool = SingleUsePool(tmp_path, LAYOUT)
    assert numbers(pool.take(6)) == list(range(6))
    with pytest.raises(PoolError, match="cut short"):
        pool.take(1)


def test_an_agreement_keeps_the_common_rows_under_a_new_name(tmp_path):
    pool = SingleUsePool(tmp_path, LAYOUT)
    pool.agree(None, b"a" * 16)
    pool.add(rows(0, 10))
    pool.agree(b"a" * 16, b"b" * 16, 2, 8)
    assert (pool.name, pool.available) == (b"b" * 16, 6)
    assert numbers(pool.take(1)) == [2]
    pool.agree(b"a" * 16, b"c" * 16, 3, 8)  # the name of a copy
    assert (pool.name, pool.available) == (b"c" * 16, 0)


@pytest.mark.parametrize("change", ["layout", "owner", "version"])
def test_rows_of_another_layout_are_not_used(tmp_path, monkeypatch, change):
    pool = SingleUsePool(tmp_path, LAYOUT)
    pool.agree(None, b"n" * 16)
    pool.add(rows(0, 10))
    pool.close()
    number, more = LAYOUT.fields
    layout = {
        "layout": Layout((number, Field(more.name, np.uint16, 3))),
        "owner": Layout(LAYOUT.fields, belongs_to="another key"),
        "version": LAYOUT,
    }[change]
    with monkeypatch.context() as patch:
        if change == "version":
            patch.setattr(single_use, "VERSION", single_use.VERSION + 1)
        other = SingleUsePool(tmp_path, layout)
        assert (other.name, other.available) == (bytes(16), 0)
        other.close()
    pool = SingleUsePool(tmp_path, LAYOUT)  # looking in has not changed it
    assert (pool.name, pool.available) == (b"n" * 16, 10)


def test_rows_of_another_layout_are_forgotten_before_new_ones_are_written(tmp_path, monkeypatch):
    filled(tmp_path, 10).close()
    other = SingleUsePool(tmp_path, Layout(LAYOUT.fields, belongs_to="another key"))

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", killed)
        with pytest.raises(KeyboardInterrupt):
            other.add(rows(90, 10))
    other.close()
    assert SingleUsePool(tmp_path, LAYOUT).available == 0


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_a_pool_that_cannot_be_opened_leaves_nothing_open(tmp_path):
    (tmp_path / "more").mkdir()  # where a file should be
    before = open_descriptors()
    with pytest.raises(StoreError, match="cannot be used"):
        SingleUsePool(tmp_path, LAYOUT)
    assert open_descriptors() == before


def test_nothing_secret_shows(tmp_path):
    assert repr(filled(tmp_path, 3)) == f"SingleUsePool({tmp_path}, 3 rows left)"
