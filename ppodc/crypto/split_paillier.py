"""A Paillier key split between the two clouds: neither opens a ciphertext without the other.

c = (1 + m n) r^n mod n^2, so c mod n = r^n mod n, and d = -1/n modulo lambda = lcm(p - 1, q - 1)
gives c^d = 1/r modulo n. The shares are s1 + s2 = d modulo lambda. C1 sends c^s1 mod n beside c; C2
multiplies it by c^s2, has 1/r and finds c (1/r)^n = 1 + m n modulo n^2. A wrong c^s1 gives a number
that is not 1 modulo n, and is refused: the n-th root of c modulo n is unique.

Who learns what: s1 is uniform below n / 2, and s2 is at statistical distance below 2^(3 - bits/2)
from that, as lambda is that close to n / 2: either share could be drawn from n alone. C2 learns m
and r of the ciphertexts that C1 asks about, as the holder of p and q does; c^s1 follows from them,
c and s2. The dealer who runs `split` knows p and q, and must forget them: it is trusted with that.

Per ciphertext: C1 one exponentiation modulo n and half a ciphertext more to send; C2 one modulo n
and one modulo n^2, both by numbers of n's length. The form c^d1 c^d2 with d = 1 modulo n takes
exponents twice as long modulo n^2 in both clouds, and sends a whole ciphertext.
"""

import secrets
from typing import Any, Literal, NoReturn

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from ppodc.crypto.paillier import Ciphertexts, PublicKey, SecretKey, Tally
from ppodc.errors import CiphertextError, KeyFileError

Holder = Literal[1, 2]
Array = NDArray[Any]


class KeyShare:
    """One cloud's share of a key. It does not show in repr and refuses to be pickled or copied."""

    __slots__ = ("cloud", "exponent", "public")

    def __init__(self, cloud: Holder, public: PublicKey, exponent: int) -> None:
        self.cloud, self.public, self.exponent = cloud, public, mpz(exponent)
        if not 0 <= self.exponent < public.n:
            raise KeyFileError("This is not a share of a Paillier key; make new ones.")

    def powers(self, batch: Ciphertexts, tally: Tally | None = None) -> list[mpz]:
        """This cloud's part of opening each ciphertext: c^s mod n."""
        if batch.key != self.public:
            raise CiphertextError("These ciphertexts are under another key than this share's.")
        if tally is not None:
            tally.exponentiations += len(batch)
        n = self.public.n
        powers: list[mpz] = gmpy2.powmod_base_list([c % n for c in batch.values], self.exponent, n)
        return powers

    def to_open(self, batch: Ciphertexts, tally: Tally | None = None) -> Array:
        """C1's message: a row for each ciphertext, it and then c^s1, little-endian."""
        width = _bytes_of(self.public)
        data = b"".join([x.to_bytes(width, "little") for x in self.powers(batch, tally)])
        powers = np.frombuffer(data, np.uint8).reshape(len(batch), width)
        return np.hstack([batch.to_array(), powers])

    def opened(self, array: Array, tally: Tally | None = None) -> list[mpz]:
        """C2: the plaintexts of C1's message, each in 0..n-1."""
        key, width = self.public, _bytes_of(self.public)
        if array.ndim != 2 or array.shape[1] != key.ciphertext_bytes + width:
            raise CiphertextError(
                "The other cloud sent ciphertexts without its part of a split key, or of another "
                "size. Use the two shares of one `ppodc split-key`."
            )
        batch = Ciphertexts.from_array(key, array[:, : key.ciphertext_bytes])
        data = array[:, key.ciphertext_bytes :].tobytes()
        theirs = [mpz.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]
        own = self.powers(batch, tally)
        inverses = [x * y % key.n for x, y in zip(theirs, own, strict=True)]
        factors = gmpy2.powmod_base_list(inverses, key.n, key.n2)
        if tally is not None:
            tally.decryptions += len(batch)
        ones = [c * f % key.n2 for c, f in zip(batch.values, factors, strict=True)]
        if any(x % key.n != 1 for x in ones):
            raise CiphertextError("The other cloud's part of the key does not open its ciphertext.")
        return [x // key.n for x in ones]

    def __repr__(self) -> str:
        return f"KeyShare(cloud {self.cloud}, {self.public.bits} bits, {self.public.fingerprint})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A share of a key is not pickled or copied; save it as a file.")


def split(key: SecretKey) -> tuple[KeyShare, KeyShare]:
    """The shares of C1 and C2. Whoever calls this must forget the key."""
    order = gmpy2.lcm(key.p - 1, key.q - 1)
    whole = -gmpy2.invert(key.public.n, order)
    first = secrets.randbelow(int(key.public.n >> 1))
    return KeyShare(1, key.public, first), KeyShare(2, key.public, (whole - first) % order)


def _bytes_of(key: PublicKey) -> int:
    return (key.bits + 7) // 8
