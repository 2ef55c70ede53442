"""Random numbers for cryptography, and the three ways to get Paillier randomisers r^n mod n^2.

`SecureRandom` is an AES-256-CTR stream keyed by the operating system. `FreshRandomisers` makes
randomisers when asked, from fixed-base tables; `PowerRandomisers` makes them as published, one
full exponentiation each; `RandomiserPool` keeps ready ones on disk. All count
in `randomisers` how many they have handed out.
"""

import builtins
import math
import os
import threading

import gmpy2
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from gmpy2 import mpz

from ppodc.crypto.paillier import PublicKey, RandomiserSource, SecretKey
from ppodc.crypto.randomiser_pool import RandomiserPool

__all__ = [
    "FreshRandomisers",
    "PowerRandomisers",
    "RandomiserPool",
    "RandomiserSource",
    "SecureRandom",
]

_BUFFER_BYTES = 1 << 16
_STATISTICAL_BITS = 64
# (window bits, from how many randomisers on its table pays): found by measuring at 2048 bits,
# where the tables take 0.05 s and 3 MB, and 0.4 s and 31 MB.
_WINDOWS = ((5, 0), (9, 256))


class SecureRandom:
    """AES-256 in counter mode, keyed by the operating system or by a 32-byte seed.

    A seeded stream repeats exactly: a seed must serve one stream only. A stream keyed by the
    operating system takes a new key in a forked child; a seeded one does not, and parent and
    child would draw the same numbers. Threads may share one object.
    """

    def __init__(self, seed: bytes | None = None) -> None:
        if seed is not None and len(seed) != 32:
            raise ValueError(f"a seed has 32 bytes, not {len(seed)}")
        self._seeded = seed is not None
        self._lock = threading.Lock()
        self._start(os.urandom(32) if seed is None else seed)

    def __repr__(self) -> str:
        return f"SecureRandom({'seeded' if self._seeded else 'from the operating system'})"

    def _start(self, key: builtins.bytes) -> None:
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(builtins.bytes(16))).encryptor()
        self._buffer, self._at, self._process = b"", 0, os.getpid()

    def bytes(self, count: int) -> builtins.bytes:
        """The next `count` bytes of the stream."""
        with self._lock:
            if not self._seeded and self._process != os.getpid():
                self._start(os.urandom(32))
            end = self._at + count
            if end <= len(self._buffer):
                taken, self._at = self._buffer[self._at : end], end
                return taken
            head = self._buffer[self._at :]
            missing = count - len(head)
            if missing >= _BUFFER_BYTES:
                self._buffer, self._at = b"", 0
                return head + self._stream.update(builtins.bytes(missing))
            self._buffer = self._stream.update(builtins.bytes(_BUFFER_BYTES))
            self._at = missing
            return head + self._buffer[:missing]

    def uint64(
        self, shape: int | tuple[int, ...]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        """An array of uniform 64-bit words."""
        shape = (shape,) if isinstance(shape, int) else shape
        data = bytearray(self.bytes(8 * math.prod(shape)))
        return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False).reshape(shape)

    def bits(self, width: int, count: int) -> list[mpz]:
        """`count` uniform integers of `width` bits, 0 up to 2^width - 1."""
        size = (width + 7) // 8
        if size == 0:
            return [mpz(0)] * count
        data, excess = self.bytes(size * count), 8 * size - width
        return [
            mpz.from_bytes(data[at : at + size], "little") >> excess
            for at in range(0, size * count, size)
        ]

    def below(self, bound: int, count: int) -> list[mpz]:
        """`count` uniform integers 0 up to bound - 1 (by rejection: no bias)."""
        if bound < 1:
            raise ValueError("the bound must be at least 1")
        width, found = int(mpz(bound - 1).bit_length()), list[mpz]()
        while len(found) < count:
            found += [x for x in self.bits(width, count - len(found)) if x < bound]
        return found

    def units(self, n: int, count: int) -> list[mpz]:
        """`count` uniform integers below n that have an inverse modulo n."""
        found = list[mpz]()
        while len(found) < count:
            found += [x for x in self.below(n, count - len(found)) if gmpy2.gcd(x, n) == 1]
        return found

    def permutation(self, n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
        """A uniform permutation of 0..n-1: the order of n distinct random keys."""
        while True:
            keys = self.uint64(n)
            order = np.argsort(keys)
            ranked = keys[order]
            # Equal keys would favour some orders: draw all of them again.
            if not np.any(ranked[1:] == ranked[:-1]):
                return order


class _FixedBase:
    """Powers of one base with random exponents: a table of base^(digit * 2^(window*row))."""

    def __init__(self, base: mpz, modulus: mpz, exponent_bits: int, window: int) -> None:
        self.modulus, self.window = modulus, window
        self._rows: list[list[mpz]] = []
        for _ in range(-(-exponent_bits // window)):
            row = [mpz(1)]
            for _ in range(1 << window):
                row.append(row[-1] * base % modulus)
            base = row.pop()
            self._rows.append(row)

    def random_powers(self, count: int, random: SecureRandom) -> list[mpz]:
        """base^e for exponents e whose digits are uniform and independent."""
        modulus, (first, *others) = self.modulus, self._rows
        width = len(self._rows)
        digits = np.frombuffer(random.bytes(2 * width * count), dtype="<u2")
        powers = []
        for top, *rest in (digits & ((1 << self.window) - 1)).reshape(count, width).tolist():
            power = first[top]
            for row, digit in zip(others, rest, strict=True):
                power = power * row[digit] % modulus
            powers.append(power)
        return powers


class FreshRandomisers:
    """Randomisers made when asked, as powers of a fixed base: much faster than r^n.

    *Without the secret key* (cloud 1): h^e * y^b mod n^2, where h = (-x^2)^n for a random x, e has
    64 bits more than n, b is a random bit and y = z^n for a random z of Jacobi symbol -1. Damgård,
    Jurik and Nielsen use h^e; y^b adds the elements of Jacobi symbol -1, so that ciphertexts of
    any origin are hidden when re-randomised, up to a distance of 2^-64. They take e half as long
    as n, which halves the price (`insecure_short_exponents`): whoever knows p and q, as cloud 2
    does, can then tell h^e from random by discrete logarithms modulo p, which are only as hard
    as a prime of half the key's length makes them. For comparison with published systems only.

    *With the secret key* (cloud 2): powers modulo p^2 and q^2 of bases that are non-residues, with
    independent exponents 64 bits longer than p and q, joined by CRT. They are uniform up to 2^-64
    in what the two bases generate; no assumption about short exponents.

    The bases generate all n-th residues except for large factors of p-1 and q-1 missed by chance,
    for keys made by `generate`; for other keys (p or q = 1 mod 4) perhaps a quarter of them.

    Tables are built when first needed: a small one for a few, a larger one when many are asked.
    """

    def __init__(
        self,
        public: PublicKey,
        secret: SecretKey | None = None,
        *,
        insecure_short_exponents: bool = False,
        random: SecureRandom | None = None,
    ) -> None:
        if secret is not None and secret.public != public:
            raise ValueError("the secret key belongs to another public key")
        self.randomisers = 0
        self._public = public
        self._random = SecureRandom() if random is None else random
        self._tables: list[_FixedBase] = []
        self._lock = threading.Lock()
        if secret is None:
            self._exponent_bits = public.bits + _STATISTICAL_BITS
            if insecure_short_exponents:
                self._exponent_bits = -(-public.bits // 2)
            self._bases = [self._public_base()]
            self._flip = self._residue_of_symbol_minus_one()
        else:
            primes = (secret.p, secret.q)
            self._exponent_bits = max(int(x.bit_length()) for x in primes) + _STATISTICAL_BITS
            self._bases = [(self._base_modulo(x), x * x) for x in primes]
            self._q2_inverse = gmpy2.invert(secret.q**2, secret.p**2)

    def take(self, count: int) -> list[mpz]:
        """`count` new randomisers."""
        with self._lock:
            self._grow(self.randomisers + count)
            self.randomisers += count
            tables = self._tables
        first, *second = (table.random_powers(count, self._random) for table in tables)
        if second:
            return self._join(first, second[0])
        n2, factors = self._public.n2, (mpz(1), self._flip)
        coins = self._random.bytes(count)
        return [u * factors[c & 1] % n2 for u, c in zip(first, coins, strict=True)]

    def prepare(self, count: int) -> None:
        """Build the table that `count` randomisers call for now, not on the first `take`."""
        with self._lock:
            self._grow(count)

    def _grow(self, demand: int) -> None:
        window = max(bits for bits, least in _WINDOWS if demand >= least)
        if not self._tables or self._tables[0].window < window:
            self._tables = [
                _FixedBase(base, modulus, self._exponent_bits, window)
                for base, modulus in self._bases
            ]

    def _join(self, mod_p2: list[mpz], mod_q2: list[mpz]) -> list[mpz]:
        (_, p2), (_, q2) = self._bases
        inverse = self._q2_inverse
        return [b + q2 * ((a - b) * inverse % p2) for a, b in zip(mod_p2, mod_q2, strict=True)]

    def _public_base(self) -> tuple[mpz, mpz]:
        n, n2 = self._public.n, self._public.n2
        x = self._random.units(n, 1)[0]
        return gmpy2.powmod(n - x * x % n, n, n2), n2

    def _residue_of_symbol_minus_one(self) -> mpz:
        n = self._public.n
        while gmpy2.jacobi(z := self._random.below(n, 1)[0], n) != -1:
            pass
        return gmpy2.powmod(z, n, self._public.n2)

    def _base_modulo(self, prime: mpz) -> mpz:
        while gmpy2.legendre(x := self._random.below(prime, 1)[0], prime) != -1:
            pass
        return gmpy2.powmod(x, prime, prime * prime)


class PowerRandomisers:
    """r^n mod n^2 for a uniform unit r, as published: exact, and one exponentiation each."""

    def __init__(self, public: PublicKey, *, random: SecureRandom | None = None) -> None:
        self.randomisers = 0
        self._public = public
        self._random = SecureRandom() if random is None else random

    def take(self, count: int) -> list[mpz]:
        """`count` new randomisers."""
        self.randomisers += count
        n = self._public.n
        powers: list[mpz] = gmpy2.powmod_base_list(self._random.units(n, count), n, self._public.n2)
        return powers
