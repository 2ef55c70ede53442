"""The consistency check of a batch's trees: the sender must have used one D and honest sums.

A false correction changes nodes of the receiver's tree that lie beside certain paths only: whether
its rows fit would then depend on the path, that is on its noise. So the batch is checked as a whole
before any row of it is used (Yang, Weng, Lan, Zhang and Wang, Ferret, CCS 2020, consistency check
of the single-point transfers, for all trees at once). In GF(2^128), with q = t ^ e D for all leaves
and 128 base rows Q = T ^ x D, added up with the powers of X:

    both      a challenge = SHA-256(name of the batch | corrections); factors chi from it
    receiver  sends  m = x ^ sum of chi at the ends of its paths
    sender    sends  SHA-256(name | sum of chi q  ^ Q ^ m D)
    receiver  compares with  SHA-256(name | sum of chi t ^ T)

chi of leaf j in tree i is a product a_i b_j of two lists. If some q ^ t is not e D, the two sums
are equal with chance 2^-127 for each set of corrections that the sender hashes. Else every tree
fits, for the paths that the receiver took: a sender that guesses paths passes with the chance that
its guess is right, and learns that it was. To learn b bits of the noise costs the session but for
2^-b. What follows then is regular LPN with such a hint ("static leakage"), an assumption of its
own: no claim of this project rests on it. Batches of silent transfers are outside its claims
against a cloud that deviates.

A receiver that sends a false m gets the hash of an unknown number: D has 127 unknown bits.

Who learns what: nothing, m is masked by x. Bytes: 16 and 32 a batch, in flights of their own.
Operations: 4 carry-less products a row.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.ot.column_check import coefficients, hashes
from ppodc.mpc.ot.silent.noise import CHECK_ROWS
from ppodc.mpc.ot.silent.point_trees import Bits, ends
from ppodc.mpc.shares.additive import U64, U64Array

_SEED_BYTES = 16
_LEAST_WORDS = 8  # that `hashes` takes


def _powers() -> U64Array:
    """1, X, X^2, .. X^127: two words each."""
    powers = np.zeros((CHECK_ROWS, 2), U64)
    for i in range(CHECK_ROWS):
        powers[i, i // 64] = 1 << (i % 64)
    return powers.reshape(-1)


_POWERS = _powers()


@dataclass(frozen=True, slots=True, repr=False)
class Challenge:
    """The factors of one batch."""

    trees: U64Array  # a: two words each
    leaves: U64Array  # b

    @classmethod
    def of(cls, name: bytes, corrections: U64Array, depth: int) -> "Challenge":
        """From a sender's message (t, depth, 2)."""
        seed = hashlib.sha256(name + corrections.astype("<u8").tobytes()).digest()
        return cls(
            coefficients(seed[:_SEED_BYTES], 2 * len(corrections)),
            coefficients(seed[_SEED_BYTES:], 2 << depth),
        )

    def sum(self, rows: U64Array) -> U64Array:
        """The sum of chi times rows (t, 2^depth, 2): (2)."""
        within = hashes(rows.reshape(len(rows), -1), self.leaves)
        return _one(hashes(within.reshape(1, -1), self.trees))

    def of_paths(self, path: Bits) -> U64Array:
        """The sum of chi at the ends of paths (t, depth): (2)."""
        picked = self.leaves.reshape(-1, 2)[ends(path)]
        return _one(hashes(picked.reshape(1, -1), self.trees))


def added_up(rows: U64Array) -> U64Array:
    """CHECK_ROWS rows (n, 2) with the powers of X: (2)."""
    return _one(hashes(np.ascontiguousarray(rows).reshape(1, -1), _POWERS))


def times(a: U64Array, b: U64Array) -> U64Array:
    """The product of two numbers of GF(2^128): (2)."""
    both = np.zeros((2, _LEAST_WORDS), U64)
    both[0, :2], both[1, :2] = a, b
    return _one(hashes(both[:1], both[1]))


def digest(name: bytes, number: U64Array) -> NDArray[np.uint8]:
    """SHA-256(name | number)."""
    return np.frombuffer(hashlib.sha256(name + number.astype("<u8").tobytes()).digest(), np.uint8)


def _one(found: U64Array) -> U64Array:
    single: U64Array = found[0]
    return single
