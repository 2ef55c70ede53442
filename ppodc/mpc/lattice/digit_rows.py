"""Columns of long numbers as rows of 28-bit digits, the form in which kernels can vectorise.

Row k of a (K, n) array holds digit k of n numbers, least significant first, in words of 64 bits:
room for sums of products of two digits before carries are passed on. Everything here is local.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.compiled import (
    compiled,
    i64,
    in_u4,
    in_u4_2,
    in_u8,
    in_u8_2,
    out_u4,
    out_u8_2,
    u64,
)
from ppodc.mpc.shares.additive import U64, U64Array

Factors = NDArray[np.uint32]  # (rows, n)
BITS = 28
_MASK = U64((1 << BITS) - 1)
_TILE = 1024  # columns whose digits stay in the cache
_WORD = U64(32)
_LOW = U64(0xFFFFFFFF)


def count_for(bits: int) -> int:
    """Digits of numbers of this many bits."""
    return -(-bits // BITS)


def digits_of(number: int, count: int) -> U64Array:
    """The low `count` digits of one integer of any sign."""
    return np.array([(number >> (BITS * k)) & int(_MASK) for k in range(count)], U64)


def from_words(words: U64Array, bits: int, columns: int) -> U64Array:
    """Numbers (n, L) as digits (K, columns); numbers beyond n are zero."""
    out = np.zeros((count_for(bits), columns), U64)
    _from_words(np.ascontiguousarray(words), out)
    return out


def to_words(digits: U64Array, drop: int, limbs: int) -> U64Array:
    """Numbers (n, limbs) of digits without their lowest `drop` bits; digits are below 2^28."""
    out = np.zeros((digits.shape[1], limbs), U64)
    _to_words(np.ascontiguousarray(digits), drop, out)
    return out


def carry(digits: U64Array, bits: int) -> None:
    """Pass carries on, in place; the result is modulo 2^bits, all digits there are."""
    top = bits - BITS * (len(digits) - 1)
    _carry(digits, U64((1 << top) - 1))


def add_products(digits: U64Array, factor: U64Array, constants: U64Array) -> None:
    """digits[k] += factor * constants[k] for all k, factors below 2^32; carries stay."""
    _add_products(digits, factor, constants)


def add_all_products(digits: U64Array, factors: Factors, constants: U64Array) -> None:
    """digits[k] += sum_j factors[j] * constants[j, k] for all k; carries stay."""
    _add_all_products(digits, factors, np.ascontiguousarray(constants))


def pack(rows: U64Array | NDArray[np.uint32], widths: Sequence[int]) -> NDArray[np.uint32]:
    """Columns one behind the other, widths[k] <= 32 bits of each row k."""
    bits = sum(widths) * rows.shape[1]
    out = np.zeros(-(-bits // 32), np.uint32)
    _pack(np.ascontiguousarray(rows, U64), np.array(widths, U64), out)
    return out


def packed_words(widths: Sequence[int], columns: int) -> int:
    """Words of 32 bits that `pack` gives."""
    return -(-sum(widths) * columns // 32)


def unpack(words: NDArray[np.uint32], widths: Sequence[int], columns: int) -> U64Array:
    """The rows that `pack` took."""
    out = np.empty((len(widths), columns), U64)
    _unpack(np.ascontiguousarray(words), np.array(widths, U64), out)
    return out


def pack_one(row: NDArray[np.uint32], width: int) -> NDArray[np.uint32]:
    """`pack` of a single row of numbers of up to 32 bits."""
    out = np.empty(packed_words([width], row.size), np.uint32)
    _pack_one(np.ascontiguousarray(row), U64(width), out)
    return out


def unpack_one(words: NDArray[np.uint32], width: int, columns: int) -> NDArray[np.uint32]:
    """The row that `pack_one` took."""
    out = np.empty(columns, np.uint32)
    _unpack_one(np.ascontiguousarray(words), U64(width), out)
    return out


def widths_for(bits: int) -> list[int]:
    """Widths of the digits of numbers of this many bits."""
    return [min(BITS, bits - at) for at in range(0, bits, BITS)]


@compiled(in_u8_2, out_u8_2)
def _from_words(words: U64Array, out: U64Array) -> None:
    for i in range(words.shape[0]):
        for k in range(out.shape[0]):
            limb, shift = (28 * k) >> 6, U64((28 * k) & 63)
            if limb < words.shape[1]:
                v = words[i, limb] >> shift
                if shift > U64(36) and limb + 1 < words.shape[1]:
                    v |= words[i, limb + 1] << (U64(64) - shift)
                out[k, i] = v & _MASK


@compiled(in_u8_2, i64, out_u8_2)
def _to_words(digits: U64Array, drop: int, out: U64Array) -> None:
    limbs = out.shape[1]
    for i in range(digits.shape[1]):
        for k in range(digits.shape[0]):
            at = 28 * k - drop
            v = digits[k, i]
            if at < 0:
                if at > -28:
                    out[i, 0] |= v >> U64(-at)
                continue
            limb, shift = at >> 6, U64(at & 63)
            if limb < limbs:
                out[i, limb] |= v << shift
                if shift > U64(36) and limb + 1 < limbs:
                    out[i, limb + 1] |= v >> (U64(64) - shift)


@compiled(out_u8_2, u64)
def _carry(digits: U64Array, top: np.uint64) -> None:
    last = digits.shape[0] - 1
    for k in range(last):
        low, high = digits[k], digits[k + 1]
        for i in range(digits.shape[1]):
            high[i] += low[i] >> U64(28)
            low[i] &= _MASK
    for i in range(digits.shape[1]):
        digits[last, i] &= top


@compiled(out_u8_2, in_u8, in_u8)
def _add_products(digits: U64Array, factor: U64Array, constants: U64Array) -> None:
    for k in range(digits.shape[0]):
        constant, row = constants[k], digits[k]
        for i in range(row.size):
            row[i] += (factor[i] & _LOW) * constant


@compiled(out_u8_2, in_u4_2, in_u8_2)
def _add_all_products(digits: U64Array, factors: Factors, constants: U64Array) -> None:
    for start in range(0, digits.shape[1], _TILE):
        end = min(start + _TILE, digits.shape[1])
        for j in range(factors.shape[0]):
            own = factors[j, start:end]
            for k in range(digits.shape[0]):
                constant, row = constants[j, k], digits[k, start:end]
                for i in range(row.size):
                    row[i] += U64(own[i]) * constant


@compiled(in_u8_2, in_u8, out_u4)
def _pack(rows: U64Array, widths: U64Array, out: NDArray[np.uint32]) -> None:
    buffer, held, at = U64(0), U64(0), 0
    for i in range(rows.shape[1]):
        for k in range(rows.shape[0]):
            buffer |= rows[k, i] << held
            held += widths[k]
            if held >= _WORD:
                out[at] = buffer & _LOW
                at += 1
                buffer >>= _WORD
                held -= _WORD
    if held > U64(0):
        out[at] = buffer & _LOW


@compiled(in_u4, in_u8, out_u8_2)
def _unpack(words: NDArray[np.uint32], widths: U64Array, out: U64Array) -> None:
    buffer, held, at = U64(0), U64(0), 0
    for i in range(out.shape[1]):
        for k in range(out.shape[0]):
            if held < widths[k]:
                buffer |= U64(words[at]) << held
                at += 1
                held += _WORD
            out[k, i] = buffer & ((U64(1) << widths[k]) - U64(1))
            buffer >>= widths[k]
            held -= widths[k]


@compiled(in_u4, u64, out_u4)
def _pack_one(row: NDArray[np.uint32], width: np.uint64, out: NDArray[np.uint32]) -> None:
    buffer, held, at = U64(0), U64(0), 0
    for i in range(row.size):
        buffer |= U64(row[i]) << held
        held += width
        if held >= _WORD:
            out[at] = buffer & _LOW
            at += 1
            buffer >>= _WORD
            held -= _WORD
    if held > U64(0):
        out[at] = buffer & _LOW


@compiled(in_u4, u64, out_u4)
def _unpack_one(words: NDArray[np.uint32], width: np.uint64, out: NDArray[np.uint32]) -> None:
    mask = (U64(1) << width) - U64(1)
    last = words.size - 1
    for i in range(out.size):
        at = U64(i) * width
        place, shift = np.int64(at >> U64(5)), at & U64(31)
        both = U64(words[place])
        if place < last:
            both |= U64(words[place + 1]) << _WORD
        out[i] = (both >> shift) & mask
