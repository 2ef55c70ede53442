"""The links as an owner opens them: of each of its rows the partners, or that they are too many.

How many are too many is not told, nor could the clouds tell it: the limit is what others agreed to
show of a row. One vague row (no name, a common birthday) would otherwise count everybody it is like
in the others' tables, with nothing but numbers beyond the limit, for as many rows as one likes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ppodc.linkage.outputs import MAX_LINKS, PARTNERS, ROWS, Links
from ppodc.linkage.power_sums import numbers
from ppodc.linkage.tokens import LARGEST, ROW_BITS, partner
from ppodc.notebook import ShownInNotebooks
from ppodc.records.result_shares import OpenedResult, Table, mismatch

Link = tuple[str, int, int]  # owner, which of its uploads, row in it: all from 0


@dataclass(frozen=True, slots=True)
class LinkResult(ShownInNotebooks):
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
        """A line on the table, and advice on rows with too many partners."""
        told = self.untold()
        return f"own rows: {len(self.partners_)}" + (f"; {told}" if told else "")

    def untold(self) -> str:
        """The number of rows with too many partners, and advice; empty if there is none."""
        more = self.partners_.count(self.max_links + 1) if self.links_ is not None else 0
        if not more:
            return ""
        larger = (
            f"a larger max_links (at most {MAX_LINKS}), or " if self.max_links < MAX_LINKS else ""
        )
        return (
            f"{more} of {len(self.partners_)} rows have more than max_links = {self.max_links} "
            "partners and are in no link. Nobody is told these partners: that takes a new spec "
            f"with {larger}a stricter rule."
        )

    def own_rows(self) -> dict[str, list[int]]:
        """The number of partners of each row, as in `partners_`."""
        return {PARTNERS: self.partners_}

    def figures(self) -> dict[str, Any]:
        """The whole result as plain types for JSON."""
        return {"partners": self.partners_, "links": self.links_}


@dataclass(frozen=True, slots=True)
class LinkCount(ShownInNotebooks):
    """The number of pairs of records that match, over all owners."""

    count_: int

    def table(self) -> Table:
        return ["links"], [[self.count_]]

    def summary(self) -> str:
        return f"links between all owners: {self.count_}"

    def untold(self) -> str:
        return ""

    def own_rows(self) -> dict[str, list[int]]:
        return {}

    def figures(self) -> dict[str, Any]:
        return {"count": self.count_}


def open_count(counts: list[int]) -> LinkCount:
    """The number of links; InputError if the shares cannot belong together."""
    if len(counts) != 1 or counts[0] >> 63:
        raise mismatch()
    return LinkCount(counts[0])


def open_flags(columns: Mapping[str, list[int]]) -> LinkResult:
    """Flags of an owner's rows; InputError if the shares cannot belong together."""
    if any(flag > 1 for flag in columns[PARTNERS]):
        raise mismatch()
    return LinkResult(columns[PARTNERS], None)


def open_links(
    output: Links, columns: Mapping[str, list[int]], owners: Sequence[str]
) -> LinkResult:
    """Links of an owner's rows; InputError if the shares cannot belong together."""
    partners = columns[PARTNERS]
    if any(count > output.most + 1 for count in partners):
        raise mismatch()
    rows = zip(partners, *(columns[name] for name in output.power_sums), strict=True)
    found = [_links(owners, output.most, *row) for row in rows]
    return LinkResult(partners, found, output.most)


def own_columns(opened: OpenedResult, names: Sequence[str]) -> dict[str, list[int]]:
    """The outputs by row of the owner's own table, without dummies."""
    rows = opened.rows
    if {len(rows.get(name, [])) for name in names} != {len(rows.get(PARTNERS, []))}:
        raise mismatch()
    columns = {name: rows[name] for name in names}
    if ROWS not in columns:
        return columns
    return in_own_order(columns.pop(ROWS), columns)


def in_own_order(own: list[int], columns: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Columns by row of the owner's own table, from the number of each row; 0 is a dummy."""
    real = [place for place, number in enumerate(own) if number % (1 << ROW_BITS)]
    if len({own[place] for place in real}) != len(real):
        raise mismatch()
    order = sorted(real, key=lambda place: own[place])
    return {name: [column[place] for place in order] for name, column in columns.items()}


def _links(owners: Sequence[str], most: int, partners: int, *sums: int) -> tuple[Link, ...]:
    """The partners of a row from the power sums of their tokens."""
    # Shares of two different runs add up to random numbers, which this finds nearly always.
    if partners > most or not partners:
        if any(sums):
            raise mismatch()
        return ()
    found = numbers(sums[:partners], LARGEST)
    named = [] if found is None else [partner(token) for token in found]
    links = [
        (owners[one.owner], one.upload, one.row)
        for one in named
        if one is not None and one.owner < len(owners)
    ]
    if len(links) != partners:
        raise mismatch()
    return tuple(links)
