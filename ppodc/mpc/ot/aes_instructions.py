"""AES-128 by the processor's own instructions, as a piece of compiled kernels.

Through a library every block crosses memory several times: written as input, encrypted, read again
to be hashed, summed or cut to two bits. Kernels that encrypt in registers do all of it at once.
The instructions need no table, so their time does not depend on keys or data.

`BLOCKS` is the number of blocks that one instruction takes on this machine: 4 (VAES on vectors of
512 bits), 2 (VAES), 1 (AES-NI) or 0 where there are none; then `aes`, `trees` and `leaf_streams`
use the library, with the same results bit by bit.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numpy.typing import NDArray

from ppodc.mpc.compiled import compiled, in_u8_2, out_u8_2
from ppodc.mpc.shares.additive import U64, U64Array

ROUNDS = 10
AT_ONCE = 8  # vectors, so that the instructions' latency is hidden
_WORD, _SMALL = ir.IntType(64), ir.IntType(32)


def features() -> set[str]:
    """Those that numba compiles for, which its environment variables may restrict."""
    _, _, found = cpu_target.target_context.codegen().magic_tuple()
    return set(found.split(","))


def _blocks_of_this_machine() -> int:
    known = features()
    if not {"+aes", "+sse4.1"} <= known:  # names of x86
        return 0
    if {"+vaes", "+avx512f", "+avx512vl"} <= known:
        return 4
    return 2 if {"+vaes", "+avx2"} <= known else 1


BLOCKS = _blocks_of_this_machine()
VECTOR = 2 * max(BLOCKS, 1)  # words of a vector
_SUFFIX = {8: ".512", 4: ".256", 2: ""}[VECTOR]  # of the names of instructions
HASHED = AT_ONCE * VECTOR // 2  # rows that `hash_rows` takes at once
KEY_WORDS = (ROUNDS + 1) * VECTOR  # of all round keys, each repeated for every block of a vector


def round_keys(keys: NDArray[np.uint8]) -> U64Array:
    """The round keys of each key: (n, 16) bytes -> (n, KEY_WORDS)."""
    words = np.ascontiguousarray(keys).view(U64)
    single = np.empty((len(words), 2 * (ROUNDS + 1)), U64)
    _schedules(words, single)
    each = single.reshape(len(words), ROUNDS + 1, 1, 2)
    return np.repeat(each, VECTOR // 2, axis=2).reshape(len(words), KEY_WORDS)


def _vector(words: int) -> Any:
    return ir.VectorType(_WORD, words)


def _pointer(builder: Any, array: Any, place: Any, words: int) -> Any:
    return builder.bitcast(builder.gep(array.data, [place]), _vector(words).as_pointer())


def load_vector(builder: Any, array: Any, place: Any, words: int) -> Any:
    """The vector of this many words at a place of an array."""
    value = builder.load(_pointer(builder, array, place, words))
    value.align = 8
    return value


def store_vector(builder: Any, value: Any, array: Any, place: Any, words: int) -> None:
    """Put a vector of this many words at a place of an array."""
    builder.store(value, _pointer(builder, array, place, words)).align = 8


def _instruction(builder: Any, name: str, *arguments: Any) -> Any:
    kinds = [argument.type for argument in arguments]
    function, full = ir.FunctionType(kinds[0], kinds), f"llvm.x86.aesni.{name}"
    found = cgutils.get_or_insert_function(builder.module, function, full)  # type: ignore[no-untyped-call]
    return builder.call(found, arguments)


def _encrypt(
    _: Any,
    keys: Any,
    key: Any,
    key_step: Any,
    blocks: Any,
    place: Any,
    place_step: Any,
    out: Any,
    to: Any,
    to_step: Any,
) -> Any:
    """Eight vectors, all places in words.

    The vector at to + v to_step of `out` is the one at place + v place_step of `blocks`, under the
    round keys at key + v key_step. What was just written to `blocks` word by word is better left
    alone for some hundred instructions: until then it cannot be read as vectors.
    """
    whole = types.int64
    signature = types.void(keys, whole, whole, blocks, whole, whole, out, whole, whole)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        keys, blocks, out = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 3, 6)
        )
        _, key, key_step, _, place, place_step, _, to, to_step = values

        def at(start: Any, step: Any, v: int) -> Any:
            return builder.add(start, builder.mul(step, _WORD(v)))

        def round_key(v: int, number: int) -> Any:
            start = builder.add(at(key, key_step, v), _WORD(number * VECTOR))
            return load_vector(builder, keys, start, VECTOR)

        states = [
            builder.xor(
                load_vector(builder, blocks, at(place, place_step, v), VECTOR), round_key(v, 0)
            )
            for v in range(AT_ONCE)
        ]
        for number in range(1, ROUNDS + 1):
            name = ("aesenc" if number < ROUNDS else "aesenclast") + _SUFFIX
            states = [
                _instruction(builder, name, state, round_key(v, number))
                for v, state in enumerate(states)
            ]
        for v, state in enumerate(states):
            store_vector(builder, state, out, at(to, to_step, v), VECTOR)
        return context.get_dummy_value()

    return signature, generate


def _splat(builder: Any, word: Any) -> Any:
    """A vector of one word, as often as there is room."""
    undefined = ir.Constant(_vector(VECTOR), ir.Undefined)
    zeros = ir.Constant(ir.VectorType(_SMALL, VECTOR), [0] * VECTOR)
    single = builder.insert_element(undefined, word, _SMALL(0))
    return builder.shuffle_vector(single, undefined, zeros)


def permuted(builder: Any, keys: Any, states: list[Any]) -> list[Any]:
    """P of vectors of blocks, under the round keys that `keys` begins with."""
    for number in range(ROUNDS + 1):
        key = load_vector(builder, keys, _WORD(number * VECTOR), VECTOR)
        if number == 0:
            states = [builder.xor(state, key) for state in states]
            continue
        name = ("aesenc" if number < ROUNDS else "aesenclast") + _SUFFIX
        states = [_instruction(builder, name, state, key) for state in states]
    return states


def _two_bits(each: int) -> Callable[..., Any]:
    """Two bits of H(x, t) = P(P(x) ^ t) ^ P(x), of AT_ONCE vectors of blocks in registers.

    Blocks are those of some rows, each row xor `each` offsets: row i has the tweak (first + i,
    sender), and of offset v the two bits go to bits 2 v and 2 v + 1 of out[i]. `each` is a power of
    two; AT_ONCE * BLOCKS / each rows are taken from row `start` on.
    """

    def pads(
        _: Any, keys: Any, rows: Any, start: Any, offsets: Any, first: Any, sender: Any, out: Any
    ) -> Any:
        word, whole = types.uint64, types.int64
        signature = types.void(keys, rows, whole, offsets, word, word, out)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            keys, rows, offsets, out = (
                context.make_array(signature.args[i])(context, builder, values[i])
                for i in (0, 1, 3, 6)
            )
            _, _, start, _, first, sender, _ = values
            wide, blocks = _vector(VECTOR), VECTOR // 2

            def row_vector(v: int) -> Any:
                """The rows of the blocks of vector v, each as often as it has offsets there."""
                row = v * blocks // each
                place = builder.mul(builder.add(start, _WORD(row)), _WORD(2))
                if each == 1:
                    return load_vector(builder, rows, place, VECTOR)
                taken = max(1, blocks // each)  # different rows in this vector
                some = load_vector(builder, rows, place, 2 * taken)
                lanes = [2 * (lane // 2 // each) + lane % 2 for lane in range(VECTOR)]
                picked = ir.Constant(ir.VectorType(_SMALL, VECTOR), lanes)
                return builder.shuffle_vector(some, some, picked)

            def offset_vector(v: int) -> Any:
                if each <= blocks:
                    lanes = [2 * (lane // 2 % each) + lane % 2 for lane in range(VECTOR)]
                    some = load_vector(builder, offsets, _WORD(0), 2 * each)
                    picked = ir.Constant(ir.VectorType(_SMALL, VECTOR), lanes)
                    return builder.shuffle_vector(some, some, picked)
                return load_vector(builder, offsets, _WORD(2 * (v * blocks % each)), VECTOR)

            even = ir.Constant(wide, [-1, 0] * blocks)
            instance, role = _splat(builder, builder.add(first, start)), _splat(builder, sender)
            role = builder.and_(role, ir.Constant(wide, [0, -1] * blocks))
            inputs = [builder.xor(row_vector(v), offset_vector(v)) for v in range(AT_ONCE)]
            roots = permuted(builder, keys, inputs)
            tweaked = []
            for v, root in enumerate(roots):
                steps = [(v * blocks + lane // 2) // each for lane in range(VECTOR)]
                numbers = builder.add(instance, ir.Constant(wide, steps))
                tweak = builder.or_(builder.and_(numbers, even), role)
                tweaked.append(builder.xor(root, tweak))
            states = permuted(builder, keys, tweaked)
            hashed = [builder.xor(state, root) for state, root in zip(states, roots, strict=True)]
            sums: dict[int, Any] = {}  # vectors by their first row
            for v, pad in enumerate(hashed):
                kept = builder.and_(pad, ir.Constant(wide, [3, 0] * blocks))
                shifts = [2 * ((v * blocks + lane // 2) % each) for lane in range(VECTOR)]
                moved = builder.shl(kept, ir.Constant(wide, shifts))
                row = v * blocks // each
                sums[row] = builder.or_(sums[row], moved) if row in sums else moved
            words: dict[int, Any] = {}  # by row
            for top, total in sums.items():
                for block in range(blocks):
                    row = top + block // each
                    bits = builder.extract_element(total, _SMALL(2 * block))
                    words[row] = builder.or_(words[row], bits) if row in words else bits
            for row, bits in words.items():
                place = builder.gep(out.data, [builder.add(start, _WORD(row))])
                builder.store(builder.trunc(bits, _SMALL), place)
            return context.get_dummy_value()

        return signature, generate

    return pads


def _hash(
    _: Any,
    keys: Any,
    rows: Any,
    start: Any,
    first: Any,
    sender: Any,
    blocks: Any,
    out: Any,
) -> Any:
    """All blocks of H(x, t) of HASHED rows in registers, those from row `start` on.

    Row i has the tweaks (first + i, sender ^ number), number = 0..blocks-1; its blocks go to
    `out`, one behind the other.
    """
    word, whole = types.uint64, types.int64
    signature = types.void(keys, rows, whole, word, word, whole, out)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        keys, rows, out = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 1, 6)
        )
        _, _, start, first, sender, blocks, _ = values
        wide, each = _vector(VECTOR), VECTOR // 2
        begin = builder.mul(start, _WORD(2))
        places = [builder.add(begin, _WORD(v * VECTOR)) for v in range(AT_ONCE)]
        inputs = [load_vector(builder, rows, place, VECTOR) for place in places]
        roots = permuted(builder, keys, inputs)
        even = ir.Constant(wide, [-1, 0] * each)
        instance = builder.and_(_splat(builder, builder.add(first, start)), even)
        with cgutils.for_range_slice(builder, _WORD(0), blocks, _WORD(1), intp=_WORD) as (at, _):
            role = _splat(builder, builder.xor(sender, at))
            tweak = builder.or_(instance, builder.and_(role, builder.not_(even)))
            tweaked = []
            for v, root in enumerate(roots):
                steps = [0 if lane % 2 else each * v + lane // 2 for lane in range(VECTOR)]
                tweaked.append(builder.xor(root, builder.add(tweak, ir.Constant(wide, steps))))
            for v, state in enumerate(permuted(builder, keys, tweaked)):
                found = builder.xor(state, roots[v])
                for lane in range(each):
                    row = builder.add(start, _WORD(each * v + lane))
                    place = builder.mul(builder.add(builder.mul(row, blocks), at), _WORD(2))
                    pick = ir.Constant(ir.VectorType(_SMALL, 2), [2 * lane, 2 * lane + 1])
                    block = builder.shuffle_vector(found, found, pick)
                    store_vector(builder, block, out, place, 2)
        return context.get_dummy_value()

    return signature, generate


def _schedule(_: Any, keys: Any, place: Any, out: Any, to: Any) -> Any:
    """The round keys of the key at a place, from `to` on; places in words."""
    signature = types.void(keys, types.int64, out, types.int64)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        keys, out = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 2)
        )
        wide, four = ir.IntType(128), ir.VectorType(_SMALL, 4)
        last = ir.Constant(four, [3] * 4)
        key = load_vector(builder, keys, values[1], 2)
        constant = 1
        for number in range(ROUNDS + 1):
            store_vector(builder, key, out, builder.add(values[3], _WORD(2 * number)), 2)
            if number == ROUNDS:
                break
            # each word xor those before it, and the last one substituted and rotated
            helped = _instruction(builder, "aeskeygenassist", key, ir.IntType(8)(constant))
            words = builder.bitcast(helped, four)
            mixed = builder.bitcast(builder.shuffle_vector(words, words, last), wide)
            sums = builder.bitcast(key, wide)
            for shift in (32, 64):
                sums = builder.xor(sums, builder.shl(sums, wide(shift)))
            key = builder.bitcast(builder.xor(sums, mixed), _vector(2))
            constant = constant << 1 ^ (0x11B if constant & 0x80 else 0)
        return context.get_dummy_value()

    return signature, generate


encrypt: Callable[..., None] = intrinsic(_encrypt)
two_bits_1, two_bits_2, two_bits_16 = (
    cast("Callable[..., None]", intrinsic(_two_bits(each))) for each in (1, 2, 16)
)
hash_rows: Callable[..., None] = intrinsic(_hash)
_schedule_of: Callable[..., None] = intrinsic(_schedule)


def native(*arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`compiled` for kernels that use `encrypt`: only where the machine has it."""
    return compiled(*arguments) if BLOCKS else lambda function: function


@native(in_u8_2, out_u8_2)
def _schedules(keys: U64Array, out: U64Array) -> None:
    flat, room = keys.reshape(-1), out.reshape(-1)
    for i in range(keys.shape[0]):
        _schedule_of(flat, 2 * i, room, 22 * i)
