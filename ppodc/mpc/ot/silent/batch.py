"""One batch of silent transfers in both directions: few rows become many.

A batch starts from `Noise.base` rows q = t ^ r D of either direction, with r in bit 0 of t and 0 in
bit 0 of q. The first k are the secret rows of the code, the next t depth of them belong to the
levels of the trees, the last ones mask the check. Its steps, from one cloud's view:

    corrections   of the trees that it has grown as sender            (`point_trees`)
    take          restores the peer's as receiver, and masks the sum of the check
    answer        as sender, to the peer's masked sum                 (`point_check`)
    verify        the peer's answer
    rows          of the batch, with the code added                   (`local_code`)

Rows may be used when `verify` has passed, and never twice. The first `Noise.base` of them start the
next batch; nothing of the old base is used again.
"""

import hashlib
import hmac
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import CheckError
from ppodc.mpc.ot.silent import local_code, point_trees
from ppodc.mpc.ot.silent.noise import CHECK_ROWS, Noise
from ppodc.mpc.ot.silent.point_check import Challenge, added_up, digest, times
from ppodc.mpc.ot.transfer import ObliviousTransfer
from ppodc.mpc.shares.additive import U64, U64Array

CHOICE = U64(1)  # bit 0 of a row's first word: the receiver's choice


def with_choice(delta: U64Array) -> U64Array:
    """D with bit 0 set."""
    found = delta.copy()
    found[0] |= CHOICE
    return found


@dataclass(slots=True, repr=False)
class Verdict:
    """The rest of a batch's check once its rows are there; small."""

    delta: U64Array
    own: bytes  # names of both directions
    peer: bytes
    sum: U64Array  # as sender
    expected: bytes = b""  # as receiver

    def answer(self, masked: U64Array) -> NDArray[np.uint8]:
        """As sender: the answer (32) to the peer's masked sum."""
        return digest(self.own, self.sum ^ times(masked, self.delta))

    def verify(self, told: NDArray[np.uint8]) -> None:
        """Compare the peer's answer; CheckError if it is false."""
        if not hmac.compare_digest(self.expected, told.tobytes()):
            raise CheckError(
                "the other cloud's silent transfers do not fit their check. Start a new pair."
            )


class Batch:
    """One cloud's end of a batch; its steps are called in order."""

    def __init__(
        self, ot: ObliviousTransfer, noise: Noise, number: int, q: U64Array, t: U64Array
    ) -> None:
        """`q` and `t` (base, 2) are the rows that it starts from; `number` is new in the session.

        The own trees are grown at once: `corrections` (t, depth, 2) are the message for the peer.
        """
        self._ot, self._noise, self._number = ot, noise, number
        delta, role = with_choice(ot.delta), ot.role
        self._table = np.concatenate([q[: noise.k], t[: noise.k]], axis=1)
        trees, shape = slice(noise.k, noise.base - CHECK_ROWS), (noise.t, noise.depth, 2)
        self._t_trees, self._t_check = t[trees].reshape(shape), t[-CHECK_ROWS:]
        roots = ot.random.uint64((noise.t, 2))
        leaves, sums = point_trees.grow(self._key(b"tree", role), delta, roots, noise.depth)
        self.corrections = sums ^ q[trees].reshape(shape)
        challenge = Challenge.of(self._name(role), self.corrections, noise.depth)
        total = challenge.sum(leaves) ^ added_up(q[-CHECK_ROWS:])
        self.verdict = Verdict(delta, self._name(role), self._name(ot.peer), total)
        self._q, self._t = leaves.reshape(-1, 2), np.empty((0, 2), U64)
        self._encoded = 0  # rows that have the code added

    def take(self, message: U64Array) -> U64Array:
        """As receiver of the peer's corrections: the masked sum (2) for the peer."""
        name = self.verdict.peer
        path = 1 - (self._t_trees[:, :, 0] & CHOICE).astype(np.uint8)
        key = self._key(b"tree", self._ot.peer)
        leaves = point_trees.restore(key, message ^ self._t_trees, path)
        challenge = Challenge.of(name, message, self._noise.depth)
        number = challenge.sum(leaves) ^ added_up(self._t_check)
        self.verdict.expected = digest(name, number).tobytes()
        self._t = leaves.reshape(-1, 2)
        masks = np.zeros((CHECK_ROWS, 2), U64)
        masks[:, 0] = self._t_check[:, 0] & CHOICE
        return challenge.of_paths(path) ^ added_up(masks)

    def rows(self, start: int, end: int) -> tuple[U64Array, U64Array]:
        """Rows start..end-1: q as sender, t as receiver; they are asked for in order."""
        if start != self._encoded:
            raise ValueError("rows of a batch are asked for one after the other")
        q, t = self._q[start:end], self._t[start:end]
        key, bits = self._key(b"code", 0), self._noise.k.bit_length() - 1
        local_code.encode(key, self._table, start, q, t, bits=bits)
        self._encoded = end
        return q, t

    def _key(self, what: bytes, sender: int) -> bytes:
        """A public key of AES for this batch; of the trees of one direction, or of the code."""
        text = b"ppodc silent " + what + self._ot.sid + self._tag(sender)
        return hashlib.sha256(text).digest()[:16]

    def _name(self, sender: int) -> bytes:
        return b"ppodc silent check" + self._ot.sid + self._tag(sender)

    def _tag(self, sender: int) -> bytes:
        return bytes([sender]) + self._number.to_bytes(8, "little")
