"""An owner's new key in place of the old one: made here, admitted by the clouds, then taken up.

1. `begin` makes `NAME.next.secret` beside the old key, and an answer that names the old key.
2. Each cloud admits the answer with --replace. From then on it refuses the old key.
3. `finish` moves the new key into the place of the old one, whose secret is deleted.

The old key stays in use until every cloud has the new one. Interrupted, each step can be repeated.
"""

import os
from pathlib import Path

from ppodc.errors import KeyFileError
from ppodc.files import write_private
from ppodc.service.config import OwnerConfig
from ppodc.service.invitation import Answer
from ppodc.transport.curve_keys import CurveKeys, load_public


def next_stem(key: Path) -> Path:
    """The new key's files, until it is taken up."""
    return key.with_name(f"{key.name}.next")


def begin(config: OwnerConfig, folder: Path) -> tuple[Answer, Path]:
    """Make the new key, or find the one that was made; the answer for the clouds and its file."""
    stem, old = next_stem(config.key), load_public(_file(config.key, "public"))
    if not _file(stem, "public").exists():
        _file(stem, "secret").unlink(missing_ok=True)  # of an attempt that was interrupted
        CurveKeys.generate().save(stem)
    new = CurveKeys.load(stem).public
    answer = Answer(
        role=config.role,
        name=config.name,
        public_key=new.decode("ascii"),
        replaces=(old.decode("ascii"),),
    )
    file = folder / f"{config.name}.answer"
    write_private(file, answer.to_toml().encode())
    return answer, file


def finish(key: Path) -> None:
    """Put the new key in the place of the old one; the old secret is gone then."""
    stem = next_stem(key)
    if not unfinished(key):
        raise KeyFileError(f"there is no new key beside {key}.")
    for kind in ("secret", "public"):
        if _file(stem, kind).exists():  # else: moved before an interruption
            os.replace(_file(stem, kind), _file(key, kind))


def half_moved(key: Path) -> bool:
    """Whether `finish` was interrupted: the secret is in its place, the public key is not."""
    return unfinished(key) and not _file(next_stem(key), "secret").exists()


def unfinished(key: Path) -> bool:
    """Whether a new key was made that is not in its place yet."""
    return _file(next_stem(key), "public").exists()


def _file(stem: Path, kind: str) -> Path:
    return stem.with_name(f"{stem.name}.{kind}")
