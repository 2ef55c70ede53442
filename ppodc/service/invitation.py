"""Invitations and their answers: small files without secrets, instead of keys copied by hand.

An *invitation* has both clouds' endpoints and public keys. Whoever opens it gets a key of its own
and a configuration, and compares six words of the clouds' keys with another owner. The *answer* has
a name and a public key. A cloud that admits it lets that key in at once (`ppodc.service.admitted`).
An invitation makes nobody an owner of a dataset: specs name their owners' keys.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from ppodc.errors import ConfigError, InputError, OptionError
from ppodc.files import private_folder, write_private
from ppodc.names import Name, is_name
from ppodc.service.config import OwnerConfig, PublicKeyText, Remote
from ppodc.service.config_errors import sentence
from ppodc.service.config_text import save
from ppodc.service.six_words import six_words
from ppodc.toml_document import parse_toml
from ppodc.transport.curve_keys import CurveKeys

MAX_BYTES = 16 << 10
MOST_FORMER = 100  # earlier keys that an answer may replace
_RESERVED = ("cloud1", "cloud2", "collector", "operator")

Role = Literal["owner", "operator", "auditor"]


class Invitation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses and keys of the clouds; `study` may name the subject."""

    ppodc: Literal["invitation"] = "invitation"
    version: Literal[1] = 1
    study: Annotated[str, Meta(max_length=64, pattern=r"^[A-Za-z0-9._-]*$")] = ""
    cloud1: Remote
    cloud2: Remote | None = None

    def words(self) -> list[str]:
        """The six words of the clouds' keys."""
        keys = [self.cloud1.public_key]
        return six_words(*keys, *([] if self.cloud2 is None else [self.cloud2.public_key]))

    def to_toml(self) -> str:
        """The text of the file."""
        lines = [
            "# An invitation to a deployment of ppodc. It holds no secret.",
            "# Open it at the desk, or: ppodc join-deployment THIS-FILE --name YOUR-NAME",
            f"# Six words to compare with another owner: {' '.join(self.words())}",
            'ppodc = "invitation"',
            "version = 1",
        ]
        lines += [f'study = "{self.study}"'] if self.study else []
        for name, remote in (("cloud1", self.cloud1), ("cloud2", self.cloud2)):
            if remote is not None:
                lines += [
                    "",
                    f"[{name}]",
                    f'endpoint = "{remote.endpoint}"',
                    f'public_key = "{remote.public_key}"',
                ]
        return "\n".join(lines) + "\n"


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to an invitation: name and public key; `replaces`: earlier keys of that name."""

    ppodc: Literal["answer"] = "answer"
    version: Literal[1] = 1
    role: Role = "owner"
    name: Name
    public_key: PublicKeyText
    replaces: Annotated[tuple[PublicKeyText, ...], Meta(max_length=MOST_FORMER)] = ()

    def words(self) -> list[str]:
        """The six words of this key."""
        return six_words(self.public_key)

    def to_toml(self) -> str:
        """The text of the file."""
        option = "--replace " if self.replaces else ""
        option += "" if self.role == "owner" else f"--role {self.role} "
        keys = ", ".join(f'"{key}"' for key in self.replaces)
        return (
            "# An answer to an invitation to ppodc. It holds no secret.\n"
            "# Each cloud lets this key in with: "
            f"ppodc admit THIS-FILE {option}--config cloud1.toml\n"
            f"# Six words of the key: {' '.join(self.words())}\n"
            'ppodc = "answer"\nversion = 1\n'
            f'role = "{self.role}"\nname = "{self.name}"\npublic_key = "{self.public_key}"\n'
            + (f"replaces = [{keys}]\n" if keys else "")
        )


T = TypeVar("T", Invitation, Answer)


def read(text: str, kind: type[T]) -> T:
    """An invitation or an answer; InputError if the text is none."""
    what = "invitation" if kind is Invitation else "answer to an invitation"
    if len(text) > MAX_BYTES:
        raise ConfigError(f"this is no {what}: it is too long.")
    document: Any = parse_toml(text)
    if not isinstance(document, dict) or "ppodc" not in document:
        raise ConfigError(f"this is no {what} of ppodc.")
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        told = sentence(error, kind)
        raise ConfigError(f"this is no {what} that this release can use: {told}.") from error


def read_file(path: Path, kind: type[T]) -> T:
    """Read an invitation or an answer from a file."""
    try:
        text = path.read_bytes()[: MAX_BYTES + 1].decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text.") from error
    try:
        return read(text, kind)
    except InputError as error:
        raise ConfigError(f"{path}: {error}") from error


def join(invitation: Invitation, folder: Path, name: str, role: Role = "owner") -> Answer:
    """Make a key and a configuration in a new folder, and the answer to send back.

    A folder that has a configuration already is refused: its key would be lost.
    """
    if not is_name(name) or name in _RESERVED:
        raise OptionError(
            f"{name!r} cannot be a name here: use letters, digits, '.', '_' and '-', and none of "
            f"{', '.join(_RESERVED)}."
        )
    config = folder / f"{role}.toml"
    if config.exists():
        raise OptionError(f"{config} is there already. Choose another folder, or keep that key.")
    stem = private_folder(private_folder(folder) / "keys") / name
    keys = CurveKeys.load(stem) if stem.with_name(f"{name}.secret").exists() else None
    if keys is None:  # else: an earlier attempt was interrupted
        keys = CurveKeys.generate()
        keys.save(stem)
    answer = Answer(role=role, name=name, public_key=keys.public.decode("ascii"))
    write_private(folder / f"{name}.answer", answer.to_toml().encode())
    save(
        config,
        OwnerConfig(
            role=role,
            name=name,
            key=stem,
            uploads=folder / "uploads",
            privacy=folder / "privacy",
            cloud1=invitation.cloud1,
            cloud2=invitation.cloud2,
        ),
    )
    return answer
