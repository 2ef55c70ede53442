"""Records encrypted once under one cloud's key, and products with them under encryption.

`LatticeKey` is the key holder's side, `Products` the other cloud's. One ciphertext holds an
attribute (and digit) of up to N records, one in each coefficient: c0 = m - a s + e and c1 = a, of
which a follows from the session's name (`sampling`), so that neither cloud chooses it. `parameters`
has the sizes, the noise and the proof of how far results are off.

Everything here is local; what is sent is made and read here. What the key holder learns from an
answer: c1 alone, a combination of public polynomials plus a_0 u + e1 of a fresh encryption of zero,
which is uniform to it (ring-LWE with the answer's own secret u). What the other cloud learns:
encryptions under a key it does not have.

*A holder of the key that deviates* may send any public key and any ciphertexts: the answer has no
part of them, and is the same bit by bit. What it plants moves the other cloud's own share by
functions of R and u; a matrix R serves one opening of V - R, so that an opened bit that depends on
that share is a predicate of V. *A cloud that multiplies and deviates* may answer anything: the key
holder's share is then any linear function of s, rounded. Nothing of s is in a message; with T bits
opened later in the session it gets at most T hints about s, of 16384 dimensions.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import WireError
from ppodc.mpc.lattice import digit_rows
from ppodc.mpc.lattice.digit_rows import BITS, digits_of
from ppodc.mpc.lattice.parameters import DEGREE, EXTRA, PACK, LatticeParameters
from ppodc.mpc.lattice.residues import PolynomialRing, Residues, ring_of
from ppodc.mpc.lattice.sampling import errors, ternary, uniform
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, integers

Packed = NDArray[np.uint32]
Groups = Callable[[], Iterable[Residues]]  # of terms, both halves: (2, primes, terms, N)
_SUMS_BYTES = 1 << 25  # of columns of an answer at a time
_UP = 5  # own shares are rounded down, but for 1/32
_GUARD = 56  # bits by which constants of a scaling exceed what comes out


def layout(rows: int, columns: int) -> Iterator[range]:
    """The columns of each ciphertext of an answer: several where their records fit side by side."""
    step = max(1, min(PACK, DEGREE // rows))
    for first in range(0, columns, step):
        yield range(first, min(first + step, columns))


def polynomial_words(p: LatticeParameters) -> int:
    """Words of 32 bits of a polynomial when it is sent."""
    return digit_rows.packed_words([p.prime_bits], len(p.primes) * DEGREE)


def told_words(p: LatticeParameters) -> int:
    """Words of c1 in an answer."""
    return digit_rows.packed_words(digit_rows.widths_for(p.told_bits), DEGREE)


def pack_polynomial(p: LatticeParameters, polynomial: Residues) -> Packed:
    """A polynomial as it is sent."""
    return digit_rows.pack_one(polynomial.reshape(-1), p.prime_bits)


def unpack_polynomial(p: LatticeParameters, words: Packed) -> Residues:
    """A polynomial as it was received; WireError if a coefficient is not below its prime."""
    flat = digit_rows.unpack_one(words, p.prime_bits, len(p.primes) * DEGREE)
    rows = flat.reshape(len(p.primes), DEGREE)
    if np.any(rows >= np.array(p.primes, np.uint32)[:, None]):
        raise WireError("the peer's ciphertext is none: a coefficient is out of range. Stop both.")
    return rows


class LatticeKey:
    """A cloud's secret key: it encrypts this cloud's numbers and opens the answers."""

    def __init__(self, parameters: LatticeParameters, seed: bytes, random: SecureRandom) -> None:
        """`seed` gives the public polynomials; it serves this key alone."""
        p = self._p = parameters
        self._random, self._seed = random, seed
        self._ring = ring_of(p.primes, DEGREE)
        self._secret = self._ring.fixed(self._ring.small(ternary(random, DEGREE)))
        self._encoding = _Encoding(p, self._ring)
        self._opening = _Opening(p)
        # Opening needs only this many primes as hold c1 s.
        self._few = self._opening.ring
        few = len(self._few.primes)
        self._few_secret = self._secret[0][:few], self._secret[1][:few]

    def public(self) -> Residues:
        """The public key's c0; its c1 is polynomial 0 of the seed."""
        return self._encrypt(0, np.zeros((len(self._p.primes), DEGREE), np.uint32))

    def encrypt(self, numbers: U64Array, digit: int, number: int) -> Residues:
        """c0 of up to N numbers (n, L) times 2^(digit g); c1 is polynomial `number` of the seed."""
        return self._encrypt(number, self._encoding.encode(numbers, digit))

    def open(self, told: Packed, count: int, limbs: int) -> AdditiveShare:
        """This cloud's shares z of the first `count` coefficients of an answer: (count)."""
        p, o = self._p, self._opening
        c1 = digit_rows.unpack(told, digit_rows.widths_for(p.told_bits), DEGREE)
        start = np.zeros(len(o.ring.primes), U64)
        residues = self._few.from_digits(c1, self._few.carrying(o.powers), start)
        product = self._few.times(self._few.transform(residues), self._few_secret)
        sums = o.combine(product)
        sums[0] += U64(1 << (EXTRA - 1))  # half of a unit of the result
        digit_rows.carry(sums, BITS * len(sums))
        return AdditiveShare(digit_rows.to_words(sums[:, :count], EXTRA, limbs))

    def _encrypt(self, number: int, message: Residues) -> Residues:
        """c0 = m - a s + e."""
        a = uniform(self._ring, self._seed, number)
        c0 = self._ring.times(self._ring.transform(a), self._secret)
        self._ring.subtract_from(c0, message)
        self._ring.add_small(c0, errors(self._random, DEGREE))
        return c0


