import copy
import json
import pickle
from math import gcd, prod
from pathlib import Path

import numpy as np
import phe
import pytest
from gmpy2 import is_prime, mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.crypto.paillier import (
    Ciphertexts,
    PublicKey,
    SecretKey,
    Tally,
    generate,
    generate_insecure,
)
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.randomisers import FreshRandomisers, PowerRandomisers
from ppodc.errors import CiphertextError, InputError

SECRET = generate_insecure(256)
KEY = SECRET.public
N = int(KEY.n)
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "paillier.json").read_text())
integers = st.integers(-2 * N, 2 * N)


class Given:
    """Randomisers that the test has chosen."""

    def __init__(self, values):
        self.values = list(values)

    def take(self, count):
        taken, self.values = self.values[:count], self.values[count:]
        return taken


@pytest.fixture
def cipher():
    return Cipher(KEY, PowerRandomisers(KEY))


def decrypt(batch):
    return [int(m) for m in SECRET.decrypt(batch)]


@pytest.mark.parametrize("vector", VECTORS["keys"], ids=["256 bits", "512 bits"])
def test_known_answers(vector):
    secret = SecretKey(int(vector["p"], 16), int(vector["q"], 16))
    n, n2 = int(secret.public.n), int(secret.public.n2)
    cases = [{name: int(text, 16) for name, text in case.items()} for case in vector["cases"]]
    source = Given(mpz(pow(case["randomiser"], n, n2)) for case in cases)
    made = Cipher(secret.public, source).encrypt([case["plaintext"] for case in cases])
    assert made.values == [case["ciphertext"] for case in cases]
    assert secret.decrypt(made) == [case["plaintext"] for case in cases]


@given(st.lists(integers, max_size=5))
def test_decrypts_what_was_encrypted(plaintexts):
    made = Cipher(KEY, PowerRandomisers(KEY)).encrypt(plaintexts)
    assert decrypt(made) == [m % N for m in plaintexts]


@settings(max_examples=40)
@given(st.lists(st.tuples(integers, integers), max_size=4))
def test_arithmetic_is_that_of_integers_modulo_n(pairs):
    cipher = Cipher(KEY, PowerRandomisers(KEY))
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    x, y = cipher.encrypt(left), cipher.encrypt(right)
    assert decrypt(cipher.add(x, y)) == [(a + b) % N for a, b in pairs]
    assert decrypt(cipher.subtract(x, y)) == [(a - b) % N for a, b in pairs]
    assert decrypt(cipher.negate(x)) == [-a % N for a in left]
    assert decrypt(cipher.add_plain(x, right)) == [(a + b) % N for a, b in pairs]
    assert decrypt(cipher.power(x, right)) == [a * b % N for a, b in pairs]
    assert decrypt(cipher.sum(x)) == [sum(left) % N]
    assert decrypt(cipher.shift(x, 17)) == [(a << 17) % N for a in left]


@pytest.mark.parametrize(
    "exponent",
    [0, 1, -1, 2, -2, N - 1, N, N + 3, 2**64, -(2**64)],
    ids=["0", "1", "-1", "2", "-2", "n-1", "n", "n+3", "2^64", "-2^64"],
)
def test_power_by_one_exponent_for_all(cipher, exponent):
    batch = cipher.encrypt([0, 1, N - 1, 12345])
    expected = [m * exponent % N for m in (0, 1, N - 1, 12345)]
    assert decrypt(cipher.power(batch, exponent)) == expected
    assert decrypt(cipher.power(batch, [exponent] * 4)) == expected


def test_add_plain_by_the_cheap_numbers(cipher):
    batch = cipher.encrypt([7, 7, 7, 0])
    assert decrypt(cipher.add_plain(batch, [0, 1, -1, N - 1])) == [7, 8, 6, N - 1]


def test_add_plain_takes_one_number_for_all(cipher):
    assert decrypt(cipher.add_plain(cipher.encrypt([1, 2, 3]), -3)) == [N - 2, N - 1, 0]


