"""Trees whose leaves two clouds share but for one: a row of noise in each block, for few bytes.

Half-trees (Guo, Yang, Wang, Zhang, Xie, Liu and Zhao, EUROCRYPT 2023): the sender has D and a root
x. The two nodes of the first level are x and x ^ D; below a node y stand H(y) and y ^ H(y). So the
nodes of each level add up to D, and a level's right nodes are the sum of its left ones xor D.

    base row of a level    q = t ^ r D
    sender    sends  c = (sum of the level's left nodes) ^ q
    receiver  has    c ^ t, the sum of the nodes on side r, and takes the path 1 - r

With these sums the receiver restores all nodes but those on its path. Its leaf on the path is the
sum of all others: the sender's, xor D. Then bit 0 of every leaf is cleared, and set where the
receiver's path ends. D has bit 0, so that q = t ^ e D, and e, one 1 in a block, is bit 0 of t.

H(y) = P(s(y)) ^ s(y), s(a, b) = (b, a ^ b), P being AES-128 under a key that both clouds derive for
each batch and direction: circular correlation robust if P is an ideal permutation (Guo, Katz, Wang
and Yu, S&P 2020). A key serves at most n nodes.

Who learns what: nothing; the receiver sends nothing here. A sender that deviates: `point_check`.
Operations: one block of AES a leaf at each side.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ppodc.mpc.compiled import in_u1, in_u8, in_u8_2, in_u8_3, inlined, out_u8_3
from ppodc.mpc.ot import aes_instructions
from ppodc.mpc.ot.aes_instructions import (
    AT_ONCE,
    BLOCKS,
    VECTOR,
    load_vector,
    native,
    permuted,
    store_vector,
)
from ppodc.mpc.shares.additive import U64, U64Array

Bits = NDArray[np.uint8]
_NEAR = AT_ONCE * VECTOR // 2  # nodes of one call
_SMALL = ir.IntType(32)
_CHOICE = U64(1)  # bit 0 of the first word


def grow(key: bytes, delta: U64Array, roots: U64Array, depth: int) -> tuple[U64Array, U64Array]:
    """The sender's leaves (t, 2^depth, 2) and sums of left nodes (t, depth, 2) from roots (t, 2).

    `delta` has bit 0. `depth` is at least 6.
    """
    leaves = np.empty((len(roots), 1 << depth, 2), U64)
    sums = np.empty((len(roots), depth, 2), U64)
    if BLOCKS:
        _grow(_round_keys(key), delta, roots, leaves, sums)
    else:
        _library_grow(key, delta, roots, leaves, sums)
    return leaves, sums


def restore(key: bytes, sides: U64Array, path: Bits) -> U64Array:
    """The receiver's leaves (t, 2^depth, 2).

    `path` (t, depth) says where the path turns at each level, `sides` (t, depth, 2) has the sum of
    the nodes on the other side.
    """
    trees, depth = path.shape
    leaves = np.empty((trees, 1 << depth, 2), U64)
    if BLOCKS:
        _restore(_round_keys(key), sides, path.reshape(-1), leaves)
    else:
        _library_restore(key, sides, path, leaves)
    return leaves


def ends(path: Bits) -> NDArray[np.int64]:
    """The leaf at which each path ends."""
    turns = path.astype(np.int64)
    found: NDArray[np.int64] = turns @ (1 << np.arange(path.shape[1])[::-1])
    return found


# ------------------------------------------------------------ by the processor's instructions


def _round_keys(key: bytes) -> U64Array:
    return aes_instructions.round_keys(np.frombuffer(key, np.uint8)[None])


def _two_below(_: Any, keys: Any, nodes: Any, place: Any, to: Any, sums: Any) -> Any:
    """The children of AT_ONCE vectors of nodes, in registers; places in words.

    Nodes are read at `place` and their children written at `to`, left and right in turn. Left ones
    are added to the first VECTOR words of `sums`, right ones to the next.
    """
    whole = types.int64
    signature = types.void(keys, nodes, whole, whole, sums)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        keys, nodes, sums = (
            context.make_array(signature.args[i])(context, builder, values[i]) for i in (0, 1, 4)
        )
        _, _, place, to, _ = values
        word = ir.IntType(64)
        wide = ir.VectorType(word, VECTOR)

        def lanes(first: Any, second: Any, picked: list[int]) -> Any:
            mask = ir.Constant(ir.VectorType(_SMALL, VECTOR), picked)
            return builder.shuffle_vector(first, second, mask)

        high = ir.Constant(wide, [0, -1] * (VECTOR // 2))
        parents = [
            load_vector(builder, nodes, builder.add(place, word(v * VECTOR)), VECTOR)
            for v in range(AT_ONCE)
        ]
        swapped = [lane ^ 1 for lane in range(VECTOR)]
        inputs = [
            builder.xor(lanes(node, node, swapped), builder.and_(node, high)) for node in parents
        ]
        states = permuted(builder, keys, inputs)
        left = [builder.xor(state, put) for state, put in zip(states, inputs, strict=True)]
        right = [builder.xor(a, b) for a, b in zip(parents, left, strict=True)]
        # children of a vector's nodes in turn, as two vectors
        each = VECTOR // 2
        turns = [
            [2 * (child // 2) + lane + VECTOR * (child % 2) for child in part for lane in (0, 1)]
            for part in (range(each), range(each, 2 * each))
        ]
        for v in range(AT_ONCE):
            for half, picked in enumerate(turns):
                both = lanes(left[v], right[v], picked)
                at = builder.add(to, word((2 * v + half) * VECTOR))
                store_vector(builder, both, nodes, at, VECTOR)
        for side, children in enumerate((left, right)):
            total = load_vector(builder, sums, word(side * VECTOR), VECTOR)
            for child in children:
                total = builder.xor(total, child)
            store_vector(builder, total, sums, word(side * VECTOR), VECTOR)
        return context.get_dummy_value()

    return signature, generate


_children: Callable[..., None] = intrinsic(_two_below)


@inlined
def _level(keys: U64Array, nodes: U64Array, count: int, room: U64Array, sums: U64Array) -> None:
    """Children in the place of `count` nodes; sums (4): their left ones, their right ones."""
    for i in range(2 * VECTOR):
        room[i] = U64(0)
    for first in range((count - 1) // _NEAR * _NEAR, -1, -_NEAR):
        _children(keys, nodes, 2 * first, 4 * first, room)
    for i in range(4):
        sums[i] = U64(0)
    if count >= _NEAR:
        for i in range(VECTOR):
            sums[i & 1] ^= room[i]
            sums[2 + (i & 1)] ^= room[VECTOR + i]
    else:  # a call has made children of more nodes than there are
        for i in range(4 * count):
            sums[i & 3] ^= nodes[i]


@native(in_u8_2, in_u8, in_u8_2, out_u8_3, out_u8_3)
def _grow(
    round_keys: U64Array, delta: U64Array, roots: U64Array, out: U64Array, sums: U64Array
) -> None:
    keys, depth = round_keys[0], sums.shape[1]
    room, both = np.empty(2 * VECTOR, np.uint64), np.empty(4, np.uint64)
    for tree in range(roots.shape[0]):
        nodes = out[tree].reshape(-1)
        for i in range(2):
            nodes[i], nodes[2 + i] = roots[tree, i], roots[tree, i] ^ delta[i]
            sums[tree, 0, i] = roots[tree, i]
        for level in range(1, depth):
            _level(keys, nodes, 1 << level, room, both)
            sums[tree, level, 0], sums[tree, level, 1] = both[0], both[1]
        for leaf in range(1 << depth):
            nodes[2 * leaf] &= ~_CHOICE


@native(in_u8_2, in_u8_3, in_u1, out_u8_3)
def _restore(round_keys: U64Array, sides: U64Array, path: Bits, out: U64Array) -> None:
    keys, depth = round_keys[0], sides.shape[1]
    room, both = np.empty(2 * VECTOR, np.uint64), np.empty(4, np.uint64)
    for tree in range(sides.shape[0]):
        nodes = out[tree].reshape(-1)
        hole = np.int64(path[tree * depth])
        for i in range(2):
            nodes[2 * hole + i], nodes[2 * (1 - hole) + i] = U64(0), sides[tree, 0, i]
        for level in range(1, depth):
            _level(keys, nodes, 1 << level, room, both)
            turn = np.int64(path[tree * depth + level])
            beside = 2 * hole + 1 - turn
            hole = 2 * hole + turn
            for i in range(2):
                # the sum of this side without the child of the unknown node
                rest = both[2 * (1 - turn) + i] ^ nodes[2 * beside + i]
                nodes[2 * beside + i] = rest ^ sides[tree, level, i]
                nodes[2 * hole + i] = U64(0)
        low, high = U64(0), U64(0)
        for leaf in range(1 << depth):
            low ^= nodes[2 * leaf]
            high ^= nodes[2 * leaf + 1]
            nodes[2 * leaf] &= ~_CHOICE
        nodes[2 * hole], nodes[2 * hole + 1] = low | _CHOICE, high


# ----------------------------------------------------------------------- by the library


def _library_grow(
    key: bytes, delta: U64Array, roots: U64Array, out: U64Array, sums: U64Array
) -> None:
    nodes = np.stack([roots, roots ^ delta], axis=1)
    sums[:, 0] = roots
    for level in range(1, sums.shape[1]):
        nodes = _below(key, nodes)
        sums[:, level] = np.bitwise_xor.reduce(nodes[:, ::2], axis=1)
    nodes[:, :, 0] &= ~_CHOICE
    out[:] = nodes


def _library_restore(key: bytes, sides: U64Array, path: Bits, out: U64Array) -> None:
    trees, depth = path.shape
    every, turns = np.arange(trees), path.astype(np.intp)
    hole = turns[:, 0]
    nodes = np.zeros((trees, 2, 2), U64)
    nodes[every, 1 - hole] = sides[:, 0]
    for level in range(1, depth):
        nodes, turn = _below(key, nodes), turns[:, level]
        beside, hole = 2 * hole + 1 - turn, 2 * hole + turn
        nodes[every, beside] = nodes[every, hole] = 0
        known = nodes.reshape(trees, -1, 2, 2)[every, :, 1 - turn]
        nodes[every, beside] = np.bitwise_xor.reduce(known, axis=1) ^ sides[:, level]
    nodes[every, hole] = np.bitwise_xor.reduce(nodes, axis=1)
    nodes[:, :, 0] &= ~_CHOICE
    nodes[every, hole, 0] |= _CHOICE
    out[:] = nodes


def _below(key: bytes, nodes: U64Array) -> U64Array:
    """The children of nodes (trees, n, 2): (trees, 2 n, 2)."""
    put = np.stack([nodes[..., 1], nodes[..., 0] ^ nodes[..., 1]], axis=-1)
    cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # noqa: S305
    left = np.frombuffer(cipher.update(put.astype("<u8").tobytes()), "<u8").astype(U64)
    left = left.reshape(put.shape) ^ put
    return np.stack([left, nodes ^ left], axis=2).reshape(len(nodes), -1, 2)
