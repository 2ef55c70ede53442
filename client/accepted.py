"""The specs that an owner has agreed to, kept in its folder.

Each is a file named by its digest, which holds the spec itself. An upload goes only to a dataset
whose spec, as both clouds present it, is among them: nobody can slip another job under a name.
"""

from pathlib import Path

from ppodc.errors import InputError, OptionError, StateError
from ppodc.files import disk_errors, private_folder, write_private
from ppodc.names import is_digest
from ppodc.spec import Spec

Agreed = Spec | Path | str  # a spec, its file, or its digest in hex


class AcceptedSpecs:
    """The files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def accept(self, shown: Spec, agreed: Agreed, epsilon: float | None = None) -> None:
        """Remember the spec that the clouds show; InputError unless it is the one agreed to.

        `epsilon` is what this owner typed out, where a record spends more than is claimed.
        """
        digest = _digest(agreed)
        if digest != shown.digest:
            raise InputError(
                f"the clouds' spec of dataset {shown.name!r} is not the one you agreed to (theirs "
                f"{shown.digest}, yours {digest}); nothing was sent. Read theirs with: ppodc spec "
                f"{shown.name}"
            )
        if (privacy := shown.form.privacy()) is not None:
            privacy.check_accepted(epsilon)
        private_folder(self._folder)
        write_private(self._folder / digest, shown.canonical())

    def check(self, shown: Spec) -> None:
        """InputError unless this very spec was accepted before."""
        if not self.has(shown):
            raise StateError(
                f"you have not yet agreed to the spec of dataset {shown.name!r}; nothing was sent. "
                f"Read it with `ppodc spec {shown.name}`, then upload with --spec FILE or "
                "--digest HEX (in Python: upload(..., spec=...))."
            )

    def has(self, shown: Spec) -> bool:
        """Whether this very spec was accepted before."""
        path = self._folder / shown.digest
        with disk_errors(path):
            return path.exists() and path.read_bytes() == shown.canonical()


def _digest(agreed: Agreed) -> str:
    if isinstance(agreed, Spec):
        return agreed.digest
    if isinstance(agreed, Path):
        return Spec.load(agreed).digest
    if not is_digest(agreed):
        raise OptionError(
            "a spec's digest has 64 digits 0-9 and a-f, as `ppodc spec` prints it; to name a file "
            "from Python give a Path."
        )
    return agreed
