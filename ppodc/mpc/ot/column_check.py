"""The consistency check of the OT extension: a receiver must have used one choice in all trees.

Columns of a lot are vectors of its rows, in blocks of 128 bits b_0, b_1, ..; for a challenge chi

    h(b) = b_0 + sum_(s >= 1) AES_chi(s) b_s       in GF(2^128), X^128 + X^7 + X^2 + X + 1

    sender    draws chi when it has the receiver's message of the lot, and sends it
    receiver  sends  r~_j = h(r_j), j < k,  and  SHA-256(name of the lot | all h(v_(i,j)))
    sender    compares with  h(w_(i,j)) ^ D_(i,j) code_i(r~),  one verdict over all columns

The rows of b_0 are random, mask r~ and are thrown away: the sender learns nothing from the answer,
whatever chi is. There is one challenge a lot, ever; two answers under one mask would tell a
combination of choices. h is linear, so that an honest lot passes.

*A receiver that deviates* has c_i = u_i ^ m_i in tree i. Let eta_i = h(c_i) ^ code_i(r~). A tree
with eta_i != 0 passes for exactly one value of its four bits of D, so that t such trees pass with
16^-t at most. Let Z be the other trees. If (c_i), i in Z, is no word of the code cut to Z, some
parity of it is a non-zero column that h maps to 0: chance 2^-128, as chi comes after the message.
Summed over all Z the error is at most 2^-128 (17/16)^n: 2^-125.2 for rows and 2^-122.7 for leaves,
a lot. Otherwise, as t < 32 is below the distance, one r fits outside the guessed trees, and every
other pad stays behind an offset of at least 128 - 4 t unknown bits. So a receiver learns at most b
bits of D with chance 2^-b, and else the session ends; D is new in the next one.

Where a challenge is the hash of all that was sent (`start`) the error grows by the number of hashes
that the receiver tries.

Bytes a lot: 16 for the challenge, 16 k + 32 for the answer. Operations: 4 carry-less products for
each 128 bits of a column, by the processor's instruction where it has one, else by masks and
shifts in constant time.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from ppodc.errors import CheckError
from ppodc.mpc.compiled import compiled, in_u8, in_u8_2, inlined, out_u8_2
from ppodc.mpc.ot.aes_instructions import features, load_vector
from ppodc.mpc.ot.code import Code
from ppodc.mpc.ot.leaf_streams import DEPTH
from ppodc.mpc.shares.additive import U64, U64Array

CHALLENGE_BYTES = 16
DIGEST_BYTES = 32
_WORD, _BYTE, _SMALL = ir.IntType(64), ir.IntType(8), ir.IntType(32)


def _blocks_of_this_machine() -> int:
    known = features()
    if "+pclmul" not in known:
        return 0
    if {"+vpclmulqdq", "+avx512f"} <= known:
        return 4
    return 2 if {"+vpclmulqdq", "+avx2"} <= known else 1


BLOCKS = _blocks_of_this_machine()  # of 128 bits that one instruction takes


def coefficients(challenge: bytes, words: int) -> U64Array:
    """1, AES_chi(1), AES_chi(2), ...: (words), two words each."""
    stream = Cipher(algorithms.AES128(challenge), modes.CTR(bytes(16))).encryptor()
    found = np.frombuffer(stream.update(bytes(8 * words)), "<u8").astype(U64)
    found[:2] = 1, 0
    return found


def hashes(columns: U64Array, factors: U64Array, *, instructions: bool = BLOCKS > 0) -> U64Array:
    """h of columns (n, words) with these coefficients; words is a multiple of 8: (n, 2)."""
    out = np.empty((len(columns), 2), U64)
    (_by_instructions if instructions else _by_masks)(columns, factors, out)
    return out


def answer(
    name: bytes, challenge: bytes, choices: U64Array, columns: U64Array
) -> tuple[U64Array, NDArray[np.uint8]]:
    """The receiver's r~ (k, 2) and digest (32) for a lot's choices (k, words) and columns v."""
    factors = coefficients(challenge, columns.shape[1])
    return hashes(choices, factors), _digest(name, hashes(columns, factors))


def verify(
    name: bytes,
    code: Code,
    delta: NDArray[np.uint8],
    hashed: U64Array,
    masked: U64Array,
    digest: NDArray[np.uint8],
) -> None:
    """Compare r~ and digest with h of the sender's columns; CheckError if the answer is false."""
    words = np.repeat(code.words_of(masked), DEPTH, axis=0)
    expected = hashed ^ words * delta.astype(U64)[:, None]
    if not hmac.compare_digest(_digest(name, expected).tobytes(), digest.tobytes()):
        raise CheckError("the other cloud's transfers do not fit their check. Start a new pair.")


