"""A new study on a form: columns, owners, and the job's own keys as the kind's sample has them.

The form writes a spec file; the spec itself says what is wrong with it. Every key of every kind has
a field, which the kind's sample explains (`job_form`); none is invented here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from client.desk.incoming import Form
from client.desk.job_form import JobKey, as_toml, filled, job_keys
from ppodc import kinds
from ppodc.errors import InputError, printable
from ppodc.spec import Spec

_MOST = 400  # columns or owners on a form


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """One column as typed: numbers between limits, a list of words, or a text."""

    name: str = ""
    low: str = ""
    high: str = ""
    words: str = ""  # "no, former, yes", or "text words 20"

    @property
    def empty(self) -> bool:
        return not any((self.name, self.low, self.high, self.words))

    def to_toml(self) -> str:
        """An entry of `columns` in a spec file."""
        name = json.dumps(self.name)
        parts = self.words.split()
        if parts[:1] == ["text"]:
            signs, longest = (*parts[1:3], "", "")[:2]
            return f"{{ name = {name}, text = {json.dumps(signs)}, longest = {longest or 0} }}"
        if self.words:
            words = [word.strip() for word in self.words.split(",")]
            return f"{{ name = {name}, values = {json.dumps(words, ensure_ascii=False)} }}"
        return f"{{ name = {name}, low = {_number(self.low)}, high = {_number(self.high)} }}"


@dataclass(frozen=True, slots=True)
class Sketch:
    """The content of a study form as typed so far."""

    name: str
    kind: str
    keys: tuple[JobKey, ...]
    more: str = ""
    ub: str = "1000"
    columns: tuple[ColumnLine, ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    least: str = ""
    known: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The spec file."""
        columns = "".join(f"    {c.to_toml()},\n" for c in self.columns if not c.empty)
        named = [(name, key) for name, key in self.owners if name or key]
        least = self.least or str(len(named))
        owners = "".join(f"keys.{json.dumps(n)} = {json.dumps(k)}\n" for n, k in named)
        return (
            f"name = {json.dumps(self.name)}\n\n[schema]\nub = {_number(self.ub)}\n"
            f"columns = [\n{columns}]\n\n{as_toml(self.keys, self.more)}\n\n"
            f"[owners]\nleast = {least}\n{owners}"
        )

    def spec(self) -> Spec:
        """The spec; PpodcError says what is wrong."""
        return Spec.loads(self.text)

    def changed(self, how: str) -> "Sketch":
        """With another line for a column or an owner, or without lines that are empty."""
        if how == "add":
            return replace(self, columns=(*self.columns, ColumnLine()))
        if how == "add-owner":
            return replace(self, owners=(*self.owners, ("", "")))
        return replace(
            self,
            columns=tuple(column for column in self.columns if not column.empty),
            owners=tuple(owner for owner in self.owners if any(owner)),
        )


def _number(text: str) -> str:
    """A number as TOML writes it; anything else as a text, which the spec refuses by name."""
    try:
        float(text)
    except ValueError:
        return json.dumps(text)
    return text if text[:1] not in ".+" and not text.endswith(".") else repr(float(text))


def sample_sketch(kind: str, owners: Mapping[str, str]) -> Sketch:
    """The kind's own sample, to begin with."""
    spec = Spec.loads(kinds.named(kind).sample)
    lines = [
        ColumnLine(column.name, "", "", ", ".join(column.values))
        if column.values
        else ColumnLine(column.name, f"{column.low:g}", f"{column.high:g}")
        for column in spec.schema.columns
    ]
    lines += [
        ColumnLine(text.name, "", "", f"text {text.signs} {text.longest}")
        for text in spec.schema.texts
    ]
    named = tuple(owners.items())[:_MOST] or (("", ""), ("", ""))
    return Sketch(
        name="",
        kind=kind,
        keys=_keys_of(kind),
        ub=str(spec.schema.ub),
        columns=tuple(lines),
        owners=named,
    )


def _keys_of(kind: str) -> tuple[JobKey, ...]:
    _, start, job = kinds.named(kind).sample.partition("[job]")
    return job_keys(start + job)


def read_sketch(form: Form) -> Sketch:
    """Read a sketch from the fields of a submitted form."""

    def one(name: str) -> str:
        return form.get(name, [""])[0].strip()

    kind = one("kind")
    if kind not in kinds.ROOMS:
        raise InputError(f"There is no kind of study {printable(kind)!r}.")
    columns = zip(
        *(form.get(f"column-{part}", [])[:_MOST] for part in ("name", "low", "high", "words")),
        strict=False,
    )
    owners = zip(
        form.get("owner-name", [])[:_MOST], form.get("owner-key", [])[:_MOST], strict=False
    )
    return Sketch(
        name=one("name"),
        kind=kind,
        keys=tuple(filled(_keys_of(kind), form.get("key", []), form.get("value", []))),
        more=form.get("more", [""])[0].replace("\r\n", "\n"),
        ub=one("ub"),
        columns=tuple(ColumnLine(*(cell.strip() for cell in line)) for line in columns),
        owners=tuple((name.strip(), key.strip()) for name, key in owners),
        least=one("least"),
    )
