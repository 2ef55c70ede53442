"""The links as an owner opens them: for each of its rows none, one or several partners."""

from dataclasses import dataclass
from typing import Any

from ppodc.errors import InputError
from ppodc.linkage.job import job_of
from ppodc.linkage.outcome import NONE, ONE, OWNER_BITS, SEVERAL
from ppodc.records.output_half import OpenedResult
from ppodc.spec import Spec

PARTNERS, LINKS = "partners", "links"  # names of the row outputs
_WORDS = {NONE: "none", ONE: "one", SEVERAL: "several"}


@dataclass(frozen=True, slots=True)
class LinkResult:
    """Of each of this owner's rows, in the order of upload.

    `partners_` is 0, 1 or 2 for none, one or several (0 or 1 with flags). `links_` has, where there
    is one, (name of the owner, number of its row from 0), else None; None with flags.
    """

    partners_: list[int]
    links_: list[tuple[str, int] | None] | None

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows: how many rows have how many partners."""
        counts = {status: self.partners_.count(status) for status in _WORDS}
        return ["partners", "own rows"], [[_WORDS[s], str(n)] for s, n in counts.items() if n]

    def summary(self) -> str:
        """What the table is of, in a line."""
        return f"own rows: {len(self.partners_)}"

    def own_rows(self) -> dict[str, list[int]]:
        """The number of partners of each row, as in `partners_`."""
        return {PARTNERS: self.partners_}

    def figures(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {"partners": self.partners_, "links": self.links_}


def open_result(spec: Spec, opened: OpenedResult) -> LinkResult:
    """The links; InputError if the halves cannot belong together."""
    owners, with_links = opened.facts.get("owners"), job_of(spec).output == "links"
    partners = opened.rows.get(PARTNERS, [])
    most = SEVERAL if with_links else ONE
    if not isinstance(owners, list) or any(status > most for status in partners):
        raise _mismatch()
    if not with_links:
        return LinkResult(partners, None)
    tokens = opened.rows.get(LINKS, [])
    if len(tokens) != len(partners):
        raise _mismatch()
    both = zip(partners, tokens, strict=True)
    return LinkResult(partners, [_link(owners, status, token) for status, token in both])


def _link(owners: list[str], status: int, token: int) -> tuple[str, int] | None:
    owner, row = token >> OWNER_BITS, token & ((1 << OWNER_BITS) - 1)
    # Halves of two different runs add up to random numbers, which this finds nearly always.
    if owner >= len(owners) or (status != ONE and token):
        raise _mismatch()
    return (owners[owner], row) if status == ONE else None


def _mismatch() -> InputError:
    return InputError(
        "the halves of the two clouds do not belong together; ask their operators to run the job "
        "again."
    )