def test_pack_puts_batches_into_slots(cipher):
    columns = [[1, 200], [255, 0], [7, 9]]
    packed = decrypt(cipher.pack([cipher.encrypt(column) for column in columns], 8))
    assert [[p >> 8 * j & 255 for p in packed] for j in range(3)] == columns
    assert decrypt(cipher.pack([cipher.encrypt([5])], 8)) == [5]


def test_rerandomise_changes_the_number_and_keeps_the_plaintext(cipher):
    batch = cipher.encrypt([0, 1, 77])
    again = cipher.rerandomise(batch)
    assert decrypt(again) == [0, 1, 77]
    assert not set(again.values) & set(batch.values)


def test_two_encryptions_differ(cipher):
    assert len(set(cipher.encrypt([0] * 50).values)) == 50


def test_numpy_integers_are_plaintexts_and_floats_are_not(cipher):
    assert decrypt(cipher.encrypt(np.array([3, -1]))) == [3, N - 1]
    for wrong in (0.5, 2.0, "7"):
        with pytest.raises(TypeError):
            cipher.encrypt([wrong])
        with pytest.raises(TypeError):
            cipher.power(cipher.encrypt([1]), [wrong])


def test_tally_counts_each_operation(cipher):
    def cost(action):
        before = cipher.tally.snapshot()
        action()
        return cipher.tally - before

    x, y = cipher.encrypt([2, 3, 4]), cipher.encrypt([5, 6, 7])
    assert cost(lambda: cipher.encrypt([2, 3])) == Tally(multiplications=4, randomisers=2)
    assert cost(lambda: cipher.encrypt([0, 1])) == Tally(multiplications=2, randomisers=2)
    assert cost(lambda: cipher.rerandomise(x)) == Tally(multiplications=3, randomisers=3)
    assert cost(lambda: cipher.add(x, y)) == Tally(multiplications=3)
    assert cost(lambda: cipher.subtract(x, y)) == Tally(multiplications=3, inversions=3)
    assert cost(lambda: cipher.negate(x)) == Tally(inversions=3)
    assert cost(lambda: cipher.add_plain(x, 9)) == Tally(multiplications=6)
    assert cost(lambda: cipher.add_plain(x, [0, 1, -1])) == Tally(multiplications=2)
    assert cost(lambda: cipher.power(x, 9)) == Tally(exponentiations=3)
    assert cost(lambda: cipher.power(x, [0, 1, -1])) == Tally(inversions=1)
    assert cost(lambda: cipher.power(x, [5, -5, 1])) == Tally(exponentiations=2, inversions=1)
    assert cost(lambda: cipher.power(x, -1)) == Tally(inversions=3)
    assert cost(lambda: cipher.power(x, 0)) == Tally()
    assert cost(lambda: cipher.sum(x)) == Tally(multiplications=2)
    assert cost(lambda: cipher.shift(x, 8)) == Tally(exponentiations=3)
    assert cost(lambda: cipher.pack([x, y], 8)) == Tally(exponentiations=3, multiplications=3)
    assert cost(lambda: SECRET.decrypt(x, cipher.tally)) == Tally(decryptions=3)
    assert (Tally(1, 2) + Tally(3)).as_dict()["exponentiations"] == 4


def test_empty_batches(cipher):
    none = cipher.encrypt([])
    for batch in (
        cipher.add(none, none),
        cipher.negate(none),
        cipher.subtract(none, none),
        cipher.power(none, 3),
        cipher.power(none, []),
        cipher.rerandomise(none),
        cipher.add_plain(none, 1),
        Ciphertexts.from_array(KEY, none.to_array()),
        Ciphertexts.concat([none, none]),
    ):
        assert len(batch) == 0
        assert SECRET.decrypt(batch) == []
    assert none.to_array().shape == (0, KEY.ciphertext_bytes)
    assert decrypt(cipher.sum(none)) == [0]


