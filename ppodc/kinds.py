"""The kinds of jobs: the interface of a kind, and the one registry of them.

A kind is a room with three files, one for each audience:

* `kind.py`, what all parties agree on: how the job in a spec is read, what it reveals, the parts of
  an upload. It is light: reading any spec loads no protocol, no store and no compiled code.
* `owner.py`, what an owner does with plaintext: encode, charge, arrange, split, open the result.
* `cloud.py`, what a cloud does with shares: check the job, plan it, run its half of a pair.

Each file is loaded when it is first asked for by the kind's name. No cloud loads an `owner.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from ppodc.errors import OptionError, SpecError

if TYPE_CHECKING:
    from ppodc.pairs.cloud_side import CloudSide
    from ppodc.records.owner_side import OwnerSide
    from ppodc.records.schema import Schema
    from ppodc.records.upload_form import UploadForm
    from ppodc.spec import Spec

DEFAULT = "kmeans"
ROOMS = {
    "kmeans": "ppodc.kmeans",
    "linkage": "ppodc.linkage",
    "totals": "ppodc.totals",
    "local": "ppodc.local_dp",
    "private-kmeans": "ppodc.kmeans.private",
}
_PRIVATE = {"kmeans": "private-kmeans"}  # the kind that a table [privacy] in the spec selects


class Job(ABC):
    """The job part of a spec."""

    __slots__ = ()

    kind: ClassVar[str]  # the name of its kind

    @property
    def whole_numbers(self) -> bool:
        """Whether numbers are taken as they are, not rounded to steps of their range."""
        return False

    @property
    def threshold(self) -> tuple[str, int] | None:
        """The key that says of how many records an exact result tells at least, and its value.

        None if the job has no exact result about records.
        """
        return None

    @property
    def missing_threshold(self) -> str:
        """That key, if the result may tell of a single record; else empty."""
        return self.threshold[0] if self.threshold is not None and self.threshold[1] <= 1 else ""

    def doubt(self, owners: int) -> str:
        """Say of a guarantee that it protects nobody; empty if there is none, or it does."""
        return ""

    @property
    def unaudited(self) -> str:
        """Why an auditor could not run a cloud's part in the job again; empty if one can."""
        return f"a job of the kind {self.kind!r} cannot be audited"

    @property
    def silent(self) -> bool:
        """Whether supplies come from silent transfers, to which both clouds must have consented."""
        return False

    @abstractmethod
    def check(self, schema: "Schema") -> None:
        """Refuse what does not fit the columns."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Every key that the spec's digest covers, in plain types."""


class Kind(ABC):
    """A kind of job as all parties know it."""

    name: ClassVar[str]  # as in the spec's `job.kind`
    sample: ClassVar[str]  # a commented spec file
    rows_are_extra: ClassVar[bool] = False  # whether a result opens without its rows (labels)
    suites: ClassVar[tuple[str, ...]] = ()  # of protocols, the default first; none: no worker pairs

    @abstractmethod
    def parse_job(self, table: Any) -> Job:
        """The job in a spec's [job] table, without its `kind`."""

    @abstractmethod
    def describe(self, spec: "Spec") -> list[str]:
        """Sentences for owners: what the job reveals, to whom and how often."""

    @abstractmethod
    def form(self, spec: "Spec") -> "UploadForm":
        """The parts of an upload; callers use `spec.form`, which is made once."""

    def row_outputs(self, spec: "Spec") -> tuple[str, ...]:
        """The outputs of which owners get their own rows; a cloud keeps and gives no others."""
        return ()

    def summary(self, facts: Mapping[str, Any]) -> str:
        """The public facts of a result, in words."""
        return ""

    def suite(self, name: str | None = None) -> str:
        """The suite of this name, or the default; InputError if the kind has no such suite."""
        if not self.suites:
            raise OptionError(f"a job of the kind {self.name!r} does not run on worker pairs.")
        if name is None:
            return self.suites[0]
        if name not in self.suites:
            known = ", ".join(self.suites)
            raise OptionError(f"there is no suite {name!r} for {self.name}; choose one of {known}.")
        return name


def with_privacy(name: Any) -> Any:
    """The kind of a job of this kind in a spec with a table [privacy]."""
    if name in _PRIVATE.values():
        return name
    private = _PRIVATE.get(name) if isinstance(name, str) else None
    if private is None:
        raise SpecError(f"a job of the kind {name!r} takes no table [privacy]")
    return private


def named(name: Any) -> Kind:
    """The kind of this name; InputError if there is none."""
    if not isinstance(name, str) or name not in ROOMS:
        raise SpecError(f"there is no kind of job {name!r}; known are {', '.join(ROOMS)}")
    kind: Kind = import_module(f"{ROOMS[name]}.kind").KIND
    return kind


def owner_side(spec: "Spec") -> "OwnerSide":
    """The owner's side of the job of this spec; for owners alone."""
    side: OwnerSide = import_module(f"{ROOMS[spec.job.kind]}.owner").owner_side(spec)
    return side


def cloud_side(spec: "Spec") -> "CloudSide":
    """A cloud's side of the job of this spec; InputError if it does not run on pairs."""
    spec.kind.suite()
    side: CloudSide = import_module(f"{ROOMS[spec.job.kind]}.cloud").cloud_side(spec)
    return side
