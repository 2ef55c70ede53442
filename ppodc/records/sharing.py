"""One upload: records split into a share for cloud 1 and a 32-byte seed for cloud 2.

With t an integer 0..2^20 and r uniform modulo 2^64 from AES-256 in counter mode under the seed,
C1 gets t + r mod 2^64 and C2 the seed. C2 learns nothing about t; what C1 sees is uniform,
whatever t is, as long as AES is a pseudorandom generator. A seed serves one upload only: two
uploads under one seed would show C1 the differences of their records.
"""

import secrets
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ppodc.errors import InputError

SEED_BYTES = 32
MAX_VALUE = 1 << 20
_BLOCK_WORDS = 2  # 64-bit words in a block of AES


def split(
    values: NDArray[Any], seed: bytes | None = None, *, first_row: int = 0
) -> tuple[NDArray[np.uint64], bytes]:
    """(t + r for C1, seed for C2); with no seed given, a fresh one from the operating system.

    A large upload is split in chunks: the later chunks pass the seed of the first and the number
    of rows before them as `first_row`.
    """
    if values.ndim != 2 or values.dtype.kind not in "iu":
        raise InputError("records to share must be a two-dimensional array of integers")
    if values.size and (values.min() < 0 or values.max() > MAX_VALUE):
        raise InputError(f"records to share must lie in 0..{MAX_VALUE}: encode them first")
    if seed is None:
        seed = secrets.token_bytes(SEED_BYTES)
    rows, l = values.shape
    share = mask(seed, first_row, rows, l)
    share += values.astype(np.uint64)
    return share, seed


def mask(seed: bytes, first_row: int, rows: int, l: int) -> NDArray[np.uint64]:
    """Rows first_row .. first_row + rows - 1 of the share of C2: r uniform modulo 2^64.

    Word w of the key stream (little endian) belongs to row w // l, column w % l.
    """
    if len(seed) != SEED_BYTES:
        raise InputError(f"the seed of an upload must have {SEED_BYTES} bytes")
    if first_row < 0 or rows < 0 or l < 1:
        raise InputError("a mask needs a row number from 0, a row count from 0 and a column")
    first_block, skip = divmod(first_row * l, _BLOCK_WORDS)
    counter = first_block.to_bytes(16, "big")
    stream = Cipher(algorithms.AES256(seed), modes.CTR(counter)).encryptor()
    words = skip + rows * l
    # AES-CTR of zeros is the key stream itself
    out = np.frombuffer(stream.update(bytes(8 * words)), "<u8")
    return out[skip:].reshape(rows, l).astype(np.uint64)


def combine(share: NDArray[np.uint64], mask: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The records again, from both shares."""
    if share.shape != mask.shape or share.dtype != np.uint64 or mask.dtype != np.uint64:
        raise InputError("the two shares differ in shape or are not 64-bit unsigned integers")
    values = share - mask
    if values.size and values.max() > MAX_VALUE:
        raise InputError("the two shares do not belong to the same upload")
    return values.astype(np.int64)
