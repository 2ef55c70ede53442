"""A party's arithmetic on Paillier ciphertexts: encrypt, add, multiply by known numbers, pack.

E(a) E(b) = E(a + b) and E(a)^e = E(a e). The factor r^n of a fresh ciphertext comes from a
`RandomiserSource` (see `ppodc.crypto.randomisers`), which makes an encryption two multiplications.
"""

import functools
from collections.abc import Iterable, Sequence
from operator import index
from typing import Protocol

import gmpy2
from gmpy2 import mpz

from ppodc.crypto.paillier import Ciphertexts, PublicKey, Tally
from ppodc.errors import CiphertextError


class RandomiserSource(Protocol):
    """A source of n-th residues r^n mod n^2, which hands out each of them once."""

    def take(self, count: int) -> list[mpz]: ...


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
        """Equal plaintexts under fresh randomness: one multiplication each."""
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
