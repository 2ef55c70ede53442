"""Oblivious transfer in both directions at once: what all else in this room is made from.

Starting up: C1 sends C2 128 base transfers from C2's Paillier key (`base_ot`), which give the
direction in which C2 is the extension's sender. 128 transfers made in that direction are the base
transfers of the other one: C1, their receiver, becomes the sender there. The secrets are drawn
anew for each session and never stored.

Who learns what: nothing. Rounds: 3. Bytes: about 150 KB. Time: about a second, nearly all of it
Paillier at 2048 bits.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.crypto.random_stream import SecureRandom
from ppodc.mpc import base_ot
from ppodc.mpc.additive import Words
from ppodc.mpc.aes import SEED_BYTES, Hash, Tweaks
from ppodc.mpc.leaf_streams import DEPTH
from ppodc.mpc.messages import Link
from ppodc.mpc.ot_extension import (
    COLUMNS,
    TREES,
    Combine,
    Receiver,
    Sender,
    choices_for,
    grow,
    punctured,
)
from ppodc.mpc.xor_bits import BLOCK, WORD, pack

_TREES = "shares.trees"
_FIRST, _EXTEND = "shares.first-extension", "shares.extension"
_AHEAD = 16  # lots on their way: 8 MB of messages fill a link of 1 Gbit/s and 60 ms


@dataclass(slots=True, repr=False)
class ObliviousTransfer:
    """One cloud's end of both directions; used by one thread."""

    role: int
    link: Link
    random: SecureRandom
    hash: Hash
    sender: Sender
    receiver: Receiver
    tweaks: Tweaks

    @classmethod
    def start(
        cls,
        role: int,
        link: Link,
        key: PublicKey | SecretKey,
        random: SecureRandom,
        hash_key: bytes,
    ) -> "ObliviousTransfer":
        """The base transfers of both directions; `key` is C2's, secret at C2 and public at C1."""
        hasher, tweaks = Hash(hash_key), Tweaks()
        if isinstance(key, SecretKey):
            sender, receiver = _start_second(link, key, random, hasher, tweaks)
        else:
            sender, receiver = _start_first(link, key, random, hasher, tweaks)
        return cls(role, link, random, hasher, sender, receiver, tweaks)

    @property
    def peer(self) -> int:
        """The other cloud's role."""
        return 3 - self.role

    def extend(
        self, choices: Iterable[Words], combine: Combine | None = None
    ) -> Iterator[tuple[Words, Words, Words]]:
        """For each lot of choices: them, and rows q_i = t_i ^ r_i D in each direction.

        q is the sender's row and t the receiver's, for choice bit r_i. 4 bytes per row and
        direction; messages of later lots are on their way before the peer's is awaited, so that a
        slow link is waited for once. Rows are valid until the next lot. With `combine`, a linear
        map, q and t are what it makes of all rows of a lot.
        """
        waiting: deque[tuple[Words, Words]] = deque()
        for lot in choices:
            self.link.send(_EXTEND, self.receiver.extend(lot))
            waiting.append((lot, self.receiver.rows(len(lot), combine).copy()))
            if len(waiting) > _AHEAD:
                yield self._sent_rows(*waiting.popleft(), combine)
        while waiting:
            yield self._sent_rows(*waiting.popleft(), combine)

    def _sent_rows(
        self, choices: Words, t: Words, combine: Combine | None
    ) -> tuple[Words, Words, Words]:
        """A lot with the sender's rows, for which the peer's message is needed."""
        self.sender.extend(len(choices))
        message = self.link.receive(_EXTEND, np.uint64, TREES, len(choices))
        return choices, self.sender.rows(message, combine), t


def _start_second(
    link: Link, key: SecretKey, random: SecureRandom, hasher: Hash, tweaks: Tweaks
) -> tuple[Sender, Receiver]:
    """C2: receiver of the base transfers, hence sender of the extension; then the other way."""
    delta = _bits(random)
    chosen = base_ot.receive(link, key, choices_for(delta), random)
    trees = link.receive(_TREES, np.uint8, TREES, DEPTH, 2, SEED_BYTES)
    sender = Sender(delta, punctured(delta, chosen, trees))
    # The other direction: this end sends 128 transfers with what it just got, H(q) and H(q ^ D).
    sender.extend(BLOCK // WORD)
    rows = sender.rows(link.receive(_FIRST, np.uint64, TREES, BLOCK // WORD))[:COLUMNS]
    first = tweaks.reserve(BLOCK)
    keys = [hasher.expand(rows, first, 2), hasher.expand(rows ^ sender.delta, first, 2)]
    leaves, corrections = grow(_roots(random), np.stack(keys, axis=1))
    link.send(_TREES, corrections)
    return sender, Receiver(leaves)


def _start_first(
    link: Link, key: PublicKey, random: SecureRandom, hasher: Hash, tweaks: Tweaks
) -> tuple[Sender, Receiver]:
    """C1: sender of the base transfers, hence receiver of the extension; then the other way."""
    leaves, corrections = grow(_roots(random), base_ot.send(link, key, random))
    link.send(_TREES, corrections)
    receiver = Receiver(leaves)
    delta = _bits(random)
    # The other direction: 128 transfers whose choice bits are those that D calls for give H(t).
    choices = random.uint64(BLOCK // WORD)
    choices[: COLUMNS // WORD] = pack(choices_for(delta))
    link.send(_FIRST, receiver.extend(choices))
    rows = receiver.rows(BLOCK // WORD)[:COLUMNS]
    chosen = hasher.expand(rows, tweaks.reserve(BLOCK), 2)
    trees = link.receive(_TREES, np.uint8, TREES, DEPTH, 2, SEED_BYTES)
    return Sender(delta, punctured(delta, chosen, trees)), receiver


def _bits(random: SecureRandom) -> NDArray[np.uint8]:
    data = np.frombuffer(random.bytes(COLUMNS // 8), np.uint8)
    return np.unpackbits(data, bitorder="little")


def _roots(random: SecureRandom) -> list[bytes]:
    return [random.bytes(SEED_BYTES) for _ in range(TREES)]
