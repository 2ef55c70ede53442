"""The spec of a dataset: owners, schema and the one job that they agree to, in one TOML file.

The digest of a spec is the identity of the dataset: owners compare the digests that both clouds
report with the one they accepted, so that nobody can hand out another schema, another job, another
output rule or other owners. What the job is, its kind says (`ppodc.job_kinds`).

A spec from before specs named their owners still loads, under its old digest, so that its store
opens and its result can be fetched; a new dataset needs them, and an old one takes no more uploads.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppodc import job_kinds
from ppodc.errors import InputError
from ppodc.job_kinds import Job, Kind
from ppodc.members import Members
from ppodc.records.names import is_name
from ppodc.records.schema import Schema
from ppodc.records.toml_document import check_keys, parse_toml

_VERSION = 1
_TABLES = ("privacy", "linkage")  # parts of a job that have tables of their own
_SAMPLE_HEAD = """\
# A ppodc dataset: its columns and the job that all owners agree to.
# Every owner must use this very file: its digest is the identity of the dataset.

{name:28} # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # values become whole numbers 0..ub (at most 1048576)
# The columns in the order of the owners' tables. low and high are public; a value outside
# them is refused. Choose them by meaning, not from the data.
columns = [
    {{ name = "age", low = 0, high = 120 }},
    {{ name = "temperature", low = 30.0, high = 45.0 }},
    {{ name = "pressure", low = 40, high = 260 }},
]

"""


def sample_head(name: str) -> str:
    """The commented first half of a kind's sample: name and columns, for a [job] to follow."""
    return _SAMPLE_HEAD.format(name=f'name = "{name}"')


@dataclass(frozen=True, slots=True)
class Spec:
    """A dataset: name, schema, job and owners. Two specs with the same digest are the same."""

    name: str
    schema: Schema
    job: Job
    owners: Members | None = None

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise InputError("name must be 1 to 64 letters, digits, '.', '_' or '-'")
        self.job.check(self.schema)

    @classmethod
    def load(cls, path: str | Path) -> "Spec":
        """From a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 text") from error
        try:
            return cls.loads(text)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @classmethod
    def loads(cls, text: str) -> "Spec":
        """From TOML text."""
        return cls.from_dict(parse_toml(text))

    @classmethod
    def from_dict(cls, document: Any) -> "Spec":
        required = ("name", "schema", "job")
        check_keys(document, "the spec", required=required, optional=("owners", *_TABLES))
        schema, table = Schema.from_dict(document["schema"]), document["job"]
        if not isinstance(table, dict):
            raise InputError("job must be a table")
        rest = {key: value for key, value in table.items() if key != "kind"}
        name = table.get("kind", job_kinds.DEFAULT)
        for part in _TABLES:
            if part in rest:
                raise InputError(f"job: unknown key {part!r}; [{part}] is a table of its own")
            if part in document:
                rest[part] = document[part]
        if "privacy" in document:
            name = job_kinds.with_privacy(name)
        if "linkage" in document and name != job_kinds.DEFAULT:
            raise InputError(f"a job of the kind {name!r} takes no table [linkage]")
        kind = job_kinds.named(name)
        owners = Members.from_dict(document["owners"]) if "owners" in document else None
        return cls(document["name"], schema, kind.parse_job(rest), owners)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Spec":
        """From `canonical`, as received from another party; any other encoding is refused."""
        try:
            document = json.loads(data)
            if not isinstance(document, dict) or document.pop("version", None) != _VERSION:
                raise InputError("the spec is of another version of ppodc")
            spec = cls.from_dict(document)
        except (ValueError, RecursionError) as error:
            raise InputError("the received spec is not readable") from error
        if spec.canonical() != data:
            raise InputError("the received spec is not in canonical form")
        return spec

    def canonical(self) -> bytes:
        """The bytes under the digest: ASCII JSON with sorted keys and no blanks."""
        document = {"version": _VERSION, **self.to_dict()}
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")

    @property
    def kind(self) -> Kind:
        """What kind of job this is."""
        return job_kinds.named(self.job.kind)

    @property
    def digest(self) -> str:
        """The identity of the dataset: SHA-256 of the canonical bytes, in hex."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        job = self.job.to_dict()
        if self.job.kind != job_kinds.DEFAULT:  # left out: digests from before there were kinds
            job = {"kind": self.job.kind, **job}
        own = {part: job.pop(part) for part in _TABLES if part in job}
        document = {"name": self.name, "schema": self.schema.to_dict(), "job": job, **own}
        if self.owners is not None:  # left out: digests from before specs named their owners
            document["owners"] = self.owners.to_dict()
        return document

    def to_toml(self) -> str:
        """TOML text that loads as this spec."""
        lines = [f"name = {_toml(self.name)}", "", "[schema]", f"ub = {self.schema.ub}"]
        lines.append("columns = [")
        lines += [f"    {_toml(column)}," for column in self.schema.to_dict()["columns"]]
        lines += ["]", "", "[job]"]
        document = self.to_dict()
        lines += _keys(document["job"])
        for part in _TABLES:
            if part in document:
                lines += ["", f"[{part}]", *_keys(document[part])]
        if self.owners is not None:
            lines += ["", self.owners.to_toml().rstrip()]
        return "\n".join(lines) + "\n"

    def require_owners(self) -> Members:
        """The owners; InputError if the spec names none, and so cannot take uploads."""
        if self.owners is None:
            raise InputError(
                f"the spec of dataset {self.name!r} names no owners. Add a table [owners] with "
                "`least` and every owner's public key, as `ppodc sample-spec` shows, and create "
                "it under a new name."
            )
        return self.owners

    def in_words(self) -> list[str]:
        """What an owner agrees to: who takes part, what they give, what is revealed to whom."""
        return [
            *self._owners_in_words(),
            *self._columns_in_words(),
            f"The job, run once ({self.job.kind}):",
            *(f"  {line}" for line in self.kind.in_words(self)),
            "Every cloud that takes uploads, and its operators, learn whose they are, and how many "
            "records each has.",
        ]

    def _columns_in_words(self) -> list[str]:
        numbers = [f"  {column.name}: {column.in_words()}" for column in self.schema.columns]
        if numbers:
            whole = getattr(self.job, "whole_numbers", False)
            rounded = len(self.schema.words) < len(self.schema.columns) and not whole
            steps = f", rounded to steps of 1/{self.schema.ub} of their range" if rounded else ""
            numbers.insert(0, f"Each record has {len(numbers)} values{steps}; this is public:")
        texts = [f"  {text.name}: {text.in_words()}" for text in self.schema.texts]
        if texts:
            texts.insert(0, f"Each record has {len(texts)} texts; these lengths are public:")
        return [*numbers, *texts]

    def _owners_in_words(self) -> list[str]:
        if self.owners is None:
            return ["It names no owners (it is older than that rule) and takes no more uploads."]
        names, least = self.owners.names, self.owners.least
        return [
            f"Owners: {', '.join(names)}; nobody else can upload or fetch the result.",
            f"At least {least} of {len(names)} must have uploaded before the job can run."
            + (" One owner alone is enough." if least == 1 else ""),
        ]


def _keys(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items()]


def _toml(value: Any) -> str:
    """A string, boolean, number, list or table of such; JSON is TOML for all but tables."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
