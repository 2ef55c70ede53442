"""Additive shares modulo 2^(64 L): numbers of L limbs (uint64, least significant first).

A value x is x1 + x2 mod 2^(64 L), with x1 at C1 and x2 at C2, each of them uniform. Everything
here is local: no message is sent, and nobody learns anything. The number of limbs is bounded
only by memory and time; the suite is tested up to 40.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.compiled import (
    compiled,
    in_u8_2,
    in_u8_3,
    inlined,
    out_u8_2,
    out_u8_3,
)

U64Array = NDArray[np.uint64]
U64 = np.uint64
LIMB_BITS = 64
_LOW = U64(0xFFFFFFFF)
_HALF = U64(32)
_ZERO = U64(0)


@dataclass(frozen=True, slots=True, repr=False)
class AdditiveShare:
    """One cloud's additive share of an array of values; `limbs` has the shape (..., L)."""

    limbs: U64Array

    @property
    def length(self) -> int:
        """Limbs per value."""
        return int(self.limbs.shape[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of values."""
        return self.limbs.shape[:-1]

    def __repr__(self) -> str:
        return f"AdditiveShare({self.shape}, {self.length} limbs)"

    def __getitem__(self, part: int | slice | tuple[int | slice, ...]) -> "AdditiveShare":
        return AdditiveShare(self.limbs[part])

    def __add__(self, other: "AdditiveShare") -> "AdditiveShare":
        return AdditiveShare(_both(_add, self.limbs, other.limbs))

    def __sub__(self, other: "AdditiveShare") -> "AdditiveShare":
        return AdditiveShare(_both(_sub, self.limbs, other.limbs))

    def __neg__(self) -> "AdditiveShare":
        return AdditiveShare(np.zeros_like(self.limbs)) - self

    def times(self, factor: int) -> "AdditiveShare":
        """The share of a public multiple."""
        return AdditiveShare(product(self.limbs, limbs_of([factor], self.length)[0]))

    def sum(self, axis: int = 0) -> "AdditiveShare":
        """The share of the sum along an axis of the array of values."""
        moved = np.moveaxis(self.limbs, axis, 0)
        sums = math.prod(moved.shape[1:-1])
        flat = np.ascontiguousarray(moved).reshape(len(moved), sums, self.length)
        out = np.zeros(flat.shape[1:], U64)
        _fold(flat, out)
        return AdditiveShare(out.reshape(moved.shape[1:]))

    def running_sums(self) -> "AdditiveShare":
        """x_0, x_0 + x_1, ... of an array (n)."""
        out = np.empty_like(self.limbs)
        _running(np.ascontiguousarray(self.limbs), out)
        return AdditiveShare(out)

    def reshape(self, *shape: int) -> "AdditiveShare":
        """Equal values in an array of another shape."""
        return AdditiveShare(self.limbs.reshape(*shape, self.length))

    def low(self, length: int) -> "AdditiveShare":
        """The values modulo 2^(64 length): truncation keeps shares valid."""
        return AdditiveShare(np.ascontiguousarray(self.limbs[..., :length]))

    @staticmethod
    def concat(parts: "Sequence[AdditiveShare]") -> "AdditiveShare":
        """Arrays one behind the other, along the first axis."""
        return AdditiveShare(np.concatenate([part.limbs for part in parts]))


def zeros(shape: tuple[int, ...], length: int) -> AdditiveShare:
    """Zero shares: this cloud's part of values that the other one knows in full."""
    return AdditiveShare(np.zeros((*shape, length), U64))


def public(values: Sequence[int], length: int, role: int) -> AdditiveShare:
    """Shares of public numbers: C1 holds them, C2 holds zeros."""
    if role == 2:
        return zeros((len(values),), length)
    return AdditiveShare(limbs_of(values, length))


def limbs_of(values: Iterable[int], length: int) -> U64Array:
    """(n, length) limbs of Python integers of any sign, modulo 2^(64 length)."""
    mask, size = (1 << (LIMB_BITS * length)) - 1, 8 * length
    data = b"".join((int(value) & mask).to_bytes(size, "little") for value in values)
    return np.frombuffer(bytearray(data), "<u8").astype(U64, copy=False).reshape(-1, length)


def integers(limbs: U64Array) -> list[int]:
    """The numbers 0..2^(64 L) - 1 in an array of limbs, in C order."""
    size = 8 * limbs.shape[-1]
    data = np.ascontiguousarray(limbs, "<u8").tobytes()
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def product(a: U64Array, b: U64Array) -> U64Array:
    """a * b of one cloud's own numbers, element by element; shapes broadcast."""
    a, b = np.broadcast_arrays(a, b)
    left, right = _rows(a), _rows(b)
    out = np.zeros_like(left)
    _mul(left, right, out)
    return out.reshape(a.shape)


def matrix_product(a: U64Array, b: U64Array) -> U64Array:
    """(n, l) times (l, c) of one cloud's own numbers, with limbs behind."""
    out = np.zeros((a.shape[0], b.shape[1], b.shape[2]), U64)
    add_matrix_product(a, b, out)
    return out


def add_matrix_product(a: U64Array, b: U64Array, out: U64Array) -> None:
    """Add (n, l) times (l, c) of one cloud's own numbers to (n, c)."""
    _matmul(np.ascontiguousarray(a), np.ascontiguousarray(b), out)


def _rows(limbs: U64Array) -> U64Array:
    return np.ascontiguousarray(limbs).reshape(-1, limbs.shape[-1])


def _both(
    kernel: Callable[[U64Array, U64Array, U64Array], None], a: U64Array, b: U64Array
) -> U64Array:
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"rings differ: {a.shape[-1]} and {b.shape[-1]} limbs")
    a, b = np.broadcast_arrays(a, b)
    left, right = _rows(a), _rows(b)
    out = np.empty_like(left)
    kernel(left, right, out)
    return out.reshape(a.shape)


@inlined
def add_carry(a: np.uint64, b: np.uint64, carry: np.uint64) -> tuple[np.uint64, np.uint64]:
    """a + b + carry and what leaves the word: up to 2, since a carry may be any word."""
    t = a + b
    s = t + carry
    return s, U64(t < a) + U64(s < t)


@inlined
def sub_borrow(a: np.uint64, b: np.uint64, borrow: np.uint64) -> tuple[np.uint64, np.uint64]:
    """a - b - borrow and the borrow out."""
    t = a - b
    s = t - borrow
    return s, U64(a < b) | U64(t < borrow)


@inlined
def _wide(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """a * b as (low, high)."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low, middle, other = a0 * b0, a1 * b0, a0 * b1
    carry = ((low >> _HALF) + (middle & _LOW) + (other & _LOW)) >> _HALF
    return a * b, a1 * b1 + (middle >> _HALF) + (other >> _HALF) + carry


@compiled(in_u8_2, in_u8_2, out_u8_2)
def _add(a: U64Array, b: U64Array, out: U64Array) -> None:
    for i in range(a.shape[0]):
        carry = _ZERO
        for e in range(a.shape[1]):
            out[i, e], carry = add_carry(a[i, e], b[i, e], carry)


@compiled(in_u8_2, in_u8_2, out_u8_2)
def _sub(a: U64Array, b: U64Array, out: U64Array) -> None:
    for i in range(a.shape[0]):
        borrow = _ZERO
        for e in range(a.shape[1]):
            out[i, e], borrow = sub_borrow(a[i, e], b[i, e], borrow)


@compiled(in_u8_2, in_u8_2, out_u8_2)
def _mul(a: U64Array, b: U64Array, out: U64Array) -> None:
    length = a.shape[1]
    for i in range(a.shape[0]):
        for e in range(length):
            carry = _ZERO
            for f in range(length - e):
                low, high = _wide(a[i, e], b[i, f])
                s, over = add_carry(out[i, e + f], low, carry)
                out[i, e + f] = s
                carry = high + over  # high <= 2^64 - 2: no overflow


@compiled(in_u8_3, in_u8_3, out_u8_3)
def _matmul(a: U64Array, b: U64Array, out: U64Array) -> None:
    length = a.shape[2]
    if length == 2:  # the distances of most jobs: sums stay in registers
        for i in range(a.shape[0]):
            for h in range(b.shape[1]):
                first, second = out[i, h, 0], out[i, h, 1]
                for s in range(a.shape[1]):
                    low, high = _wide(a[i, s, 0], b[s, h, 0])
                    first, over = add_carry(first, low, _ZERO)
                    second += high + a[i, s, 0] * b[s, h, 1] + a[i, s, 1] * b[s, h, 0] + over
                out[i, h, 0], out[i, h, 1] = first, second
        return
    for i in range(a.shape[0]):
        for s in range(a.shape[1]):
            for h in range(b.shape[1]):
                for e in range(length):
                    carry = _ZERO
                    for f in range(length - e):
                        low, high = _wide(a[i, s, e], b[s, h, f])
                        t, over = add_carry(out[i, h, e + f], low, carry)
                        out[i, h, e + f] = t
                        carry = high + over


@compiled(in_u8_3, out_u8_2)
def _fold(values: U64Array, out: U64Array) -> None:
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            carry = _ZERO
            for e in range(values.shape[2]):
                out[j, e], carry = add_carry(out[j, e], values[i, j, e], carry)


@compiled(in_u8_2, out_u8_2)
def _running(values: U64Array, out: U64Array) -> None:
    for i in range(values.shape[0]):
        carry = _ZERO
        for e in range(values.shape[1]):
            before = out[i - 1, e] if i else _ZERO
            out[i, e], carry = add_carry(before, values[i, e], carry)
