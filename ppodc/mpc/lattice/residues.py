"""Polynomials modulo X^N + 1 and a product of primes, as residues: a row of N words per prime.

Primes are below 2^30 and 1 modulo 2 N, so that the negacyclic number-theoretic transform exists.
Multiplications by fixed factors w carry floor(2^32 w / p) along (Shoup), sums of products are
reduced once (Montgomery, with factors that carry 2^32). The transform does its last steps on a
transposed block of (N / 128, 128), where every inner loop runs over 128 neighbours.

Everything here is local. Cost of a transform: about 0.1 ms for each prime at N = 16384.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.compiled import (
    compiled,
    i64,
    in_i8,
    in_u4_2,
    in_u4_3,
    in_u8,
    in_u8_2,
    inlined,
    out_u4_2,
    out_u4_3,
    u64,
)
from ppodc.mpc.shares.additive import U64, U64Array

Residues = NDArray[np.uint32]  # (primes, N), below their primes
Transformed = NDArray[np.uint32]  # (primes, N / 128, 128), below four times their primes
Small = NDArray[np.int64]  # N numbers much smaller than any prime
Roots = tuple[Residues, Residues, Transformed, Transformed]  # of unity, quotients behind each
Fixed = tuple[Transformed, Transformed]  # a factor, and floor(2^32 factor / p)

_COLUMNS = 128
_TILE = 1024
_TURNED = 16  # words of a row that is written when a block is transposed: a line of the cache
_WORD, _LOW = U64(32), U64(0xFFFFFFFF)


class PolynomialRing:
    """Arithmetic modulo X^N + 1 and some primes, each 1 modulo 2 N."""

    def __init__(self, primes: Sequence[int], degree: int) -> None:
        self.primes, self.degree = tuple(primes), degree
        self._p = np.array(primes, U64)
        bits = max(primes).bit_length()
        self._inverse = np.array([-pow(p, -1, 1 << 32) % (1 << 32) for p in primes], U64)
        self._shift = U64(bits + 31)
        self._barrett = np.array([(1 << (bits + 31)) // p for p in primes], U64)
        self._fold = np.array([(1 << 32) % p for p in primes], U64)
        self._bits = bits
        tables = [_roots(p, degree) for p in primes]
        self._forward = self._with_quotients([forward for forward, _ in tables])
        self._backward = self._with_quotients([backward for _, backward in tables])
        one_by_n = np.array([pow(degree, -1, p) for p in primes], U64)
        self._scale = one_by_n, (one_by_n << _WORD) // self._p

    def transform(self, polynomial: Residues) -> Transformed:
        """The transform of coefficients."""
        work = polynomial.copy()
        out = np.empty((len(work), self.degree // _COLUMNS, _COLUMNS), np.uint32)
        _transform(work, out, self._p, *self._forward)
        return out

    def times(self, values: Transformed, factor: Fixed) -> Residues:
        """The coefficients of a product with a fixed factor."""
        product = np.empty_like(values)
        _multiply(values, *factor, product, self._p)
        out = np.empty((len(values), self.degree), np.uint32)
        _transform_back(product, out, self._p, *self._backward, *self._scale)
        return out

    def fixed(self, polynomial: Residues) -> Fixed:
        """A polynomial ready to be a factor many times."""
        values = self.transform(polynomial) % self._p[:, None, None].astype(np.uint32)
        return values, self._quotients(values)

    def small(self, numbers: Small) -> Residues:
        """The polynomial of small numbers of any sign."""
        out = np.zeros((len(self.primes), self.degree), np.uint32)
        _add_small(out, numbers, self._p)
        return out

    def add_small(self, polynomial: Residues, numbers: Small) -> None:
        """Add small numbers, in place."""
        _add_small(polynomial, numbers, self._p)

    def add(self, polynomial: Residues, other: Residues, shift: int = 0) -> None:
        """Add X^shift times another polynomial, in place."""
        _add(polynomial, other, shift, self._p)

    def subtract_from(self, polynomial: Residues, other: Residues) -> None:
        """Replace a polynomial by other - polynomial."""
        _subtract_from(polynomial, other, self._p)

    def from_digits(self, digits: U64Array, constants: U64Array, start: U64Array) -> Residues:
        """start + sum_k digits[k] constants[:, k]: (K, N) digits below 2^32 -> residues.

        `constants` and `start` are from `carrying`; sums must stay below 2^63.
        """
        out = np.empty((len(constants), digits.shape[1]), np.uint32)
        _from_digits(
            digits, constants, start, self._p, self._inverse, self._barrett, self._shift, out
        )
        return out

    def scaled(self, polynomial: Residues, factors: U64Array) -> Residues:
        """Each prime's row times its factor, which carries 2^32 (`carrying`)."""
        out = np.empty_like(polynomial)
        _scaled(polynomial, factors, self._p, self._inverse, self._barrett, self._shift, out)
        return out

    def carrying(self, numbers: Sequence[int]) -> U64Array:
        """Residues of integers times 2^32, as factors for sums of products: (primes, numbers)."""
        return np.array([[(x << 32) % p for x in numbers] for p in self.primes], U64)

    def combine(self, polynomials: Residues, factors: Residues) -> Residues:
        """sum_t factors[:, h, t] polynomials[:, t]: (p, T, N) and (p, c, T) -> (c, p, N).

        Factors carry 2^32.
        """
        count, terms, degree = polynomials.shape
        out = np.empty((factors.shape[1], count, degree), np.uint32)
        fold = int(2 * self._bits + (terms + 3).bit_length() > 63)
        _combine(
            polynomials, factors, self._p, self._inverse, self._barrett, self._fold, self._shift,
            fold, out,
        )  # fmt: skip
        return out

    def _quotients(self, factors: NDArray[np.uint32]) -> NDArray[np.uint32]:
        p = self._p.reshape(-1, *(1,) * (factors.ndim - 1))
        return ((factors.astype(U64) << _WORD) // p).astype(np.uint32)

    def _with_quotients(
        self, tables: Sequence[tuple[NDArray[np.uint32], NDArray[np.uint32]]]
    ) -> Roots:
        first, second = (np.stack(parts) for parts in zip(*tables, strict=True))
        return first, self._quotients(first), second, self._quotients(second)


@cache
def ring_of(primes: tuple[int, ...], degree: int) -> PolynomialRing:
    """The ring of some primes; its tables take a while to make."""
    return PolynomialRing(primes, degree)


def _roots(p: int, degree: int) -> list[tuple[NDArray[np.uint32], NDArray[np.uint32]]]:
    """Powers of a 2N-th root of unity and of its inverse, in the order the transform needs them."""
    bits = degree.bit_length() - 1
    root = next(
        power
        for power in (pow(a, (p - 1) // (2 * degree), p) for a in range(2, p))
        if pow(power, degree, p) == p - 1
    )
    reversed_order = np.zeros(degree, np.int64)
    for bit in range(bits):
        reversed_order |= ((np.arange(degree) >> bit) & 1) << (bits - 1 - bit)
    tables = []
    for base in (root, pow(root, -1, p)):
        powers = np.ones(1, np.int64)
        while len(powers) < degree:
            powers = np.concatenate([powers, powers * pow(base, len(powers), p) % p])
        first = powers[reversed_order]
        second = np.zeros((degree // _COLUMNS, _COLUMNS), np.int64)
        groups = 1
        while groups < len(second):
            for group in range(groups):
                places = _COLUMNS * groups + np.arange(_COLUMNS) * groups + group
                second[groups + group] = first[places]
            groups *= 2
        tables.append((first.astype(np.uint32), second.astype(np.uint32)))
    return tables


@inlined
def _times(y: np.uint64, factor: np.uint64, quotient: np.uint64, p: np.uint64) -> np.uint64:
    """y * factor modulo p, below 2p, for y < 2^32."""
    return y * factor - ((y * quotient) >> _WORD) * p


@inlined
def _reduced(
    v: np.uint64, p: np.uint64, inverse: np.uint64, barrett: np.uint64, shift: np.uint64
) -> np.uint64:
    """v / 2^32 modulo p, below p, for v < 2^63."""
    m = ((v & _LOW) * inverse) & _LOW
    t = (v + m * p) >> _WORD
    t = t - ((t * barrett) >> shift) * p
    return min(t, t - p)


@compiled(out_u4_2, out_u4_3, in_u8, in_u4_2, in_u4_2, in_u4_3, in_u4_3)
def _transform(
    a: Residues,
    out: Transformed,
    primes: U64Array,
    w1: Residues,
    q1: Residues,
    w2: Transformed,
    q2: Transformed,
) -> None:
    """Coefficients (destroyed) to values below 4p; all steps keep words below 2^32."""
    rows, columns = out.shape[1], out.shape[2]
    for j in range(a.shape[0]):
        p = primes[j]
        twice = p + p
        groups, half = 1, a.shape[1] >> 1
        while groups < columns:
            for i in range(groups):
                w, q = U64(w1[j, groups + i]), U64(q1[j, groups + i])
                left = a[j, 2 * i * half : 2 * i * half + half]
                right = a[j, 2 * i * half + half : 2 * i * half + 2 * half]
                for n in range(half):
                    x = U64(left[n])
                    x = min(x, x - twice)
                    y = _times(U64(right[n]), w, q, p)
                    left[n] = x + y
                    right[n] = x + twice - y
            groups <<= 1
            half >>= 1
        for r in range(rows):
            for c in range(columns):
                out[j, r, c] = a[j, c * rows + r]
        groups, half = 1, rows >> 1
        while groups < rows:
            for i in range(groups):
                for r in range(2 * i * half, 2 * i * half + half):
                    left, right = out[j, r], out[j, r + half]
                    ws, qs = w2[j, groups + i], q2[j, groups + i]
                    for c in range(columns):
                        x = U64(left[c])
                        x = min(x, x - twice)
                        y = _times(U64(right[c]), U64(ws[c]), U64(qs[c]), p)
                        left[c] = x + y
                        right[c] = x + twice - y
            groups <<= 1
            half >>= 1


@compiled(out_u4_3, out_u4_2, in_u8, in_u4_2, in_u4_2, in_u4_3, in_u4_3, in_u8, in_u8)
def _transform_back(
    values: Transformed,
    out: Residues,
    primes: U64Array,
    w1: Residues,
    q1: Residues,
    w2: Transformed,
    q2: Transformed,
    scale: U64Array,
    scale_quotient: U64Array,
) -> None:
    """Values below 2p (destroyed) to coefficients below p."""
    rows, columns = values.shape[1], values.shape[2]
    for j in range(out.shape[0]):
        p = primes[j]
        twice = p + p
        groups, half = rows >> 1, 1
        while groups >= 1:
            for i in range(groups):
                for r in range(2 * i * half, 2 * i * half + half):
                    left, right = values[j, r], values[j, r + half]
                    ws, qs = w2[j, groups + i], q2[j, groups + i]
                    for c in range(columns):
                        x, y = U64(left[c]), U64(right[c])
                        z = x + y
                        y = (x + twice - y) & _LOW
                        left[c] = min(z, z - twice)
                        right[c] = _times(y, U64(ws[c]), U64(qs[c]), p)
            groups >>= 1
            half <<= 1
        for first in range(0, rows, _TURNED):
            for c in range(columns):
                for r in range(first, min(first + _TURNED, rows)):
                    out[j, c * rows + r] = values[j, r, c]
        groups, half = columns >> 1, rows
        while groups >= 1:
            for i in range(groups):
                w, q = U64(w1[j, groups + i]), U64(q1[j, groups + i])
                left = out[j, 2 * i * half : 2 * i * half + half]
                right = out[j, 2 * i * half + half : 2 * i * half + 2 * half]
                for n in range(half):
                    x, y = U64(left[n]), U64(right[n])
                    z = x + y
                    y = (x + twice - y) & _LOW
                    left[n] = min(z, z - twice)
                    right[n] = _times(y, w, q, p)
            groups >>= 1
            half <<= 1
        for n in range(out.shape[1]):
            y = _times(U64(out[j, n]), scale[j], scale_quotient[j], p)
            out[j, n] = min(y, y - p)


@compiled(in_u4_3, in_u4_3, in_u4_3, out_u4_3, in_u8)
def _multiply(
    values: Transformed,
    factor: Transformed,
    quotient: Transformed,
    out: Transformed,
    primes: U64Array,
) -> None:
    for j in range(values.shape[0]):
        p = primes[j]
        for r in range(values.shape[1]):
            for c in range(values.shape[2]):
                y = U64(values[j, r, c])
                out[j, r, c] = _times(y, U64(factor[j, r, c]), U64(quotient[j, r, c]), p)


@compiled(out_u4_2, in_i8, in_u8)
def _add_small(a: Residues, numbers: Small, primes: U64Array) -> None:
    for j in range(a.shape[0]):
        p = primes[j]
        for i in range(a.shape[1]):
            v = U64(np.int64(a[j, i]) + numbers[i] + np.int64(p))
            v = min(v, v - p)
            a[j, i] = min(v, v - p)


@compiled(out_u4_2, in_u4_2, i64, in_u8)
def _add(a: Residues, b: Residues, shift: int, primes: U64Array) -> None:
    degree = a.shape[1]
    for j in range(a.shape[0]):
        p = primes[j]
        above, below = a[j, shift:], b[j, : degree - shift]
        for i in range(degree - shift):
            v = U64(above[i]) + U64(below[i])
            above[i] = min(v, v - p)
        wrapped, rest = a[j, :shift], b[j, degree - shift :]
        for i in range(shift):
            v = U64(wrapped[i]) + p - U64(rest[i])
            wrapped[i] = min(v, v - p)


@compiled(out_u4_2, in_u4_2, in_u8)
def _subtract_from(a: Residues, b: Residues, primes: U64Array) -> None:
    for j in range(a.shape[0]):
        p = primes[j]
        for i in range(a.shape[1]):
            v = U64(b[j, i]) + p - U64(a[j, i])
            a[j, i] = min(v, v - p)


@compiled(in_u8_2, in_u8_2, in_u8, in_u8, in_u8, in_u8, u64, out_u4_2)
def _from_digits(
    digits: U64Array,
    constants: U64Array,
    start: U64Array,
    primes: U64Array,
    inverse: U64Array,
    barrett: U64Array,
    shift: np.uint64,
    out: Residues,
) -> None:
    sums = np.empty(digits.shape[1], np.uint64)
    for j in range(out.shape[0]):
        sums[:] = start[j]
        for k in range(digits.shape[0]):
            factor, row = constants[j, k], digits[k]
            for i in range(sums.size):
                sums[i] += (row[i] & _LOW) * factor
        for i in range(sums.size):
            out[j, i] = _reduced(sums[i], primes[j], inverse[j], barrett[j], shift)


@compiled(in_u4_2, in_u8, in_u8, in_u8, in_u8, u64, out_u4_2)
def _scaled(
    polynomial: Residues,
    factors: U64Array,
    primes: U64Array,
    inverse: U64Array,
    barrett: U64Array,
    shift: np.uint64,
    out: Residues,
) -> None:
    for j in range(out.shape[0]):
        p, inverted, divisor, factor = primes[j], inverse[j], barrett[j], factors[j]
        row, to = polynomial[j], out[j]
        for i in range(out.shape[1]):
            to[i] = _reduced(U64(row[i]) * factor, p, inverted, divisor, shift)


@compiled(in_u4_3, in_u4_3, in_u8, in_u8, in_u8, in_u8, u64, i64, out_u4_3)
def _combine(
    polynomials: Residues,
    factors: Residues,
    primes: U64Array,
    inverse: U64Array,
    barrett: U64Array,
    fold: U64Array,
    shift: np.uint64,
    folding: int,
    out: Residues,
) -> None:
    """Sums of products by tiles that stay in the cache; folded where they might overflow."""
    sums = np.empty(_TILE, np.uint64)
    for j in range(polynomials.shape[0]):
        for start in range(0, polynomials.shape[2], _TILE):
            for h in range(factors.shape[1]):
                sums[:] = U64(0)
                for t in range(polynomials.shape[1]):
                    factor = U64(factors[j, h, t])
                    row = polynomials[j, t, start : start + _TILE]
                    if folding and t % 4 == 0:
                        for i in range(_TILE):
                            sums[i] = (sums[i] >> _WORD) * fold[j] + (sums[i] & _LOW)
                    for i in range(_TILE):
                        sums[i] += U64(row[i]) * factor
                for i in range(_TILE):
                    out[h, j, start + i] = _reduced(
                        sums[i], primes[j], inverse[j], barrett[j], shift
                    )
