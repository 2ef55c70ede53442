"""The links as an owner opens them: of each of its rows the partners, or that they are too many.

How many are too many is not told, nor could the clouds tell it: the limit is what others agreed to
show of a row. One vague row (no name, a common birthday) would otherwise count everybody it is like
in the others' tables, with nothing but numbers beyond the limit, for as many rows as one likes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ppodc.errors import InputError
from ppodc.linkage.job import MAX_LINKS, Job, job_of
from ppodc.linkage.power_sums import numbers
from ppodc.linkage.tokens import LARGEST, ROW_BITS, partner
from ppodc.records.output_half import OpenedResult, Table
from ppodc.spec import Spec

ROWS, PARTNERS, COUNT = "rows", "partners", "count"  # names of outputs
Link = tuple[str, int, int]  # owner, which of its uploads, row in it: all from 0


def output_names(job: Job) -> tuple[str, ...]:
    """The outputs of a job, in the order in which a half makes them."""
    if job.output == "count":
        return (COUNT,)
    own = (ROWS,) if job.blocking.padded else ()
    if job.output == "flags":
        return (*own, PARTNERS)
    return (*own, PARTNERS, *(f"links{r}" for r in range(1, job.max_links + 1)))


@dataclass(frozen=True, slots=True)
class LinkResult:
    """Of each of this owner's rows, in the order of upload.

    `partners_` is their number; one more than the spec's `max_links` stands for any number above
    (with flags: 0 or 1). `links_` has, for each row, (owner, which of its uploads, row in it) of
    every partner, all from 0, and nothing where there are too many; None with flags.
    """

    partners_: list[int]
    links_: list[tuple[Link, ...]] | None
    max_links: int = 1

    def table(self) -> Table:
        """Headings and rows: how many rows have how many partners."""
        above = self.max_links + 1
        counted = {n: self.partners_.count(n) for n in range(above + 1)}
        words = {0: "none", above: f"more than {self.max_links}"}
        if self.links_ is None:
            words[1] = "some"
        rows = [[words.get(n, str(n)), count] for n, count in counted.items() if count]
        return ["partners", "own rows"], rows

    def summary(self) -> str:
        """What the table is of, and what can be done about rows with too many partners."""
        more = self.partners_.count(self.max_links + 1) if self.links_ is not None else 0
        told = f"own rows: {len(self.partners_)}"
        if not more:
            return told
        larger = (
            f"a larger max_links (at most {MAX_LINKS}), or " if self.max_links < MAX_LINKS else ""
        )
        return (
            f"{told}; {more} of them have more than {self.max_links} partners, whose number and "
            f"names nobody is told: that takes a new spec with {larger}a stricter rule."
        )

    def own_rows(self) -> dict[str, list[int]]:
        """The number of partners of each row, as in `partners_`."""
        return {PARTNERS: self.partners_}

    def figures(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {"partners": self.partners_, "links": self.links_}


@dataclass(frozen=True, slots=True)
class LinkCount:
    """How many pairs of records match, over all owners."""

    count_: int

    def table(self) -> Table:
        return ["links"], [[self.count_]]

    def summary(self) -> str:
        return f"links between all owners: {self.count_}"

    def own_rows(self) -> dict[str, list[int]]:
        return {}

    def figures(self) -> dict[str, Any]:
        return {"count": self.count_}


def open_result(spec: Spec, opened: OpenedResult) -> LinkResult | LinkCount:
    """What the owner learns; InputError if the halves cannot belong together."""
    job = job_of(spec)
    if job.output == "count":
        counts = opened.values.get(COUNT, [])
        if len(counts) != 1 or counts[0] >> 63:
            raise _mismatch()
        return LinkCount(counts[0])
    columns = _ordered(job, opened.rows)
    partners = columns[PARTNERS]
    most = 1 if job.output == "flags" else job.max_links + 1
    if any(count > most for count in partners):
        raise _mismatch()
    if job.output == "flags":
        return LinkResult(partners, None)
    names = opened.facts.get("names", []) if spec.owners is None else spec.owners.names
    sums = [columns[name] for name in output_names(job) if name.startswith("links")]
    rows = zip(partners, *sums, strict=True)
    return LinkResult(partners, [_links(names, job, *row) for row in rows], job.max_links)


def _ordered(job: Job, rows: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """The outputs by row of the owner's own table, without dummies."""
    names = output_names(job)
    if {len(rows.get(name, [])) for name in names} != {len(rows.get(PARTNERS, []))}:
        raise _mismatch()
    columns = {name: rows[name] for name in names}
    if ROWS not in columns:
        return columns
    return in_own_order(columns.pop(ROWS), columns)


def in_own_order(own: list[int], columns: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Columns by row of the owner's own table, from the number of each row; 0 is a dummy."""
    real = [place for place, number in enumerate(own) if number % (1 << ROW_BITS)]
    if len({own[place] for place in real}) != len(real):
        raise _mismatch()
    order = sorted(real, key=lambda place: own[place])
    return {name: [column[place] for place in order] for name, column in columns.items()}


def _links(names: list[str], job: Job, partners: int, *sums: int) -> tuple[Link, ...]:
    """The partners of a row from the power sums of their tokens."""
    few = partners <= job.max_links
    # Halves of two different runs add up to random numbers, which this finds nearly always.
    if not few or not partners:
        if any(sums):
            raise _mismatch()
        return ()
    found = numbers(sums[:partners], LARGEST)
    named = [] if found is None else [partner(token) for token in found]
    links = [
        (names[one.owner], one.upload, one.row)
        for one in named
        if one is not None and one.owner < len(names)
    ]
    if len(links) != partners:
        raise _mismatch()
    return tuple(links)


def _mismatch() -> InputError:
    return InputError(
        "the halves of the two clouds do not belong together; ask their operators to run the job "
        "again."
    )
