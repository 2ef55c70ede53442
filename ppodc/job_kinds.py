"""The kinds of jobs: what a kind must say, and the one registry of them.

A kind is a room of its own. It says how the job in a spec is read, what an owner's upload becomes
for each cloud, and how an owner opens the result; a kind that runs on worker pairs also has a plan
of steps (`ppodc.pairs.plan.PairKind`). Its room is loaded when a spec first names it: everybody
else knows kinds only through this protocol.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from ppodc.errors import InputError
from ppodc.records.output_half import OpenedResult
from ppodc.records.schema import Schema
from ppodc.records.upload_form import UploadForm

if TYPE_CHECKING:
    from ppodc.spec import Spec

DEFAULT = "kmeans"
ROOMS = {
    "kmeans": "ppodc.kmeans.kind",
    "linkage": "ppodc.linkage.kind",
    "totals": "ppodc.totals.kind",
    "local": "ppodc.ldp.kind",
    "private-kmeans": "ppodc.kmeans.noisy.kind",
}
_PRIVATE = {"kmeans": "private-kmeans"}  # what a table [privacy] in the spec makes of a kind


class Job(Protocol):
    """The job part of a spec."""

    @property
    def kind(self) -> str:
        """The name of its kind."""

    def check(self, schema: Schema) -> None:
        """Refuse what does not fit the columns."""

    def to_dict(self) -> dict[str, Any]:
        """What the spec's digest covers: every key, in plain types."""


class Kind(Protocol):
    """See the module."""

    @property
    def name(self) -> str:
        """As in the spec's `job.kind`."""

    @property
    def sample(self) -> str:
        """A commented spec file."""

    def parse_job(self, table: Any) -> Job:
        """The job in a spec's [job] table, without its `kind`."""

    def upload(self, spec: "Spec") -> UploadForm:
        """What an upload to such a dataset becomes for each cloud."""

    def in_words(self, spec: "Spec") -> list[str]:
        """What the job reveals, to whom and how often, in sentences for owners."""

    def row_outputs(self, spec: "Spec") -> tuple[str, ...]:
        """The outputs of which owners get their own rows; a cloud keeps and gives no others."""

    def open_result(self, spec: "Spec", opened: OpenedResult) -> Any:
        """At the owner: the result in real units; InputError for values that cannot be one."""


def with_privacy(name: Any) -> Any:
    """The kind that a job of this one is in a spec with a table [privacy]."""
    if name in _PRIVATE.values():
        return name
    private = _PRIVATE.get(name) if isinstance(name, str) else None
    if private is None:
        raise InputError(f"a job of the kind {name!r} takes no table [privacy]")
    return private


def named(name: Any) -> Kind:
    """The kind of this name; InputError if there is none."""
    room = ROOMS.get(name) if isinstance(name, str) else None
    if room is None:
        raise InputError(f"there is no kind of job {name!r}; known are {', '.join(ROOMS)}")
    kind: Kind = import_module(room).KIND
    return kind
