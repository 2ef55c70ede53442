"""OT extension (SoftSpokenOT, semi-honest): 128 base transfers become as many as one wants.

The sender holds 128 secret bits D. For each row i the receiver has a choice bit r_i and gets a
row t_i of 128 bits, the sender gets q_i = t_i ^ r_i * D. Hashing rows gives random transfers:
the sender knows H(q_i) and H(q_i ^ D), the receiver the one that r_i names.

The 128 columns stand in 32 groups of 4. For each group the receiver knows 16 seeds (the leaves
of a tree grown from 4 base transfers), the sender all of them but the one its 4 bits of D name.
The seeds' streams add up to u (all) and to v_j (those whose number has bit j); the receiver sends
u ^ r, and the sender's sums then differ from v by D * r.

Who learns what: the sender nothing about r (each u is masked by a stream it does not have), the
receiver nothing about D. Rounds: one message from the receiver per chunk. Bytes: 4 per row.
Operations per row: 512 bits of AES at each side, and the 128-bit transpose.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ppodc.mpc.additive import U64, Words
from ppodc.mpc.aes import SEED_BYTES, fill, stream, workspace
from ppodc.mpc.compiled import compiled, in_u1, in_u8_2, out_u8, out_u8_2
from ppodc.mpc.xor_bits import WORD, transpose

COLUMNS = 128
DEPTH = 4
LEAVES = 1 << DEPTH
TREES = COLUMNS // DEPTH
CHUNK = 1 << 17  # rows at a time: streams of 16 KB, matrices of 2 MB
_SIDES = bytes(16) + b"\x01" + bytes(15)


def _children(node: bytes) -> tuple[bytes, bytes]:
    """The two seeds below a node."""
    both = Cipher(algorithms.AES128(node), modes.ECB()).encryptor().update(_SIDES)  # noqa: S305
    return both[:SEED_BYTES], both[SEED_BYTES:]


def _xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(16, "little")


def _sum(nodes: list[bytes]) -> bytes:
    total = bytes(SEED_BYTES)
    for node in nodes:
        total = _xor(total, node)
    return total


def grow(roots: list[bytes], pairs: Words) -> tuple[list[list[bytes]], NDArray[np.uint8]]:
    """The receiver's leaves, and for the sender the sum of each side of each level.

    The sums are masked by the base transfers: pairs (128, 2, 2), transfer DEPTH * tree + level.
    """
    corrections = np.empty((TREES, DEPTH, 2, SEED_BYTES), np.uint8)
    leaves = []
    for tree, root in enumerate(roots):
        nodes = [root]
        for level in range(DEPTH):
            nodes = [child for node in nodes for child in _children(node)]
            for side in range(2):
                key = pairs[tree * DEPTH + level, side].astype("<u8").tobytes()
                masked = _xor(_sum(nodes[side::2]), key)
                corrections[tree, level, side] = np.frombuffer(masked, np.uint8)
        leaves.append(nodes)
    return leaves, corrections


def choices_for(delta: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The choice bits of the base transfers: at each level the side that D's path does not take.

    Bit j of a leaf's number belongs to column DEPTH * tree + j and is decided at level
    DEPTH - 1 - j.
    """
    return np.ascontiguousarray(1 - delta.reshape(TREES, DEPTH)[:, ::-1]).reshape(-1)


def punctured(
    delta: NDArray[np.uint8], keys: Words, corrections: NDArray[np.uint8]
) -> list[list[bytes | None]]:
    """The sender's leaves: all but the one that D names in each tree."""
    sides = choices_for(delta).reshape(TREES, DEPTH)
    trees = []
    for tree in range(TREES):
        nodes: list[bytes | None] = [None]
        for level in range(DEPTH):
            side = int(sides[tree, level])
            children: list[bytes | None] = []
            for node in nodes:
                children += (None, None) if node is None else _children(node)
            key = keys[tree * DEPTH + level].astype("<u8").tobytes()
            total = _xor(corrections[tree, level, side].tobytes(), key)
            missing = 2 * nodes.index(None) + side
            known = [node for node in children[side::2] if node is not None]
            children[missing] = _xor(total, _sum(known))
            nodes = children
        trees.append(nodes)
    return trees


