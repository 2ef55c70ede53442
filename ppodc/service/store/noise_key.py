"""The key from which all noise of this cloud follows: 32 bytes in a file of its store.

It is created with the store, so that every copy of the store has it, and kept for good: noise that
is drawn again for the same question must be the same noise. If it is lost, questions that were
opened with it cannot be opened again (the ledger holds a commitment to each), and a job under way
is given up.
"""

import hmac
from pathlib import Path

from ppodc.files import key_file


class NoiseKey:
    """The key file in the store's folder; processes may share it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "noise.key"
        if not self._path.exists():
            key_file(self._path)

    def of_job(self, spec: str, seal: str) -> bytes:
        """32 bytes that only this cloud has, for the job of these digests; always the same."""
        return hmac.digest(key_file(self._path), f"{spec}/{seal}".encode(), "sha256")