class Products:
    """The other cloud's side: answers from ciphertexts under the key holder's public key."""

    def __init__(
        self, parameters: LatticeParameters, seed: bytes, public: Residues, random: SecureRandom
    ) -> None:
        p = self._p = parameters
        self._random, self._seed = random, seed
        self._ring = ring_of(p.primes, DEGREE)
        self._public = self._ring.fixed(public), self._ring.fixed(uniform(self._ring, seed, 0))
        self._c0 = _Scaling(p, self._ring, p.width, _UP)
        self._c1 = _Scaling(p, self._ring, p.told_bits, 1)

    def second_half(self, number: int) -> Residues:
        """c1 of a ciphertext, polynomial `number` of the key holder's seed."""
        return uniform(self._ring, self._seed, number)

    def answers(
        self, table: Groups, rows: int, matrix: AdditiveShare
    ) -> Iterator[tuple[range, Packed, AdditiveShare]]:
        """For each ciphertext of `layout`: its columns, c1 to send, own shares y.

        `table` goes through the encrypted records of a block of `rows`, some of their l D terms
        after others; `matrix` (l, c) is this cloud's. Own shares are (columns * rows), column by
        column.
        """
        factors, parts = self._factors(matrix), list(layout(rows, matrix.shape[1]))
        most = max(1, _SUMS_BYTES // (8 * len(self._p.primes) * DEGREE * len(parts[0])))
        for at in range(0, len(parts), most):
            some = parts[at : at + most]
            first = some[0].start
            sums = self._combined(table, factors[:, first : some[-1].stop])
            for columns in some:
                within = range(columns.start - first, columns.stop - first)
                yield columns, *self._masked(sums, within, rows, matrix.length)

    def _combined(self, table: Groups, factors: Residues) -> tuple[Residues, Residues]:
        """Both halves of the records times the factors (primes, c, l D): (c, primes, N) each."""
        return reduce(self._added, self._by_group(table, factors))

    def _by_group(self, table: Groups, factors: Residues) -> Iterator[tuple[Residues, Residues]]:
        (count, columns, terms), at = factors.shape, 0
        for group in table():
            size = group.shape[2]
            own = np.zeros((count, columns, size), np.uint32)  # behind the last term is nothing
            own[:, :, : terms - at] = factors[:, :, at : at + size]
            yield self._ring.combine(group[0], own), self._ring.combine(group[1], own)
            at += size

    def _added(
        self, sums: tuple[Residues, Residues], more: tuple[Residues, Residues]
    ) -> tuple[Residues, Residues]:
        for half, part in zip(sums, more, strict=True):
            for column, addend in zip(half, part, strict=True):
                self._ring.add(column, addend)
        return sums

    def _masked(
        self, sums: tuple[Residues, Residues], columns: range, rows: int, limbs: int
    ) -> tuple[Packed, AdditiveShare]:
        """One ciphertext of the answer: c1 to send, own shares."""
        masked = self._zero()
        for half, part in zip(masked, sums, strict=True):
            for place, column in enumerate(columns):
                self._ring.add(half, part[column], place * rows)
        used = rows * len(columns)
        upper = self._c0.scale(masked[0])[:, :used]
        told = digit_rows.pack(
            _shifted(self._c1.scale(masked[1]), self._c1.guard, self._p.told_bits),
            digit_rows.widths_for(self._p.told_bits),
        )
        return told, AdditiveShare(digit_rows.to_words(upper, self._c0.guard, limbs))

    def _zero(self) -> tuple[Residues, Residues]:
        """A fresh encryption of zero: c0 = b u + e2 and c1 = a_0 u + e1."""
        u = self._ring.transform(self._ring.small(ternary(self._random, DEGREE)))
        b, a = self._public
        c0, c1 = self._ring.times(u, b), self._ring.times(u, a)
        for half in (c0, c1):
            self._ring.add_small(half, errors(self._random, DEGREE))
        return c0, c1

    def _factors(self, matrix: AdditiveShare) -> Residues:
        """Balanced digits of the matrix (l, c) as factors: (primes, c, l D)."""
        p, (attributes, columns) = self._p, matrix.shape
        half = 1 << (p.digit_bits - 1)
        numbers = integers(matrix.limbs)
        found = np.empty((len(p.primes), columns, attributes * p.digits), np.uint32)
        for place, number in enumerate(numbers):
            (attribute, column), rest = divmod(place, columns), number % (1 << p.width)
            digits = []
            for _ in range(p.digits):
                # the last carry is a multiple of 2^w
                digit = (rest + half) % (2 * half) - half
                rest = (rest - digit) >> p.digit_bits
                digits.append(digit)
            first = attribute * p.digits
            found[:, column, first : first + p.digits] = self._ring.carrying(digits)
        return found


class _Encoding:
    """round(q 2^(dg) x / 2^w) in residues.

    With z = (q 2^(dg) x + 2^(w-1)) mod 2^w it is (q 2^(dg) x + 2^(w-1) - z) / 2^w, of which the
    first term vanishes modulo every prime.
    """

    def __init__(self, p: LatticeParameters, ring: PolynomialRing) -> None:
        self._ring, self._width = ring, p.width
        self._count = digit_rows.count_for(p.width)
        self._half = digits_of(1 << (p.width - 1), self._count)
        self._multiples = [
            digits_of(p.modulus << (d * p.digit_bits), self._count) for d in range(p.digits)
        ]
        inverses = [pow(1 << p.width, -1, prime) for prime in p.primes]
        powers = [-(1 << (BITS * k)) for k in range(self._count)]
        self._powers = _each(ring, inverses, powers)
        self._start = _each(ring, inverses, [1 << (p.width - 1)])[:, 0]

    def encode(self, numbers: U64Array, digit: int) -> Residues:
        """(n, L) numbers, n up to N; zeros behind them."""
        x = digit_rows.from_words(numbers, self._width, DEGREE)
        z = np.repeat(self._half[:, None], DEGREE, axis=1)
        for k in range(self._count):
            digit_rows.add_products(z[k:], x[k], self._multiples[digit][: self._count - k])
        digit_rows.carry(z, self._width)
        return self._ring.from_digits(z, self._powers, self._start)


class _Scaling:
    """floor(v 2^bits / q + 2^-up) modulo 2^bits.

    It is the sum of y_j 2^bits / p_j, y_j = v (q / p_j)^-1 mod p_j.
    """

    def __init__(self, p: LatticeParameters, ring: PolynomialRing, bits: int, up: int) -> None:
        self._ring, count = ring, digit_rows.count_for(bits + _GUARD)
        self.guard = BITS * count - bits  # bits that the result still has too many
        one = 1 << (BITS * count)
        self._parts = np.stack([digits_of((one + x // 2) // x, count) for x in p.primes])
        self._half = digits_of(1 << (self.guard - up), count)
        self._inverses = _inverses(ring)

    def scale(self, v: Residues) -> U64Array:
        """Digits of the result times 2^guard."""
        sums = np.repeat(self._half[:, None], DEGREE, axis=1)
        digit_rows.add_all_products(sums, self._ring.scaled(v, self._inverses), self._parts)
        digit_rows.carry(sums, BITS * len(sums))
        return sums


class _Opening:
    """c1 s as an integer modulo a power of two, from residues modulo a few primes.

    |c1 s| <= N 2^(w + k1) is below a quarter of the primes' product Q, so that the multiple of Q
    that sum_j y_j Q / p_j has too much is the sum of the fractions y_j / p_j, rounded.
    """

    def __init__(self, p: LatticeParameters) -> None:
        count, modulus = 0, 1
        while modulus <= 4 * DEGREE << p.told_bits:
            modulus *= p.primes[count]
            count += 1
        self.ring = ring_of(p.primes[:count], DEGREE)
        digits = digit_rows.count_for(p.told_bits)
        self.powers = [1 << (BITS * k) for k in range(digits)]
        self._parts = np.stack([digits_of(modulus // x, digits) for x in self.ring.primes])
        self._less = digits_of(-modulus, digits)
        self._inverses = _inverses(self.ring)

    def combine(self, residues: Residues) -> U64Array:
        """Digits with carries still in them."""
        sums = np.zeros((len(self.powers), DEGREE), U64)
        fractions = np.zeros(DEGREE)
        y = self.ring.scaled(residues, self._inverses)
        digit_rows.add_all_products(sums, y, self._parts)
        for row, prime in zip(y, self.ring.primes, strict=True):
            fractions += row / prime
        digit_rows.add_products(sums, np.rint(fractions).astype(U64), self._less)
        return sums


def _inverses(ring: PolynomialRing) -> U64Array:
    """(Q / p)^-1 modulo each prime p, Q their product; carrying 2^32."""
    modulus = math.prod(ring.primes)
    return np.array([(pow(modulus // p, -1, p) << 32) % p for p in ring.primes], U64)


def _each(ring: PolynomialRing, factors: Sequence[int], numbers: Sequence[int]) -> U64Array:
    """numbers times the factor of each prime, carrying 2^32: (primes, numbers)."""
    rows = [
        [(x * factor << 32) % p for x in numbers]
        for factor, p in zip(factors, ring.primes, strict=True)
    ]
    return np.array(rows, U64)


def _shifted(digits: U64Array, drop: int, bits: int) -> U64Array:
    """The `bits` bits above the lowest `drop`, as digits."""
    skip, shift = divmod(drop, BITS)
    out = np.zeros((digit_rows.count_for(bits), digits.shape[1]), U64)
    for k, width in enumerate(digit_rows.widths_for(bits)):
        out[k] = digits[skip + k] >> U64(shift)
        if shift and skip + k + 1 < len(digits):
            out[k] |= digits[skip + k + 1] << U64(BITS - shift)
        out[k] &= U64((1 << width) - 1)
    return out
