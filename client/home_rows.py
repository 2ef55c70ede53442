"""Names of an owner's rows, which stay in its folder: for labels, links and joined results.

Each upload has a file (mode 0600) with the place of each of its rows in the owner's table and, if
a column names rows, these names. Nothing of it is ever sent.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ppodc.errors import InputError
from ppodc.files import disk_errors, private_folder, write_private
from ppodc.names import UploadId
from ppodc.records.read_table import AtHome


class _Rows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    rows: list[int]
    ids: list[str] | None


class HomeRows:
    """The files of one owner."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, upload_id: UploadId, home: AtHome, count: int) -> None:
        """Note the rows of an upload, if they have names or are not all of the table."""
        if home.ids is None and home.rows is None:
            return
        rows = list(range(count)) if home.rows is None else home.rows
        private_folder(self._folder)
        write_private(self._path(upload_id), msgspec.json.encode(_Rows(1, rows, home.ids)))

    def forget(self, upload_id: UploadId) -> None:
        """Remove the names of an upload that was withdrawn."""
        with disk_errors(self._folder):
            self._path(upload_id).unlink(missing_ok=True)

    def columns(self, uploads: Sequence[UploadId], rows: int) -> dict[str, list[str]]:
        """Columns `row` and `id` of all rows of these uploads, in their order; none if unknown."""
        found = [self._read(upload_id) for upload_id in uploads]
        known = [each for each in found if each is not None]
        if not known or len(known) < len(found) or sum(len(each.rows) for each in known) != rows:
            return {}
        columns = {"row": [str(row) for each in known for row in each.rows]}
        names = [each.ids for each in known]
        if all(ids is not None for ids in names):
            columns["id"] = [name for ids in names for name in ids or ()]
        return columns

    def _read(self, upload_id: UploadId) -> _Rows | None:
        path = self._path(upload_id)
        with disk_errors(path):
            if not path.exists():
                return None
            data = path.read_bytes()
        try:
            return msgspec.json.decode(data, type=_Rows)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise InputError(
                f"{path}, with the names of your rows, is damaged: remove it. Labels and links "
                "then come without names, in the order of your table."
            ) from None

    def _path(self, upload_id: UploadId) -> Path:
        return self._folder / f"{upload_id}.json"
