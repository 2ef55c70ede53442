"""Three ways to get Paillier randomisers r^n mod n^2, each of which hides one ciphertext.

`FreshRandomisers` makes them when asked, from fixed-base tables; `PowerRandomisers` makes them as
published, one full exponentiation each; `PooledRandomisers` takes ready ones from a folder. All
count in `randomisers` how many they have handed out.
"""

import threading
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import gmpy2
import numpy as np
from gmpy2 import mpz

from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.crypto.paillier_arithmetic import RandomiserSource
from ppodc.crypto.random_stream import SecureRandom
from ppodc.crypto.single_use import Array, Field, Layout, SingleUsePool

_STATISTICAL_BITS = 64
# (window bits, from how many randomisers on its table pays): found by measuring at 2048 bits,
# where the tables take 0.05 s and 3 MB, and 0.4 s and 31 MB.
_WINDOWS = ((5, 0), (9, 256))
_FILL_ROWS = 256


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

    The bases generate all n-th residues except for factors of p-1 and q-1 missed by chance: 2^-120
    for keys made by `generate` (`SecretKey.strong`), whose factors are large. For keys of another
    origin (p or q = 1 mod 4) they generate perhaps a quarter of them.

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


class PooledRandomisers:
    """Randomisers made offline and kept in a folder (`single_use`), bound to one key.

    `take` reserves `block` of them at a time, so that one write to the disk serves them all; a
    kill loses at most the rest of a block. When the folder runs out, the missing ones are
    made with `fresh` and counted in `late`.

    A row is the number and a CRC-32 of its place and the number. A row that fails it is passed
    over and counted in `damaged`: a wrong number would change the plaintext it should hide, and a
    number that stands in two places would show the difference of two plaintexts.
    """

    def __init__(
        self, folder: Path, key: PublicKey, fresh: RandomiserSource, *, block: int = 1024
    ) -> None:
        self.randomisers = self.late = self.damaged = 0
        self._key, self._fresh, self._block = key, fresh, block
        self._ready: list[mpz] = []
        self._lock = threading.Lock()
        fields = (Field("number", np.uint8, key.ciphertext_bytes), Field("check", np.uint32, 1))
        self._pool = SingleUsePool(folder, Layout(fields, belongs_to=key.fingerprint))

    @property
    def available(self) -> int:
        """The number of randomisers that can be taken before new ones must be made."""
        return len(self._ready) + self._pool.available

    def take(self, count: int) -> list[mpz]:
        """`count` randomisers that have never been handed out."""
        with self._lock:
            self._pool.require_open()  # reservations of a parent process are in `_ready`, too
            while len(self._ready) < count and self._pool.available:
                wanted = max(count - len(self._ready), self._block)
                self._reserve(min(wanted, self._pool.available))
            taken, self._ready = self._ready[:count], self._ready[count:]
            late = count - len(taken)
            if late:
                taken += self._fresh.take(late)
            self.late += late
            self.randomisers += count
            return taken

    def fill(self, count: int, progress: Callable[[int], None] | None = None) -> None:
        """Make `count` more ahead; `progress` hears how many each portion on disk has.

        What a killed fill has written in full stays usable.
        """
        with self._lock:
            for start in range(0, count, _FILL_ROWS):
                portion = self._fresh.take(min(_FILL_ROWS, count - start))
                self._append(portion)
                if progress is not None:
                    progress(len(portion))

    def close(self) -> None:
        """Release the folder. Reserved randomisers that were not taken are lost."""
        with self._lock:
            self._pool.close()
            self._ready.clear()

    def __repr__(self) -> str:
        return f"PooledRandomisers({self._pool.folder}, {self.available} left)"

    def _append(self, portion: Sequence[mpz]) -> None:
        width = self._key.ciphertext_bytes
        data = b"".join(number.to_bytes(width, "little") for number in portion)
        numbers = np.frombuffer(data, np.uint8).reshape(len(portion), width)
        self._pool.add((numbers, _checks(numbers, self._pool.end)))

    def _reserve(self, count: int) -> None:
        place = self._pool.cursor
        numbers, checks = self._pool.take(count)
        intact = _checks(numbers, place) == checks
        for number, right in zip(numbers, intact.ravel().tolist(), strict=True):
            value = mpz.from_bytes(number.tobytes(), "little")
            if right and 0 < value < self._key.n2:
                self._ready.append(value)
            else:
                self.damaged += 1


def _checks(numbers: Array, first: int) -> Array:
    """(rows, 1) CRC-32 of each row's place in the pool and its number."""
    checks = [zlib.crc32(row, (first + i) & 0xFFFFFFFF) for i, row in enumerate(numbers)]
    return np.array(checks, np.uint32).reshape(-1, 1)
