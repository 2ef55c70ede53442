"""Random numbers for cryptography: an AES-256-CTR stream keyed by the operating system."""

import builtins
import math
import os
import threading
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING:
    from gmpy2 import mpz

_BUFFER_BYTES = 1 << 16


class SecureRandom:
    """AES-256 in counter mode, keyed by the operating system or by a 32-byte seed.

    A seeded stream repeats exactly: a seed must serve one stream only. A stream keyed by the
    operating system takes a new key in a forked child; a seeded one does not, and parent and
    child would draw the same numbers. Threads may share one object.
    """

    def __init__(self, seed: bytes | None = None) -> None:
        if seed is not None and len(seed) != 32:
            raise ValueError(f"a seed has 32 bytes, not {len(seed)}")
        self._seeded = seed is not None
        self._lock = threading.Lock()
        self._start(os.urandom(32) if seed is None else seed)

    @classmethod
    def public(cls, seed: int) -> "SecureRandom":
        """Return a public stream: equal for all who know this number. Never use it for a secret."""
        return cls(seed.to_bytes(32, "big"))

    def __repr__(self) -> str:
        return f"SecureRandom({'seeded' if self._seeded else 'from the operating system'})"

    def _start(self, key: builtins.bytes) -> None:
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(builtins.bytes(16))).encryptor()
        self._buffer, self._at, self._process = b"", 0, os.getpid()

    def bytes(self, count: int) -> builtins.bytes:
        """The next `count` bytes of the stream."""
        with self._lock:
            if not self._seeded and self._process != os.getpid():
                self._start(os.urandom(32))
            end = self._at + count
            if end <= len(self._buffer):
                taken, self._at = self._buffer[self._at : end], end
                return taken
            head = self._buffer[self._at :]
            missing = count - len(head)
            if missing >= _BUFFER_BYTES:
                self._buffer, self._at = b"", 0
                return head + self._stream.update(builtins.bytes(missing))
            self._buffer = self._stream.update(builtins.bytes(_BUFFER_BYTES))
            self._at = missing
            return head + self._buffer[:missing]

    def uint64(
        self, shape: int | tuple[int, ...]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        """An array of uniform 64-bit words."""
        shape = (shape,) if isinstance(shape, int) else shape
        data = bytearray(self.bytes(8 * math.prod(shape)))
        return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False).reshape(shape)

    def bits(self, width: int, count: int) -> "list[mpz]":
        """`count` uniform integers of `width` bits, 0 up to 2^width - 1."""
        from gmpy2 import mpz  # only here: most who draw words need no large integers

        size = (width + 7) // 8
        if size == 0:
            return [mpz(0)] * count
        data, excess = self.bytes(size * count), 8 * size - width
        return [
            mpz.from_bytes(data[at : at + size], "little") >> excess
            for at in range(0, size * count, size)
        ]

    def below(self, bound: int, count: int) -> "list[mpz]":
        """`count` uniform integers 0 up to bound - 1 (by rejection: no bias)."""
        if bound < 1:
            raise ValueError("the bound must be at least 1")
        width, numbers = int(bound - 1).bit_length(), list["mpz"]()
        while len(numbers) < count:
            numbers += [x for x in self.bits(width, count - len(numbers)) if x < bound]
        return numbers

    def units(self, n: int, count: int) -> "list[mpz]":
        """`count` uniform integers below n that have an inverse modulo n."""
        import gmpy2

        numbers = list["mpz"]()
        while len(numbers) < count:
            numbers += [x for x in self.below(n, count - len(numbers)) if gmpy2.gcd(x, n) == 1]
        return numbers

    def permutation(self, n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
        """A uniform permutation of 0..n-1: the order of n distinct random keys."""
        while True:
            keys = self.uint64(n)
            order = np.argsort(keys)
            ranked = keys[order]
            # Equal keys would favour some orders: draw all of them again.
            if not np.any(ranked[1:] == ranked[:-1]):
                return order
