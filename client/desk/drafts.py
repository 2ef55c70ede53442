"""The table that an owner is about to send, in the owner's private folder until it is sent.

One folder for each study holds the file as it came, the strict file made from it, and the owner's
choices. A desk that was killed finds them again, so that sending can go on. They are deleted by
`forget`, by a finished upload, and by a desk that ends while nothing is half sent.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

from client.desk.table_file import TableLook, look, own_lines, write_strict
from client.owner import Owner
from ppodc.errors import InputError
from ppodc.files import disk_errors, private_folder, write_private
from ppodc.names import is_name
from ppodc.spec import Spec


class Choices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An owner's choices for a table; `digest` is that of the spec it is for.

    `people` is a column whose people have privacy accounts; `ids` one that is only shown beside
    results. Neither leaves.
    """

    name: str
    digest: str
    columns: dict[str, str] = {}
    people: str = ""
    ids: str = ""
    leave_out: bool = False
    replace: bool = False
    sending: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """A strict file that the owner's client has accepted."""

    path: Path
    rows: int
    left_out: int


class Draft:
    """The files of one study in `folder`, with the columns that the owner holds."""

    def __init__(self, folder: Path, dataset: str, owner: str = "") -> None:
        if not is_name(dataset):
            raise InputError("A study's name has letters, digits, '.', '_' and '-' only.")
        self._home, self._owner = folder / f"study-{dataset}", owner
        self.original, self.strict = self._home / "table.csv", self._home / "strict.csv"
        self._choices = self._home / "choices.json"
        self._looked: tuple[tuple[int, int, bytes], TableLook] | None = None

    @property
    def exists(self) -> bool:
        """Whether a table was chosen."""
        return self.original.exists() and self._choices.exists()

    def place(self) -> Path:
        """The place for a new file; an earlier file there is deleted first."""
        self.forget()
        private_folder(self._home)
        return self.original

    def choices(self) -> Choices:
        """The last choices."""
        with disk_errors(self._choices):
            data = self._choices.read_bytes()
        try:
            return msgspec.json.decode(data, type=Choices)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise InputError("The chosen table was not kept. Choose it again.") from None

    def choose(self, choices: Choices) -> None:
        """Keep these choices."""
        write_private(self._choices, msgspec.json.encode(choices))

    def look(self, spec: Spec) -> TableLook:
        """The file against the spec; read again only if file or choices have changed."""
        choices = self.choices()
        with disk_errors(self.original):
            state = self.original.stat()
        key = (state.st_mtime_ns, state.st_size, msgspec.json.encode(choices.columns))
        if self._looked is None or self._looked[0] != key:
            self._looked = key, look(self.original, spec, choices.columns or None, self._owner)
        return self._looked[1]

    def ready(self, owner: Owner, spec: Spec) -> Ready:
        """Write the strict file and have the client check it; InputError by the owner's lines."""
        choices, found = self.choices(), self.look(spec)
        if choices.digest != spec.digest:
            raise InputError("The study has changed since the table was chosen. Choose it again.")
        if found.missing:
            raise InputError(f"No column of your file was chosen for {', '.join(found.missing)}.")
        lines = write_strict(
            self.original,
            self.strict,
            found,
            spec,
            leave_out=choices.leave_out,
            people=choices.people,
            owner=self._owner,
        )
        try:
            rows = owner.check(spec, self.strict, id_column=choices.people)
        except InputError as error:
            raise type(error)(own_lines(str(error), self.strict, lines)) from None
        return Ready(self.strict, rows, found.rows - rows)

    def forget(self) -> None:
        """Delete the table and all that was made of it."""
        self._looked = None
        if self._home.exists():
            shutil.rmtree(self._home)


def sweep(folder: Path) -> None:
    """Delete the tables of all studies that are not half sent."""
    for home in folder.glob("study-*"):
        draft = Draft(folder, home.name.removeprefix("study-"))
        try:
            kept = draft.exists and draft.choices().sending
        except InputError:
            kept = False
        if not kept:
            shutil.rmtree(home, ignore_errors=True)
