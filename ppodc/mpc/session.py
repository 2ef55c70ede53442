"""What a pair shares from start to end: role, link, transfers in both directions, hash, stock.

Starting up: both halves compare release and job; C1 sends C2 128 base transfers from C2's
Paillier key (`base_ot`), which give the direction in which C2 is the extension's sender. 128
transfers made in that direction are the base transfers of the other one: C1, their receiver,
becomes the sender there. A session's secrets are drawn anew each time and never stored.

Who learns what: nothing but each other's release, job parameters and pool cursors.
Rounds: 4. Bytes: about 150 KB. Time: about a second, nearly all of it Paillier at 2048 bits.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import ChannelError, InputError
from ppodc.kmeans.half import Parameters
from ppodc.mpc import base_ot
from ppodc.mpc.additive import Words
from ppodc.mpc.aes import SEED_BYTES, Hash, Tweaks
from ppodc.mpc.messages import Link
from ppodc.mpc.meter import Meter
from ppodc.mpc.ot_extension import (
    COLUMNS,
    DEPTH,
    TREES,
    Receiver,
    Sender,
    choices_for,
    grow,
    punctured,
)
from ppodc.mpc.xor_bits import BLOCK, WORD, pack
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Body

VERSION = 1
_HELLO, _TREES = "shares.hello", "shares.trees"
_FIRST, _EXTEND = "shares.first-extension", "shares.extension"
_Seed = Annotated[bytes, msgspec.Meta(min_length=SEED_BYTES, max_length=SEED_BYTES)]


class Hello(Body, frozen=True):
    """What each half says first."""

    version: int
    role: int
    job: str
    hash_seed: _Seed


@dataclass(slots=True, repr=False)
class Session:
    """One cloud's end of a pair; used by one thread."""

    role: int
    link: Link
    random: SecureRandom
    hash: Hash
    sender: Sender
    receiver: Receiver
    tweaks: Tweaks
    meter: Meter

    @classmethod
    def start(
        cls,
        role: int,
        channel: Channel,
        parameters: Parameters,
        key: PublicKey | SecretKey,
        random: SecureRandom | None = None,
    ) -> "Session":
        """Open a session: `key` is C2's public key at C1 and the secret key at C2."""
        if (role, isinstance(key, SecretKey)) not in ((1, False), (2, True)):
            raise InputError("the shares suite: role 1 has a public key, role 2 a secret one.")
        random = SecureRandom() if random is None else random
        link, tweaks, meter = Link(channel), Tweaks(), Meter(channel.traffic)
        with meter.step("start", offline=True):
            hasher = Hash(_greet(link, role, parameters, key, random))
            if isinstance(key, SecretKey):
                sender, receiver = _start_second(link, key, random, hasher, tweaks)
            else:
                sender, receiver = _start_first(link, key, random, hasher, tweaks)
        return cls(role, link, random, hasher, sender, receiver, tweaks, meter)

    @property
    def peer(self) -> int:
        """The other cloud's role."""
        return 3 - self.role

    def extend(self, choices: Words) -> tuple[Words, Words]:
        """Transfers in both directions at once: rows (q as sender, t as receiver of `choices`).

        The rows are valid until the next call.
        """
        words = len(choices)
        self.link.send(_EXTEND, self.receiver.extend(choices))
        self.sender.extend(words)
        t = self.receiver.rows(words)
        message = self.link.receive(_EXTEND, np.uint64, TREES, words)
        return self.sender.rows(message), t


def _greet(
    link: Link, role: int, p: Parameters, key: PublicKey | SecretKey, random: SecureRandom
) -> bytes:
    """Compare the jobs; the key of the hash, to which both contribute."""
    fingerprint = key.public.fingerprint if isinstance(key, SecretKey) else key.fingerprint
    job = f"m={p.m} l={p.l} k={p.k} ub={p.ub} beta={p.beta} key={fingerprint}"
    own = Hello(VERSION, role, job, random.bytes(SEED_BYTES))
    other = link.exchange_body(_HELLO, own, Hello)
    if other.version != VERSION or other.role == role:
        raise ChannelError(
            f"the peer is role {other.role} of shares suite {other.version}, this is role {role} "
            f"of {VERSION}. Run the same release at both clouds, one as each role."
        )
    if other.job != job:
        raise InputError(
            "the two clouds were started for different jobs or keys. Compare their spec files."
        )
    pair = np.frombuffer(own.hash_seed + other.hash_seed, np.uint8).reshape(2, SEED_BYTES)
    return bytes((pair[0] ^ pair[1]).tobytes())


def _start_second(
    link: Link, key: SecretKey, random: SecureRandom, hasher: Hash, tweaks: Tweaks
) -> tuple[Sender, Receiver]:
    delta = _bits(random)
    chosen = base_ot.receive(link, key, choices_for(delta), random)
    trees = link.receive(_TREES, np.uint8, TREES, DEPTH, 2, SEED_BYTES)
    sender = Sender(delta, punctured(delta, chosen, trees))
    # The other direction: this end sends 128 transfers with what it just got.
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
    leaves, corrections = grow(_roots(random), base_ot.send(link, key, random))
    link.send(_TREES, corrections)
    receiver = Receiver(leaves)
    delta = _bits(random)
    choices = random.uint64(BLOCK // WORD)
    choices[: COLUMNS // WORD] = pack(choices_for(delta))
    link.send(_FIRST, receiver.extend(choices))
    rows = receiver.rows(BLOCK // WORD)[:COLUMNS]
    chosen = hasher.expand(rows, tweaks.reserve(BLOCK), 2)
    trees = link.receive(_TREES, np.uint8, TREES, DEPTH, 2, SEED_BYTES)
    return Sender(delta, punctured(delta, chosen, trees)), receiver


def _bits(random: SecureRandom) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    data = np.frombuffer(random.bytes(COLUMNS // 8), np.uint8)
    return np.unpackbits(data, bitorder="little")


def _roots(random: SecureRandom) -> list[bytes]:
    return [random.bytes(SEED_BYTES) for _ in range(TREES)]
