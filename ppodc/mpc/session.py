"""What a pair shares from start to end: role, link, transfers in both directions, supplies.

Starting up: both halves compare release and job, start the transfers (`oblivious_transfer`) and
agree on the supplies they kept (`supplies`). After any error the session is over: its transfers
are never used again, and a new pair starts with new secrets.

Who learns what: nothing but each other's release, text of the job and pool cursors.
Rounds: 5. Bytes: about 150 KB. Time: about a second, nearly all of it Paillier at 2048 bits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.mpc.aes import SEED_BYTES
from ppodc.mpc.freed_memory import keep_freed
from ppodc.mpc.messages import Link
from ppodc.mpc.meter import Meter
from ppodc.mpc.oblivious_transfer import ObliviousTransfer
from ppodc.mpc.supplies import Supplies
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Body

VERSION = 1
_HELLO = "shares.hello"
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
    meter: Meter
    ot: ObliviousTransfer
    supplies: Supplies
    ended: str | None = None  # why nothing more can be done

    @classmethod
    def start(
        cls,
        role: int,
        channel: Channel,
        job: str,
        key: PublicKey | SecretKey,
        *,
        pools: Path | None = None,
        random: SecureRandom | None = None,
    ) -> "Session":
        """Open a session: `key` is C2's public key at C1 and the secret key at C2.

        `job` says what both are about to do, in public numbers; the halves must have the same
        text. `pools` is a folder for supplies made ahead, at both clouds or at none.
        """
        if (role, isinstance(key, SecretKey)) not in ((1, False), (2, True)):
            raise InputError("a session on shares: role 1 has a public key, role 2 a secret one.")
        keep_freed()
        random = SecureRandom() if random is None else random
        link, meter = Link(channel), Meter(channel.traffic)
        with meter.step("start", offline=True):
            hash_key = _greet(link, role, job, key, random)
            ot = ObliviousTransfer.start(role, link, key, random, hash_key)
            supplies = Supplies(ot, meter, pools)
        return cls(role, link, random, meter, ot, supplies)

    @contextmanager
    def step(self, name: str, *, offline: bool = False) -> Iterator[None]:
        """A step of the protocol: timed, and the end of the session at both clouds if it fails."""
        if self.ended is not None:
            raise ChannelError(f"this pair's session is over: {self.ended}")
        try:
            with self.meter.step(name, offline=offline):
                yield
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt | SystemExit)
            reason = "it was stopped." if stopped else "an internal error."
            reason = str(error) if isinstance(error, PpodcError) else reason
            self.ended = f"{name} failed: {reason}"
            self.link.channel.fail(self.ended)
            raise

    def close(self) -> None:
        """End the session; what is stored stays for a later one."""
        if self.ended is None:
            self.ended = "it was closed."
        self.supplies.close()
        self.link.channel.close()


def _greet(
    link: Link, role: int, job: str, key: PublicKey | SecretKey, random: SecureRandom
) -> bytes:
    """Compare the jobs; the key of the hash, the xor of what both contribute."""
    fingerprint = key.public.fingerprint if isinstance(key, SecretKey) else key.fingerprint
    own = Hello(VERSION, role, f"{job} key={fingerprint}", random.bytes(SEED_BYTES))
    other = link.exchange_body(_HELLO, own, Hello)
    if other.version != VERSION or other.role == role:
        raise ChannelError(
            f"the peer is role {other.role} of shares suite {other.version}, this is role {role} "
            f"of {VERSION}. Run the same release at both clouds, one as each role."
        )
    if other.job != own.job:
        raise InputError(
            "the two clouds were started for different jobs or keys. Compare their spec files."
        )
    pair = np.frombuffer(own.hash_seed + other.hash_seed, np.uint8).reshape(2, SEED_BYTES)
    return bytes((pair[0] ^ pair[1]).tobytes())
