"""The spec of a dataset: its schema and the one job that the owners agree to, in one TOML file.

The digest of a spec is the identity of the dataset: owners compare the digests that both clouds
report, so that neither can hand out another schema, another k or another output rule.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.reference import MAX_SEED
from ppodc.records.schema import Schema, check_keys, double, encode, is_whole, parse_toml

MAX_CLUSTERS = 64
MAX_ITERATIONS = 10_000
_MAX_BETA = 1 << 64
_MAX_DENOMINATOR = 10**18
_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BETA = re.compile(r"\d{1,30}(/\d{1,30}|(\.\d{1,30})?([eE][+-]?\d{1,2})?)")

Centres = tuple[tuple[float, ...], ...]

SAMPLE = """\
# A ppodc dataset: its columns and the job that all owners agree to.
# Every owner must use this very file: its digest is the identity of the dataset.

name = "clinic"              # letters, digits, '.', '_' and '-'

[schema]
ub = 1000                    # values become whole numbers 0..ub (at most 1048576)
# The columns in the order of the owners' tables. low and high are public; a value outside
# them is refused. Choose them by meaning, not from the data.
columns = [
    { name = "age", low = 0, high = 120 },
    { name = "temperature", low = 30.0, high = 45.0 },
    { name = "pressure", low = 40, high = 260 },
]

[job]
k = 3                        # clusters, 1 to 64
# Stop when the centres move by at most beta: the sum over all clusters of the squared distance
# between old and new centre, measured in encoded units (0..ub). 0 means: until nothing moves.
# Whole number, decimal or fraction such as "1/3".
beta = 0
max_iter = 100               # stop after so many iterations in any case, 1 to 10000
# "random": k records chosen by the seed. Or k public centres in real units, for example
# [[30, 36.6, 120], [50, 38.0, 140], [80, 36.9, 160]].
init = "random"
seed = 1                     # public; the same seed gives the same result to the last bit
labels = true                # may owners fetch the cluster of each of their own records?
"""


def parse_beta(value: Any) -> Fraction:
    """beta from a whole number, a decimal (read by its digits: 0.1 is 1/10) or "p/q"."""
    wanted = (
        'job.beta must be from 0 to 2^64: a whole number, a decimal or a fraction such as "1/3"'
    )
    text = value
    if isinstance(value, float | Fraction) or (is_whole(value) and abs(value) <= _MAX_BETA):
        text = str(value)
    if not isinstance(text, str) or not _BETA.fullmatch(text.strip()):
        raise InputError(wanted)
    try:
        beta = Fraction(text.strip())
    except ZeroDivisionError as error:
        raise InputError("job.beta has the denominator 0") from error
    if beta > _MAX_BETA or beta.denominator > _MAX_DENOMINATOR:
        raise InputError(f"job.beta must be at most 2^64, its denominator {_MAX_DENOMINATOR:.0e}")
    return beta


@dataclass(frozen=True, slots=True)
class Job:
    """What to compute. `beta` is in squared units of the encoded space 0..ub, not in real units."""

    k: int
    beta: Fraction = Fraction(0)
    max_iter: int = 100
    init: Literal["random"] | Centres = "random"
    seed: int = 0
    labels: bool = False

    def __post_init__(self) -> None:
        _check_whole(self.k, "job.k", 1, MAX_CLUSTERS)
        _check_whole(self.max_iter, "job.max_iter", 1, MAX_ITERATIONS)
        _check_whole(self.seed, "job.seed", 0, MAX_SEED)
        if not isinstance(self.labels, bool):
            raise InputError("job.labels must be true or false")
        object.__setattr__(self, "beta", parse_beta(self.beta))
        object.__setattr__(self, "init", _parse_init(self.init, self.k))

    @classmethod
    def from_dict(cls, table: Any) -> "Job":
        optional = ("beta", "max_iter", "init", "seed", "labels")
        check_keys(table, "job", required=("k",), optional=optional)
        return cls(**table)

    def to_dict(self) -> dict[str, Any]:
        init = self.init if self.init == "random" else [list(centre) for centre in self.init]
        return {
            "k": self.k,
            "beta": str(self.beta),
            "max_iter": self.max_iter,
            "init": init,
            "seed": self.seed,
            "labels": self.labels,
        }


def _check_whole(value: Any, what: str, low: int, high: int) -> None:
    if not is_whole(value) or not low <= value <= high:
        raise InputError(f"{what} must be a whole number from {low} to {high}")


def _parse_init(init: Any, k: int) -> Literal["random"] | Centres:
    if init == "random":
        return "random"
    if not isinstance(init, list | tuple) or len(init) != k:
        raise InputError(f'job.init must be "random" or a list of {k} centres, as many as job.k')
    for centre in init:
        if not isinstance(centre, list | tuple):
            raise InputError("each centre of job.init must be a list of numbers, one per column")
    what = "a value of job.init"
    return tuple(tuple(double(x, what) + 0.0 for x in centre) for centre in init)


@dataclass(frozen=True, slots=True)
class Spec:
    """A dataset: name, schema and job. Two specs with the same digest are the same."""

    name: str
    schema: Schema
    job: Job

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InputError("name must be 1 to 64 letters, digits, '.', '_' or '-'")
        self.initial_centres()  # refuses centres that do not fit the schema

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
        schema, job = Schema.from_dict(document["schema"]), Job.from_dict(document["job"])
        return cls(document["name"], schema, job)

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
    def digest(self) -> str:
        """The identity of the dataset: SHA-256 of the canonical bytes, in hex."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "schema": self.schema.to_dict(), "job": self.job.to_dict()}

    def to_toml(self) -> str:
        """TOML text that loads as this spec."""
        lines = [f"name = {_toml(self.name)}", "", "[schema]", f"ub = {self.schema.ub}"]
        lines.append("columns = [")
        lines += [
            f"    {{ name = {_toml(c.name)}, low = {c.low!r}, high = {c.high!r} }},"
            for c in self.schema.columns
        ]
        lines += ["]", "", "[job]"]
        lines += [f"{key} = {_toml(value)}" for key, value in self.job.to_dict().items()]
        return "\n".join(lines) + "\n"

    def initial_centres(self) -> NDArray[np.int64] | None:
        """The public initial centres in encoded units, or None if records are chosen instead."""
        if self.job.init == "random":
            return None
        columns = len(self.schema.columns)
        if any(len(centre) != columns for centre in self.job.init):
            raise InputError(f"each centre of job.init must have {columns} values, one per column")
        try:
            return encode(np.array(self.job.init), self.schema)
        except InputError as error:
            raise InputError(f"job.init: {error}") from error

    def parameters(self, m: int) -> Parameters:
        """The public numbers of the job for m records; beta stays in squared encoded units."""
        least = self.job.k if self.job.init == "random" else 1
        if m < least:
            raise InputError(f"the job needs at least {least} records, but there are {m}")
        columns = len(self.schema.columns)
        return Parameters(m, columns, self.job.k, self.schema.ub, self.job.beta)


def _toml(value: Any) -> str:
    """A string, boolean, integer or list of lists of doubles; JSON is TOML for these."""
    return json.dumps(value, ensure_ascii=False)
