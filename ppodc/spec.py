"""The spec of a dataset: its schema and the one job that the owners agree to, in one TOML file.

The digest of a spec is the identity of the dataset: owners compare the digests that both clouds
report, so that neither can hand out another schema, another job or another output rule. What the
job is, its kind says (`ppodc.job_kinds`).
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppodc import job_kinds
from ppodc.errors import InputError
from ppodc.job_kinds import Job, Kind
from ppodc.records.names import is_name
from ppodc.records.schema import Schema
from ppodc.records.toml_document import check_keys, parse_toml

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Spec:
    """A dataset: name, schema and job. Two specs with the same digest are the same."""

    name: str
    schema: Schema
    job: Job

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
        check_keys(document, "the spec", required=("name", "schema", "job"))
        schema, table = Schema.from_dict(document["schema"]), document["job"]
        if not isinstance(table, dict):
            raise InputError("job must be a table")
        rest = {key: value for key, value in table.items() if key != "kind"}
        kind = job_kinds.named(table.get("kind", job_kinds.DEFAULT))
        return cls(document["name"], schema, kind.parse_job(rest))

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
        return {"name": self.name, "schema": self.schema.to_dict(), "job": job}

    def to_toml(self) -> str:
        """TOML text that loads as this spec."""
        lines = [f"name = {_toml(self.name)}", "", "[schema]", f"ub = {self.schema.ub}"]
        lines.append("columns = [")
        lines += [
            f"    {{ name = {_toml(c.name)}, low = {c.low!r}, high = {c.high!r} }},"
            for c in self.schema.columns
        ]
        lines += ["]", "", "[job]"]
        lines += [f"{key} = {_toml(value)}" for key, value in self.to_dict()["job"].items()]
        return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A string, boolean, integer or list of lists of doubles; JSON is TOML for these."""
    return json.dumps(value, ensure_ascii=False)
