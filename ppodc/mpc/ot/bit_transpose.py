"""The bit-matrix transpose of OT extension: columns of bits become rows of 128 bits.

512 rows at a time. Where the processor transposes squares of 8 x 8 bits in one instruction (GFNI)
and takes bytes from anywhere in two vectors of 512 bits (AVX-512 VBMI):

    8 columns of 64 bytes are interleaved byte by byte: 64 squares of 8 columns and 8 rows
    each square is transposed: byte r now holds the 8 columns' bits of row r
    16 such runs of 64 bytes are interleaved: 64 rows of 16 bytes

Columns of a leaf are cut on the way (`code`): of 60 columns 32 are kept, and added to each byte of
them is a linear map of the other 28, 8 x 8 bits in one instruction.

Elsewhere squares of side 32, 16, .., 1 are exchanged with masks and shifts, in words. Both give the
same bits, and neither's time depends on them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ppodc.mpc.compiled import compiled, in_u8, in_u8_2, inlined, out_u8_2
from ppodc.mpc.ot.aes_instructions import features, load_vector, store_vector
from ppodc.mpc.shares.additive import U64, U64Array

INSTRUCTIONS = {"+gfni", "+avx512bw", "+avx512vbmi"} <= features()
_MASKS = (
    U64(0x00000000FFFFFFFF),
    U64(0x00FF00FF00FF00FF),
    U64(0x3333333333333333),
)
_SIZE = 64  # bytes of a vector
_BYTE, _SMALL, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BYTES, _WORDS = ir.VectorType(_BYTE, _SIZE), ir.VectorType(_WORD, 8)


def transpose(matrix: U64Array, out: U64Array, *, instructions: bool = INSTRUCTIONS) -> U64Array:
    """(128, n / 64) words of bits -> (n, 2): row i holds bit i of all 128 columns.

    n is a multiple of 512.
    """
    (_by_instructions if instructions else _by_masks)(matrix, out)
    return out


def cut_transpose(columns: U64Array, maps: U64Array, out: U64Array) -> U64Array:
    """(240, n / 64) words of bits -> (n, 2): rows as `code` cuts them with its `byte_maps`.

    Only where there are INSTRUCTIONS.
    """
    _cut_by_instructions(columns, np.repeat(maps, 8), out)
    return out


# ------------------------------------------------------------ by the processor's instructions


def _interleaved(builder: Any, vectors: list[Any]) -> list[Any]:
    """Byte 0 of all vectors in their order, then byte 1 of all, and so on; 2^j vectors."""
    if len(vectors) == 1:
        return vectors
    # evens and odds apart, then one of these, one of those
    evens, odds = (_interleaved(builder, vectors[first::2]) for first in (0, 1))
    low = [at // 2 + _SIZE * (at % 2) for at in range(_SIZE)]
    halves = [
        ir.Constant(ir.VectorType(_SMALL, _SIZE), [place + shift for place in low])
        for shift in (0, _SIZE // 2)
    ]
    return [
        builder.shuffle_vector(even, odd, half)
        for even, odd in zip(evens, odds, strict=True)
        for half in halves
    ]


def _affine(builder: Any) -> Any:
    """The instruction that multiplies bytes by a matrix of 8 x 8 bits."""
    kind = ir.FunctionType(_BYTES, [_BYTES, _BYTES, _BYTE])
    name = "llvm.x86.vgf2p8affineqb.512"
    return cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]


def _eight_columns(_: Any, matrix: Any, place: Any, stride: Any, room: Any, to: Any) -> Any:
    """Words place.. place + 7 of eight columns: rows' bytes to eight vectors of `room`."""
    whole = types.int64
    signature = types.void(matrix, whole, whole, room, whole)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        matrix, room = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 3)
        )
        _, place, stride, _, to = values
        affine = _affine(builder)
        columns = []
        for column in range(7, -1, -1):  # the instruction takes the rows of a square from below
            at = builder.add(place, builder.mul(stride, _WORD(column)))
            columns.append(builder.bitcast(load_vector(builder, matrix, at, 8), _BYTES))
        unit = ir.Constant(_BYTES, [1 << (byte % 8) for byte in range(_SIZE)])
        for number, squares in enumerate(_interleaved(builder, columns)):
            turned = builder.call(affine, [unit, squares, _BYTE(0)])
            at = builder.add(to, _WORD(8 * number))
            store_vector(builder, builder.bitcast(turned, _WORDS), room, at, 8)
        return context.get_dummy_value()

    return signature, generate


def _sixteen_bytes(_: Any, room: Any, place: Any, out: Any, to: Any) -> Any:
    """64 rows of 16 bytes from 16 vectors of `room`, which lie 64 words apart."""
    whole = types.int64
    signature = types.void(room, whole, out, whole)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        room, out = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 2)
        )
        _, place, _, to = values
        parts = []
        for group in range(16):
            at = builder.add(place, _WORD(64 * group))
            parts.append(builder.bitcast(load_vector(builder, room, at, 8), _BYTES))
        for number, rows in enumerate(_interleaved(builder, parts)):
            at = builder.add(to, _WORD(8 * number))
            store_vector(builder, builder.bitcast(rows, _WORDS), out, at, 8)
        return context.get_dummy_value()

    return signature, generate


