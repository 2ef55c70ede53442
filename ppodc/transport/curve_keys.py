"""CURVE key pairs and their files.

A key pair is two files: `NAME.public` may be given to anyone, `NAME.secret` is readable by its
owner alone and is refused otherwise, where the system has such modes (not on Windows).
"""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from ppodc.errors import KeyFileError
from ppodc.files import POSIX

KEY_CHARACTERS = 40
_Z85 = frozenset(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """One party's key pair, in the Z85 text form that ZeroMQ takes."""

    public: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> "CurveKeys":
        """A fresh key pair from the operating system's randomness."""
        public, secret = zmq.curve_keypair()
        return cls(public, secret)

    def save(self, stem: Path) -> None:
        """Write `stem.public` and `stem.secret`; existing files are not overwritten."""
        stem.parent.mkdir(parents=True, exist_ok=True)
        for path, content, mode in (
            (_with(stem, "secret"), self.secret, 0o600),
            (_with(stem, "public"), self.public, 0o644),
        ):
            try:
                # O_EXCL with the mode: the secret is never readable by others, not even briefly.
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            except OSError as error:
                raise KeyFileError(
                    f"cannot write the key file {path}: {error.strerror}."
                ) from error
            with os.fdopen(descriptor, "wb") as file:
                file.write(content + b"\n")

    @classmethod
    def load(cls, stem: Path) -> "CurveKeys":
        """Read a key that `save` has written; the stem may be given with the end of either file.

        The two files must belong together.
        """
        if stem.suffix in (".secret", ".public") and not _with(stem, "secret").exists():
            stem = stem.with_suffix("")
        path = _with(stem, "secret")
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise KeyFileError(f"cannot read the key file {path}: {error.strerror}.") from error
        if POSIX and mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyFileError(
                f"the secret key {path} can be read by others. If that was never the case for "
                f"anyone you do not trust, run: chmod 600 {path}. Otherwise make a new key."
            )
        secret = _read(path)
        public = load_public(_with(stem, "public"))
        if zmq.curve_public(secret) != public:
            raise KeyFileError(f"{stem}.public and {stem}.secret are not a pair.")
        return cls(public, secret)


def load_public(path: Path) -> bytes:
    """The public key in this file; a secret one is refused."""
    if path.suffix == ".secret":
        raise KeyFileError(
            f"{path} is a secret key, which nobody else must have. Give the file "
            f"{path.with_suffix('.public').name}."
        )
    return _read(path)


def check_public(key: bytes) -> bytes:
    """The key itself, if it has the form of one."""
    if len(key) != KEY_CHARACTERS or not _Z85.issuperset(key):
        raise KeyFileError(f"a public key must be {KEY_CHARACTERS} characters of Z85 text.")
    return key


def _with(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            key = file.read(KEY_CHARACTERS + 2).strip(b"\r\n")
    except OSError as error:
        raise KeyFileError(f"cannot read the key file {path}: {error.strerror}.") from error
    if len(key) != KEY_CHARACTERS or not _Z85.issuperset(key):
        raise KeyFileError(
            f"{path} is not a CURVE key: it must hold {KEY_CHARACTERS} characters of Z85 text."
        )
    return key
