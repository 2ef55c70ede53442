"""A keyed stream of random words for every record: the same record gets the same report.

Asked twice, an owner must not draw new noise, or the average of the answers would betray the
record. So the noise of a record follows from the owner's secret report key, the mechanism's digest,
the record's id and its encoded values:

    tag    = CBC-MAC over (id, values) under AES-256, key from HMAC-SHA256(report key, mechanism,
             scope, number of values): all messages under one key have one length
    stream = AES-256 of (tag xor 0), (tag xor 1), ..., under a second key, as 32-bit words

Both are pseudorandom functions, apart from collisions of blocks, of probability (blocks)^2 / 2^128.
Two people with equal values have different ids and hence independent noise. Batched through AES
instead of one HMAC a record, a million records take a fraction of a second.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.privacy.accounts import Ids

KEY_BYTES = 32
_BLOCK_BYTES = 16
_BATCH_BYTES = 1 << 22


class RecordStreams:
    """The streams of some records; word w of a record is always the same, in any batch."""

    def __init__(self, cipher: CipherContext, tags: Ids) -> None:
        self._cipher = cipher
        self.tags = tags

    def __len__(self) -> int:
        return len(self.tags)

    def rows(self, start: int, stop: int) -> "RecordStreams":
        """The streams of some of the records."""
        return RecordStreams(self._cipher, self.tags[start:stop])

    def words(self, count: int) -> NDArray[np.uint32]:
        """The first `count` words of every record, (records, count)."""
        blocks = -(-count // 4)
        inputs = np.repeat(self.tags[:, None, :], blocks, axis=1)
        inputs[:, :, 0] ^= np.arange(blocks, dtype=np.uint64)
        out = _encrypt(self._cipher, inputs).view("<u4").reshape(len(self.tags), 4 * blocks)
        return out[:, :count]

    def batches(self, count: int) -> Iterator[tuple[slice, NDArray[np.uint32]]]:
        """`words` a few megabytes at a time, with the rows they belong to."""
        step = max(1, _BATCH_BYTES // (4 * count))
        for start in range(0, len(self), step):
            stop = min(start + step, len(self))
            yield slice(start, stop), self.rows(start, stop).words(count)


def _encrypt(cipher: CipherContext, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    plain = np.ascontiguousarray(blocks, "<u8")
    return np.frombuffer(cipher.update(plain.data.cast("B")), "<u8")


def _cipher(key: bytes) -> CipherContext:
    return Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305


class ReportKey:
    """An owner's secret: who holds it can tell noise from record."""

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and len(key) != KEY_BYTES:
            raise InputError(f"a report key has {KEY_BYTES} bytes")
        self._key = secrets.token_bytes(KEY_BYTES) if key is None else key

    @classmethod
    def from_seed(cls, seed: int) -> "ReportKey":
        """A key that anyone can make again: for experiments on data that is no secret."""
        return cls(hashlib.sha256(f"ppodc insecure report key {seed}".encode()).digest())

    def __repr__(self) -> str:
        return "ReportKey(...)"

    def secret_bytes(self) -> bytes:
        """The key itself, for the owner's own disk."""
        return self._key

    @property
    def fingerprint(self) -> str:
        """Tells keys apart, and tells nothing about them."""
        return self._derived(b"fingerprint").hex()[:32]

    def derived(self, mechanism: bytes, data: bytes) -> bytes:
        """A key for the noise of one mechanism over the data of this digest, and nothing else."""
        return self._derived(b"upload", mechanism, data)

    def _derived(self, *parts: bytes) -> bytes:
        message = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
        return hmac.digest(self._key, b"ppodc reports v1 " + message, "sha256")

    def streams(
        self, mechanism: bytes, ids: Ids, values: NDArray[Any], scope: bytes = b""
    ) -> RecordStreams:
        """The streams of these records; `scope` (a data digest) tells equal row numbers apart."""
        columns = str(values.shape[1]).encode()
        state = ids.astype(np.uint64, copy=True)
        mac = _cipher(self._derived(b"tag", mechanism, scope, columns))
        state = _encrypt(mac, state).reshape(-1, 2)
        for block in _blocks(values):
            state = _encrypt(mac, state ^ block).reshape(-1, 2)
        return RecordStreams(_cipher(self._derived(b"stream", mechanism, scope, columns)), state)

    def named_ids(self, names: Sequence[str]) -> Ids:
        """Ids from a column of names: 128 bits each, without meaning to anyone else."""
        key = self._derived(b"id")
        digests = (hashlib.blake2b(n.encode(), key=key, digest_size=16).digest() for n in names)
        return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)


def row_ids(first: int, count: int) -> Ids:
    """Ids from row numbers, for data without names."""
    ids = np.zeros((count, 2), np.uint64)
    ids[:, 0] = np.arange(first, first + count, dtype=np.uint64)
    return ids


def _blocks(values: NDArray[Any]) -> Iterator[Ids]:
    """The values, four to a block of 16 bytes, zeros behind the last."""
    rows, columns = values.shape
    per_block = _BLOCK_BYTES // 4
    padded = np.zeros((rows, -(-columns // per_block) * per_block), "<u4")
    padded[:, :columns] = values
    words = padded.view("<u8")
    for at in range(0, words.shape[1], 2):
        yield words[:, at : at + 2]


def insecure_streams(rows: int, seed: int, mechanism: bytes = b"experiment") -> RecordStreams:
    """Streams by row number under a public seed, for experiments."""
    return ReportKey.from_seed(seed).streams(mechanism, row_ids(0, rows), np.zeros((rows, 1)))
