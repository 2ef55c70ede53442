"""The digest of one cloud's part of an upload, which its owner gives to the other cloud.

An auditor checks by it that a cloud worked on the part that was uploaded. The digest is salted, and
only the cloud that has the part gets the salt: a cloud that knows one part could otherwise try
records until the digest of the other part fits.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

SALT_BYTES = 32


class PartDigest:
    """SHA-256 over salt and part: all rows in order, or the seed that stands for them."""

    def __init__(self, salt: bytes) -> None:
        self._hasher = hashlib.sha256(b"ppodc audit part 1" + salt)

    def add(self, rows: NDArray[np.unsignedinteger]) -> None:
        """The next rows."""
        data = np.ascontiguousarray(rows, f"<u{rows.dtype.itemsize}")
        self._hasher.update(data.reshape(-1).view(np.uint8).data)

    def of_seed(self, seed: bytes) -> bytes:
        """The digest of a part that is a seed."""
        self._hasher.update(seed)
        return self.value()

    def value(self) -> bytes:
        """The digest of all that was added."""
        return self._hasher.digest()
