"""The outcome of a job that an estimator ran."""

from dataclasses import dataclass
from typing import Any

from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job that was run: its spec, and the result as each owner, by name, opens it.

    `sealed` is what both clouds know of the uploads, if they ran here; owners do not learn it.
    """

    spec: Spec
    owners: list[str]
    results: list[Any]
    sealed: Sealed | None = None
