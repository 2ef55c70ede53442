"""A worker's record of its half of a pair, for an auditor (`docs/audit.md`).

All randomness of the half follows from one seed, which its cloud has committed to before the hello.
The record holds what else the half depends on besides the tasks: the messages that came, the
outputs of the encapsulations, the round trips that it measured, and which attempt at which step
each call was.

Who learns what: nobody. The record is encrypted under a key that follows from the seed, so that
whoever erases the seed erases the record. The seed itself stays in the cloud's store.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ppodc.errors import ChannelError
from ppodc.mpc.ot.base_ot import fresh
from ppodc.mpc.session_secrets import SessionSecrets
from ppodc.transport.channel import Channel
from ppodc.transport.message_log import Heads, MessageLog, Note, read_log
from ppodc.transport.replay_channel import SESSION, LogReader, ReplayChannel

_STEP, _ENCAPSULATED, _MEASURED = "step", "encapsulated", "measured"
_KEY_BYTES = 32  # of an encapsulation


@dataclass(frozen=True, slots=True)
class Recording:
    """The seed of a worker's half, and the file, not yet there, for its record."""

    seed: bytes = field(repr=False)
    file: str


class CallNote(msgspec.Struct, frozen=True):
    """A call of a worker: its step and attempt."""

    step: int
    attempt: int


def commitment(job: str, role: int, pair: str, salt: bytes, seed: bytes) -> bytes:
    """A cloud's word on the seed of its half of this pair; it says nothing of the seed."""
    place = msgspec.msgpack.encode(("ppodc audit seed 1", job, role, pair))
    return hashlib.sha256(place + salt + seed).digest()


class Recorder:
    """Keeps the record of one half."""

    def __init__(self, recording: Recording) -> None:
        self._seed, self._used = recording.seed, False
        self._log = MessageLog(Path(recording.file), _record_key(recording.seed))

    def begin(self, step: int, attempt: int) -> None:
        """Note a call of the worker."""
        self._log.note(_STEP, msgspec.msgpack.encode(CallNote(step, attempt)))

    def attach(self, channel: Channel) -> SessionSecrets:
        """Record this channel; the secrets of its session.

        Once: a second session on the same seed would answer the peer's tries with the same secrets.
        """
        if self._used:
            raise ChannelError("the seed of this pair has served a session. Start a new pair.")
        self._used = True
        self._log.note(SESSION, channel.session)
        channel.keep_log(self._log)
        return SessionSecrets(self._seed, self._encapsulate, self._measured)

    def flush(self) -> Heads:
        """Bring the record to disk; the running digests up to here."""
        return self._log.flush()

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def _encapsulate(self, public: MLKEM768PublicKey) -> tuple[bytes, bytes]:
        key, ciphertext = fresh(public)
        self._log.note(_ENCAPSULATED, key + ciphertext)
        return key, ciphertext

    def _measured(self, took: int) -> int:
        self._log.note(_MEASURED, msgspec.msgpack.encode(took))
        return took


class Replayed:
    """The record of one half, played back."""

    def __init__(self, seed: bytes, file: Path) -> None:
        self._seed = seed
        self._reader = LogReader(read_log(file, _record_key(seed)))
        self.channel: ReplayChannel | None = None

    def next_call(self) -> CallNote | None:
        """The worker's next call, which stays; None if the record holds none."""
        entry = self._reader.peek()
        if not isinstance(entry, Note) or entry.name != _STEP:
            return None
        return msgspec.msgpack.decode(entry.data, type=CallNote)

    def begin(self) -> CallNote:
        """The worker's next call; RecordEndsError if the record holds none."""
        return msgspec.msgpack.decode(self._reader.note(_STEP), type=CallNote)

    def open(self) -> tuple[ReplayChannel, SessionSecrets]:
        """The channel that plays the record, and the secrets of its session."""
        self.channel = ReplayChannel(self._reader)
        return self.channel, SessionSecrets(self._seed, self._encapsulated, self._measured)

    def _encapsulated(self, _public: MLKEM768PublicKey) -> tuple[bytes, bytes]:
        kept = self._reader.note(_ENCAPSULATED)
        return kept[:_KEY_BYTES], kept[_KEY_BYTES:]

    def _measured(self, _took: int) -> int:
        return msgspec.msgpack.decode(self._reader.note(_MEASURED), type=int)


def _record_key(seed: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt=None, info=b"ppodc audit record").derive(seed)
