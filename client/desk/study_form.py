"""A new study on a form: columns, owners, and the job's own keys as the kind's sample has them.

The form writes a spec file; the spec itself says what is wrong with it. Every key of every kind has
a field, which the kind's sample explains (`job_form`); none is invented here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from client.desk.agreement import KINDS
from client.desk.incoming import Form
from client.desk.job_form import JobKey, as_toml, filled, job_keys
from ppodc import kinds
from ppodc.errors import SpecError, printable
from ppodc.linkage.joined import sample as joined
from ppodc.spec import Spec

_MOST = 400  # columns or owners on a form
_JOINED_TOTALS = """\
[job]
kind = "totals"
variance = true              # and the variance of each column
cross = true                 # and the covariance and correlation of every two columns

"""
JOINED = {
    "join": "Clusters over joined tables",
    "join-totals": "Totals over joined tables",
}
FORMS = {**KINDS, **JOINED}  # what a form begins with


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """One column as typed: numbers between limits, a list of words, or a text."""

    name: str = ""
    low: str = ""
    high: str = ""
    words: str = ""  # "no, former, yes", or "text words 20"
    use: str = ""  # of a number: "link", "cluster" or both
    held_by: str = ""  # names of owners with commas between, if not all have it

    @property
    def empty(self) -> bool:
        return not any((self.name, self.low, self.high, self.words))

    @property
    def _further(self) -> str:
        holders = [name.strip() for name in self.held_by.split(",") if name.strip()]
        held = f", held_by = {json.dumps(holders)}" if holders else ""
        return (f", use = {json.dumps(self.use)}" if self.use else "") + held

    def to_toml(self) -> str:
        """An entry of `columns` in a spec file."""
        parts = self.words.split()
        if parts[:1] == ["text"]:
            signs, longest = (*parts[1:3], "", "")[:2]
            holds = f"text = {json.dumps(signs)}, longest = {longest or 0}"
        elif self.words:
            words = [word.strip() for word in self.words.split(",")]
            holds = f"values = {json.dumps(words, ensure_ascii=False)}"
        else:
            holds = f"low = {_number(self.low)}, high = {_number(self.high)}"
        return f"{{ name = {json.dumps(self.name)}, {holds}{self._further} }}"


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
    def joins(self) -> bool:
        """Whether columns say who holds them."""
        return self.kind in JOINED

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
        if not any(any(owner) for owner in self.owners):
            raise SpecError("Name the owners who take part, with their public keys.")
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


def _sample(kind: str, owners: Sequence[str]) -> str:
    """The text of a spec to begin with."""
    if kind not in JOINED:
        return kinds.named(kind).sample
    text = joined.sample(owners)
    if kind == "join-totals":
        head, job = text.split("[job]")
        text = head + _JOINED_TOTALS + job[job.index("[join]") :]
    return text


def sample_sketch(kind: str, owners: Mapping[str, str]) -> Sketch:
    """The kind's own sample, to begin with."""
    named = tuple(owners.items())[:_MOST]
    if kind in JOINED and len(named) < 2:
        named = tuple((name, "") for name in joined.OWNERS)
    text = _sample(kind, [name for name, _ in named])
    spec = Spec.loads(text)
    lines = [
        ColumnLine(column.name, "", "", ", ".join(column.values))
        if column.values
        else ColumnLine(
            column.name,
            f"{column.low:g}",
            f"{column.high:g}",
            "",
            "" if column.held_by or column.use == "both" else column.use,
            ", ".join(column.held_by),
        )
        for column in spec.schema.columns
    ]
    lines += [
        ColumnLine(text.name, "", "", f"text {text.signs} {text.longest}")
        for text in spec.schema.texts
    ]
    return Sketch(
        name="",
        kind=kind,
        keys=_keys_of(text),
        ub=str(spec.schema.ub),
        columns=tuple(lines),
        owners=named or (("", ""), ("", "")),
    )


def _keys_of(sample: str) -> tuple[JobKey, ...]:
    _, start, job = sample.partition("[job]")
    return job_keys(start + job)


def read_sketch(form: Form) -> Sketch:
    """Read a sketch from the fields of a submitted form."""

    def one(name: str) -> str:
        return form.get(name, [""])[0].strip()

    kind = one("kind")
    if kind not in FORMS:
        raise SpecError(f"There is no kind of study {printable(kind)!r}.")
    parts = [
        form.get(f"column-{part}", [])[:_MOST]
        for part in ("name", "low", "high", "words", "use", "held")
    ]
    columns = list(zip_longest(*parts, fillvalue=""))
    owners = list(
        zip(form.get("owner-name", [])[:_MOST], form.get("owner-key", [])[:_MOST], strict=False)
    )
    keys = _keys_of(_sample(kind, joined.OWNERS))
    return Sketch(
        name=one("name"),
        kind=kind,
        keys=tuple(filled(keys, form.get("key", []), form.get("value", []))),
        more=form.get("more", [""])[0].replace("\r\n", "\n"),
        ub=one("ub"),
        columns=tuple(ColumnLine(*(cell.strip() for cell in line)) for line in columns),
        owners=tuple((name.strip(), key.strip()) for name, key in owners),
        least=one("least"),
    )
