"""A configuration as TOML text, with a comment on each key, as `ppodc init` writes it."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from ppodc.files import write_private
from ppodc.service.config import CloudConfig, OwnerConfig


def save(path: Path, config: CloudConfig | OwnerConfig) -> None:
    """Write a configuration with a comment on each key."""
    write_private(path, to_toml(config, path.parent).encode())


def digest(config: CloudConfig | OwnerConfig) -> str:
    """SHA-256 over all settings of a configuration; its comments and order do not matter."""
    content = msgspec.json.encode(config, enc_hook=str, order="sorted")
    return hashlib.sha256(content).hexdigest()


def to_toml(config: msgspec.Struct, folder: Path) -> str:
    """TOML text that loads as this configuration from a file in `folder`."""
    kind = type(config)
    title = (kind.__doc__ or "").split(":")[-1].strip().rstrip(".")
    lines = [f"# ppodc: {title}.", "# Paths are relative to this file.", ""]
    lines += ["# Whose configuration this is.", f"role = {json.dumps(config.role)}"]  # type: ignore[attr-defined]
    simple: list[tuple[str, str, Any]] = []
    tables: list[tuple[str, str, Any]] = []
    for field, hint in get_type_hints(kind, include_extras=True).items():
        value = getattr(config, field)
        if field == "role" or value is None:
            continue
        is_table = isinstance(value, msgspec.Struct | dict)
        (tables if is_table else simple).append((field, _description(hint), value))
    for field, comment, value in simple:
        lines += ["", f"# {comment}", f"{field} = {_toml(value, folder)}"]
    for field, comment, value in tables:
        lines += ["", f"# {comment}", f"[{field}]", *_table(value, folder)]
    return "\n".join(lines) + "\n"


def _table(value: msgspec.Struct | dict[str, str], folder: Path) -> list[str]:
    if isinstance(value, dict):
        return [f"{_toml_key(name)} = {_toml(key, folder)}" for name, key in value.items()]
    lines = []
    for field, hint in get_type_hints(type(value), include_extras=True).items():
        lines += [f"# {_description(hint)}", f"{field} = {_toml(getattr(value, field), folder)}"]
    return lines


def _description(hint: Any) -> str:
    notes = [meta.description for meta in get_args(hint)[1:] if meta.description]
    return str(notes[0])


def _toml(value: Any, folder: Path) -> str:
    if isinstance(value, Path):
        inside = value.is_relative_to(folder)
        value = str(value.relative_to(folder) if inside else value)
    return json.dumps(value, ensure_ascii=False)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
