"""Trees of seeds: a receiver has all 16 leaves of each, the sender all but one of its own choice.

From a root, below every node stand AES_node(0) and AES_node(1). The receiver grows its trees and
sends for each level the sum (xor) of its left and of its right nodes, either of them masked by one
key of a base transfer, whose choice is the sender's. With the side that its path does not take, the
sender restores at each level the one node that it lacks, and ends with all leaves but the one that
its four bits name.

*Check.* A receiver might mask false sums, so that the sender's leaves are right only if it took a
certain path. Of every leaf K both derive ck = AES_K(2^127), AES_K(2^127 + 1), which no stream uses;
the receiver sends T, the sum of a tree's 16, and a digest of all of them in their order. The sender
restores the one that it lacks from T and compares digests, of all trees before it says a word.
False leaves or base transfers thus pass only for the paths that they were made for: a guess of b
bits of the sender's secret ends the session but for 2^-b (Roy, CRYPTO 2022, on punctured PRFs).

Who learns what: the sender nothing of the leaf that it lacks; the receiver nothing of which leaf
that is. Rounds: one message. Bytes: 192 a tree.
"""

import hashlib
import hmac
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import CheckError
from ppodc.mpc.compiled import in_u8_2, out_u8_2
from ppodc.mpc.ot import aes_instructions
from ppodc.mpc.ot.aes_instructions import AT_ONCE, BLOCKS, KEY_WORDS, VECTOR, encrypt, native
from ppodc.mpc.ot.leaf_streams import DEPTH, LEAVES, SEED_BYTES
from ppodc.mpc.shares.additive import U64, U64Array

Bits = NDArray[np.uint8]
_DIGEST_BYTES = 32
_CHILDREN = np.array([[0, 0], [1, 0]], U64)  # the two blocks that give a node's children
_CHECKED = np.array([[0x80, 0], [0x80, 1 << 56]], U64)  # counters 2^127 and 2^127 + 1, as streams


@dataclass(frozen=True, slots=True, repr=False)
class TreeMessage:
    """A receiver's message about its trees."""

    corrections: U64Array  # (trees, DEPTH, 2, 2): the masked sums of each level and side
    totals: U64Array  # (trees, 4): T
    digests: Bits  # (trees, 32)

    @staticmethod
    def specs(trees: int) -> list[tuple[type[np.generic], tuple[int, ...]]]:
        """Types and shapes of its arrays."""
        return [
            (np.uint64, (trees, DEPTH, 2, 2)),
            (np.uint64, (trees, 4)),
            (np.uint8, (trees, _DIGEST_BYTES)),
        ]

    @property
    def arrays(self) -> tuple[U64Array, U64Array, Bits]:
        """In the order of `specs`."""
        return self.corrections, self.totals, self.digests


def choices_for(delta: Bits) -> Bits:
    """The choice bits of the base transfers: at each level the side that a path does not take.

    Bit j of a leaf's number is bit DEPTH * tree + j of `delta` and decided at level DEPTH - 1 - j.
    """
    return np.ascontiguousarray(1 - delta.reshape(-1, DEPTH)[:, ::-1]).reshape(-1)


def grow(name: bytes, pairs: U64Array, random: SecureRandom) -> tuple[U64Array, TreeMessage]:
    """The receiver's trees: leaves (trees, 16, 2), and the message for the sender.

    `pairs` (DEPTH * trees, 2, 2) are the base transfers' keys, transfer DEPTH * tree + level.
    `name` says which trees of which session these are.
    """
    trees = len(pairs) // DEPTH
    keys = pairs.reshape(trees, DEPTH, 2, 2)
    corrections = np.empty_like(keys)
    nodes = random.uint64((trees, 1, 2))
    for level in range(DEPTH):
        nodes = _below(nodes)
        for side in range(2):
            corrections[:, level, side] = _sum(nodes[:, side::2]) ^ keys[:, level, side]
    checked = _checked(nodes)
    return nodes, TreeMessage(corrections, _sum(checked), _digests(name, checked))


