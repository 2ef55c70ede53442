import os

import numpy as np
import pytest
from gmpy2 import gcd, jacobi, legendre, mpz, powmod

from ppodc.crypto.paillier import Ciphertexts, generate_insecure
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.random_stream import SecureRandom
from ppodc.crypto.randomisers import (
    FreshRandomisers,
    PooledRandomisers,
    PowerRandomisers,
    _FixedBase,
)
from ppodc.errors import PoolError

SECRET = generate_insecure(256)
KEY = SECRET.public
SEED = bytes(range(32))


def fresh(where, **options):
    return FreshRandomisers(KEY, SECRET if where == "cloud 2" else None, **options)


SOURCES = {
    "table at cloud 1": lambda: fresh("cloud 1"),
    "short": lambda: fresh("cloud 1", insecure_short_exponents=True),
    "tables at cloud 2": lambda: fresh("cloud 2"),
    "r^n": lambda: PowerRandomisers(KEY),
}


@pytest.mark.parametrize("window", [1, 5, 9, 16])
def test_table_powers_are_powers(window):
    modulus, base, bits = mpz(10**9 + 7) ** 2, mpz(12345), 40
    powers = _FixedBase(base, modulus, bits, window).random_powers(20, SecureRandom(SEED))
    rows = -(-bits // window)
    drawn = np.frombuffer(SecureRandom(SEED).bytes(2 * rows * 20), dtype="<u2").reshape(20, rows)
    for power, digits in zip(powers, drawn.tolist(), strict=True):
        exponent = sum((digit % 2**window) << window * i for i, digit in enumerate(digits))
        assert power == powmod(base, exponent, modulus)


@pytest.mark.parametrize("name", SOURCES)
def test_randomisers_are_different_nth_residues(name):
    source = SOURCES[name]()
    # The second lot makes the tables grow; both must be right.
    values = source.take(20) + source.take(300) + source.take(0)
    assert source.randomisers == len(set(values)) == 320
    assert all(0 < value < KEY.n2 and gcd(value, KEY.n) == 1 for value in values)
    assert SECRET.decrypt(Ciphertexts(KEY, values)) == [0] * 320


@pytest.mark.parametrize("name", SOURCES)
def test_randomisers_reach_every_combination_of_quadratic_residues(name):
    kinds = [(legendre(u, SECRET.p), legendre(u, SECRET.q)) for u in SOURCES[name]().take(400)]
    for kind in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        assert 45 <= kinds.count(kind) <= 155
    assert {jacobi(u, KEY.n) for u in SOURCES[name]().take(60)} == {1, -1}


@pytest.mark.parametrize("where", ["cloud 1", "cloud 2"])
def test_sources_repeat_for_one_seed_and_differ_otherwise(where):
    first = fresh(where, random=SecureRandom(SEED)).take(5)
    assert first == fresh(where, random=SecureRandom(SEED)).take(5)
    assert not set(first) & set(fresh(where).take(5))


def test_another_keys_secret_is_refused():
    with pytest.raises(ValueError):
        FreshRandomisers(KEY, generate_insecure(256))


def test_prepare_builds_the_table_that_take_uses():
    source = fresh("cloud 1")
    source.prepare(1000)
    table = source._tables
    source.take(3)
    assert source._tables is table
    assert table[0].window > 5


class Numbers:
    """1, 2, 3, ...: values a test can tell apart and count."""

    def __init__(self):
        self.last = 0

    def take(self, count):
        self.last += count
        return [mpz(i) for i in range(self.last - count + 1, self.last + 1)]


def pooled(folder, count=0, block=1024, source=None):
    pool = PooledRandomisers(folder, KEY, source or Numbers(), block=block)
    pool.fill(count)
    return pool


def test_pooled_randomisers_come_out_once_and_in_order(tmp_path):
    pool = pooled(tmp_path, 1000, block=64)
    assert pool.available == 1000
    taken = [x for size in (1, 0, 63, 64, 65, 300, 507) for x in pool.take(size)]
    assert taken == list(range(1, 1001))
    assert (pool.available, pool.randomisers, pool.late) == (0, 1000, 0)


def test_reopening_loses_a_block_and_repeats_nothing(tmp_path):
    pool = pooled(tmp_path, 100, block=10)
    assert pool.take(3) == [1, 2, 3]
    pool.close()
    pool = pooled(tmp_path, block=10)
    assert pool.available == 90
    assert pool.take(1) == [11]
    pool.close()
    assert pooled(tmp_path, block=10).take(80) == list(range(21, 101))


def test_a_pool_can_be_filled_again_at_any_time(tmp_path):
    reports = []
    pool = pooled(tmp_path, 5, block=2)
    pool.take(4)
    pool.fill(600, progress=reports.append)
    assert pool.take(601) == list(range(5, 606))
    assert reports == [256, 256, 88]


def test_pooled_randomisers_encrypt(tmp_path):
    pool = pooled(tmp_path, 10, block=4, source=FreshRandomisers(KEY, SECRET))
    batch = Cipher(KEY, pool).encrypt([5, 6, 7, 0, 1])
    assert SECRET.decrypt(batch) == [5, 6, 7, 0, 1]
    assert pool.available == 5


def test_missing_randomisers_are_made_and_counted(tmp_path):
    pool = pooled(tmp_path, 10, block=4)
    assert pool.take(8) == list(range(1, 9))
    assert pool.take(5) == [9, 10, 11, 12, 13]
    assert pool.take(1) == [14]
    assert (pool.late, pool.randomisers, pool.available) == (4, 14, 0)


def test_another_keys_pool_counts_as_empty_and_is_left_alone(tmp_path):
    pooled(tmp_path, 3).close()
    other = PooledRandomisers(tmp_path, generate_insecure(256).public, Numbers())
    assert other.available == 0
    other.close()
    assert pooled(tmp_path).take(3) == [1, 2, 3]


def test_damaged_and_misplaced_randomisers_are_passed_over(tmp_path):
    pooled(tmp_path, 6).close()
    numbers = np.fromfile(tmp_path / "number", np.uint8).reshape(6, KEY.ciphertext_bytes)
    checks = np.fromfile(tmp_path / "check", np.uint32)
    numbers[1, 10] ^= 4
    for column in (numbers, checks):
        column[[3, 4]] = column[[4, 3]]
        column.tofile(tmp_path / ("number" if column is numbers else "check"))
    pool = pooled(tmp_path)
    assert pool.take(3) == [1, 3, 6]
    assert (pool.damaged, pool.late) == (3, 0)


def test_what_was_reserved_is_not_for_a_closed_pool_nor_for_a_child(tmp_path):
    pool = pooled(tmp_path, 10)
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
    pool.close()
    pool.close()
    for action in (lambda: pool.take(1), lambda: pool.fill(1)):
        with pytest.raises(PoolError, match="closed"):
            action()


def test_nothing_secret_shows(tmp_path):
    assert repr(pooled(tmp_path, 3)) == f"PooledRandomisers({tmp_path}, 3 left)"
