"""AES as tweakable hash: correlation robust, also for rows that the peer chooses.

TMMO (Guo, Katz, Wang and Yu, S&P 2020): H(x, t) = P(P(x) ^ t) ^ P(x) on 128-bit blocks, P being
AES-128 under a public key. Several blocks of one x share P(x). The tweak t is (instance number;
sending role and block number). `Tweaks` hands out each instance number once a session.

*A peer that deviates.* A receiver of transfers chooses the streams of its trees and may grind their
seeds. With one call of P only, as in P(s(x) ^ t) ^ s(x) ^ t, it grinds until s(x) ^ t = s(x') ^ t'
for two of its rows, and then the sender's two pads that it does not know are equal, too: 2^9 tries.
Here x and t meet behind P, and equal pads take about 2^64 tries.

*Keys.* Instances of one 2^20 have a key of their own, SHA-256(session | number): it follows from
both hellos, so that neither cloud chooses it, and at most 2^24 hashes share it. With AES as an
ideal cipher an attacker that evaluates it T times tells a pad from a uniform block with about
T 2^24 / 2^128: that is 104 bits for pads, at any number of records.

Where the processor has instructions for AES the hash is one compiled pass (`aes_instructions`),
else P is computed by `cryptography`, with the same results.
"""

import hashlib
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ppodc.errors import PoolError
from ppodc.mpc.compiled import compiled, i64, in_u8_2, inlined, out_u4, out_u8_2, u64
from ppodc.mpc.ot import aes_instructions
from ppodc.mpc.ot.aes_instructions import (
    BLOCKS,
    HASHED,
    hash_rows,
    native,
    two_bits_1,
    two_bits_2,
    two_bits_16,
)
from ppodc.mpc.shares.additive import U64, U64Array

SEED_BYTES = 16
_SLACK = 16  # `update_into` wants room for one block more
BATCH_BLOCKS = 1 << 13  # 128 KB: input and output stay in the second-level cache
_INSTANCES = 1 << 62
_RANGE_BITS = 20  # of instance numbers under one key


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
    """The hash of one session."""

    def __init__(self, sid: bytes, *, instructions: bool = BLOCKS > 0) -> None:
        """With `instructions`, by those of the processor, which must have them."""
        self._sid, self._instructions = sid, instructions
        self._number = -1  # of the key that is at hand
        self._permutation = _Permutation(bytes(SEED_BYTES), instructions)

    def expand(
        self, keys: U64Array, first: int, sender: int, blocks: int = 1, out: U64Array | None = None
    ) -> U64Array:
        """`blocks` hash blocks of each key: (n, 2) -> (n, 2 * blocks) words.

        Key i has instance number first + i; `sender` is the role of the transfers' sender. With
        `out` (a workspace of at least n * blocks rows of 2 words) the result is a view of it.
        """
        count = len(keys)
        out = np.empty((count * blocks, 2), U64) if out is None else out[: count * blocks]
        for start, end, p in self._ranges(first, count):
            room = out[start * blocks : end * blocks]
            p.expand(keys[start:end], first + start, sender, room)
        return out.reshape(count, 2 * blocks)

    def two_bits(
        self, rows: U64Array, offsets: U64Array, first: int, sender: int
    ) -> NDArray[np.uint32]:
        """Two bits of the hash of row i xor each offset, those of offset v in bits 2 v, 2 v + 1.

        `rows` (n, 2), `offsets` (1, 2 or 16; 2); row i has instance number first + i.
        """
        out = np.empty(len(rows), np.uint32)
        for start, end, p in self._ranges(first, len(rows)):
            p.two_bits(rows[start:end], offsets, first + start, sender, out[start:end])
        return out

    def _ranges(self, first: int, count: int) -> Iterator[tuple[int, int, "_Permutation"]]:
        """Parts of instances first..first+count-1 with a key each: start, end, permutation."""
        start = 0
        while start < count:
            number = (first + start) >> _RANGE_BITS
            end = min(count, ((number + 1) << _RANGE_BITS) - first)
            if number != self._number:
                text = b"ppodc hash" + self._sid + number.to_bytes(8, "little")
                key = hashlib.sha256(text).digest()[:SEED_BYTES]
                self._number, self._permutation = number, _Permutation(key, self._instructions)
            yield start, end, self._permutation
            start = end


