"""The key from which all noise of this cloud follows: 32 bytes in a file of its store.

Made with the store, so that every copy of one has it, and kept for good: noise that is drawn again
for the same question must be the same noise. If it is lost, questions that were opened with it
cannot be opened again (the ledger holds a commitment to each), and a job under way is given up.
"""

import fcntl
import hmac
import secrets
from pathlib import Path

from ppodc.errors import KeyFileError
from ppodc.files import disk_errors, write_private

_BYTES = 32


class NoiseKey:
    """The key file in the store's folder; processes may share it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "noise.key"

    def ensure(self) -> "NoiseKey":
        """Have the file there."""
        if not self._path.exists():
            self._secret()
        return self

    def of_job(self, spec: str, seal: str) -> bytes:
        """32 bytes that only this cloud has, for the job of these digests; always the same."""
        return hmac.digest(self._secret(), f"{spec}/{seal}".encode(), "sha256")

    def _secret(self) -> bytes:
        with disk_errors(self._path), self._path.with_suffix(".lock").open("a") as lock:
            Path(lock.name).chmod(0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)  # or two processes make two keys
            if not self._path.exists():
                write_private(self._path, secrets.token_bytes(_BYTES))
            secret = self._path.read_bytes()
        if len(secret) != _BYTES:
            raise KeyFileError(f"{self._path} is damaged: put it back from your copy.")
        return secret
