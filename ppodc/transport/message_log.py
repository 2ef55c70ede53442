"""The record of one end of a channel: a digest of each message it sent, and all that it received.

With it, its secrets and its share, an auditor runs this end again and compares what it sends
(`replay_channel`). Both ends keep running digests of both directions; the clouds sign them after
each step (`pairs.statements`), so that neither can change its record later.

    digest of a message   SHA-256(lane | frame): kind, session, number, body and arrays
    running digest        SHA-256(running digest before | digest)

A lane is a sequence of messages of one thread; there is one, number 0. An `error` message, which
ends a session with words that depend on the machine, is in no record.

The file: entries of a length and AES-256-GCM under a key made for this file, nonces counting from
0. An entry that was cut off by a kill ends the record.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ppodc.errors import InputError
from ppodc.files import disk_errors, private_folder
from ppodc.transport.wire import Part

ERROR = "error"  # the kind of message that is in no record
LANE = 0
_START = bytes(32)
_LENGTH_BYTES, _NONCE_BYTES = 8, 12
_BUFFER_BYTES = 1 << 20


class Sent(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A message that this end sent."""

    number: int
    kind: str
    digest: bytes


class Arrived(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A message that this end received: the frame as it came."""

    parts: list[bytes]


class Note(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """An input of this end that came by no message."""

    name: str
    data: bytes


LogEntry = Sent | Arrived | Note


@dataclass(frozen=True, slots=True)
class Heads:
    """The number of messages each way, and the running digests of both directions."""

    sent: int = 0
    sent_head: bytes = _START
    received: int = 0
    received_head: bytes = _START

    def after_sent(self, digest: bytes) -> "Heads":
        """One message more was sent."""
        head = hashlib.sha256(self.sent_head + digest).digest()
        return Heads(self.sent + 1, head, self.received, self.received_head)

    def after_received(self, digest: bytes) -> "Heads":
        """One message more came."""
        head = hashlib.sha256(self.received_head + digest).digest()
        return Heads(self.sent, self.sent_head, self.received + 1, head)

    def mirrored(self) -> "Heads":
        """The heads as the other end must see them."""
        return Heads(self.received, self.received_head, self.sent, self.sent_head)


def message_digest(parts: Sequence[Part]) -> bytes:
    """The digest of a frame; its header says how many bytes of what follow."""
    hasher = hashlib.sha256(bytes([LANE]))
    for part in parts:
        hasher.update(part)
    return hasher.digest()


class MessageLog:
    """Writes a record, for this user alone (mode 0600)."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._cipher, self._entries, self._path = AESGCM(key), 0, path
        self.heads = Heads()
        private_folder(path.parent)
        with disk_errors(path):
            # A key serves one file: a second one under it would repeat nonces.
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._file = os.fdopen(made, "wb", buffering=_BUFFER_BYTES)

    def sent(self, kind: str, parts: Sequence[Part]) -> None:
        """Note a message before it leaves."""
        if kind == ERROR:
            return
        digest = message_digest(parts)
        self._write(Sent(self.heads.sent, kind, digest))
        self.heads = self.heads.after_sent(digest)

    def received(self, kind: str, parts: Sequence[Part]) -> None:
        """Keep a message that has come."""
        if kind == ERROR:
            return
        self._write(Arrived(cast(list[bytes], list(parts))))
        self.heads = self.heads.after_received(message_digest(parts))

    def note(self, name: str, data: bytes) -> None:
        """Keep an input that came by no message."""
        self._write(Note(name, data))

    def flush(self) -> Heads:
        """Bring everything to disk; the running digests up to here."""
        with disk_errors(self._path):
            self._file.flush()
            os.fdatasync(self._file.fileno())
        return self.heads

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        with disk_errors(self._path):
            self._file.close()

    def _write(self, entry: LogEntry) -> None:
        nonce = self._entries.to_bytes(_NONCE_BYTES, "big")
        self._entries += 1
        data = self._cipher.encrypt(nonce, msgspec.msgpack.encode(entry), None)
        with disk_errors(self._path):
            self._file.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
            self._file.write(data)


def read_log(path: Path, key: bytes) -> Iterator[LogEntry]:
    """The entries of a record, in order, up to one that was cut off.

    InputError if an entry in the middle does not open under this key.
    """
    cipher, number = AESGCM(key), 0
    with disk_errors(path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while (data := _next(file)) is not None:
            try:
                plain = cipher.decrypt(number.to_bytes(_NONCE_BYTES, "big"), data, None)
                yield msgspec.msgpack.decode(plain, type=LogEntry)
            except (InvalidTag, msgspec.MsgspecError):
                if file.tell() == size:
                    return  # a machine that lost power while it wrote
                raise InputError(
                    f"the record {path.name} is damaged, or its key is another one."
                ) from None
            number += 1


def _next(file: BinaryIO) -> bytes | None:
    length = file.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(length, "big")
    data = file.read(size)
    return data if len(data) == size else None
