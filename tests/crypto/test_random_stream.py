import json
import os
import sys
import threading

import numpy as np
import pytest
from gmpy2 import gcd, jacobi, legendre, mpz, powmod

from ppodc.bench import paillier_beside_phe as bench
from ppodc.crypto.paillier import Ciphertexts, generate_insecure
from ppodc.crypto.random_stream import FreshRandomisers, PowerRandomisers, SecureRandom, _FixedBase

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


def test_stream_is_aes_256_in_counter_mode():
    # AES-256 of the all-zero block under the all-zero key (NIST's known answer tests).
    first = SecureRandom(bytes(32)).bytes(16)
    assert first.hex() == "dc95c078a2408989ad48a21492842087"


def test_a_seed_gives_the_same_bytes_however_they_are_cut():
    whole = SecureRandom(SEED).bytes(300_000)
    for pieces in ([1, 15, 17, 70_000, 0, 65_536, 1000], [200_000, 3, 50_000], [65_535, 2, 65_537]):
        stream = SecureRandom(SEED)
        joined = b"".join(stream.bytes(size) for size in pieces)
        assert joined == whole[: sum(pieces)]


def test_streams_from_the_operating_system_differ_and_seeds_have_32_bytes():
    assert SecureRandom().bytes(32) != SecureRandom().bytes(32)
    for length in (0, 16, 31, 33):
        with pytest.raises(ValueError):
            SecureRandom(bytes(length))
    assert SEED.hex() not in repr(SecureRandom(SEED))


def test_a_forked_child_draws_other_numbers():
    stream = SecureRandom()
    stream.bytes(1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, stream.bytes(32))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 32) != stream.bytes(32)
    os.close(read)
    os.close(write)


def test_threads_never_get_the_same_bytes():
    stream, drawn = SecureRandom(), []
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def draw():
        drawn.extend([stream.bytes(16) for _ in range(5000)])

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(usual)
    assert len(set(drawn)) == 20_000


def test_words_have_the_shape_asked_for_and_use_all_bits():
    words = SecureRandom(SEED).uint64((50, 40))
    assert words.shape == (50, 40)
    assert words.dtype == np.uint64
    assert words.tobytes() == SecureRandom(SEED).bytes(16_000)
    ones = np.unpackbits(words.view(np.uint8)).reshape(2000, 64).sum(axis=0)
    assert np.all(np.abs(ones.astype(int) - 1000) < 6 * np.sqrt(500))
    words[0, 0] = 7
    assert SecureRandom(SEED).uint64(0).shape == (0,)
    assert SecureRandom(SEED).uint64((3, 0)).shape == (3, 0)


@pytest.mark.parametrize("width", [0, 1, 7, 8, 9, 64, 100])
def test_bits_fill_their_width(width):
    numbers = SecureRandom(SEED).bits(width, 400)
    assert len(numbers) == 400
    assert all(0 <= x < 1 << width for x in numbers)
    for bit in range(width):
        assert abs(sum(int(x >> bit & 1) for x in numbers) - 200) < 60
    assert SecureRandom().bits(width, 0) == []


def test_below_is_uniform():
    counts = np.bincount([int(x) for x in SecureRandom(SEED).below(5, 20_000)], minlength=5)
    assert len(counts) == 5
    assert np.all(np.abs(counts - 4000) < 6 * np.sqrt(20_000 * 0.2 * 0.8))
    assert SecureRandom().below(1, 3) == [0, 0, 0]
    bound = 2**200 + 1
    assert all(0 <= x < bound for x in SecureRandom().below(bound, 50))
    with pytest.raises(ValueError):
        SecureRandom().below(0, 1)


def test_units_have_inverses():
    assert sorted({int(x) for x in SecureRandom(SEED).units(15, 400)}) == [
        1,
        2,
        4,
        7,
        8,
        11,
        13,
        14,
    ]
    assert len(SecureRandom().units(15, 33)) == 33


def test_permutations_are_uniform():
    stream = SecureRandom(SEED)
    assert sorted(stream.permutation(1000).tolist()) == list(range(1000))
    assert stream.permutation(0).tolist() == []
    assert stream.permutation(1).tolist() == [0]
    orders = [tuple(stream.permutation(3).tolist()) for _ in range(6000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert all(abs(count - 1000) < 6 * np.sqrt(6000 * 5 / 36) for count in counts)


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


def test_benchmark_measures_every_case_and_shows_it(capsys):
    result = bench.run(key_bits=256, seconds=0.2)
    assert json.loads(json.dumps(result)) == result
    assert len(result["cases"]) == 10
    assert all(case["seconds"] > 0 and case["phe_seconds"] > 0 for case in result["cases"])
    for case in result["cases"]:
        low, high = case["ratio_quartiles"]
        assert low <= case["ratio"] <= high
    bench.show(result)
    shown = capsys.readouterr().out
    assert "256 bits" in shown
    assert "decrypt" in shown


@pytest.mark.parametrize(
    ("quartiles", "goal", "told"),
    [
        ([12, 14], 10, "10 met"),
        ([0.97, 1.03], 1, "1 level"),
        ([8, 9], 10, "10 missed"),
        ([1, 2], None, ""),
    ],
)
def test_benchmark_calls_a_goal_met_only_beyond_the_noise(quartiles, goal, told):
    assert bench._verdict({"goal": goal, "ratio_quartiles": quartiles}) == told
