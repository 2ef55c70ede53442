"""AES as correlation-robust hash.

H(x, t) = P(s(x) ^ t) ^ s(x) ^ t on 128-bit blocks, with P = AES-128 under a public key that both
clouds draw for their session, and s(a, b) = (b, a ^ b), a linear orthomorphism. With P as an ideal
permutation, N hashes whose tweaks t never repeat with the same x, and T evaluations of P by an
attacker, what is not opened stays uniform except with probability about N (N + T) / 2^128. The
tweak is (instance number, block number and sending role): `Tweaks` hands out instance numbers once
per session.

Where the processor has instructions for AES the hash is one compiled pass (`aes_instructions`),
else P is computed by `cryptography`, with the same results.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ppodc.errors import PoolError
from ppodc.mpc import aes_instructions
from ppodc.mpc.additive import U64, Words
from ppodc.mpc.aes_instructions import AT_ONCE, BLOCKS, VECTOR, encrypt, native
from ppodc.mpc.compiled import compiled, in_u8_2, inlined, out_u4, out_u8_2, u64

SEED_BYTES = 16
_SLACK = 16  # `update_into` wants room for one block more
BATCH_BLOCKS = 1 << 13  # 128 KB: input and output stay in the second-level cache
_INSTANCES = 1 << 62
_NEAR = 1 << 8  # blocks at a time in a kernel: they stay in the first-level cache


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

    def __init__(self, key: bytes, *, instructions: bool = BLOCKS > 0) -> None:
        """With `instructions`, by those of the processor, which must have them."""
        self._cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # noqa: S305
        self._keys: Words | None = None
        if instructions:
            self._keys = aes_instructions.round_keys(np.frombuffer(key, np.uint8)[None])

    def expand(
        self, keys: Words, first: int, sender: int, blocks: int = 1, out: Words | None = None
    ) -> Words:
        """`blocks` hash blocks of each key: (n, 2) -> (n, 2 * blocks) words.

        Key i has instance number first + i; `sender` is the role of the transfers' sender. With
        `out` (a workspace of at least n * blocks rows of 2 words) the result is a view of it.
        """
        count = len(keys)
        out = np.empty((count * blocks, 2), U64) if out is None else out[: count * blocks]
        if self._keys is not None:
            _expand(keys, U64(first), U64(sender << 32), self._keys, out)
        else:
            step = max(1, BATCH_BLOCKS // blocks)
            for start in range(0, count, step):
                part = keys[start : start + step]
                room = out[start * blocks : (start + len(part)) * blocks]
                _tweaked(part, U64(first + start), U64(sender << 32), room)
                room ^= self._permuted(room)
        return out.reshape(count, 2 * blocks)

    def two_bits(self, rows: Words, offsets: Words, first: int, sender: int) -> NDArray[np.uint32]:
        """Two bits of the hash of row i xor each offset, those of offset v in bits 2 v, 2 v + 1.

        `rows` (n, 2), `offsets` (1, 2 or 16; 2); row i has instance number first + i.
        """
        out = np.empty(len(rows), np.uint32)
        # s is linear, so that s(x ^ offset) = s(x) ^ s(offset)
        moved = np.stack([offsets[:, 1], offsets[:, 0] ^ offsets[:, 1]], axis=1)
        if self._keys is not None:
            _two_bits(rows, moved, U64(first), U64(sender << 32), self._keys, out)
            return out
        step = BATCH_BLOCKS // len(moved)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            inputs = np.empty((len(part) * len(moved), 2), U64)
            _offset_inputs(part, moved, U64(first + start), U64(sender << 32), inputs)
            _pick_two_bits(self._permuted(inputs), inputs, out[start : start + step])
        return out

    def _permuted(self, blocks: Words) -> Words:
        """P(y) of blocks y."""
        out = np.empty(blocks.nbytes + _SLACK, np.uint8)
        self._cipher.update_into(blocks.reshape(-1).view(np.uint8).data, out.data)
        return out[: blocks.nbytes].view(U64).reshape(-1, 2)


@inlined
def _base(keys: Words, i: int, first: np.uint64, sender: np.uint64) -> tuple[np.uint64, np.uint64]:
    """s(x) ^ t of key i, for block 0."""
    return keys[i, 1] ^ (first + U64(i)), keys[i, 0] ^ keys[i, 1] ^ sender


# ------------------------------------------------------------ by the processor's instructions


@inlined
def _permute(round_keys: Words, inputs: Words, size: int, states: Words) -> None:
    """P(y) of the first blocks in `inputs`; it has room for all that are encrypted at once."""
    schedule = round_keys[0]
    for at in range(0, 2 * size, AT_ONCE * VECTOR):
        encrypt(schedule, 0, 0, inputs, at, VECTOR, states, at, VECTOR)


@native(in_u8_2, u64, u64, in_u8_2, out_u8_2)
def _expand(
    keys: Words, first: np.uint64, sender: np.uint64, round_keys: Words, out: Words
) -> None:
    if keys.shape[0] == 0:
        return
    blocks = out.shape[0] // keys.shape[0]
    inputs, states = np.zeros(2 * _NEAR, np.uint64), np.empty(2 * _NEAR, np.uint64)
    key, block = 0, 0
    for start in range(0, out.shape[0], _NEAR):
        size = min(_NEAR, out.shape[0] - start)
        if blocks == 1:
            for i in range(size):
                inputs[2 * i], inputs[2 * i + 1] = _base(keys, start + i, first, sender)
        else:
            for i in range(size):
                low, high = _base(keys, key, first, sender)
                inputs[2 * i], inputs[2 * i + 1] = low, high ^ U64(block)
                block += 1
                if block == blocks:
                    block = 0
                    key += 1
        _permute(round_keys, inputs, size, states)
        for i in range(size):
            out[start + i, 0] = states[2 * i] ^ inputs[2 * i]
            out[start + i, 1] = states[2 * i + 1] ^ inputs[2 * i + 1]


@inlined
def _two_bits_of(
    rows: Words,
    moved: Words,
    first: np.uint64,
    sender: np.uint64,
    round_keys: Words,
    out: NDArray[np.uint32],
    each: int,
) -> None:
    together = _NEAR // each  # rows
    inputs, states = np.zeros(2 * _NEAR, np.uint64), np.empty(2 * _NEAR, np.uint64)
    for start in range(0, rows.shape[0], together):
        size = min(together, rows.shape[0] - start)
        for i in range(size):
            low, high = _base(rows, start + i, first, sender)
            for v in range(each):
                inputs[2 * (each * i + v)] = low ^ moved[v, 0]
                inputs[2 * (each * i + v) + 1] = high ^ moved[v, 1]
        _permute(round_keys, inputs, size * each, states)
        for i in range(size):
            word = U64(0)
            for v in range(each):
                at = 2 * (each * i + v)
                word |= ((states[at] ^ inputs[at]) & U64(3)) << U64(2 * v)
            out[start + i] = np.uint32(word)


@native(in_u8_2, in_u8_2, u64, u64, in_u8_2, out_u4)
def _two_bits(
    rows: Words,
    moved: Words,
    first: np.uint64,
    sender: np.uint64,
    round_keys: Words,
    out: NDArray[np.uint32],
) -> None:
    # known numbers of offsets, so that their loops are unrolled
    if moved.shape[0] == 1:
        _two_bits_of(rows, moved, first, sender, round_keys, out, 1)
    elif moved.shape[0] == 2:
        _two_bits_of(rows, moved, first, sender, round_keys, out, 2)
    else:
        _two_bits_of(rows, moved, first, sender, round_keys, out, 16)


# ----------------------------------------------------------------------- by the library


@compiled(in_u8_2, u64, u64, out_u8_2)
def _tweaked(keys: Words, first: np.uint64, sender: np.uint64, out: Words) -> None:
    if keys.shape[0] == 0:
        return
    blocks = out.shape[0] // keys.shape[0]
    for i in range(keys.shape[0]):
        low, high = _base(keys, i, first, sender)
        for block in range(blocks):
            out[i * blocks + block, 0] = low
            out[i * blocks + block, 1] = high ^ U64(block)


@compiled(in_u8_2, in_u8_2, u64, u64, out_u8_2)
def _offset_inputs(
    rows: Words, moved: Words, first: np.uint64, sender: np.uint64, out: Words
) -> None:
    each = moved.shape[0]
    for i in range(rows.shape[0]):
        low, high = _base(rows, i, first, sender)
        for v in range(each):
            out[each * i + v, 0] = low ^ moved[v, 0]
            out[each * i + v, 1] = high ^ moved[v, 1]


@compiled(in_u8_2, in_u8_2, out_u4)
def _pick_two_bits(permuted: Words, inputs: Words, out: NDArray[np.uint32]) -> None:
    """Two bits of each hash P(y) ^ y."""
    each = permuted.shape[0] // max(1, out.shape[0])
    for i in range(out.shape[0]):
        word = U64(0)
        for v in range(each):
            pad = permuted[each * i + v, 0] ^ inputs[each * i + v, 0]
            word |= (pad & U64(3)) << U64(2 * v)
        out[i] = np.uint32(word)
