"""All randomness of a session from one seed, so that an auditor can run a half again.

    nonce of the hello    HKDF-SHA-256(seed, "hello")
    stream of a lane      AES-256-CTR under HKDF-SHA-256(seed, lane, the peer's hello)

The peer's hello is mixed in: a cloud that tries seeds cannot know which numbers one will give. A
lane is a part of a session whose draws and messages have one order; a thread owns it. The engine
has one lane, `online`. A second thread must take another, or its draws could not be repeated.

An encapsulation draws from the system, out of reach of any seed: its outputs are kept instead. So
are the times that C1 measured on its link (`round_trip`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ppodc.crypto.random_stream import SecureRandom
from ppodc.mpc.ot.base_ot import Encapsulate, fresh

ONLINE = "online"
SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class SessionSecrets:
    """The seed of one session; it serves no other."""

    seed: bytes = field(repr=False)
    encapsulate: Encapsulate = fresh
    measured: Callable[[int], int] = lambda took: took  # keeps a time, or has it from a record

    def nonce(self) -> bytes:
        """The random bytes of the own hello."""
        return self._derived(b"hello")

    def stream(self, peer: bytes, lane: str = ONLINE) -> SecureRandom:
        """The stream of a lane, in the session with the peer of this hello."""
        return SecureRandom(self._derived(b"lane " + lane.encode() + b"\0" + peer))

    def _derived(self, text: bytes) -> bytes:
        info = b"ppodc session " + text
        return HKDF(hashes.SHA256(), SEED_BYTES, salt=None, info=info).derive(self.seed)
