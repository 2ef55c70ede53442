import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from gmpy2 import mpz

import ppodc
from ppodc.crypto.paillier import Cipher, generate_insecure
from ppodc.crypto.random_stream import FreshRandomisers, PowerRandomisers
from ppodc.crypto.randomiser_pool import RandomiserPool
from ppodc.errors import PoolError

SECRET = generate_insecure(256)
KEY = SECRET.public
RECORD = KEY.ciphertext_bytes + 4
HEADER = 56


class Numbers:
    """1, 2, 3, ...: values a test can tell apart and count."""

    def __init__(self, start=1):
        self.next = start

    def take(self, count):
        self.next += count
        return [mpz(i) for i in range(self.next - count, self.next)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pool"


def make(path, count, **options):
    pool = RandomiserPool.create(path, KEY, **options)
    pool.fill(Numbers(), count)
    return pool


def python(code, *arguments):
    """A child process that has this package, this key and the code's own arguments."""
    root = str(Path(ppodc.__file__).parent.parent)
    prelude = (
        "import os, sys, time\n"
        "from ppodc.crypto.paillier import PublicKey\n"
        "from ppodc.crypto.randomiser_pool import RandomiserPool\n"
        "from ppodc.crypto.random_stream import PowerRandomisers\n"
        "key, path = PublicKey(int(sys.argv[1])), sys.argv[2]\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", prelude + code, str(KEY.n), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )


def test_everything_comes_out_once_and_in_order(path):
    with make(path, 1000, block=64) as pool:
        assert pool.remaining == 1000
        taken = [x for size in (1, 0, 63, 64, 65, 300, 507) for x in pool.take(size)]
        assert taken == list(range(1, 1001))
        assert pool.remaining == 0
        assert pool.randomisers == 1000


def test_reopening_loses_a_block_and_repeats_nothing(path):
    with make(path, 100, block=10) as pool:
        assert pool.take(3) == [1, 2, 3]
    with RandomiserPool.open(path, KEY, block=10) as pool:
        assert pool.remaining == 90
        assert pool.take(1) == [11]
    with RandomiserPool(path, KEY, block=10) as pool:
        assert pool.take(80) == list(range(21, 101))


def test_it_can_be_filled_again_at_any_time(path):
    reports = []
    with make(path, 5, block=2) as pool:
        pool.take(4)
        pool.fill(Numbers(6), 600, progress=reports.append)
        assert pool.take(601) == list(range(5, 606))
    assert reports == [256, 512, 600]


def test_pooled_randomisers_encrypt(path):
    pool = RandomiserPool.create(path, KEY, block=4)
    pool.fill(FreshRandomisers(KEY, SECRET), 10)
    batch = Cipher(KEY, pool).encrypt([5, 6, 7, 0, 1])
    assert SECRET.decrypt(batch) == [5, 6, 7, 0, 1]
    assert pool.remaining == 5


def test_a_spent_pool_refuses_and_keeps_what_it_has(path):
    with make(path, 10, block=4) as pool:
        pool.take(3)
        with pytest.raises(PoolError, match="7 randomisers left, 8 are needed"):
            pool.take(8)
        assert pool.take(7) == list(range(4, 11))


def test_a_fallback_makes_the_missing_ones_and_they_are_counted(path):
    with make(path, 10, block=4, fallback=Numbers(1001)) as pool:
        assert pool.take(8) == list(range(1, 9))
        assert pool.take(5) == [9, 10, 1001, 1002, 1003]
        assert pool.take(1) == [1004]
        assert (pool.late, pool.randomisers, pool.remaining) == (4, 14, 0)


def test_the_cursor_is_on_disk_before_a_value_is_out(path):
    with make(path, 50, block=8) as pool:
        pool.take(1)
        assert int.from_bytes(path.read_bytes()[40:48], "little") == 8
        pool.take(8)
        assert int.from_bytes(path.read_bytes()[40:48], "little") == 16


@pytest.mark.parametrize("block", [1, 7, 64])
def test_killed_processes_never_make_a_value_come_back(path, block):
    make(path, 1000, block=block).close()
    code = (
        "pool = RandomiserPool(path, key, block=int(sys.argv[3]))\n"
        "while True:\n"
        "    for value in pool.take(3): print(value, flush=True)\n"
        "    time.sleep(0.001)\n"
    )
    seen = []
    for lines in (1, 10, 25):
        child = python(code, path, block)
        seen += [int(child.stdout.readline()) for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        # What is left in the pipe was handed out, too; a line cut in two is no whole number.
        rest = child.stdout.read()
        seen += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
    with RandomiserPool(path, KEY) as pool:
        seen += [int(x) for x in pool.take(pool.remaining)]
    assert len(seen) == len(set(seen))
    assert seen[-1] == 1000


def test_a_killed_fill_leaves_a_usable_pool(path):
    RandomiserPool.create(path, KEY).close()
    code = (
        "pool = RandomiserPool(path, key)\n"
        "pool.fill(PowerRandomisers(key), 10**9, lambda done: print(done, flush=True))\n"
    )
    child = python(code, path)
    for _ in range(3):
        done = int(child.stdout.readline())
    child.kill()
    child.communicate()
    with RandomiserPool(path, KEY) as pool:
        assert pool.remaining >= done == 768
        assert len(set(pool.take(done))) == done
        assert pool.damaged == 0


def test_a_pool_is_open_once(path):
    pool = make(path, 10)
    with pytest.raises(PoolError, match="open already"):
        RandomiserPool(path, KEY)
    code = (
        "try: RandomiserPool(path, key)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    refused, _ = python(code, path).communicate()
    assert refused.startswith("PoolError")
    assert "open already" in refused
    pool.close()
    assert RandomiserPool(path, KEY).remaining == 10


def test_a_dropped_pool_is_free_again(path):
    pool = make(path, 10)
    del pool
    assert RandomiserPool(path, KEY).remaining == 10


def test_a_closed_pool_gives_nothing(path):
    pool = make(path, 10)
    pool.take(1)
    pool.close()
    pool.close()
    for action in (lambda: pool.take(1), lambda: pool.fill(Numbers(), 1)):
        with pytest.raises(PoolError, match="closed"):
            action()


def test_a_forked_child_may_not_use_its_parents_pool(path):
    with make(path, 10) as pool:
        pool.take(1)
        child = os.fork()
        if child == 0:
            try:
                pool.take(1)
            except PoolError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert pool.take(1) == [2]


def test_another_keys_pool_is_refused(path):
    make(path, 3).close()
    other = generate_insecure(256).public
    with pytest.raises(PoolError, match=KEY.fingerprint):
        RandomiserPool(path, other)
    assert RandomiserPool(path, KEY).take(3) == [1, 2, 3]


def test_a_partial_record_at_the_end_is_ignored_and_overwritten(path):
    make(path, 10).close()
    with path.open("ab") as file:
        file.write(b"x" * (RECORD - 1))
    with RandomiserPool(path, KEY) as pool:
        assert pool.remaining == 10
        pool.fill(Numbers(11), 2)
        assert pool.take(12) == list(range(1, 13))


def test_a_file_cut_in_its_unused_part_is_usable(path):
    with make(path, 10, block=4) as pool:
        pool.take(1)
    os.truncate(path, HEADER + 6 * RECORD + 5)
    assert RandomiserPool(path, KEY).take(2) == [5, 6]


def test_a_cursor_beyond_the_end_is_refused(path):
    with make(path, 10, block=4) as pool:
        pool.take(5)
    os.truncate(path, HEADER + 4 * RECORD)
    with pytest.raises(PoolError, match="make a new one"):
        RandomiserPool(path, KEY)


@pytest.mark.parametrize("at", range(HEADER))
def test_a_header_with_one_byte_changed_is_refused(path, at):
    make(path, 3).close()
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(PoolError):
        RandomiserPool(path, KEY)


@pytest.mark.parametrize("length", [0, 1, 8, 39, 55])
def test_a_cut_header_is_refused(path, length):
    make(path, 3).close()
    os.truncate(path, length)
    with pytest.raises(PoolError):
        RandomiserPool(path, KEY)


def test_damaged_and_misplaced_records_are_passed_over(path):
    make(path, 6).close()
    data = bytearray(path.read_bytes())
    data[HEADER + RECORD + 10] ^= 4
    third, fourth = (slice(HEADER + i * RECORD, HEADER + (i + 1) * RECORD) for i in (3, 4))
    data[third], data[fourth] = data[fourth], data[third]
    path.write_bytes(data)
    with RandomiserPool(path, KEY) as pool:
        assert pool.take(3) == [1, 3, 6]
        assert pool.damaged == 3
        with pytest.raises(PoolError):
            pool.take(1)


def test_served_records_are_erased_when_asked(path):
    with make(path, 10, block=4, erase=True) as pool:
        assert pool.take(2) == [1, 2]
        data = path.read_bytes()[HEADER:]
        assert data[: 4 * RECORD] == bytes(4 * RECORD)
        assert any(data[4 * RECORD : 5 * RECORD])
        assert pool.take(8) == list(range(3, 11))


def test_a_pool_is_its_owners_alone(path):
    make(path, 1).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    with pytest.raises(PoolError, match=f"chmod 600 {path}"):
        RandomiserPool(path, KEY)


def test_pools_are_not_overwritten_and_missing_ones_are_told(path):
    make(path, 1).close()
    with pytest.raises(PoolError, match="exists"):
        RandomiserPool.create(path, KEY)
    with pytest.raises(PoolError, match="No such file"):
        RandomiserPool(path.with_name("nothing"), KEY)
    with pytest.raises(PoolError, match="No such file"):
        RandomiserPool.create(path.parent / "no folder" / "pool", KEY)


def test_a_full_disk_is_told_and_the_pool_stays_usable(path):
    RandomiserPool.create(path, KEY).close()
    # A limit on file size stands in for the end of the disk: writes are cut short, then fail.
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "pool = RandomiserPool(path, key)\n"
        "try: pool.fill(PowerRandomisers(key), 1000)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        "print(pool.remaining, len(pool.take(256)))\n"
    )
    told, numbers = python(code, path).communicate()[0].splitlines()
    assert told.startswith("PoolError The disk is full: 256 randomisers were added")
    assert "free some space" in told
    assert numbers == "256 256"
    with RandomiserPool(path, KEY) as pool:
        assert pool.remaining == 0
        pool.fill(PowerRandomisers(KEY), 3)
        assert SECRET.decrypt(Cipher(KEY, pool).encrypt([4, 5, 6])) == [4, 5, 6]


def test_nothing_secret_shows(path):
    with make(path, 3) as pool:
        assert repr(pool) == f"RandomiserPool({path}, 3 left)"
