"""The public local code of silent transfers: each row is the sum of ten secret rows and its noise.

Row i of a batch names ten of k rows, with 170 bits of AES-128 in counter mode under a public key.
The code is linear: sender and receiver apply it to their shares of the secret rows and of the noise
(`point_trees`), and have q = t ^ r D for the sums.

Both directions of a session use the same code, so that their tables stand side by side: one look
serves both.

Who learns what: nothing; no message. Operations a row: ten places of a table of 32 k bytes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ppodc.mpc.compiled import compiled, i64, in_u8_2, out_u8_2
from ppodc.mpc.ot.aes_instructions import load_vector, store_vector
from ppodc.mpc.ot.silent.noise import LOCALITY
from ppodc.mpc.shares.additive import U64Array

_ROW_WORDS = 3  # that name the places of a row: three of each, and one of what is left
_STEP = 1 << 12  # rows whose places are made at a time
_SLACK = 16  # `update_into` wants room for one block more


def encode(key: bytes, table: U64Array, first: int, q: U64Array, t: U64Array, *, bits: int) -> None:
    """Add the sums to rows q (n, 2) as sender and t (n, 2) as receiver, the batch's from `first`.

    `table` (2^bits, 4) has the secret rows, q beside t.
    """
    size, skipped = 8 * _ROW_WORDS * _STEP, first % 2  # two rows take whole blocks
    space, zeros = np.empty(size + _SLACK, np.uint8), bytes(size)
    counter = ((first - skipped) * _ROW_WORDS // 2).to_bytes(16, "big")
    stream = Cipher(algorithms.AES128(key), modes.CTR(counter)).encryptor()
    words = space[:size].view("<u8").reshape(_STEP, _ROW_WORDS)
    for start in range(-skipped, len(q), _STEP):
        stream.update_into(zeros, space.data)
        part = slice(max(start, 0), start + _STEP)
        _encode(words[max(-start, 0) :], table, bits, q[part], t[part])


def _sum_of_row(_: Any, words: Any, at: Any, table: Any, bits: Any, q: Any, t: Any) -> Any:
    """Add the rows that words 3 at, 3 at + 1, 3 at + 2 name to row `at` of q and t."""
    whole = types.int64
    signature = types.void(words, whole, table, whole, q, t)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words, table, q, t = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 2, 4, 5)
        )
        _, at, _, bits, _, _ = values
        word, small = ir.IntType(64), ir.IntType(32)
        mask = builder.sub(builder.shl(word(1), bits), word(1))
        row = builder.mul(at, word(_ROW_WORDS))
        named = [
            builder.load(builder.gep(words.data, [builder.add(row, word(i))]))
            for i in range(_ROW_WORDS)
        ]
        places, shift = [], [word(0), bits, builder.add(bits, bits)]
        for one in named:
            places += [builder.and_(builder.lshr(one, by), mask) for by in shift]
        used = builder.add(shift[2], bits)
        left = builder.sub(word(64), used)  # bits of a word that three places leave
        rest = builder.or_(
            builder.lshr(named[0], used), builder.shl(builder.lshr(named[1], used), left)
        )
        places.append(builder.and_(rest, mask))
        total = None
        for place in places:
            one = load_vector(builder, table, builder.shl(place, word(2)), 4)
            total = one if total is None else builder.xor(total, one)
        pair = builder.shl(at, word(1))
        for side, out in enumerate((q, t)):
            lanes = ir.Constant(ir.VectorType(small, 2), [2 * side, 2 * side + 1])
            half = builder.shuffle_vector(total, total, lanes)
            sum_ = builder.xor(load_vector(builder, out, pair, 2), half)
            store_vector(builder, sum_, out, pair, 2)
        return context.get_dummy_value()

    return signature, generate


if LOCALITY != 3 * _ROW_WORDS + 1:
    raise ValueError("the words of a row name another number of places")
_add_row: Callable[..., None] = intrinsic(_sum_of_row)


@compiled(in_u8_2, in_u8_2, i64, out_u8_2, out_u8_2)
def _encode(words: U64Array, table: U64Array, bits: int, q: U64Array, t: U64Array) -> None:
    named, rows = words.reshape(-1), table.reshape(-1)
    own, other = q.reshape(-1), t.reshape(-1)
    for i in range(q.shape[0]):
        _add_row(named, i, rows, bits, own, other)
