import os
import sys
import threading

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom

SEED = bytes(range(32))


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
