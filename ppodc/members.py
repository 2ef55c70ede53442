"""The owners of a dataset, as its spec names them: who may upload, and how many must have.

An owner is its public key; the name is what the others call it. Whoever calls a gateway has proven
a key, so a cloud's configuration cannot make a stranger an owner, nor one owner another.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ppodc.errors import KeyFileError, SpecError
from ppodc.names import is_name
from ppodc.toml_document import check_keys, check_whole
from ppodc.transport.curve_keys import check_public

MAX_OWNERS = 400  # so that a spec fits into one message
_PLACEHOLDER = "REPLACE-with-"  # in the sample

SAMPLE = """\
[owners]
least = 2                    # owners with an upload before the records can be fixed
# Everyone who takes part: a name, and the public key in that owner's NAME.public. Nobody else can
# upload, see this dataset or fetch its result.
keys.owner1 = "REPLACE-with-the-public-key-of-owner1..."
keys.owner2 = "REPLACE-with-the-public-key-of-owner2..."
"""


@dataclass(frozen=True, slots=True)
class Members:
    """Names with public keys, by name; `least` of them must have uploaded before sealing."""

    keys: tuple[tuple[str, str], ...]
    least: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= MAX_OWNERS:
            raise SpecError(f"owners.keys must name 1 to {MAX_OWNERS} owners")
        for name, key in self.keys:
            _check(name, key)
        if len({key for _, key in self.keys}) != len(self.keys):
            raise SpecError("owners.keys gives two owners the same public key")
        check_whole(self.least, "owners.least", 1, len(self.keys))
        object.__setattr__(self, "keys", tuple(sorted(self.keys)))

    @classmethod
    def of(cls, keys: Mapping[str, str], least: int | None = None) -> "Members":
        """These owners; all of them must upload unless `least` says fewer."""
        return cls(tuple(keys.items()), len(keys) if least is None else least)

    @classmethod
    def from_dict(cls, table: Any) -> "Members":
        check_keys(table, "owners", required=("least", "keys"))
        if not isinstance(table["keys"], dict):
            raise SpecError("owners.keys must be a table of names and public keys")
        return cls(tuple(table["keys"].items()), table["least"])

    def to_dict(self) -> dict[str, Any]:
        return {"least": self.least, "keys": dict(self.keys)}

    def to_toml(self) -> str:
        """The table [owners] of a spec file."""
        lines = ["[owners]", f"least = {self.least}"]
        lines += [f"keys.{json.dumps(name)} = {json.dumps(key)}" for name, key in self.keys]
        return "\n".join(lines) + "\n"

    def name_of(self, key: str) -> str | None:
        """The name of the owner with this public key; None for anyone else."""
        return next((name for name, known in self.keys if known == key), None)

    @property
    def names(self) -> list[str]:
        """All owners, by name."""
        return [name for name, _ in self.keys]


def _check(name: Any, key: Any) -> None:
    if not is_name(name):
        raise SpecError(f"owners.keys: {name!r} cannot be an owner's name")
    if isinstance(key, str) and key.startswith(_PLACEHOLDER):
        raise SpecError(
            f"owners.keys.{name} is the sample's placeholder. Put the public key of {name} there: "
            "the 40 characters in that owner's .public file"
        )
    try:
        check_public(key.encode("ascii") if isinstance(key, str) else b"")
    except (KeyFileError, UnicodeEncodeError) as error:
        raise SpecError(f"owners.keys.{name} must be 40 characters of Z85 text") from error