def test_lengths_must_agree(cipher):
    x, y = cipher.encrypt([1, 2]), cipher.encrypt([1])
    for action in (
        lambda: cipher.add(x, y),
        lambda: cipher.subtract(x, y),
        lambda: cipher.power(x, [1]),
        lambda: cipher.add_plain(x, [1]),
    ):
        with pytest.raises(ValueError):
            action()


def test_a_batch_is_cut_chosen_from_and_joined(cipher):
    batch = cipher.encrypt([10, 11, 12, 13])
    assert decrypt(batch[1:3]) == [11, 12]
    assert decrypt(batch.take(np.array([3, 0, 0]))) == [13, 10, 10]
    assert decrypt(Ciphertexts.concat([batch[2:], batch[:1]])) == [12, 13, 10]


def test_array_holds_little_endian_rows(cipher):
    batch = cipher.encrypt([1, 2, 3])
    array = batch.to_array()
    assert array.dtype == np.uint8
    assert array.shape == (3, KEY.ciphertext_bytes) == (3, 64)
    assert [int.from_bytes(row.tobytes(), "little") for row in array] == batch.values
    assert Ciphertexts.from_array(KEY, array) == batch
    assert Ciphertexts.from_array(KEY, array[::2]) == batch.take([0, 2])


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (0, "between"),
        (N * N, "between"),
        (N * N + 1, "between"),
        (2**512 - 1, "between"),
        (N, "factor"),
        (int(SECRET.p) * 5, "factor"),
        (int(SECRET.q) ** 3, "factor"),
    ],
    ids=["0", "n^2", "n^2 + 1", "all ones", "n", "5p", "q^3"],
)
def test_what_is_no_ciphertext_is_refused_with_its_place(cipher, number, why):
    array = cipher.encrypt([1, 2, 3, 4]).to_array().copy()
    array[2] = np.frombuffer(number.to_bytes(64, "little"), dtype=np.uint8)
    with pytest.raises(CiphertextError, match=rf"Number 2 .*{why}"):
        Ciphertexts.from_array(KEY, array)


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 63), dtype=np.uint8),
        np.ones((2, 65), dtype=np.uint8),
        np.ones(64, dtype=np.uint8),
        np.ones((1, 2, 64), dtype=np.uint8),
        np.ones((2, 64), dtype=np.int64),
    ],
)
def test_arrays_of_another_form_are_refused(array):
    with pytest.raises(CiphertextError, match="64 bytes"):
        Ciphertexts.from_array(KEY, array)


def test_keys_do_not_mix(cipher):
    other = generate_insecure(256)
    foreign = Cipher(other.public, PowerRandomisers(other.public)).encrypt([1])
    own = cipher.encrypt([1])
    for action in (
        lambda: cipher.add(own, foreign),
        lambda: cipher.negate(foreign),
        lambda: cipher.rerandomise(foreign),
        lambda: SECRET.decrypt(foreign),
        lambda: Ciphertexts.concat([own, foreign]),
    ):
        with pytest.raises(CiphertextError):
            action()


