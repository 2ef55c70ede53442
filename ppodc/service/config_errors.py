"""Errors of a configuration file in sentences: which key, what it must be, what to do."""

import difflib
import re
from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

import msgspec

_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text in quotes",
    "bool": "true or false",
    "array": "a list in [brackets]",
    "object": "a table",
    "null": "nothing",
    "path": "a path in quotes",
}
_LIMITS = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
_AT = re.compile(r" - at `\$?(?:key in |\.)?([^`]*)`$")
_TYPE = re.compile(r"Expected `([a-z| ]+)`, got `(\w+)`")
_LIMIT = re.compile(r"Expected `(\w+)` (>=|<=|>|<) (-?[\d.]+)")
_LENGTH = re.compile(r"Expected `(\w+)` of length (>=|<=|==)? ?(\d+)")


def sentence(error: msgspec.ValidationError, kind: type) -> str:
    """The error in a sentence without its full stop, for a file of this kind."""
    text = str(error)
    place = _AT.search(text)
    where = "" if place is None else re.sub(r"(\w+)\[\.\.\.\]", r"a value in [\1]", place.group(1))
    what = text if place is None else text[: place.start()]
    if match := re.search(r"unknown field `([^`]*)`", what):
        return _unknown(match.group(1), where, _known(kind, where))
    if match := re.search(r"missing required field `([^`]*)`", what):
        key = f"{where}.{match.group(1)}".lstrip(".")
        return f"the key {key} is missing{_meaning(kind, key)}"
    return f"{where or 'the file'} {_wrong(what, where)}{_meaning(kind, where)}"


def _wrong(what: str, where: str) -> str:
    if match := _TYPE.match(what):
        wanted = " or ".join(_TYPES.get(name, name) for name in match.group(1).split(" | "))
        return f"must be {wanted}, not {_TYPES.get(match.group(2), match.group(2))}"
    if match := _LIMIT.match(what):
        return f"must be {_LIMITS[match.group(2)]} {match.group(3)}"
    if "matching regex" in what:
        if "{40}" in what:
            return "must be a public key: the 40 characters in the party's file NAME.public"
        return "has signs that are not allowed there"
    if match := _LENGTH.match(what):
        return f"must have {_LIMITS.get(match.group(2), 'exactly')} {match.group(3)} parts"
    if match := re.match(r"Invalid enum value (.*)", what):
        return f"cannot be {match.group(1)}"
    return f"is wrong: {what}"


def _unknown(name: str, where: str, known: Sequence[str]) -> str:
    inside = f" in [{where}]" if where else ""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; the nearest is {near[0]!r}" if near else f". Known keys: {', '.join(known)}"
    return f"there is no key {name!r}{inside}{hint}"


def _hint_at(kind: type, path: str) -> Any:
    """The type of a key such as `cloud2.endpoint`; None if it has none of its own."""
    hint: Any = kind
    for name in path.split("."):
        hints = _hints(hint)
        if name not in hints:
            return None
        hint = hints[name]
    return hint


def _hints(hint: Any) -> dict[str, Any]:
    """The keys of a table; those of the one table in a union with others."""
    for each in (hint, *get_args(hint)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return get_type_hints(each, include_extras=True)
        for below in get_args(each):
            if isinstance(below, type) and issubclass(below, msgspec.Struct):
                return get_type_hints(below, include_extras=True)
    return {}


def _known(kind: type, where: str) -> list[str]:
    return list(_hints(_hint_at(kind, where) if where else kind))


def _meaning(kind: type, path: str) -> str:
    """Purpose of the key, as `ppodc init` comments it."""
    hint = _hint_at(kind, path) if path else None
    notes = [note for note in get_args(hint)[1:] if isinstance(note, msgspec.Meta)]
    found = next((note.description for note in notes if note.description), "")
    return f". {path}: {found.rstrip('.')}" if found else ""