class _Permutation:
    """P under one key, and hashes with it."""

    def __init__(self, key: bytes, instructions: bool) -> None:
        self._cipher = Cipher(algorithms.AES128(key), modes.ECB()).encryptor()  # noqa: S305
        self._keys: U64Array | None = None
        if instructions:
            self._keys = aes_instructions.round_keys(np.frombuffer(key, np.uint8)[None])

    def expand(self, keys: U64Array, first: int, sender: int, out: U64Array) -> None:
        if self._keys is not None:
            _expand(keys, U64(first), U64(sender << 32), self._keys, out)
            return
        blocks = len(out) // len(keys)
        step = max(1, BATCH_BLOCKS // blocks)
        for start in range(0, len(keys), step):
            roots = self._permuted(keys[start : start + step])
            room = out[start * blocks : (start + len(roots)) * blocks]
            _tweaked(roots, U64(first + start), U64(sender << 32), room)
            room[:] = self._permuted(room)
            room ^= np.repeat(roots, blocks, axis=0)

    def two_bits(
        self,
        rows: U64Array,
        offsets: U64Array,
        first: int,
        sender: int,
        out: NDArray[np.uint32],
    ) -> None:
        if self._keys is not None:
            _two_bits(rows, offsets, U64(first), U64(sender << 32), self._keys, out)
            return
        each = len(offsets)
        step = BATCH_BLOCKS // each
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            roots = self._permuted((part[:, None] ^ offsets).reshape(-1, 2))
            inputs = np.empty_like(roots)
            _offset_inputs(roots, each, U64(first + start), U64(sender << 32), inputs)
            _pick_two_bits(self._permuted(inputs), roots, out[start : start + step])

    def _permuted(self, blocks: U64Array) -> U64Array:
        """P(y) of blocks y."""
        out = np.empty(blocks.nbytes + _SLACK, np.uint8)
        data = np.ascontiguousarray(blocks).reshape(-1).view(np.uint8)
        self._cipher.update_into(data.data, out.data)
        return out[: blocks.nbytes].view(U64).reshape(-1, 2)


# ------------------------------------------------------------ by the processor's instructions


@native(in_u8_2, u64, u64, in_u8_2, out_u8_2)
def _expand(
    keys: U64Array, first: np.uint64, sender: np.uint64, round_keys: U64Array, out: U64Array
) -> None:
    count = keys.shape[0]
    if count == 0:
        return
    schedule, flat, room = round_keys[0], keys.reshape(-1), out.reshape(-1)
    blocks, whole = out.shape[0] // count, count // HASHED * HASHED
    for start in range(0, whole, HASHED):
        hash_rows(schedule, flat, start, first, sender, blocks, room)
    if whole < count:
        last, found = np.zeros(2 * HASHED, np.uint64), np.empty(2 * HASHED * blocks, np.uint64)
        for i in range(2 * (count - whole)):
            last[i] = flat[2 * whole + i]
        hash_rows(schedule, last, 0, first + U64(whole), sender, blocks, found)
        for i in range(2 * (count - whole) * blocks):
            room[2 * whole * blocks + i] = found[i]


@inlined
def _some_bits(
    schedule: U64Array,
    rows: U64Array,
    start: int,
    offsets: U64Array,
    each: int,
    first: np.uint64,
    sender: np.uint64,
    out: NDArray[np.uint32],
) -> None:
    """Known numbers of offsets, as the instructions need them."""
    if each == 1:
        two_bits_1(schedule, rows, start, offsets, first, sender, out)
    elif each == 2:
        two_bits_2(schedule, rows, start, offsets, first, sender, out)
    else:
        two_bits_16(schedule, rows, start, offsets, first, sender, out)


@native(in_u8_2, in_u8_2, u64, u64, in_u8_2, out_u4)
def _two_bits(
    rows: U64Array,
    offsets: U64Array,
    first: np.uint64,
    sender: np.uint64,
    round_keys: U64Array,
    out: NDArray[np.uint32],
) -> None:
    schedule, flat, shifts = round_keys[0], rows.reshape(-1), offsets.reshape(-1)
    each, count = offsets.shape[0], rows.shape[0]
    together = HASHED // each  # rows
    whole = count // together * together
    for start in range(0, whole, together):
        _some_bits(schedule, flat, start, shifts, each, first, sender, out)
    if whole < count:
        last, found = np.zeros(2 * together, np.uint64), np.empty(together, np.uint32)
        for i in range(2 * (count - whole)):
            last[i] = flat[2 * whole + i]
        _some_bits(schedule, last, 0, shifts, each, first + U64(whole), sender, found)
        for i in range(count - whole):
            out[whole + i] = found[i]


# ----------------------------------------------------------------------- by the library


@compiled(in_u8_2, u64, u64, out_u8_2)
def _tweaked(roots: U64Array, first: np.uint64, sender: np.uint64, out: U64Array) -> None:
    if roots.shape[0] == 0:
        return
    blocks = out.shape[0] // roots.shape[0]
    for i in range(roots.shape[0]):
        for block in range(blocks):
            out[i * blocks + block, 0] = roots[i, 0] ^ (first + U64(i))
            out[i * blocks + block, 1] = roots[i, 1] ^ sender ^ U64(block)


@compiled(in_u8_2, i64, u64, u64, out_u8_2)
def _offset_inputs(
    roots: U64Array, each: int, first: np.uint64, sender: np.uint64, out: U64Array
) -> None:
    for i in range(roots.shape[0]):
        out[i, 0] = roots[i, 0] ^ (first + U64(i // each))
        out[i, 1] = roots[i, 1] ^ sender


@compiled(in_u8_2, in_u8_2, out_u4)
def _pick_two_bits(permuted: U64Array, roots: U64Array, out: NDArray[np.uint32]) -> None:
    """Two bits of each hash."""
    each = permuted.shape[0] // max(1, out.shape[0])
    for i in range(out.shape[0]):
        word = U64(0)
        for v in range(each):
            pad = permuted[each * i + v, 0] ^ roots[each * i + v, 0]
            word |= (pad & U64(3)) << U64(2 * v)
        out[i] = np.uint32(word)