@pytest.mark.parametrize("bits", [256, 512, 1024])
def test_generated_keys_have_the_promised_form(bits):
    key = generate_insecure(bits)
    p, q = int(key.p), int(key.q)
    assert key.public.bits == bits == (p * q).bit_length()
    assert p.bit_length() == q.bit_length() == bits // 2
    assert is_prime(p)
    assert is_prime(q)
    assert p % 4 == q % 4 == 3
    assert gcd(p - 1, q - 1) == 2
    assert gcd(p * q, (p - 1) * (q - 1)) == 1
    assert key.strong
    for prime, factors in zip((p, q), key.factors, strict=True):
        assert 2 * prod(int(f) for f in factors) + 1 == prime
        assert all(is_prime(int(f)) and f.bit_length() >= min(128, bits // 2 - 1) for f in factors)


def test_factors_that_are_not_those_of_p_and_q_are_refused():
    of_p, of_q = SECRET.factors
    for wrong in ((of_q, of_p), ((), of_q), ((*of_p, 1), of_q), ((3, 5), of_q)):
        with pytest.raises(InputError, match="factors"):
            SecretKey(SECRET.p, SECRET.q, wrong)
    assert not SecretKey(SECRET.p, SECRET.q).strong


def test_short_keys_have_to_be_asked_for_by_name():
    for bits in (512, 1024, 2047, 4096):
        with pytest.raises(InputError):
            generate(bits)
    for bits in (128, 1000, 2048):
        with pytest.raises(InputError):
            generate_insecure(bits)


def test_default_key_has_2048_bits_and_works():
    secret = generate()
    assert secret.public.bits == 2048
    assert secret.public.ciphertext_bytes == 512
    cipher = Cipher(secret.public, FreshRandomisers(secret.public, secret))
    assert secret.decrypt(cipher.encrypt([5, -1])) == [5, secret.public.n - 1]


def test_what_is_no_key_is_refused():
    p, q = int(SECRET.p), int(SECRET.q)
    for wrong in ((p, p), (p, q + 1), (p, 2), (p, 1), (p * q, q), (-p, -q)):
        with pytest.raises(InputError):
            SecretKey(*wrong)
    for n in (0, -N, 2**255 - 19, 2**2047):
        with pytest.raises(InputError):
            PublicKey(n)


def test_the_secret_key_does_not_get_out():
    shown = f"{SECRET!r} {SECRET} {SECRET.public!r}"
    assert KEY.fingerprint in shown
    for secret in (SECRET.p, SECRET.q):
        assert str(secret) not in shown
        assert secret.digits(16) not in shown
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(SECRET, protocol)
    with pytest.raises(TypeError):
        copy.deepcopy(SECRET)
    assert not hasattr(SECRET, "__dict__")


def test_public_keys_are_equal_by_modulus():
    twin = PublicKey(N)
    assert twin == KEY
    assert hash(twin) == hash(KEY)
    assert twin.fingerprint == KEY.fingerprint
    assert twin != PublicKey(N + 2)
    assert len(KEY.fingerprint) == 32


def test_phe_reads_our_key_and_ciphertexts(cipher):
    phe_public = phe.PaillierPublicKey(N)
    phe_secret = phe.PaillierPrivateKey(phe_public, int(SECRET.p), int(SECRET.q))
    batch = cipher.encrypt([0, 1, 5, -5])
    numbers = [phe.EncryptedNumber(phe_public, int(c), 0) for c in batch.values]
    assert [phe_secret.decrypt(x) for x in numbers] == [0, 1, 5, -5]
    assert phe_secret.decrypt(numbers[2] * 3 + numbers[3]) == 10


def test_we_read_phe_keys_and_ciphertexts():
    phe_public, phe_secret = phe.generate_paillier_keypair(n_length=512)
    secret = SecretKey(phe_secret.p, phe_secret.q)
    key = secret.public
    assert key.n == phe_public.n
    batch = Ciphertexts(key, [mpz(phe_public.encrypt(m).ciphertext()) for m in (0, 1, 41, -7)])
    assert Ciphertexts.from_array(key, batch.to_array()) == batch
    assert secret.decrypt(batch) == [m % key.n for m in (0, 1, 41, -7)]
    for source in (FreshRandomisers(key), FreshRandomisers(key, secret), PowerRandomisers(key)):
        cipher = Cipher(key, source)
        mixed = cipher.rerandomise(cipher.power(cipher.add(batch, cipher.encrypt([1] * 4)), -2))
        assert secret.decrypt(mixed) == [-2 * (m + 1) % key.n for m in (0, 1, 41, -7)]
        assert phe_secret.decrypt(phe.EncryptedNumber(phe_public, int(mixed.values[2]), 0)) == -84
