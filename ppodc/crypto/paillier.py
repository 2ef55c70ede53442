"""Paillier encryption with g = n + 1: keys, batches of ciphertexts, a party's arithmetic on them.

E(m) = (1 + m*n) * r^n mod n^2. Everything works on batches and counts what it does in a `Tally`,
so that measured costs can stand beside published ones. The factor r^n comes from a
`RandomiserSource` (see `ppodc.crypto.randomisers`), which makes an encryption two multiplications.
Decryption works modulo p^2 and q^2 and joins the halves (CRT). Running times depend on the
numbers (GMP's fast paths), so a party must not share a processor with those it hides them from.
"""

import functools
import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from operator import index
from typing import NoReturn, Protocol

import gmpy2
import numpy as np
from gmpy2 import mpz

from ppodc.errors import CiphertextError, InputError

KEY_BITS = (2048, 3072)
INSECURE_KEY_BITS = range(256, 1025)
FACTOR_BITS = 128  # least size of the primes of which (p-1)/2 and (q-1)/2 consist


class RandomiserSource(Protocol):
    """Whatever hands out n-th residues r^n mod n^2, each of them once."""

    def take(self, count: int) -> list[mpz]: ...


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
    """The modulus n and what follows from it. Two keys are equal when their n is."""

    __slots__ = ("bits", "ciphertext_bytes", "fingerprint", "n", "n2")

    def __init__(self, n: int) -> None:
        self.n = mpz(index(n))
        self.bits = int(self.n.bit_length())
        if self.n < 0 or self.bits < INSECURE_KEY_BITS.start or self.n % 2 == 0:
            raise InputError("This is not a Paillier modulus; use a key made by `generate`.")
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


