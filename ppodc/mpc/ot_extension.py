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

from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ppodc.mpc.additive import U64, Words
from ppodc.mpc.compiled import compiled, in_u1, in_u8_2, out_u8_2
from ppodc.mpc.leaf_streams import DEPTH, LEAVES, SEED_BYTES, leaf_streams
from ppodc.mpc.xor_bits import WORD, transpose

Combine = Callable[[Words], Words]  # a linear map of rows, given and returned as columns
COLUMNS = 128
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
        self._streams = leaf_streams(leaves)
        self._matrix = np.empty(COLUMNS * CHUNK // WORD, U64)
        self._rows = np.empty((CHUNK, 2), U64)

    def extend(self, choices: Words) -> Words:
        """The message to the sender for packed choice bits, a multiple of 512, at most CHUNK."""
        words = len(choices)
        message = np.empty((TREES, words), U64)
        self._streams.sums(_columns(self._matrix, words), message)
        message ^= choices
        return message

    def rows(self, words: int, combine: Combine | None = None) -> Words:
        """The rows t of the last `extend`: (64 words, 2). Valid until the next call."""
        return _rows(_columns(self._matrix, words), combine, self._rows)


class Sender:
    """The sender's end of one direction."""

    def __init__(self, delta: NDArray[np.uint8], leaves: list[list[bytes | None]]) -> None:
        self.delta = np.packbits(delta, bitorder="little").view("<u8").astype(U64)
        self._bits = delta
        # Leaf y stands where the receiver's leaf y ^ D does; the missing one is leaf 0.
        names = delta.reshape(TREES, DEPTH) @ (1 << np.arange(DEPTH))
        trees = zip(leaves, names.tolist(), strict=True)
        self._streams = leaf_streams(
            [[tree[leaf ^ name] for leaf in range(LEAVES)] for tree, name in trees]
        )
        self._matrix = np.empty(COLUMNS * CHUNK // WORD, U64)
        self._unused = np.empty(TREES * CHUNK // WORD, U64)
        self._rows = np.empty((CHUNK, 2), U64)

    def extend(self, words: int) -> None:
        """The columns as far as they go without the receiver's message."""
        unused = self._unused[: TREES * words].reshape(TREES, words)
        self._streams.sums(_columns(self._matrix, words), unused)

    def rows(self, message: Words, combine: Combine | None = None) -> Words:
        """The rows q, with the receiver's message: (n, 2). Valid until the next call."""
        matrix = _columns(self._matrix, message.shape[1])
        _correct(matrix, message, self._bits)
        return _rows(matrix, combine, self._rows)


def _columns(buffer: Words, words: int) -> Words:
    return buffer[: COLUMNS * words].reshape(COLUMNS, words)


def _rows(matrix: Words, combine: Combine | None, out: Words) -> Words:
    columns = matrix if combine is None else combine(matrix)
    return transpose(columns, out[: WORD * columns.shape[1]])


@compiled(out_u8_2, in_u8_2, in_u1)
def _correct(matrix: Words, message: Words, delta: NDArray[np.uint8]) -> None:
    depth = matrix.shape[0] // message.shape[0]
    for column in range(matrix.shape[0]):
        mask = U64(0) - U64(delta[column])
        for w in range(matrix.shape[1]):
            matrix[column, w] ^= message[column // depth, w] & mask
