"""Paillier encryption with g = n + 1: keys, batches of ciphertexts, decryption.

E(m) = (1 + m*n) * r^n mod n^2. Everything works on batches and counts what it does in a `Tally`,
so that measured costs can stand beside published ones. Decryption works modulo p^2 and q^2 and
joins the halves (CRT). What a party does with ciphertexts is in `ppodc.crypto.paillier_arithmetic`.
Running times depend on the numbers (GMP's fast paths), so a party must not share a processor with
those it hides them from.
"""

import functools
import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from operator import index
from typing import NoReturn

import gmpy2
import numpy as np
from gmpy2 import mpz

from ppodc.errors import CiphertextError, KeyFileError, OptionError

KEY_BITS = (2048, 3072)
INSECURE_KEY_BITS = range(256, 1025)
FACTOR_BITS = 128  # least size of the primes of which (p-1)/2 and (q-1)/2 consist


@dataclass
class Tally:
    """Operations modulo n^2 (and decryptions) a party has done."""

    exponentiations: int = 0
    multiplications: int = 0
    inversions: int = 0
    decryptions: int = 0
    randomisers: int = 0

    def snapshot(self) -> "Tally":
        return Tally(*astuple(self))

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class PublicKey:
    """A public key: the modulus n and values derived from it. Keys with equal n are equal."""

    __slots__ = ("bits", "ciphertext_bytes", "fingerprint", "n", "n2")

    def __init__(self, n: int) -> None:
        self.n = mpz(index(n))
        self.bits = int(self.n.bit_length())
        if self.n < 0 or self.bits < INSECURE_KEY_BITS.start or self.n % 2 == 0:
            raise KeyFileError("This is not a Paillier modulus; use a key made by `generate`.")
        self.n2 = self.n * self.n
        self.ciphertext_bytes = (2 * self.bits + 7) // 8
        digest = hashlib.blake2b(self.n.to_bytes((self.bits + 7) // 8, "big"), digest_size=16)
        self.fingerprint = digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and (self is other or bool(self.n == other.n))

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"PublicKey({self.bits} bits, {self.fingerprint})"


@dataclass(frozen=True, slots=True, repr=False)
class Ciphertexts:
    """A batch of ciphertexts under one key, in order."""

    key: PublicKey
    values: list[mpz]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> "Ciphertexts":
        return Ciphertexts(self.key, self.values[part])

    def __repr__(self) -> str:
        return f"Ciphertexts({len(self)} under {self.key.fingerprint})"

    def take(self, indices: Iterable[int]) -> "Ciphertexts":
        """The elements at the given places, in the given order."""
        return Ciphertexts(self.key, [self.values[i] for i in indices])

    @staticmethod
    def concat(batches: Sequence["Ciphertexts"]) -> "Ciphertexts":
        """All batches one after another; at least one, all under the same key."""
        key = batches[0].key
        if any(batch.key != key for batch in batches):
            raise CiphertextError("Ciphertexts of two different keys cannot be joined.")
        return Ciphertexts(key, [value for batch in batches for value in batch.values])

    def to_array(self) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
        """One little-endian row of `ciphertext_bytes` bytes per ciphertext."""
        width = self.key.ciphertext_bytes
        data = b"".join([value.to_bytes(width, "little") for value in self.values])
        return np.frombuffer(data, dtype=np.uint8).reshape(len(self.values), width)

    @staticmethod
    def from_array(
        key: PublicKey,
        array: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
        *,
        own: bool = False,
    ) -> "Ciphertexts":
        """The reverse of `to_array`; all numbers that are not this party's own are checked."""
        width = key.ciphertext_bytes
        if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != width:
            raise CiphertextError(
                f"Expected rows of {width} bytes (uint8) for a key of {key.bits} bits, but got"
                f" {array.dtype} of shape {array.shape}; check that both sides use the same key."
            )
        data = array.tobytes()
        values = [
            mpz.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)
        ]
        if not own:
            _check(key, values)
        return Ciphertexts(key, values)


def _check(key: PublicKey, values: list[mpz]) -> None:
    """Raise CiphertextError unless each value is a unit modulo n^2 in its least form."""
    n, n2, product = key.n, key.n2, mpz(1)
    for i, value in enumerate(values):
        if not 0 < value < n2:
            raise CiphertextError(f"Number {i} is no ciphertext: it is not between 0 and n^2.")
        product = product * value % n
    # One gcd for the whole batch; which element is at fault matters only when it fails.
    if gmpy2.gcd(product, n) != 1:
        at = next(i for i, value in enumerate(values) if gmpy2.gcd(value, n) != 1)
        raise CiphertextError(f"Number {at} is no ciphertext: it shares a factor with n.")


class SecretKey:
    """The primes p and q. It does not show in repr or str and refuses to be pickled or copied.

    `factors` are the primes of (p-1)/2 and of (q-1)/2, which whoever made the key can give. With
    them the key is `strong`: that these are all large is checked, and cannot be without.
    """

    __slots__ = ("_hp", "_hq", "_q_inverse", "factors", "p", "public", "q")

    def __init__(
        self, p: int, q: int, factors: tuple[Sequence[int], Sequence[int]] | None = None
    ) -> None:
        self.p, self.q = mpz(index(p)), mpz(index(q))
        self.factors = None
        if factors is not None:
            checked = [_factors_of(x, f) for x, f in zip((self.p, self.q), factors, strict=True)]
            self.factors = (checked[0], checked[1])
        if self.p == self.q or not all(x > 3 and gmpy2.is_prime(x, 40) for x in (self.p, self.q)):
            raise KeyFileError("A Paillier key needs two different odd primes.")
        n = self.p * self.q
        if gmpy2.gcd(n, (self.p - 1) * (self.q - 1)) != 1:
            raise KeyFileError("These primes do not make a Paillier key; generate a new one.")
        self.public = PublicKey(n)
        self._hp = gmpy2.invert(-self.q, self.p)
        self._hq = gmpy2.invert(-self.p, self.q)
        self._q_inverse = gmpy2.invert(self.q, self.p)

    @property
    def strong(self) -> bool:
        """Whether all primes of (p-1)/2 and (q-1)/2 are known to be large."""
        return self.factors is not None

    def decrypt(self, a: Ciphertexts, tally: Tally | None = None) -> list[mpz]:
        """The plaintexts, each in 0..n-1."""
        if a.key != self.public:
            raise CiphertextError(
                f"These ciphertexts are under key {a.key.fingerprint}, not under"
                f" {self.public.fingerprint}."
            )
        if tally is not None:
            tally.decryptions += len(a)
        p, q, q_inverse = self.p, self.q, self._q_inverse
        halves = zip(
            self._modulo(p, self._hp, a.values), self._modulo(q, self._hq, a.values), strict=True
        )
        return [mq + q * ((mp - mq) * q_inverse % p) for mp, mq in halves]

    @staticmethod
    def _modulo(prime: mpz, h: mpz, values: list[mpz]) -> list[mpz]:
        """Plaintexts modulo one prime: L(c^(prime-1) mod prime^2) * h, with L(x) = (x-1)/prime."""
        square = prime * prime
        powers = gmpy2.powmod_base_list([c % square for c in values], prime - 1, square)
        return [(x - 1) // prime * h % prime for x in powers]

    def __repr__(self) -> str:
        return f"SecretKey({self.public.bits} bits, {self.public.fingerprint})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A secret key is not pickled or copied; save it with ppodc.crypto.paillier_keys."
        )


def check_bits(bits: int, *, insecure: bool = False) -> None:
    """InputError unless a key of this size is offered."""
    if insecure:
        if bits not in INSECURE_KEY_BITS or bits % 16:
            raise OptionError(
                f"An insecure key has 256 to 1024 bits, a multiple of 16; not {bits}."
            )
    elif bits not in KEY_BITS:
        raise OptionError(f"A key has {' or '.join(map(str, KEY_BITS))} bits, not {bits}.")


def generate(bits: int = 2048) -> SecretKey:
    """A new key of 2048 or 3072 bits, from the operating system's randomness."""
    check_bits(bits)
    return _generate(bits)


def generate_insecure(bits: int) -> SecretKey:
    """A key that can be broken: for tests, and for reproducing figures published with 1024 bits."""
    check_bits(bits, insecure=True)
    return _generate(bits)


def _generate(bits: int) -> SecretKey:
    """Primes of equal length as the fixed-base randomisers want them.

    p = q = 3 mod 4 and gcd(p-1, q-1) = 2, so -x^2 is a non-residue modulo both; all other factors
    of p-1 and q-1 have 128 bits or more, so that a random such element generates everything of
    Jacobi symbol 1 but for a chance below 2^-120 (Damgård, Jurik and Nielsen, "A generalization of
    Paillier's public-key system with applications to electronic voting").
    """
    while True:
        (p, of_p), (q, of_q) = _prime(bits // 2), _prime(bits // 2)
        # Both top bits are set, so n has exactly `bits` bits; primes too close are never met.
        if gmpy2.gcd(p - 1, q - 1) == 2 and abs(p - q).bit_length() > bits // 2 - 100:
            return SecretKey(p, q, (of_p, of_q))


def _prime(bits: int) -> tuple[mpz, list[mpz]]:
    """A prime p = 2 f_1 ... f_c + 1 whose two top bits are set, and the primes f.

    All but the last f are drawn once, the last until p is prime (as Lim and Lee do). In keys so
    short that they are insecure anyhow, c = 1 and f may be shorter than FACTOR_BITS.
    """
    count = max(1, (bits - 1) // FACTOR_BITS)
    size = (bits - 1) // count
    others = [_random_prime(mpz(1) << (size - 1), mpz(1) << size) for _ in range(count - 1)]
    twice = functools.reduce(lambda x, y: x * y, others, mpz(2))
    low, high = (mpz(3) << (bits - 2)) // twice + 1, (mpz(1) << bits) // twice
    while True:
        last = _random_prime(low, high)
        if gmpy2.is_prime(twice * last + 1, 40):
            return twice * last + 1, [*others, last]


def _random_prime(low: mpz, high: mpz) -> mpz:
    """A uniform odd prime of low..high - 1."""
    while True:
        candidate = low + secrets.randbelow(int(high - low)) | 1
        if candidate < high and gmpy2.is_prime(candidate, 40):
            return candidate


def _factors_of(prime: mpz, factors: Sequence[int]) -> tuple[mpz, ...]:
    """The factors of (prime-1)/2, all of them prime and large; InputError if they are not."""
    primes = tuple(mpz(index(factor)) for factor in factors)
    shortest = min(FACTOR_BITS, int(prime.bit_length()) - 1)
    right = functools.reduce(lambda x, y: x * y, primes, mpz(2)) + 1 == prime
    if not right or any(f.bit_length() < shortest or not gmpy2.is_prime(f, 40) for f in primes):
        raise KeyFileError("These are not the large prime factors of p - 1 and q - 1.")
    return primes
