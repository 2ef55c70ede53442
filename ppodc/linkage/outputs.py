"""Outputs of a linkage: what owners learn of the matches. An output is one class.

`links`: the partners of each row, if they are at most `max_links`. `flags`: whether a row has a
partner. `count`: the number of all links. `shared`: nothing; the linkage is inside another job.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from ppodc.errors import SpecError
from ppodc.toml_document import check_whole

if TYPE_CHECKING:
    from ppodc.linkage.match_sums import MatchSums
    from ppodc.linkage.result import LinkCount, LinkResult
    from ppodc.mpc.shares.additive import U64Array
    from ppodc.records.result_shares import OpenedResult

    Learned: TypeAlias = LinkResult | LinkCount

MAX_LINKS = 8
ROWS, PARTNERS, COUNT = "rows", "partners", "count"  # names of output shares


class Output(ABC):
    """Output of a linkage job: the part of the result that owners learn."""

    __slots__ = ()
    name: ClassVar[str]  # in a spec
    by_row: ClassVar[bool] = True  # whether an owner gets the rows of its own records alone

    @property
    def max_links(self) -> int:
        """The most partners of a row that its owner learns."""
        return 1

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of a spec that `from_dict` reads."""
        return {"output": self.name}

    @abstractmethod
    def describe(self) -> str:
        """Sentence on what owners learn."""

    def require(self) -> None:  # noqa: B027 - all but one pass
        """Refuse an output of which nobody learns anything, in a job of its own."""

    def names(self, rearranged: bool) -> tuple[str, ...]:
        """Names of the output shares, in the order in which a half makes them.

        `rearranged`: owners need the numbers of their rows, which were sent in another order.
        """
        return (ROWS, *self._names()) if rearranged and self.by_row else self._names()

    @abstractmethod
    def _names(self) -> tuple[str, ...]:
        """Names of the output shares without those of row numbers."""

    def selects(self, known: bool) -> tuple[int, int]:
        """Each pair's (rows selected by its match bit, words of each).

        `known`: rows stand as in their tables, so that their tokens are public.
        """
        return 1, 1

    def empty(self, rows: int) -> "U64Array":
        """Sums of a job of this many rows before any block is compared."""
        return np.zeros((rows, self.max_links + 1, self.max_links), np.uint64)

    @abstractmethod
    def sums(self, rows: int, kept: "U64Array") -> "MatchSums":
        """Sums on shares for a job of this many rows, of which some are known."""

    @abstractmethod
    def open(self, opened: "OpenedResult", owners: list[str], rearranged: bool) -> "Learned":
        """Return what an owner learns; InputError if the shares do not belong together."""


@dataclass(frozen=True, slots=True)
class Links(Output):
    """The partners of each row, or that there are more than `most`."""

    name: ClassVar[str] = "links"

    most: int = 1

    def __post_init__(self) -> None:
        check_whole(self.most, "job.max_links", 1, MAX_LINKS)

    @property
    def max_links(self) -> int:
        return self.most

    def to_dict(self) -> dict[str, Any]:
        several = {} if self.most == 1 else {"max_links": self.most}
        return {"output": self.name, **several}

    def describe(self) -> str:
        one = self.most == 1
        who = "its one partner" if one else "its partners"
        otherwise = "it has none or several" if one else f"they are over {self.most}"
        return (
            f"Every owner learns, once, of each of its own rows {who} among all other owners "
            f"(owner and row number), or that {otherwise}."
        )

    def _names(self) -> tuple[str, ...]:
        return (PARTNERS, *self.power_sums)

    @property
    def power_sums(self) -> list[str]:
        """Names of the power sums of tokens."""
        return [f"links{r}" for r in range(1, self.most + 1)]

    def selects(self, known: bool) -> tuple[int, int]:
        return (1, 1) if known and self.most == 1 else (2, self.most * (self.most + 1))

    def sums(self, rows: int, kept: "U64Array") -> "MatchSums":
        from ppodc.linkage.match_sums import LinkSums

        return LinkSums(kept, rows)

    def open(self, opened: "OpenedResult", owners: list[str], rearranged: bool) -> "Learned":
        from ppodc.linkage.result import open_links, own_columns

        return open_links(self, own_columns(opened, self.names(rearranged)), owners)


@dataclass(frozen=True, slots=True)
class Flags(Output):
    """Whether a row has a partner."""

    name: ClassVar[str] = "flags"

    def describe(self) -> str:
        return "Every owner learns, once, of each of its own rows whether it has a partner."

    def _names(self) -> tuple[str, ...]:
        return (PARTNERS,)

    def sums(self, rows: int, kept: "U64Array") -> "MatchSums":
        from ppodc.linkage.match_sums import FlagSums

        return FlagSums(kept, rows)

    def open(self, opened: "OpenedResult", owners: list[str], rearranged: bool) -> "Learned":
        from ppodc.linkage.result import open_flags, own_columns

        return open_flags(own_columns(opened, self.names(rearranged)))


@dataclass(frozen=True, slots=True)
class Count(Output):
    """The number of all links."""

    name: ClassVar[str] = "count"
    by_row: ClassVar[bool] = False

    def describe(self) -> str:
        return "Every owner learns, once, how many pairs of records match, and nothing else."

    def _names(self) -> tuple[str, ...]:
        return (COUNT,)

    def empty(self, rows: int) -> "U64Array":
        return np.zeros((1, 1), np.uint64)

    def sums(self, rows: int, kept: "U64Array") -> "MatchSums":
        from ppodc.linkage.match_sums import CountSums

        return CountSums(kept)

    def open(self, opened: "OpenedResult", owners: list[str], rearranged: bool) -> "Learned":
        from ppodc.linkage.result import open_count

        return open_count(opened.values.get(COUNT, []))


@dataclass(frozen=True, slots=True)
class Shared(Output):
    """Nothing: matches stay in shares, for the job that the linkage is part of."""

    name: ClassVar[str] = "shared"

    def describe(self) -> str:
        return "Nobody learns which records match."

    def require(self) -> None:
        raise SpecError(
            'output = "shared" tells nobody anything: it is for a table [linkage] in the spec of a '
            "k-means job."
        )

    def _names(self) -> tuple[str, ...]:
        return ()

    def selects(self, known: bool) -> tuple[int, int]:
        return 0, 0

    def sums(self, rows: int, kept: "U64Array") -> "MatchSums":
        raise SpecError("a linkage inside another job has no output of its own.")

    def open(self, opened: "OpenedResult", owners: list[str], rearranged: bool) -> "Learned":
        raise SpecError("a linkage inside another job has no output of its own.")


OUTPUTS: dict[str, type[Output]] = {kind.name: kind for kind in (Links, Flags, Count, Shared)}


def output_named(name: Any, max_links: Any = 1) -> Output:
    """The output of this name in a spec."""
    if not isinstance(name, str) or name not in OUTPUTS:
        raise SpecError(f"job.output must be one of {', '.join(OUTPUTS)}")
    links = Links(max_links)
    if name == Links.name:
        return links
    if max_links != 1:
        raise SpecError('job.max_links is for output = "links" only.')
    return OUTPUTS[name]()
