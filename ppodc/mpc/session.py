"""A session of a pair: role, link, transfers in both directions, supplies.

Starting up: both halves compare release and job, start the transfers (`ot.start`) and agree on the
supplies they kept (`supplies`) and on whether the link is slow (`round_trip`). A session has a
name, sid = SHA-256 of both hellos, each with 32 random bytes; every public value of the session
follows from it, so that neither cloud chooses one. After any error the session is over: its
transfers are never used again, and a new pair starts with new secrets.

Forward secrecy: all secrets of a session are drawn for it and forgotten at its end. A recording of
all messages, together with every key that the clouds store, opens nothing of it. Supplies that are
kept on disk for a later job are the exception: they hide that job's values until they are used.
So are sessions under audit, whose seeds are kept until the auditor has asked (`session_secrets`).

Who learns what: nothing but each other's release, text of the job, pool cursors and distance.
Rounds: 4, up to 3 more over a slow link. Bytes: about 0.6 MB in all. Time: a tenth of a second.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import ChannelError, ConfigError, PpodcError
from ppodc.mpc.freed_memory import keep_freed
from ppodc.mpc.messages import PeerLink
from ppodc.mpc.meter import Meter
from ppodc.mpc.ot.base_ot import fresh
from ppodc.mpc.ot.silent.source import SilentSource
from ppodc.mpc.ot.transfer import ObliviousTransfer
from ppodc.mpc.round_trip import is_slow
from ppodc.mpc.session_secrets import SessionSecrets
from ppodc.mpc.supplies import Supplies
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Body

VERSION = 9
_HELLO = "shares.hello"
_SILENT = "silent"  # in a job's text, and the folder of such supplies
_NONCE_BYTES = 32
_Nonce = Annotated[bytes, msgspec.Meta(min_length=_NONCE_BYTES, max_length=_NONCE_BYTES)]


class Hello(Body, frozen=True):
    """Each half's first message."""

    version: int
    role: int
    job: str
    nonce: _Nonce


@dataclass(slots=True, repr=False)
class Session:
    """One cloud's end of a pair; used by one thread."""

    role: int
    link: PeerLink
    random: SecureRandom
    meter: Meter
    ot: ObliviousTransfer
    supplies: Supplies
    slow: bool = False  # the link is: supplies are better made in the waits of other steps
    ended: str | None = None  # why nothing more can be done

    @classmethod
    def start(
        cls,
        role: int,
        channel: Channel,
        job: str,
        *,
        pools: Path | None = None,
        random: SecureRandom | None = None,
        secrets: SessionSecrets | None = None,
        silent: bool = False,
    ) -> "Session":
        """Open a session; both clouds call it at the same time.

        `job` describes what both are about to do, in public numbers; the halves must have the same
        text. `pools` is a folder for supplies made ahead, at both clouds or at none. With `secrets`
        all randomness follows from their seed and the peer's hello. `silent`: supplies come from
        silent transfers; both clouds must want them.
        """
        keep_freed()
        random = SecureRandom() if random is None else random
        nonce = random.bytes(_NONCE_BYTES) if secrets is None else secrets.nonce()
        link, meter = PeerLink(channel), Meter(channel.traffic)
        with meter.step("start", offline=True):
            job += f" supplies={_SILENT}" * silent
            sid, peer = _greet(link, Hello(VERSION, role, job, nonce))
            random = random if secrets is None else secrets.stream(peer)
            kept = fresh if secrets is None else secrets.encapsulate
            ot = ObliviousTransfer.start(role, link, random, sid, kept)
            if silent:
                pools = None if pools is None else pools / _SILENT
                supplies = Supplies(ot, meter, pools, SilentSource(ot))
            else:
                supplies = Supplies(ot, meter, pools)
            slow = is_slow(role, link, (lambda took: took) if secrets is None else secrets.measured)
        return cls(role, link, random, meter, ot, supplies, slow)

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


def _greet(link: PeerLink, own: Hello) -> tuple[bytes, bytes]:
    """Compare the jobs; the session's name and the peer's hello."""
    other, role = link.exchange_body(_HELLO, own, Hello), own.role
    if other.version != VERSION or other.role != 3 - role:
        raise ChannelError(
            f"the peer is role {other.role} of shares suite {other.version}, this is role {role} "
            f"of {VERSION}. Run the same release at both clouds, one as each role."
        )
    if other.job != own.job:
        raise ConfigError("the two clouds were started for different jobs. Compare their specs.")
    # an encoded body says where it ends, so that no two pairs of hellos give one text
    texts = [msgspec.msgpack.encode(hello) for hello in (own, other)]
    text = b"".join(texts if role == 1 else reversed(texts))
    return hashlib.sha256(b"ppodc start 2" + text).digest(), texts[1]
