"""The spec of a dataset: owners, schema and the one job that they agree to, in one TOML file.

The digest of a spec is the identity of the dataset: owners compare the digests that both clouds
report with the one they accepted, so that nobody can hand out another schema, another job, another
output rule or other owners. What the job is, its kind says (`ppodc.kinds`).

A spec without owners is a draft: it runs on one machine or between two owners. Clouds refuse it.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppodc import kinds
from ppodc.errors import InputError, SpecError
from ppodc.kinds import Job, Kind
from ppodc.members import Members
from ppodc.names import is_name
from ppodc.notebook import ShownInNotebooks
from ppodc.records.schema import Schema
from ppodc.records.upload_form import UploadForm
from ppodc.toml_document import check_keys, parse_toml

_VERSION = 1
_TABLES = ("privacy", "linkage", "join")  # parts of a job that have tables of their own
_JOINING = ("kmeans", "totals")  # kinds that take a table [join]
_AUDITED = (
    "Each cloud keeps a record of its part until the records are deleted. An auditor who gets one "
    "cloud's record, never both, can find out whether it kept to the protocol."
)
_SAMPLE_HEAD = """\
# A ppodc dataset: its columns and the job that all owners agree to.
# Every owner must use this very file: its digest is the identity of the dataset.

{name:28} # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # values become whole numbers 0..ub (at most 1048576)
# Owners' tables name these columns, in any order. low and high are public; a value outside
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
class Spec(ShownInNotebooks):
    """A dataset: name, schema, job and owners. Two specs with the same digest are the same."""

    name: str
    schema: Schema
    job: Job
    owners: Members | None = None
    audit: bool = False  # both clouds keep a record from which an auditor can run one's part again
    _form: UploadForm | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise SpecError("name must be 1 to 64 letters, digits, '.', '_' or '-'")
        self.job.check(self.schema)
        if self.owners is not None:
            self.schema.check_holders(self.owners.names)
        if not isinstance(self.audit, bool):
            raise SpecError("job.audit must be true or false")
        if self.audit and self.job.unaudited:
            raise SpecError(f"job.audit: {self.job.unaudited}. Leave audit out")

    @classmethod
    def load(cls, path: str | Path) -> "Spec":
        """From a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise SpecError(f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SpecError(f"{path} is not UTF-8 text") from error
        try:
            return cls.loads(text)
        except InputError as error:
            raise SpecError(f"{path}: {error}") from error

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
            raise SpecError("job must be a table")
        rest = {key: value for key, value in table.items() if key not in ("kind", "audit")}
        name = table.get("kind", kinds.DEFAULT)
        for part in _TABLES:
            if part in rest:
                raise SpecError(f"job: unknown key {part!r}; [{part}] is a table of its own")
            if part in document:
                rest[part] = document[part]
        if "join" in document and (other := [p for p in _TABLES[:2] if p in document]):
            raise SpecError(f"a spec with a table [join] takes no table [{other[0]}]")
        if "privacy" in document:
            name = kinds.with_privacy(name)
        if "linkage" in document and name != kinds.DEFAULT:
            raise SpecError(f"a job of the kind {name!r} takes no table [linkage]")
        if "join" in document and name not in _JOINING:
            raise SpecError(f"a job of the kind {name!r} takes no table [join]")
        kind = kinds.named(name)
        owners = Members.from_dict(document["owners"]) if "owners" in document else None
        audit = table.get("audit", False)
        return cls(document["name"], schema, kind.parse_job(rest), owners, audit)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Spec":
        """From `canonical`, as received from another party; any other encoding is refused."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise SpecError("the received spec is not readable") from error
        if not isinstance(document, dict) or document.pop("version", None) != _VERSION:
            raise SpecError("the spec is of another version of ppodc")
        spec = cls.from_dict(document)
        if spec.canonical() != data:
            raise SpecError("the received spec is not in canonical form")
        return spec

    def canonical(self) -> bytes:
        """The bytes under the digest: ASCII JSON with sorted keys and no blanks."""
        document = {"version": _VERSION, **self.to_dict()}
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")

    @property
    def kind(self) -> Kind:
        """The kind of the job."""
        return kinds.named(self.job.kind)

    @property
    def form(self) -> UploadForm:
        """The parts of an upload to this dataset; made once."""
        form = self._form
        if form is None:
            form = self.kind.form(self)
            object.__setattr__(self, "_form", form)
        return form

    @property
    def digest(self) -> str:
        """The identity of the dataset: SHA-256 of the canonical bytes, in hex."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        job = self.job.to_dict()
        if self.job.kind != kinds.DEFAULT:  # the default is left out of the digest
            job = {"kind": self.job.kind, **job}
        if self.audit:
            job["audit"] = True
        own = {part: job.pop(part) for part in _TABLES if part in job}
        document = {"name": self.name, "schema": self.schema.to_dict(), "job": job, **own}
        if self.owners is not None:
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
        """The owners; InputError for a draft that names none."""
        if self.owners is None:
            raise SpecError(
                f"the spec of dataset {self.name!r} names no owners. Add a table [owners] with "
                "`least` and every owner's public key, as `ppodc sample-spec` shows, and create "
                "it under a new name."
            )
        return self.owners

    def describe(self, *, clouds: bool = True) -> list[str]:
        """Sentences on what an owner agrees to: owners, columns, and what is revealed to whom.

        Without `clouds` two owners run the job between themselves.
        """
        between_two = [
            *self._describe_columns(),
            f"The job, run once ({self.job.kind}):",
            *(f"  {line}" for line in self.kind.describe(self)),
        ]
        if not clouds:
            return between_two
        return [
            *self._describe_owners(),
            *between_two,
            *([_AUDITED] if self.audit else []),
            "Every cloud that takes uploads, and its operators, learn whose they are, and how many "
            "records each has.",
        ]

    def _describe_columns(self) -> list[str]:
        numbers = [f"  {column.name}: {column.describe()}" for column in self.schema.columns]
        if numbers:
            numeric = len(self.schema.categories) < len(self.schema.columns)
            rounded = numeric and not self.job.whole_numbers
            steps = f", rounded to steps of 1/{self.schema.ub} of their range" if rounded else ""
            numbers.insert(0, f"Each record has {len(numbers)} values{steps}; this is public:")
        texts = [f"  {text.name}: {text.describe()}" for text in self.schema.texts]
        if texts:
            texts.insert(0, f"Each record has {len(texts)} texts; these lengths are public:")
        return [*numbers, *texts]

    def _describe_owners(self) -> list[str]:
        if self.owners is None:
            return ["It names no owners yet, so no cloud takes it."]
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