class Cipher:
    """One party's arithmetic under a key: results are batches, costs go to `tally`.

    Only `encrypt` and `rerandomise` use randomisers. Everything else is deterministic, and its
    result must be re-randomised before it is sent to someone who knows the inputs.
    """

    def __init__(
        self, key: PublicKey, randomisers: RandomiserSource, tally: Tally | None = None
    ) -> None:
        self.key = key
        self.randomisers = randomisers
        self.tally = Tally() if tally is None else tally
        self._one = 1 + key.n

    def encrypt(self, plaintexts: Iterable[int]) -> Ciphertexts:
        """Fresh encryptions of integers modulo n: two multiplications each, one for 0 and 1."""
        n, n2, one = self.key.n, self.key.n2, self._one
        residues = self._residues(plaintexts)
        factors = self._fresh(len(residues))
        values = [
            (1 + m * n) * r % n2 if m > 1 else (one * r % n2 if m else r)
            for m, r in zip(residues, factors, strict=True)
        ]
        self.tally.multiplications += sum(2 if m > 1 else 1 for m in residues)
        return Ciphertexts(self.key, values)

    def rerandomise(self, a: Ciphertexts) -> Ciphertexts:
        """The same plaintexts under fresh randomness: one multiplication each."""
        return self._multiply(self._own(a), self._fresh(len(a)))

    def add(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """E(a + b), element by element."""
        return self._multiply(self._own(a), self._own(b))

    def subtract(self, a: Ciphertexts, b: Ciphertexts) -> Ciphertexts:
        """E(a - b), element by element."""
        return self._multiply(self._own(a), self._inverses(self._own(b)))

    def negate(self, a: Ciphertexts) -> Ciphertexts:
        """E(-a): one inversion each."""
        return Ciphertexts(self.key, self._inverses(self._own(a)))

    def add_plain(self, a: Ciphertexts, plaintexts: Iterable[int] | int) -> Ciphertexts:
        """E(a + m) for one m per element or one for all; deterministic.

        Two multiplications each, one for m = 1 or -1, none for 0.
        """
        n, n2, one, minus_one = self.key.n, self.key.n2, self._one, self.key.n2 - self.key.n + 1
        if isinstance(plaintexts, Iterable):
            residues = self._residues(plaintexts)
        else:
            residues = self._residues([plaintexts]) * len(a)
        values = []
        for c, m in zip(self._own(a), residues, strict=True):
            if m == 0:
                values.append(c)
            elif m == 1:
                values.append(c * one % n2)
            elif m == n - 1:
                values.append(c * minus_one % n2)
            else:
                values.append(c * (1 + m * n) % n2)
                self.tally.multiplications += 1
        self.tally.multiplications += sum(1 for m in residues if m)
        return Ciphertexts(self.key, values)

    def power(self, a: Ciphertexts, exponents: Iterable[int] | int) -> Ciphertexts:
        """E(a * e) for one e per element or one for all; negative ones through the inverse.

        Exponents count modulo n and are taken nearest to zero, so n - 1 costs what -1 does.
        Exponents 0, 1 and -1 take no exponentiation; 0 gives the number 1, not a fresh E(0).
        """
        bases = self._own(a)
        if not isinstance(exponents, Iterable):
            centred = self._centred([exponents])[0]
            if centred < 0:
                bases = self._inverses(bases)
            return Ciphertexts(self.key, self._raise(bases, abs(centred)))
        each = self._centred(exponents)
        if len(each) != len(bases):
            raise ValueError(f"{len(bases)} ciphertexts but {len(each)} exponents")
        negative = [i for i, e in enumerate(each) if e < 0]
        bases = list(bases)
        for i, inverse in zip(negative, self._inverses([bases[i] for i in negative]), strict=True):
            bases[i] = inverse
        n2 = self.key.n2
        self.tally.exponentiations += sum(1 for e in each if abs(e) > 1)
        values = [gmpy2.powmod(c, abs(e), n2) for c, e in zip(bases, each, strict=True)]
        return Ciphertexts(self.key, values)

    def shift(self, a: Ciphertexts, bits: int) -> Ciphertexts:
        """E(a * 2^bits): `bits` squarings, counted as one exponentiation."""
        return Ciphertexts(self.key, self._raise(self._own(a), mpz(1) << bits))

    def sum(self, a: Ciphertexts) -> Ciphertexts:
        """E(the sum of all elements), as a batch of one; of an empty batch, the number 1."""
        n2 = self.key.n2
        product = functools.reduce(lambda x, y: x * y % n2, self._own(a), mpz(1))
        self.tally.multiplications += max(len(a) - 1, 0)
        return Ciphertexts(self.key, [product])

    def pack(self, batches: Sequence[Ciphertexts], slot_bits: int) -> Ciphertexts:
        """E(sum over j of batches[j] * 2^(slot_bits * j)), element by element, by Horner's rule.

        Each batch after the first costs one exponentiation and one multiplication per element.
        Plaintexts must lie in 0..2^slot_bits - 1 for the slots to be read back.
        """
        packed = batches[-1]
        for batch in reversed(batches[:-1]):
            packed = self.add(self.shift(packed, slot_bits), batch)
        return packed

    def _own(self, a: Ciphertexts) -> list[mpz]:
        if a.key != self.key:
            raise CiphertextError(
                f"These ciphertexts are under key {a.key.fingerprint}, this party computes under"
                f" {self.key.fingerprint}."
            )
        return a.values

    def _residues(self, plaintexts: Iterable[int]) -> list[mpz]:
        n = self.key.n
        return [mpz(m if isinstance(m, mpz) else index(m)) % n for m in plaintexts]

    def _centred(self, exponents: Iterable[int]) -> list[mpz]:
        n = self.key.n
        half = n >> 1
        return [e - n if e > half else e for e in self._residues(exponents)]

    def _fresh(self, count: int) -> list[mpz]:
        self.tally.randomisers += count
        return self.randomisers.take(count)

    def _multiply(self, a: list[mpz], b: list[mpz]) -> Ciphertexts:
        n2 = self.key.n2
        self.tally.multiplications += len(a)
        return Ciphertexts(self.key, [x * y % n2 for x, y in zip(a, b, strict=True)])

    def _raise(self, bases: list[mpz], exponent: mpz) -> list[mpz]:
        if exponent == 0:
            return [mpz(1)] * len(bases)
        if exponent == 1:
            return list(bases)
        self.tally.exponentiations += len(bases)
        powers: list[mpz] = gmpy2.powmod_base_list(bases, exponent, self.key.n2)
        return powers

    def _inverses(self, values: list[mpz]) -> list[mpz]:
        """All inverses from one inversion and three multiplications each (Montgomery's trick).

        The tally still counts an inversion per element, the way published costs do.
        """
        n2 = self.key.n2
        self.tally.inversions += len(values)
        prefixes = [mpz(1)]
        for value in values:
            prefixes.append(prefixes[-1] * value % n2)
        rest = gmpy2.invert(prefixes[-1], n2)
        inverses = []
        for value, prefix in zip(reversed(values), reversed(prefixes[:-1]), strict=True):
            inverses.append(rest * prefix % n2)
            rest = rest * value % n2
        inverses.reverse()
        return inverses


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
            raise InputError("A Paillier key needs two different odd primes.")
        n = self.p * self.q
        if gmpy2.gcd(n, (self.p - 1) * (self.q - 1)) != 1:
            raise InputError("These primes do not make a Paillier key; generate a new one.")
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
            raise InputError(f"An insecure key has 256 to 1024 bits, a multiple of 16; not {bits}.")
    elif bits not in KEY_BITS:
        raise InputError(f"A key has {' or '.join(map(str, KEY_BITS))} bits, not {bits}.")


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
        raise InputError("These are not the large prime factors of p - 1 and q - 1.")
    return primes
