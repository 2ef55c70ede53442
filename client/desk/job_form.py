"""The keys of a job as fields of a form, read from the commented sample of its kind.

Every key that the sample sets or mentions has a field with the sample's own comment. An empty field
leaves its key out. A text needs no quotation marks: what is no number, list or truth value is a
text. Keys that no sample mentions can be typed as they stand in a spec file.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

_TABLE = re.compile(r"(# )?\[([a-z_]+)\]$")
_KEY = re.compile(r"(# )?([a-z_]+) = (.*)$")
_AFTER = re.compile(r"\s{2,}# (.*)$")  # a comment behind a value
_GOES_ON = re.compile(r"#?\s{10,}#? ?(.*)$")  # and its next line
FIXED = "kind"  # the page's own choice


@dataclass(frozen=True, slots=True)
class JobKey:
    """One key: its table, its value as typed, and what the sample says about it."""

    table: str
    name: str
    value: str
    example: str
    help: str

    @property
    def place(self) -> str:
        """The name of its field."""
        return f"{self.table}.{self.name}"

    @property
    def choice(self) -> bool:
        """Whether it is true or false."""
        return self.example in ("true", "false")

    @property
    def long(self) -> bool:
        """Whether its value takes several lines."""
        return "\n" in self.example


def job_keys(text: str) -> tuple[JobKey, ...]:
    """The keys of the tables of a sample, those that it leaves out with an empty value."""
    found: dict[tuple[str, str], JobKey] = {}
    table, about, last = "job", [""], ("", "")
    lines = iter(text.splitlines())
    for line in lines:
        if heading := _TABLE.match(line):
            table, last = heading[2], ("", "")
        elif key := _KEY.match(line):
            value, last = key[3], (table, key[2])
            while value.count("[") > value.count("]"):
                value = f"{value}\n{next(lines)}"
            behind = _AFTER.search(value)
            value = value if behind is None else value[: behind.start()]
            words = [*about, *([] if behind is None else [behind[1]])]
            shown = _typed(value)
            found.setdefault(
                last,
                JobKey(table, key[2], "" if key[1] else shown, shown, " ".join(words).strip()),
            )
            about = []
        elif (more := _GOES_ON.match(line)) and last in found:
            found[last] = replace(found[last], help=f"{found[last].help} {more[1]}".strip())
        elif line.startswith("#"):
            about.append(line.lstrip("# "))
        else:
            about, last = [], ("", "")
    return tuple(found.values())


def filled(keys: Sequence[JobKey], places: Iterable[str], values: Iterable[str]) -> list[JobKey]:
    """The keys with what was typed into their fields."""
    typed = dict(zip(places, values, strict=False))
    return [
        replace(key, value=typed.get(key.place, "").replace("\r\n", "\n").strip())
        if key.name != FIXED
        else key
        for key in keys
    ]


def as_toml(keys: Sequence[JobKey], more: str = "") -> str:
    """The tables of a job, as a spec file has them."""
    tables: dict[str, list[str]] = {"job": []}
    for key in keys:
        if key.value:
            tables.setdefault(key.table, []).append(f"{key.name} = {_toml(key.value)}")
    texts = ["\n".join([f"[{name}]", *lines]) for name, lines in tables.items()]
    return "\n\n".join([*texts, *([more.strip()] if more.strip() else [])])


def _typed(value: str) -> str:
    """A value as people type it: texts without quotation marks where nothing is lost."""
    try:
        read = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return value
    return read if isinstance(read, str) and _toml(read) == json.dumps(read) else value


def _toml(typed: str) -> str:
    """The typed values as TOML."""
    try:
        read = tomllib.loads(f"x = {typed}")
    except tomllib.TOMLDecodeError:
        return json.dumps(typed)
    return typed if list(read) == ["x"] else json.dumps(typed)
