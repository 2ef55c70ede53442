"""Key streams of the leaves of the extension's trees, added up as `extension` needs them.

Of each tree's 16 streams (AES-128 in counter mode under the leaves' seeds) the sum of all, and for
j = 0..3 the sum of those whose number has bit j. The four sums do not contain leaf 0, which may be
unknown, and zeros instead: then the sum of all means nothing.

Two ways with the same results: in one compiled pass where the processor has instructions for AES,
else by `cryptography` stream after stream.
"""

from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from ppodc.mpc.compiled import compiled, in_u8_2, inlined, out_u8, out_u8_2, u64
from ppodc.mpc.ot import aes_instructions
from ppodc.mpc.ot.aes_instructions import AT_ONCE, BLOCKS, KEY_WORDS, VECTOR, encrypt, native
from ppodc.mpc.shares.additive import U64, U64Array

SEED_BYTES = 16
DEPTH = 4
LEAVES = 1 << DEPTH
_SLACK = 16  # `update_into` wants room for one block more
_BLOCK_WORDS = 2
_SPAN = 64  # words of every stream at a time: those of a tree stay in the first-level cache


class LeafStreams(Protocol):
    """The streams of some trees, each bit of them read once."""

    def sums(self, matrix: U64Array, totals: U64Array) -> None:
        """The next words: matrix (4 trees, words) by tree and bit, totals (trees, words).

        The number of words is a multiple of 8.
        """


def leaf_streams(trees: U64Array) -> LeafStreams:
    """Of the leaves (trees, 16, 2); the faster way on this machine."""
    return NativeStreams(trees) if BLOCKS else LibraryStreams(trees)


class NativeStreams:
    """In one compiled pass."""

    def __init__(self, trees: U64Array) -> None:
        keys = np.ascontiguousarray(trees).view(np.uint8).reshape(-1, SEED_BYTES)
        self._keys = aes_instructions.round_keys(keys).reshape(len(trees), LEAVES * KEY_WORDS)
        self._used = 0  # blocks of every stream

    def sums(self, matrix: U64Array, totals: U64Array) -> None:
        _sums(self._keys, U64(self._used), matrix, totals)
        self._used += totals.shape[1] // _BLOCK_WORDS


class LibraryStreams:
    """By `cryptography`, one stream after the other."""

    def __init__(self, trees: U64Array) -> None:
        self._streams = [[_stream(seed.tobytes()) for seed in tree] for tree in trees]

    def sums(self, matrix: U64Array, totals: U64Array) -> None:
        words = totals.shape[1]
        size = 8 * words
        space, zeros = np.zeros(LEAVES * size + _SLACK, np.uint8), bytes(size)
        leaves = space[: LEAVES * size].view(U64).reshape(LEAVES, words)
        for tree, streams in enumerate(self._streams):
            for place, stream in enumerate(streams):
                room = space[place * size : (place + 1) * size + _SLACK]
                stream.update_into(zeros, room.data)
            _combine(leaves, matrix[tree * DEPTH : (tree + 1) * DEPTH], totals[tree])


def _stream(seed: bytes) -> CipherContext:
    """The key stream of AES-128-CTR under one seed."""
    return Cipher(algorithms.AES128(seed), modes.CTR(bytes(16))).encryptor()


@inlined
def _sums_of(v: U64Array, w: int) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Of leaves whose number has bit 0, 1, 2, 3, and of all."""
    s0 = (v[1, w] ^ v[3, w] ^ v[5, w] ^ v[7, w]) ^ (v[9, w] ^ v[11, w] ^ v[13, w] ^ v[15, w])
    # xors of two leaves, then of four
    a, b, c, d = v[0, w] ^ v[1, w], v[2, w] ^ v[3, w], v[4, w] ^ v[5, w], v[6, w] ^ v[7, w]
    e, f = v[8, w] ^ v[9, w], v[10, w] ^ v[11, w]
    g, h = v[12, w] ^ v[13, w], v[14, w] ^ v[15, w]
    high = e ^ f ^ g ^ h
    return s0, b ^ d ^ f ^ h, c ^ d ^ g ^ h, high, a ^ b ^ c ^ d ^ high


@compiled(in_u8_2, out_u8_2, out_u8)
def _combine(v: U64Array, sums: U64Array, total: U64Array) -> None:
    for w in range(v.shape[1]):
        sums[0, w], sums[1, w], sums[2, w], sums[3, w], total[w] = _sums_of(v, w)


@inlined
def _byteswapped(x: np.uint64) -> np.uint64:
    x = ((x & U64(0x00FF00FF00FF00FF)) << U64(8)) | ((x >> U64(8)) & U64(0x00FF00FF00FF00FF))
    x = ((x & U64(0x0000FFFF0000FFFF)) << U64(16)) | ((x >> U64(16)) & U64(0x0000FFFF0000FFFF))
    return (x << U64(32)) | (x >> U64(32))


@native(in_u8_2, u64, out_u8_2, out_u8_2)
def _sums(keys: U64Array, first: np.uint64, matrix: U64Array, totals: U64Array) -> None:
    counters = np.zeros(_SPAN, np.uint64)
    room = np.empty(LEAVES * _SPAN, np.uint64)
    states = room.reshape(LEAVES, _SPAN)
    for start in range(0, totals.shape[1], _SPAN):
        size = min(_SPAN, totals.shape[1] - start)
        for b in range(_SPAN // 2):
            # the counter is a number of 16 bytes, the most significant first
            counters[2 * b + 1] = _byteswapped(first + U64(start // 2 + b))
        for tree in range(keys.shape[0]):
            own = keys[tree]
            for leaf in range(LEAVES):
                # a key stays in its registers for all vectors that are encrypted at once
                for w in range(0, _SPAN, AT_ONCE * VECTOR):
                    place = leaf * _SPAN + w
                    encrypt(own, leaf * KEY_WORDS, 0, counters, w, VECTOR, room, place, VECTOR)
            # slices, so that the sums are made by vector instructions
            end, first_row = start + size, DEPTH * tree
            s0, s1 = matrix[first_row, start:end], matrix[first_row + 1, start:end]
            s2, s3 = matrix[first_row + 2, start:end], matrix[first_row + 3, start:end]
            total = totals[tree, start:end]
            for i in range(size):
                s0[i], s1[i], s2[i], s3[i], total[i] = _sums_of(states, i)
