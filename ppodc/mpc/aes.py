"""AES as pseudorandom generator and as correlation-robust hash, through `cryptography`.

*Stream*: AES-128 in counter mode under a secret 16-byte seed.

*Hash*: H(x, t) = P(s(x) ^ t) ^ s(x) ^ t on 128-bit blocks, with P = AES-128 under a public key
that both clouds draw for their session, and s(a, b) = (b, a ^ b), a linear orthomorphism. With P
as an ideal permutation, N hashes whose tweaks t never repeat with the same x, and T evaluations
of P by an attacker, what is not opened stays uniform except with probability about
N (N + T) / 2^128. The tweak is (instance number, block number and sending role): `Tweaks` hands
out instance numbers once per session.
"""

from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from ppodc.errors import PoolError
from ppodc.mpc.additive import U64, Words
from ppodc.mpc.compiled import compiled, in_u8_2, out_u8_2, u64

SEED_BYTES = 16
_ZEROS = bytes(1 << 16)
_SLACK = 16  # `update_into` wants room for one block more
BATCH_BLOCKS = 1 << 13  # 128 KB: input and output stay in the second-level cache
_INSTANCES = 1 << 62


def stream(seed: bytes) -> CipherContext:
    """The key stream of AES-128-CTR under one seed, read from the start, once (`fill`)."""
    return Cipher(algorithms.AES128(seed), modes.CTR(bytes(16))).encryptor()


def fill(
    streams: Sequence[CipherContext], buffer: NDArray[np.uint8], size: int, first: int = 0
) -> None:
    """The next `size` bytes of each stream, one behind the other, from place `first` on.

    Behind the last there must be slack (`workspace`).
    """
    zeros, room = memoryview(_ZEROS)[:size], buffer.data
    for place, each in enumerate(streams, first):
        each.update_into(zeros, room[place * size : (place + 1) * size + _SLACK])


def workspace(count: int) -> NDArray[np.uint8]:
    """A buffer of `count` bytes and the slack that `fill` wants."""
    return np.empty(count + _SLACK, np.uint8)


class Tweaks:
    """Instance numbers of one session: each is handed out once, in step at both clouds."""

    def __init__(self) -> None:
        self.used = 0

    def reserve(self, count: int) -> int:
        """The first of `count` numbers that nobody else gets."""
        first, self.used = self.used, self.used + count
        if self.used > _INSTANCES:
            raise PoolError("this session has used up its hash tweaks; start a new pair.")
        return first


class Hash:
    """The correlation-robust hash of one session."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # noqa: S305
        self._in = np.empty((BATCH_BLOCKS, 2), U64)
        self._out = np.empty(16 * BATCH_BLOCKS + _SLACK, np.uint8)

    def expand(
        self, keys: Words, first: int, sender: int, blocks: int = 1, out: Words | None = None
    ) -> Words:
        """`blocks` hash blocks of each key: (n, 2) -> (n, 2 * blocks) words.

        Key i has instance number first + i; `sender` is the role of the transfers' sender. With
        `out` (a workspace of at least n * blocks rows of 2 words) the result is a view of it.
        """
        count = len(keys)
        out = np.empty((count * blocks, 2), U64) if out is None else out[: count * blocks]
        step = max(1, BATCH_BLOCKS // blocks)
        for start in range(0, count, step):
            part = keys[start : start + step]
            inputs = self.inputs(len(part) * blocks)
            _tweaked(part, U64(first + start), U64(sender << 32), inputs)
            self.finish(len(inputs), out[start * blocks : start * blocks + len(inputs)])
        return out.reshape(count, 2 * blocks)

    def inputs(self, size: int) -> Words:
        """Room for `size` blocks s(x) ^ t, at most BATCH_BLOCKS unless a single key needs more."""
        if size > len(self._in):
            self._in = np.empty((size, 2), U64)
            self._out = np.empty(16 * size + _SLACK, np.uint8)
        return self._in[:size]

    def finish(self, size: int, out: Words) -> None:
        """P(y) ^ y of the first `size` blocks y written to `inputs`."""
        np.bitwise_xor(self.permuted(size), self._in[:size], out=out)

    def permuted(self, size: int) -> Words:
        """P(y) of these blocks, for who adds y itself; valid until the next call."""
        blocks = self._in[:size]
        self._cipher.update_into(
            blocks.reshape(-1).view(np.uint8).data, self._out[: 16 * size + _SLACK].data
        )
        return self._out[: 16 * size].view(U64).reshape(-1, 2)


@compiled(in_u8_2, u64, u64, out_u8_2)
def _tweaked(keys: Words, first: np.uint64, sender: np.uint64, out: Words) -> None:
    blocks = out.shape[0] // keys.shape[0]
    for i in range(keys.shape[0]):
        low = keys[i, 1] ^ (first + U64(i))
        high = keys[i, 0] ^ keys[i, 1] ^ sender
        for block in range(blocks):
            out[i * blocks + block, 0] = low
            out[i * blocks + block, 1] = high ^ U64(block)