def punctured(name: bytes, delta: Bits, keys: U64Array, message: TreeMessage) -> U64Array:
    """The sender's leaves: (trees, 16, 2), zeros in the place that `delta` names in each tree.

    `keys` (DEPTH * trees, 2) are those of the base transfers whose choices are
    `choices_for(delta)`. CheckError if a tree is not what the receiver's digest says.
    """
    trees = len(delta) // DEPTH
    every = np.arange(trees)
    sides = choices_for(delta).reshape(trees, DEPTH).astype(np.intp)
    own, hole = keys.reshape(trees, DEPTH, 2), np.zeros(trees, np.intp)
    nodes = np.zeros((trees, 1, 2), U64)
    for level in range(DEPTH):
        nodes, side = _below(nodes), sides[:, level]
        nodes[every, 2 * hole] = 0
        nodes[every, 2 * hole + 1] = 0
        halves = nodes.reshape(trees, -1, 2, 2)[every, :, side]
        total = message.corrections[every, level, side] ^ own[:, level]
        nodes[every, 2 * hole + side] = total ^ _sum(halves)
        hole = 2 * hole + 1 - side
    checked = _checked(nodes)
    checked[every, hole] = 0
    checked[every, hole] = message.totals ^ _sum(checked)
    # one verdict over all trees: which of them was false stays here
    if not hmac.compare_digest(_digests(name, checked).tobytes(), message.digests.tobytes()):
        raise CheckError("the other cloud's transfers do not fit their check. Start a new pair.")
    return nodes


def _sum(nodes: U64Array) -> U64Array:
    total: U64Array = np.bitwise_xor.reduce(nodes, axis=1)
    return total


def _below(nodes: U64Array) -> U64Array:
    """The children of nodes (trees, n, 2): (trees, 2 n, 2)."""
    return _encrypted(nodes.reshape(-1, 2), _CHILDREN).reshape(len(nodes), -1, 2)


def _checked(leaves: U64Array) -> U64Array:
    """ck of all leaves: (trees, 16, 4)."""
    return _encrypted(leaves.reshape(-1, 2), _CHECKED).reshape(len(leaves), LEAVES, 4)


def _digests(name: bytes, checked: U64Array) -> Bits:
    """SHA-256(name | tree | ck_0 .. ck_15) of each tree."""
    texts = (name + bytes([tree]) + own.astype("<u8").tobytes() for tree, own in enumerate(checked))
    data = b"".join(hashlib.sha256(text).digest() for text in texts)
    return np.frombuffer(data, np.uint8).reshape(-1, _DIGEST_BYTES)


def _encrypted(keys: U64Array, blocks: U64Array) -> U64Array:
    """AES of two blocks (2, 2) under each key: (n, 2) -> (n, 2, 2)."""
    count = len(keys)
    if not BLOCKS:
        data = blocks.astype("<u8").tobytes()
        each = [
            Cipher(algorithms.AES128(key.tobytes()), modes.ECB()).encryptor().update(data)  # noqa: S305
            for key in keys.astype("<u8")
        ]
        return np.frombuffer(b"".join(each), "<u8").astype(U64).reshape(count, 2, 2)
    full = np.zeros((-(-count // AT_ONCE) * AT_ONCE, 2), U64)
    full[:count] = keys
    schedules = aes_instructions.round_keys(full.view(np.uint8).reshape(-1, SEED_BYTES))
    out = np.empty((len(full), 2 * VECTOR), U64)
    _encrypt_each(schedules, np.resize(blocks, (1, 2 * VECTOR)), out)
    return out[:, :4].reshape(-1, 2, 2)[:count]


@native(in_u8_2, in_u8_2, out_u8_2)
def _encrypt_each(schedules: U64Array, blocks: U64Array, out: U64Array) -> None:
    """The first two vectors of blocks under each key; two blocks are one of them or both."""
    keys, inputs, results = schedules.reshape(-1), blocks[0], out.reshape(-1)
    for key in range(0, schedules.shape[0], AT_ONCE):
        for at in range(0, 4, VECTOR):
            encrypt(
                keys,
                key * KEY_WORDS,
                KEY_WORDS,
                inputs,
                at,
                0,
                results,
                key * 2 * VECTOR + at,
                2 * VECTOR,
            )
