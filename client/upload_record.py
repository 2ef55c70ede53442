"""The record of an upload in an owner's folder, so that it can continue later.

The file of an unfinished upload holds its seed: with it and cloud 1's share the records could be
read, so it is the owner's alone (mode 0600), and the seed is erased from it once both clouds have
committed; so are the salts of an audit. The name follows from the dataset and the data: the same
data find their file again. A seed is only ever used again for the very same data.
"""

import hashlib
import hmac
import secrets
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.files import disk_errors, locked, private_folder, write_private
from ppodc.names import UploadId
from ppodc.records.part_digest import SALT_BYTES
from ppodc.records.sharing import SEED_BYTES
from ppodc.spec import Spec

_VERSION = 1


class UploadRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One upload of certain data into a certain dataset; `seed` is empty once finished."""

    version: int
    dataset: str
    spec_digest: str
    data_digest: str
    upload_id: UploadId
    rows: int
    seed: bytes
    finished: bool
    salts: bytes = b""  # of the digests of both parts, for an audit; empty once finished

    def __repr__(self) -> str:
        return f"UploadRecord(upload_id={self.upload_id!r}, finished={self.finished})"


def data_digest(spec: Spec, values: NDArray[np.int64]) -> str:
    """SHA-256 over the spec's digest, the shape and the encoded records."""
    hasher = hashlib.sha256(f"{spec.digest} {values.shape}".encode())
    hasher.update(np.ascontiguousarray(values, "<i8").reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


class UploadRecords:
    """The records in an owner's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = private_folder(folder)

    def alone(self) -> AbstractContextManager[None]:
        """Keep other processes from beginning an upload, so that none begins the same twice."""
        return locked(self._folder / "lock")

    def find(self, spec: Spec, digest: str) -> UploadRecord | None:
        """The record of these data; InputError if its file is damaged."""
        path = self._path(spec, digest)
        with disk_errors(path):
            if not path.exists():
                return None
            data = path.read_bytes()
        try:
            record = msgspec.json.decode(data, type=UploadRecord)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise self._damaged(path) from None  # the decoder's words may quote the file
        salts = 2 * SALT_BYTES if spec.audit else 0
        whole = record.finished or (len(record.seed), len(record.salts)) == (SEED_BYTES, salts)
        same = (record.version, record.spec_digest) == (_VERSION, spec.digest)
        if not whole or not same or not hmac.compare_digest(record.data_digest, digest):
            raise self._damaged(path)
        return record

    def begin(self, spec: Spec, digest: str, rows: int, seed: bytes) -> UploadRecord:
        """A new upload with a fresh id, on disk before it is used."""
        record = UploadRecord(
            _VERSION,
            spec.name,
            spec.digest,
            digest,
            secrets.token_hex(16),
            rows,
            seed,
            False,
            secrets.token_bytes(2 * SALT_BYTES) if spec.audit else b"",
        )
        self._write(spec, record)
        return record

    def finish(self, spec: Spec, record: UploadRecord) -> None:
        """Note that both clouds have committed, and erase the seed."""
        if not record.finished:
            self._write(spec, msgspec.structs.replace(record, seed=b"", finished=True, salts=b""))

    def _write(self, spec: Spec, record: UploadRecord) -> None:
        write_private(self._path(spec, record.data_digest), msgspec.json.encode(record))

    def _path(self, spec: Spec, digest: str) -> Path:
        # The spec's digest is part of the data's.
        return self._folder / f"{spec.name}-{digest[:32]}.json"

    def _damaged(self, path: Path) -> InputError:
        return InputError(
            f"{path} is damaged or of another version. If the upload it belongs to is not "
            "finished, remove the file and upload again: the old one will not count."
        )