def _added_bytes(_: Any, room: Any, place: Any, other: Any, maps: Any) -> Any:
    """To 4 vectors of `room` that lie 64 words apart, maps of those of `other` at the same places.

    Map 4 g + q takes bytes of the q-th of `other` to what is added to the g-th of `room`.
    """
    signature = types.void(room, types.int64, other, maps)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        room, other, maps = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 2, 3)
        )
        affine, place = _affine(builder), values[1]

        def loaded(array: Any, at: Any) -> Any:
            return builder.bitcast(load_vector(builder, array, at, 8), _BYTES)

        places = [builder.add(place, _WORD(64 * number)) for number in range(4)]
        parts = [loaded(other, at) for at in places]
        for g, at in enumerate(places):
            total = loaded(room, at)
            for q, part in enumerate(parts):
                matrix = loaded(maps, _WORD(8 * (4 * g + q)))
                total = builder.xor(total, builder.call(affine, [part, matrix, _BYTE(0)]))
            store_vector(builder, builder.bitcast(total, _WORDS), room, at, 8)
        return context.get_dummy_value()

    return signature, generate


_bytes_of_rows: Callable[..., None] = intrinsic(_eight_columns)
_add_bytes: Callable[..., None] = intrinsic(_added_bytes)
_whole_rows: Callable[..., None] = intrinsic(_sixteen_bytes)


def _native(*arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return compiled(*arguments) if INSTRUCTIONS else lambda function: function


@_native(in_u8_2, out_u8_2)
def _by_instructions(matrix: U64Array, out: U64Array) -> None:
    words = matrix.shape[1]
    columns, rows = matrix.reshape(-1), out.reshape(-1)
    room = np.empty(16 * 64, np.uint64)  # stays in the first-level cache
    for first in range(0, words, 8):
        for group in range(16):
            _bytes_of_rows(columns, 8 * group * words + first, words, room, 64 * group)
        for part in range(8):
            _whole_rows(room, 8 * part, rows, 2 * (64 * first + 64 * part))


@_native(in_u8_2, in_u8, out_u8_2)
def _cut_by_instructions(columns: U64Array, maps: U64Array, out: U64Array) -> None:
    words = columns.shape[1]
    flat, rows = columns.reshape(-1), out.reshape(-1)
    room, other = np.empty(16 * 64, np.uint64), np.empty(16 * 64, np.uint64)
    for first in range(0, words, 8):
        for rho in range(4):
            for g in range(4):
                at = 64 * (4 * rho + g)
                _bytes_of_rows(flat, (60 * rho + 8 * g) * words + first, words, room, at)
                # bytes of the columns 32.., 40.., 48.. and, as 28 are no whole bytes, 52..
                place = 32 + min(8 * g, 20)
                _bytes_of_rows(flat, (60 * rho + place) * words + first, words, other, at)
            for part in range(8):
                _add_bytes(room, 64 * 4 * rho + 8 * part, other, maps)
        for part in range(8):
            _whole_rows(room, 8 * part, rows, 2 * (64 * first + 64 * part))


# ----------------------------------------------------------------------- by masks


@inlined
def _swap_twice(block: U64Array, far: int, mask: np.uint64) -> None:
    """Exchange the off-diagonal squares of side `far`, then of far / 2, in each 64 x 64 block."""
    near = far // 2
    by_far, by_near = U64(far), U64(near)
    fine = mask ^ (mask << by_near)
    for base in range(0, 64, 2 * far):
        for row in range(base, base + near):
            for lane in range(8):
                a, b = block[row, lane], block[row + near, lane]
                c, d = block[row + far, lane], block[row + far + near, lane]
                s, t = ((a >> by_far) ^ c) & mask, ((b >> by_far) ^ d) & mask
                a, b, c, d = a ^ (s << by_far), b ^ (t << by_far), c ^ s, d ^ t
                s, t = ((a >> by_near) ^ b) & fine, ((c >> by_near) ^ d) & fine
                block[row, lane], block[row + near, lane] = a ^ (s << by_near), b ^ s
                block[row + far, lane], block[row + far + near, lane] = c ^ (t << by_near), d ^ t


@inlined
def _transpose_blocks(matrix: U64Array, first_row: int, first: int, block: U64Array) -> None:
    """Eight blocks of 64 x 64 side by side, so that each step is a vector instruction."""
    for row in range(64):
        for lane in range(8):
            block[row, lane] = matrix[first_row + row, first + lane]
    _swap_twice(block, 32, _MASKS[0])
    _swap_twice(block, 8, _MASKS[1])
    _swap_twice(block, 2, _MASKS[2])


@compiled(in_u8_2, out_u8_2)
def _by_masks(matrix: U64Array, out: U64Array) -> None:
    low, high = np.empty((64, 8), np.uint64), np.empty((64, 8), np.uint64)
    for first in range(0, matrix.shape[1], 8):
        _transpose_blocks(matrix, 0, first, low)
        _transpose_blocks(matrix, 64, first, high)
        for lane in range(8):
            for row in range(64):
                out[(first + lane) * 64 + row, 0] = low[row, lane]
                out[(first + lane) * 64 + row, 1] = high[row, lane]
