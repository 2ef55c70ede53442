"""An auditor's register: which cloud's record it may see of which dataset.

The side is drawn once a dataset, by the auditor, after the dataset's last session. From then on the
other cloud's record of that dataset is refused: both together would be the records themselves.
"""

import secrets
from pathlib import Path

import msgspec

from ppodc.errors import InputError, OptionError
from ppodc.files import disk_errors, locked, write_private
from ppodc.records.upload_form import Cloud


class Register:
    """A file of the auditor's, mode 0600; digests of specs and the side of each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def draw(self, digest: str) -> Cloud:
        """The cloud to ask for its record; drawn at the first call, the same ever after."""
        return self._decided(digest, 1 if secrets.randbelow(2) else 2)

    def admit(self, digest: str, role: Cloud) -> None:
        """Refuse a record of the other cloud than the one that was drawn, or seen before."""
        side = self._decided(digest, role)
        if side != role:
            raise OptionError(
                f"this bundle is cloud {role}'s, and the side of this dataset is cloud {side}. One "
                "auditor must never see both: together they are the records. Delete the bundle."
            )

    def _decided(self, digest: str, side: Cloud) -> Cloud:
        with locked(self._path.with_name(f".{self._path.name}.lock")):
            sides = self._read()
            if digest not in sides:
                sides[digest] = side
                write_private(self._path, msgspec.json.encode(sides))
            return sides[digest]

    def _read(self) -> dict[str, Cloud]:
        with disk_errors(self._path):
            if not self._path.exists():
                return {}
            try:
                return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Cloud])
            except msgspec.MsgspecError:
                raise InputError(f"{self._path} is no register of audits.") from None