def _digest(name: bytes, hashed: U64Array) -> NDArray[np.uint8]:
    data = hashlib.sha256(name + hashed.astype("<u8").tobytes()).digest()
    return np.frombuffer(data, np.uint8)


@inlined
def _reduced(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """A product of 255 bits modulo the field's polynomial."""
    one, two, seven = U64(1), U64(2), U64(7)
    # what leaves the upper half when it is shifted by 1, 2 and 7
    over = (c3 >> U64(63)) ^ (c3 >> U64(62)) ^ (c3 >> U64(57))
    low = c2 ^ (c2 << one) ^ (c2 << two) ^ (c2 << seven)
    high = c3 ^ (c3 << one) ^ (c3 << two) ^ (c3 << seven)
    high ^= (c2 >> U64(63)) ^ (c2 >> U64(62)) ^ (c2 >> U64(57))
    low ^= over ^ (over << one) ^ (over << two) ^ (over << seven)
    return c0 ^ low, c1 ^ high


# ------------------------------------------------------------ by the processor's instruction


def _column(_: Any, columns: Any, place: Any, factors: Any, words: Any, out: Any) -> Any:
    """Sums of the products of blocks, not reduced: c0..c3 and the middle ones, to out[0..5]."""
    whole = types.int64
    signature = types.void(columns, whole, factors, whole, out)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        columns, factors, out = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 2, 4)
        )
        _, place, _, words, _ = values
        size = 2 * BLOCKS
        wide = ir.VectorType(_WORD, size)
        kind = ir.FunctionType(wide, [wide, wide, _BYTE])
        name = "llvm.x86.pclmulqdq" + {8: ".512", 4: ".256", 2: ""}[size]
        multiply = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
        nothing = ir.Constant(wide, [0] * size)
        sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(3)]  # type: ignore[no-untyped-call]
        step = (_WORD(0), words, _WORD(size))
        with cgutils.for_range_slice(builder, *step, intp=_WORD) as (at, _):
            a = load_vector(builder, columns, builder.add(place, at), size)
            b = load_vector(builder, factors, at, size)
            both = [builder.call(multiply, [a, b, _BYTE(x)]) for x in (0x00, 0x01, 0x10, 0x11)]
            parts = both[0], builder.xor(both[1], both[2]), both[3]
            for total, part in zip(sums, parts, strict=True):
                builder.store(builder.xor(builder.load(total), part), total)
        for number, total in enumerate(sums):
            value = builder.load(total)
            for half in range(2):
                word = None
                for lane in range(half, size, 2):
                    one = builder.extract_element(value, _SMALL(lane))
                    word = one if word is None else builder.xor(word, one)
                builder.store(word, builder.gep(out.data, [_WORD(2 * number + half)]))
        return context.get_dummy_value()

    return signature, generate


_products: Callable[..., None] = intrinsic(_column)


def _native(*arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return compiled(*arguments) if BLOCKS else lambda function: function


@_native(in_u8_2, in_u8, out_u8_2)
def _by_instructions(columns: U64Array, factors: U64Array, out: U64Array) -> None:
    flat, words = columns.reshape(-1), columns.shape[1]
    c = np.empty(6, np.uint64)
    for i in range(columns.shape[0]):
        _products(flat, i * words, factors, words, c)
        out[i, 0], out[i, 1] = _reduced(c[0], c[1] ^ c[2], c[3] ^ c[4], c[5])


# ----------------------------------------------------------------------- by masks


@compiled(in_u8_2, in_u8, out_u8_2)
def _by_masks(columns: U64Array, factors: U64Array, out: U64Array) -> None:
    """For each place the sum of the factors whose blocks have that bit, then Horner's rule."""
    low, high = np.empty(128, np.uint64), np.empty(128, np.uint64)
    for i in range(columns.shape[0]):
        low[:], high[:] = U64(0), U64(0)
        for at in range(0, columns.shape[1], 2):
            f0, f1 = factors[at], factors[at + 1]
            for half in range(2):
                word = columns[i, at + half]
                for bit in range(64):
                    mask = U64(0) - ((word >> U64(bit)) & U64(1))
                    low[64 * half + bit] ^= f0 & mask
                    high[64 * half + bit] ^= f1 & mask
        t0, t1 = U64(0), U64(0)
        for place in range(127, -1, -1):
            carry = U64(0) - (t1 >> U64(63))
            t1 = (t1 << U64(1)) | (t0 >> U64(63))
            t0 = (t0 << U64(1)) ^ (carry & U64(0x87))
            t0, t1 = t0 ^ low[place], t1 ^ high[place]
        out[i, 0], out[i, 1] = t0, t1