class Receiver:
    """The receiver's end of one direction."""

    def __init__(self, leaves: list[list[bytes]]) -> None:
        self._streams = [[stream(seed) for seed in tree] for tree in leaves]
        self._space = workspace(LEAVES * CHUNK // 8)
        self._matrix = np.empty(COLUMNS * CHUNK // WORD, U64)
        self._rows = np.empty((CHUNK, 2), U64)

    def extend(self, choices: Words) -> Words:
        """The message to the sender for packed choice bits, a multiple of 512, at most CHUNK."""
        words = len(choices)
        size = 8 * words
        matrix = self._matrix[: COLUMNS * words].reshape(COLUMNS, words)
        leaves = self._space[: LEAVES * size].view(U64).reshape(LEAVES, words)
        message = np.empty((TREES, words), U64)
        for tree, streams in enumerate(self._streams):
            fill(streams, self._space, size)
            _combine(leaves, matrix[tree * DEPTH : (tree + 1) * DEPTH], message[tree])
        message ^= choices
        return message

    def rows(self, words: int) -> Words:
        """The rows t of the last `extend`: (64 words, 2). Valid until the next call."""
        matrix = self._matrix[: COLUMNS * words].reshape(COLUMNS, words)
        return transpose(matrix, self._rows[: WORD * words])


class Sender:
    """The sender's end of one direction."""

    def __init__(self, delta: NDArray[np.uint8], leaves: list[list[bytes | None]]) -> None:
        self.delta = np.packbits(delta, bitorder="little").view("<u8").astype(U64)
        self._bits = delta
        # Leaf y stands where the receiver's leaf y ^ D does; the missing one counts for nothing.
        names = delta.reshape(TREES, DEPTH) @ (1 << np.arange(DEPTH))
        self._streams = []
        for tree, name in zip(leaves, names.tolist(), strict=True):
            seeds = [tree[leaf ^ name] for leaf in range(1, LEAVES)]
            self._streams.append([stream(seed) for seed in seeds if seed is not None])
        self._space = workspace(LEAVES * CHUNK // 8)
        self._matrix = np.empty(COLUMNS * CHUNK // WORD, U64)
        self._unused = np.empty(CHUNK // WORD, U64)
        self._rows = np.empty((CHUNK, 2), U64)

    def extend(self, words: int) -> None:
        """The columns as far as they go without the receiver's message."""
        size = 8 * words
        matrix = self._matrix[: COLUMNS * words].reshape(COLUMNS, words)
        leaves = self._space[: LEAVES * size].view(U64).reshape(LEAVES, words)
        leaves[0] = 0
        for tree, streams in enumerate(self._streams):
            fill(streams, self._space, size, 1)
            part = matrix[tree * DEPTH : (tree + 1) * DEPTH]
            _combine(leaves, part, self._unused[:words])

    def rows(self, message: Words) -> Words:
        """The rows q, with the receiver's message: (n, 2). Valid until the next call."""
        words = message.shape[1]
        matrix = self._matrix[: COLUMNS * words].reshape(COLUMNS, words)
        _correct(matrix, message, self._bits)
        return transpose(matrix, self._rows[: WORD * words])


@compiled(in_u8_2, out_u8_2, out_u8)
def _combine(v: Words, sums: Words, total: Words) -> None:
    """sums[j] = xor of leaves whose number has bit j, total = xor of all; in one pass."""
    for w in range(v.shape[1]):
        sums[0, w] = (v[1, w] ^ v[3, w] ^ v[5, w] ^ v[7, w]) ^ (
            v[9, w] ^ v[11, w] ^ v[13, w] ^ v[15, w]
        )
        # xors of two leaves, then of four
        a, b, c, d = v[0, w] ^ v[1, w], v[2, w] ^ v[3, w], v[4, w] ^ v[5, w], v[6, w] ^ v[7, w]
        e, f = v[8, w] ^ v[9, w], v[10, w] ^ v[11, w]
        g, h = v[12, w] ^ v[13, w], v[14, w] ^ v[15, w]
        sums[1, w] = b ^ d ^ f ^ h
        sums[2, w] = c ^ d ^ g ^ h
        high = e ^ f ^ g ^ h
        sums[3, w] = high
        total[w] = a ^ b ^ c ^ d ^ high


@compiled(out_u8_2, in_u8_2, in_u1)
def _correct(matrix: Words, message: Words, delta: NDArray[np.uint8]) -> None:
    depth = matrix.shape[0] // message.shape[0]
    for column in range(matrix.shape[0]):
        mask = U64(0) - U64(delta[column])
        for w in range(matrix.shape[1]):
            matrix[column, w] ^= message[column // depth, w] & mask
